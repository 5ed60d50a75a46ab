"""What is installed, as a user finds it: the program on the path, the metadata, and the client against a live agent.

The tests of an installed wheel are skipped in a checkout, where there is none.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import cavalcade as cv
import pytest
from cavalcade import live

PYTHON = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(PYTHON / "backend"))
import cavalcade_build  # noqa: E402


def program() -> str:
    """The program that came with the package."""
    found = Path(sys.executable).with_name("cavalcade")
    if not found.exists():
        pytest.skip("no wheel is installed here: cargo xtask wheel")
    return str(found)


def said(*words: str, **others: str) -> str:
    environment = {**os.environ, **others}
    ran = subprocess.run([program(), *words], check=True, capture_output=True, text=True, env=environment, timeout=300)
    return ran.stdout


def test_program_and_package_are_of_one_version() -> None:
    assert said("--version").split()[1] == importlib.metadata.version("cavalcade") == cv.__version__


def test_there_is_no_compiler_here_and_none_is_needed() -> None:
    program()
    assert [name for name in ("cc", "gcc", "clang", "cargo", "rustc") if shutil.which(name)] == []


def test_package_and_program_write_the_same_bytes(tmp_path: Path) -> None:
    trace = tmp_path / "shuffles.txt"
    shutil.copy(PYTHON.parent / "examples/shuffles.txt", trace)
    said("compare", str(trace), "--policies", "fair,varys", "--no-bound", "--rate", "1Gbps", "--out", str(tmp_path / "program"))
    cv.compare(cv.read(trace), ["fair", "varys"], rate="1Gbps").save(tmp_path / "package")
    for table in ("coflows.parquet", "tasks.parquet", "runs.csv"):
        assert (tmp_path / "program" / table).read_bytes() == (tmp_path / "package" / table).read_bytes(), table


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """The folder of `cavalcade up`."""
    command = [program(), "up", "--rate", "1Gbps"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as up:
        try:
            yield tmp_path
            up.terminate()
            up.wait(timeout=60)
        finally:
            up.kill()


def test_the_client_is_scheduled_by_the_programs_agent(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(agent))
    monkeypatch.delenv("CAVALCADE_SOCKET", raising=False)
    with live.Session() as session:
        assert session.wait_ready(60)
        with live.coflow("shuffle-7", required=True, session=session) as shuffle:
            assert shuffle.key.serial % 2 == 0, "the agent's key"


def needed_of_glibc(binary: bytes) -> list[tuple[int, ...]]:
    """The versions of glibc's symbols that an ELF file asks for: its section `.gnu.version_r`, read by itself."""
    (sections,) = struct.unpack_from("<Q", binary, 0x28)
    size, count = struct.unpack_from("<HH", binary, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", binary, sections + size * index) for index in range(count)]
    needs = next(header for header in headers if header[1] == 0x6FFFFFFE)
    strings, at, found = headers[needs[6]][4], needs[4], []
    for _ in range(needs[7]):
        _, versions, _, first, following = struct.unpack_from("<HHIII", binary, at)
        one = at + first
        for _ in range(versions):
            _, _, _, name, step = struct.unpack_from("<IHHII", binary, one)
            text = binary[strings + name : binary.index(b"\0", strings + name)].decode()
            if text.startswith("GLIBC_2."):
                found.append(tuple(int(part) for part in text.removeprefix("GLIBC_").split(".")))
            one += step
        at += following
    return found


def test_the_tag_is_the_newest_glibc_that_what_is_installed_asks_for() -> None:
    wheel = importlib.metadata.distribution("cavalcade").read_text("WHEEL")
    assert wheel is not None
    native = cv.policies.__self__.__file__  # type: ignore[attr-defined]
    versions = [version for path in (program(), native) for version in needed_of_glibc(Path(path).read_bytes())]
    _, minor, *_ = max(versions)
    assert f"Tag: cp310-abi3-manylinux_2_{minor}_" in wheel


def test_what_is_to_be_portable_and_needs_a_newer_glibc_is_refused() -> None:
    check = cavalcade_build._check_portable
    check("manylinux_2_17_x86_64", "2.28")
    check("manylinux_2_28_x86_64", "2.28")
    check("manylinux_2_36_x86_64", None)
    for tag in ("manylinux_2_29_x86_64", "linux_x86_64"):
        with pytest.raises(SystemExit, match=f"the binaries are for {tag}: expected a glibc of 2.28 at the newest"):
            check(tag, "2.28")


class Folder:
    """A package of two small binaries."""

    def __init__(self, folder: Path) -> None:
        native = cv.policies.__self__.__file__  # type: ignore[attr-defined]
        shutil.copy(native, folder / "lib_native.so")
        shutil.copy(native, folder / "cavalcade")
        self.settings = {"artifacts": str(folder)}


def test_a_wheel_is_the_same_bytes_each_time_and_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "binaries").mkdir()
    settings = Folder(tmp_path / "binaries").settings
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(tmp_path / name / cavalcade_build.build_wheel(str(tmp_path / name), settings))
    assert made[0].read_bytes() == made[1].read_bytes()
    assert made[0].name.startswith(f"cavalcade-{cv.__version__}-cp310-abi3-manylinux_2_")
    with zipfile.ZipFile(made[0]) as wheel:
        names = set(wheel.namelist())
        record = wheel.read(f"cavalcade-{cv.__version__}.dist-info/RECORD").decode()
        script = wheel.getinfo(f"cavalcade-{cv.__version__}.data/scripts/cavalcade")
    assert {"cavalcade/py.typed", "cavalcade/_native.pyi", "cavalcade/live/wire.py", "cavalcade/sweeps.py"} <= names
    assert {line.split(",")[0] for line in record.splitlines()} == names
    assert script.external_attr >> 16 == 0o100755
    assert not [name for name in names if "__pycache__" in name or "test" in name]


def test_the_tag_names_the_processor_of_both_binaries(tmp_path: Path) -> None:
    settings = Folder(tmp_path).settings
    program = tmp_path / "cavalcade"
    program.write_bytes(program.read_bytes()[:18] + b"\xb7\0" + program.read_bytes()[20:])
    with pytest.raises(SystemExit, match="expected one of"):
        cavalcade_build.build_wheel(str(tmp_path), settings)
    shutil.copy(program, tmp_path / "lib_native.so")
    assert cavalcade_build.build_wheel(str(tmp_path), settings).endswith("_aarch64.whl")


def test_a_binary_that_needs_more_than_any_linux_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cavalcade_build, "_ALLOWED", {"libm.so.6"})
    with pytest.raises(SystemExit, match=r"need .*libc\.so\.6.*which not every Linux has"):
        cavalcade_build.build_wheel(str(tmp_path), Folder(tmp_path).settings)
    assert not list(tmp_path.glob("*.whl"))


def test_the_sdist_has_all_that_a_build_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No compiler is on the path of these tests, and no git either.
    monkeypatch.setenv("PATH", os.defpath)
    if not (PYTHON.parent / ".git").exists() or shutil.which("git") is None:
        pytest.skip("an sdist is made in a checkout, with git")
    name = cavalcade_build.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        names = {member.name.partition("/")[2] for member in archive}
    needed = {"PKG-INFO", "pyproject.toml", "backend/cavalcade_build.py", "workspace/Cargo.lock", "workspace/bpf/build.rs"}
    assert needed <= names
    assert "workspace/crates/faces/cli/src/main.rs" in names
    assert not [name for name in names if name.startswith("workspace/experiments")]
