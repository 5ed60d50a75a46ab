"""Builds the distribution `cavalcade`: the extension, the program and the Python of it in one wheel; and the sdist.

It is a backend in the sense of PEP 517, so `pip install ./python` works in a checkout and from the sdist, with a Rust toolchain. It
needs the standard library and cargo (and tomli before Python 3.11). The version is that of the Rust workspace.

The extension keeps to Python's stable ABI from 3.10 on, so one wheel fits all later versions. The platform tag is read off what was
built: the newest symbol version of glibc that the two binaries ask for names the `manylinux` tag, and a library that not every
distribution has is an error. (auditwheel does the same for any wheel and repairs what is wrong; here nothing may be.)

Settings, as `pip wheel -C NAME=VALUE`:

- `artifacts=FOLDER`: takes `lib_native.so` and `cavalcade` from there and runs no cargo.
- `portable=2.28`: builds for this glibc with `cargo zigbuild` (`requirements.txt` beside this file has its version).
- `machine=aarch64`: with that, for another processor than this one's (rustup target add aarch64-unknown-linux-gnu).

Rejected: maturin, which has no wheel with an extension and a program of another crate, and would have to be fetched to build.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Settings = Mapping[str, str] | None

_HERE = Path(__file__).resolve().parents[1]
# In an sdist the workspace lies within, in a checkout around.
_WORKSPACE = _HERE / "workspace" if (_HERE / "workspace").exists() else _HERE.parent
_TAG = "cp310-abi3"
# What the manylinux policies allow and any distribution has.
_ALLOWED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1"}
# What of the checkout a build needs.
_SOURCES = ["Cargo.toml", "Cargo.lock", "LICENSE", ".cargo", "crates", "bpf", "xtask", "docs/cavalcade.toml"]
# Of the package's own folder.
_PACKAGE = ["pyproject.toml", "README.md", "backend", "cavalcade"]
# Of ELF: a section, an entry in it, and processors.
_DYNAMIC, _NEEDED = 6, 1
_MACHINES = {62: "x86_64", 183: "aarch64"}
# Zip knows no earlier time.
_EPOCH = 315_532_800


@dataclass(frozen=True)
class Built:
    """The two binaries."""

    extension: Path
    program: Path


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Needs nothing from an index."""
    return []


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    """Needs nothing from an index."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Writes the metadata, which needs no build."""
    info = f"cavalcade-{_version()}.dist-info"
    folder = Path(metadata_directory) / info
    folder.mkdir()
    (folder / "METADATA").write_text(_metadata(_version()))
    (folder / "WHEEL").write_text(_wheel(f"{_TAG}-any"))
    return info


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Builds the wheel and returns its name."""
    settings = config_settings or {}
    built = _taken(Path(settings["artifacts"])) if "artifacts" in settings else _compiled(settings)
    version, platform_tag = _version(), _platform([built.extension, built.program])
    _check_portable(platform_tag, settings.get("portable"))
    tag = f"{_TAG}-{platform_tag}"
    name = f"cavalcade-{version}"
    files: list[tuple[str, bytes, bool]] = []
    for path in _modules():
        files.append((str(path.relative_to(_HERE)), path.read_bytes(), False))
    files.append(("cavalcade/_native.abi3.so", built.extension.read_bytes(), True))
    files.append((f"{name}.data/scripts/cavalcade", built.program.read_bytes(), True))
    info = f"{name}.dist-info"
    files.append((f"{info}/METADATA", _metadata(version).encode(), False))
    files.append((f"{info}/WHEEL", _wheel(tag).encode(), False))
    files.append((f"{info}/licenses/LICENSE", (_WORKSPACE / "LICENSE").read_bytes(), False))
    files.append((f"{info}/RECORD", _record(files, f"{info}/RECORD").encode(), False))
    wheel = f"{name}-{tag}.whl"
    _whole(Path(wheel_directory) / wheel, _zipped(files))
    return wheel


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Packs what a build needs and returns the archive's name."""
    version = _version()
    name = f"cavalcade-{version}"
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=_epoch()) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        _add(archive, f"{name}/PKG-INFO", _metadata(version).encode(), 0o644)
        for place, root, folder in [("", _HERE, _PACKAGE), ("workspace/", _WORKSPACE, _SOURCES)]:
            for path in _tracked(root, folder):
                mode = 0o755 if os.access(root / path, os.X_OK) else 0o644
                _add(archive, f"{name}/{place}{path}", (root / path).read_bytes(), mode)
    _whole(Path(sdist_directory) / f"{name}.tar.gz", content.getvalue())
    return f"{name}.tar.gz"


def _version() -> str:
    manifest = tomllib.loads((_WORKSPACE / "Cargo.toml").read_text())
    return str(manifest["workspace"]["package"]["version"])


def _epoch() -> int:
    return int(os.environ.get("SOURCE_DATE_EPOCH", _EPOCH))


def _cargo(*words: str) -> None:
    if shutil.which("cargo") is None:
        raise SystemExit("a build needs Rust, and 'cargo' is not on the path: install it from https://rustup.rs, or use a wheel")
    subprocess.run(["cargo", *words, "--locked", "--release"], cwd=_WORKSPACE, check=True)


def _compiled(settings: Mapping[str, str]) -> Built:
    """Builds both with cargo. One after the other: together their dependencies would have the features of both."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", _WORKSPACE / "target"))
    verb, options, folder = "build", [], target / "release"
    portable, machine = settings.get("portable"), settings.get("machine", platform.machine())
    if portable is None and machine != platform.machine():
        raise SystemExit(f"machine={machine} on a {platform.machine()}: expected portable=2.28 with it, which builds for others")
    if portable is not None:
        triple = f"{machine}-unknown-linux-gnu"
        verb, options, folder = "zigbuild", ["--target", f"{triple}.{portable}"], target / triple / "release"
    for package in ("cavalcade-cli", "cavalcade-python"):
        _cargo(verb, "-p", package, *options)
    return _taken(folder)


def _taken(folder: Path) -> Built:
    built = Built(folder / "lib_native.so", folder / "cavalcade")
    for path in (built.extension, built.program):
        if not path.exists():
            raise SystemExit(f"{path} is not there: expected what cargo builds of cavalcade-python and cavalcade-cli")
    return built


def _modules() -> list[Path]:
    """The Python of the package, and what describes its types."""
    kept = [path for path in sorted((_HERE / "cavalcade").rglob("*")) if path.suffix in (".py", ".pyi") or path.name == "py.typed"]
    return [path for path in kept if "__pycache__" not in path.parts]


def _tracked(root: Path, names: list[str]) -> list[str]:
    """The files of the checkout below these names; of an unpacked sdist all that are there."""
    there = [name for name in names if (root / name).exists()]
    if _WORKSPACE.name != "workspace" and (_WORKSPACE / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z", "--", *there], cwd=root, check=True, capture_output=True)
        return sorted(name for name in listed.stdout.decode().split("\0") if name and (root / name).exists())
    files = (path for name in there for path in [root / name, *(root / name).rglob("*")] if path.is_file())
    return sorted(str(path.relative_to(root)) for path in files if "__pycache__" not in path.parts)


def _metadata(version: str) -> str:
    """The metadata, from pyproject.toml."""
    project = tomllib.loads((_HERE / "pyproject.toml").read_text())["project"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Author: {', '.join(author['name'] for author in project['authors'])}",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE",
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {needed}" for needed in project["dependencies"]),
    ]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {needed}; extra == '{extra}'" for needed in needs]
    lines += [f"Project-URL: {name}, {url}" for name, url in project["urls"].items()]
    readme = (_HERE / project["readme"]).read_text()
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def _wheel(tag: str) -> str:
    return f"Wheel-Version: 1.0\nGenerator: cavalcade_build\nRoot-Is-Purelib: false\nTag: {tag}\n"


def _record(files: list[tuple[str, bytes, bool]], own: str) -> str:
    lines = []
    for name, content, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{own},,", ""])


def _zipped(files: list[tuple[str, bytes, bool]]) -> bytes:
    content = io.BytesIO()
    stamp = zipfile.ZipInfo("", _date(_epoch())).date_time
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, body, executable in files:
            entry = zipfile.ZipInfo(name, stamp)
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, body, compresslevel=9)
    return content.getvalue()


def _date(epoch: int) -> tuple[int, int, int, int, int, int]:
    year, month, day, hour, minute, second, *_ = time.gmtime(epoch)
    return year, month, day, hour, minute, second


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(content), mode, _epoch()
    archive.addfile(entry, io.BytesIO(content))


def _whole(path: Path, content: bytes) -> None:
    """Writes a file that appears whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(content)
    os.replace(part, path)


def _platform(binaries: list[Path]) -> str:
    """The platform tag that both binaries deserve."""
    contents = [binary.read_bytes() for binary in binaries]
    read = [_dynamic(content) for content in contents]
    machines = {struct.unpack_from("<H", content, 18)[0] for content in contents}
    if len(machines) > 1 or not machines <= _MACHINES.keys():
        raise SystemExit(f"the binaries are for the processors {sorted(machines)} of ELF: expected one of {_MACHINES}")
    machine = _MACHINES[machines.pop()]
    names = {name for _, strings in read for name in strings}
    needed = {name for libraries, _ in read for name in libraries if not name.startswith("ld-linux")}
    if foreign := needed - _ALLOWED:
        raise SystemExit(f"the binaries need {', '.join(sorted(foreign))}, which not every Linux has: link it statically")
    versions = [int(found[1]) for name in names if (found := re.fullmatch(r"GLIBC_2\.(\d+)(\.\d+)?", name))]
    if not versions:
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"manylinux_2_{max(versions)}_{machine}"


def _check_portable(tag: str, portable: str | None) -> None:
    """Refuses binaries that need a newer glibc than the one that they were built for."""
    needed = re.match(r"manylinux_2_(\d+)_", tag)
    if portable is not None and (needed is None or int(needed[1]) > int(portable.removeprefix("2."))):
        raise SystemExit(f"the binaries are for {tag}: expected a glibc of {portable} at the newest")


def _dynamic(binary: bytes) -> tuple[list[str], list[str]]:
    """Of an ELF file the libraries that it needs, and all names in its table of dynamic strings."""
    if binary[:6] != b"\x7fELF\x02\x01":
        raise SystemExit("expected a little-endian ELF file of 64 bits")
    (sections,) = struct.unpack_from("<Q", binary, 0x28)
    size, count = struct.unpack_from("<HH", binary, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", binary, sections + size * index) for index in range(count)]
    # A static binary has no such section.
    found = next((header for header in headers if header[1] == _DYNAMIC), None)
    if found is None:
        return [], []
    table, strings = (binary[header[4] : header[4] + header[5]] for header in (found, headers[found[6]]))
    needed = [value for kind, value in struct.iter_unpack("<QQ", table) if kind == _NEEDED]
    names = [name.decode("ascii", "replace") for name in strings.split(b"\0") if name]
    return [strings[start : strings.index(b"\0", start)].decode() for start in needed], names


if __name__ == "__main__":
    # `python3 backend/cavalcade_build.py wheel|sdist FOLDER [NAME=VALUE]...`, for who has no pip.
    made = {"wheel": build_wheel, "sdist": build_sdist}[sys.argv[1]]
    print(made(sys.argv[2], dict(word.split("=", 1) for word in sys.argv[3:])))
