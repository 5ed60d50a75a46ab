"""Makes the reference in docs/python.md from stubs and docstrings, without importing anything.

`python3 reference.py` rewrites the page; `test_reference.py` checks it. A public name without a docstring is an error.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[2]
PAGE = PYTHON.parent / "docs/python.md"
MARK = "<!-- made from stubs and docstrings by python/tests/package/reference.py: do not edit below -->"

# Packages, of which `__all__` is shown, and modules, of which everything public is.
SECTIONS = ["cavalcade", "cavalcade.live", "cavalcade.live.aio"]

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Named:
    """A public name and where it is defined."""

    name: str
    definition: Definition


def public(package: Path) -> Iterator[tuple[str, Path]]:
    """The names in a package's `__all__`, each with the module that it is imported from."""
    source = ast.parse((package / "__init__.py").read_text())
    places = {
        alias.asname or alias.name: package / (statement.module or "").rpartition(".")[2]
        for statement in ast.walk(source)
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    for statement in source.body:
        if isinstance(statement, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in statement.targets):
            for name in ast.literal_eval(statement.value):
                stub, module = places[name].with_suffix(".pyi"), places[name].with_suffix(".py")
                yield name, stub if stub.exists() else module


def definitions(module: Path) -> dict[str, Definition]:
    """What a module defines."""
    body = ast.parse(module.read_text()).body
    return {statement.name: statement for statement in body if isinstance(statement, Definition)}


def signature(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """How a function is called, without `self`."""
    arguments = function.args
    for listed in (arguments.posonlyargs, arguments.args):
        if listed and listed[0].arg in ("self", "cls"):
            del listed[0]
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        argument.annotation = plain(argument.annotation)
    returned = plain(function.returns)
    arrow = f" -> {ast.unparse(returned)}" if returned else ""
    return f"{'await ' if isinstance(function, ast.AsyncFunctionDef) else ''}{name}({ast.unparse(arguments)}){arrow}"


def plain(annotation: ast.expr | None) -> ast.expr | None:
    """An annotation without the quotes around it."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def text(definition: Definition, name: str) -> str:
    """The docstring in Markdown, one line for each paragraph."""
    found = ast.get_docstring(definition)
    if found is None:
        raise SystemExit(f"{name} has no docstring: every public name has one")
    paragraphs = re.split(r"\n\n+", inspect.cleandoc(found))
    lines = [p if p.startswith("    ") else " ".join(p.split()) for p in paragraphs]
    return "\n\n".join(re.sub(r":\w+:`(~?[\w.]+)`", r"`\1`", line).replace("``", "`") for line in lines)


def members(named: Named) -> Iterator[str]:
    """A line for each public member of a class."""
    assert isinstance(named.definition, ast.ClassDef)
    body = named.definition.body
    attributes = [
        f"`{statement.target.id}: {ast.unparse(statement.annotation)}`"
        for statement in body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and not statement.target.id.startswith("_")
    ]
    if attributes:
        yield f"Attributes: {', '.join(attributes)}."
        yield ""
    for statement in body:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) or statement.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator) for decorator in statement.decorator_list}
        if any(decorator.endswith((".setter", ".deleter")) for decorator in decorators):
            continue
        is_read = "property" in decorators
        shown = f"{statement.name}: {ast.unparse(statement.returns)}" if is_read and statement.returns else None
        yield f"- `{shown or signature(statement.name, statement)}`: {text(statement, f'{named.name}.{statement.name}')}"


def entry(named: Named) -> Iterator[str]:
    """A name with all that belongs to it."""
    definition = named.definition
    yield f"### `{named.name}`"
    yield ""
    if isinstance(definition, ast.ClassDef):
        start = next((s for s in definition.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
        if start is not None and not any("Error" in ast.unparse(base) for base in definition.bases):
            start.returns = None
            yield from ["```text", signature(named.name, start), "```", ""]
        yield text(definition, named.name)
        listed = list(members(named))
        yield from ["", *listed] if listed else []
    else:
        yield from ["```text", signature(named.name, definition), "```", ""]
        yield text(definition, named.name)
    yield ""


def reference() -> str:
    """The whole reference."""
    lines: list[str] = []
    for title in SECTIONS:
        place = PYTHON / title.replace(".", "/")
        module = place.with_suffix(".py")
        if module.exists():
            names = [(name, module) for name in definitions(module) if not name.startswith("_")]
        else:
            names = [(name, where) for name, where in public(place) if not name.startswith("__")]
        lines += [f"## `{title}`", ""]
        for name, where in sorted(names, key=lambda item: item[0].casefold()):
            if name not in (found := definitions(where)):
                raise SystemExit(f"{title}.{name} is public, and not defined in {where}")
            lines += entry(Named(name, found[name]))
    return "\n".join(lines).rstrip() + "\n"


def page(before: str) -> str:
    """The page with its reference made anew."""
    above, mark, _ = before.partition(MARK)
    if not mark:
        raise SystemExit(f"{PAGE} has not the line {MARK}")
    return f"{above}{MARK}\n\n{reference()}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
