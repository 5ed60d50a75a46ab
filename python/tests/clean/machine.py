"""Makes the root of a machine that has Python and nothing else, and runs `newcomer.py` in it: `machine.py ROOT WHEEL INDEX`.

The root holds this Python with its standard library, the shared libraries that any Linux has, pages and examples to follow, and the
wheels: that of the package, and those of the folder INDEX in place of Python's index. There is no shell, no compiler, no checkout and
no network but one machine's own. Files are copied: what is made in the root, and what breaks in it, is gone with the folder.

It needs root, for `unshare`, `mount` and `ip` of Linux. What is tried runs as an ordinary user. Mounts and processes end with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
# What a newcomer reads, and what follows it.
READ = ["README.md", "python/README.md", "docs/python.md", "clients/README.md", "examples"]
FOLLOWED = ["python/tests/clean/newcomer.py", "python/tests/package/notebooks.py", "python/tests/package/snippets.py"]
# Of the standard library what only its developers use, and what others have installed.
LEFT_OUT = shutil.ignore_patterns("site-packages", "dist-packages", "test", "tests", "__pycache__", "config-*", "idlelib")
# What wheels may lean on, beside what Python itself needs (the manylinux policies).
ANY_LINUX_HAS = re.compile(r"lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+)\.so\.\d+")
USER = 1000
# The address of a page's example.
EXAMPLE = "10.0.0.7/32"


def said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def put(root: Path, path: Path) -> None:
    """Copies a file or a folder to the same path below the root."""
    there = root / path.relative_to("/")
    there.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, there, ignore=LEFT_OUT, dirs_exist_ok=True)
    else:
        shutil.copy2(path, there)


def libraries(binaries: list[Path]) -> set[Path]:
    """The shared libraries that binaries need, with the loader, and those that any Linux has."""
    needed = said("ldd", *map(str, binaries))
    known = (line.split(" => ") for line in said("ldconfig", "-p").splitlines() if " => " in line)
    anywhere = {path for name, path in known if ANY_LINUX_HAS.fullmatch(name.split()[0])}
    # A distribution may have those of another processor beside its own.
    fitting = {path for path in anywhere if processor(path) == processor(sys.executable)}
    return {Path(path) for path in {*re.findall(r"(/\S+) \(0x", needed), *fitting}}


def processor(binary: str) -> bytes:
    """The processor that an ELF file is for."""
    with open(binary, "rb") as file:
        return file.read(20)[18:]


def furnish(root: Path, wheel: Path) -> Path:
    """Fills the root, and returns the interpreter in it."""
    interpreter = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    bundled = sysconfig.get_config_var("WHEEL_PKG_DIR")
    compiled = list((library / "lib-dynload").glob("*.so"))
    for path in [interpreter, library, *libraries([interpreter, *compiled]), *([Path(bundled)] if bundled else [])]:
        put(root, path)
    home = root / "home/user"
    for name in [*READ, *FOLLOWED]:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy
        copy(CHECKOUT / name, home / name)
    (home / "wheels").mkdir()
    shutil.copy(wheel, home / "wheels")
    for path in [home, *home.rglob("*")]:
        os.chown(path, USER, USER)
    for folder in ("tmp", "etc", "proc", "dev", "index"):
        (root / folder).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text(f"root:x:0:0::/root:/\nuser:x:{USER}:{USER}::/home/user:/\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    return interpreter


def enter(root: Path, index: Path) -> None:
    """Makes the machine of this process out of the root: its devices, its network, and its only user."""
    said("mount", "--bind", "-o", "ro", str(index), str(root / "index"))
    said("mount", "-t", "proc", "none", str(root / "proc"))
    said("mount", "-t", "tmpfs", "none", str(root / "dev"))
    for device in ("null", "zero", "urandom", "random"):
        (root / "dev" / device).touch()
        said("mount", "--bind", f"/dev/{device}", str(root / "dev" / device))
    (root / "dev/shm").mkdir(mode=0o1777)
    (root / "dev/shm").chmod(0o1777)
    said("ip", "link", "set", "lo", "up")
    said("ip", "address", "add", EXAMPLE, "dev", "lo")
    os.chroot(root)
    os.chdir("/home/user")
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)


def main() -> None:
    """Runs itself again where nothing that it mounts or starts outlives it, and there the newcomer."""
    root, wheel, index = map(Path, sys.argv[1:4])
    # The newcomer is another user than the one who makes all this.
    os.umask(0o022)
    if len(sys.argv) == 4:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        apart = ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--"]
        ended = subprocess.run([*apart, sys.executable, "-B", *sys.argv, "apart"]).returncode
        # Its mounts are gone with its processes.
        shutil.rmtree(root)
        raise SystemExit(ended)
    interpreter = furnish(root, wheel)
    enter(root, index)
    alone = {"PATH": str(interpreter.parent), "HOME": "/home/user", "LANG": "C.UTF-8"}
    os.execve(interpreter, [str(interpreter), "python/tests/clean/newcomer.py"], alone)


if __name__ == "__main__":
    main()
