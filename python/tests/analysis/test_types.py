"""The stubs say what the module has, and both checkers take them and the examples."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import cavalcade as cv
from cavalcade import _native

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "python/cavalcade"
CHECKED = [
    *(PACKAGE / name for name in ("__init__.py", "_native.pyi", "errors.py", "own_policy.py")),
    *(ROOT / "examples" / name for name in ("policy.py", "policy_cost.py", "sweep_cost.py")),
]


def test_the_stubs_have_every_public_name_and_no_other() -> None:
    tree = ast.parse((PACKAGE / "_native.pyi").read_text())
    kinds = (ast.ClassDef, ast.FunctionDef)
    typing_only = {"Ordering", "ArrowStream", "Columns"}
    said = {node.name: node for node in tree.body if isinstance(node, kinds) and node.name not in typing_only}
    there = {name for name in vars(_native) if not name.startswith("_")}
    assert set(said) == there
    for name, node in said.items():
        if isinstance(node, ast.ClassDef):
            members = {
                one.name for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")
            }
            found = {member for member in vars(getattr(_native, name)) if not member.startswith("_")}
            assert members == found, name
        else:
            stub = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            real = inspect.signature(getattr(_native, name)).parameters.values()
            assert stub == [one.name for one in real if one.kind != one.VAR_KEYWORD], name
    # What modules of the package use, and is no part of its interface.
    assert set(cv.__all__) | {"Experiment", "rate"} >= there


def test_every_public_name_says_what_it_is() -> None:
    for name in cv.__all__:
        if name not in ("__version__", "sweep"):
            assert (getattr(cv, name).__doc__ or "").strip(), name


# The package alone: with all that pip has installed in sight, mypy judges that as well.
MYPY = ["mypy", "--strict", "--no-site-packages", "--config-file", "pyproject.toml"]


@pytest.mark.parametrize("checker", [MYPY, ["pyright"]], ids=["mypy", "pyright"])
def test_a_checker_of_types_takes_the_stubs_and_the_examples(checker: list[str], tmp_path: Path) -> None:
    pytest.importorskip(checker[0])
    command = [sys.executable, "-m", *checker, *map(str, CHECKED)]
    environment = {
        "MYPYPATH": str(ROOT / "python"),
        "MYPY_CACHE_DIR": str(tmp_path / "mypy"),
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
    }
    folder = ROOT / "python"
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500)
    if checker[0] == "pyright" and "nodeenv" in done.stdout + done.stderr and done.returncode != 0:
        pytest.skip("pyright needs Node")
    assert done.returncode == 0, done.stdout + done.stderr
