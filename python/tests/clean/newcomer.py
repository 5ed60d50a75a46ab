"""What somebody does who has Python and the wheel: install it, try the program, the client and the pages' examples, run the notebooks.

`machine.py` makes the machine that this runs on. Nothing here is imported from the package: it is what is tried.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server

HOME = Path.home()
BIN = HOME / "venv/bin"
PYTHON = str(BIN / "python")
# What has no place on a machine without a compiler.
COMPILERS = ("cc", "gcc", "clang", "ld", "cargo", "rustc", "sh")
# What the pages' examples use beside the package.
USED = ["polars", "pandas", "ipykernel", "nbclient"]
# The examples that need no arguments, as `snippets.py` calls them.
EXAMPLES = ["readme_0", "python_readme_0", "docs_python_0", "docs_python_1"]
LIVE_EXAMPLE = "docs_python_2"
# The program asks the agent for its coflow and its key.
SCHEDULED = """
from cavalcade import live
with live.Session() as session:
    assert session.wait_ready(60)
    with live.coflow("shuffle", required=True, session=session) as shuffle:
        assert shuffle.key.serial % 2 == 0, "not the agent's key"
"""


def run(*words: str, **others: str) -> str:
    """Runs a program of the environment and returns what it printed."""
    environment = {**os.environ, "PATH": str(BIN), "XDG_RUNTIME_DIR": str(HOME), **others}
    ran = subprocess.run(words, cwd=HOME, env=environment, capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\nended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def install(*what: str) -> None:
    run(PYTHON, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", "/index", "--find-links", "wheels", *what)


@contextmanager
def up() -> Iterator[None]:
    """Runs a coordinator and an agent, whose socket is where clients look for it."""
    command, environment = [BIN / "cavalcade", "up", "--rate", "1Gbps"], {"XDG_RUNTIME_DIR": str(HOME)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as program:
        try:
            yield
            program.terminate()
            program.wait(timeout=60)
        finally:
            program.kill()


@contextmanager
def sink() -> Iterator[bytearray]:
    """Takes in what the page's example of the client sends."""
    received = bytearray()
    with create_server(("10.0.0.7", 9000)) as server:

        def take() -> None:
            stream, _ = server.accept()
            with stream:
                while part := stream.recv(4096):
                    received.extend(part)

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield received
        thread.join(timeout=60)


def check_the_machine() -> None:
    folders = ("/bin", "/usr/bin", "/usr/local/bin", Path(sys.executable).parent)
    there = [name for name in COMPILERS for folder in folders if Path(folder, name).exists()]
    assert there == [] and not Path("/usr/include").exists(), f"a machine with {there}"


def check_the_program() -> None:
    """With the wheel alone: it needs no other package."""
    version = run(str(BIN / "cavalcade"), "--version").split()[1]
    assert run(PYTHON, "-c", "import cavalcade; print(cavalcade.__version__)").strip() == version
    shown = run(str(BIN / "cavalcade"), "compare", "examples/shuffles.txt", "--policies", "fair,varys", "--rate", "1Gbps")
    assert "varys" in shown, shown


def check_the_client(example: str) -> None:
    with up():
        run(PYTHON, "-c", SCHEDULED)
        with sink() as received:
            shown = run(PYTHON, "-c", example)
        # A warning would say that there is no agent.
        assert (shown, bytes(received)) == ("", b"map output")


def told(step: str, begun: float) -> float:
    now = time.monotonic()
    print(f"{step}: {now - begun:.1f} s", flush=True)
    return now


def main() -> None:
    sys.path.append(str(HOME / "python/tests/package"))
    from snippets import snippets

    begun = time.monotonic()
    check_the_machine()
    subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
    begun = told("python3 -m venv", begun)
    install("cavalcade")
    begun = told("pip install cavalcade", begun)
    examples = snippets()
    check_the_program()
    check_the_client(examples[f"{LIVE_EXAMPLE}.py"])
    begun = told("the program and the client", begun)
    install("cavalcade[sweep]", *USED)
    begun = told(f"pip install cavalcade[sweep] {' '.join(USED)}", begun)
    for name in EXAMPLES:
        # As a file, which processes of a sweep may import.
        (HOME / "example.py").write_text(examples[f"{name}.py"])
        assert run(PYTHON, "example.py"), f"{name} printed nothing"
    begun = told("the pages' examples", begun)
    print(run(PYTHON, "python/tests/package/notebooks.py"), end="")
    told("the notebooks", begun)


if __name__ == "__main__":
    main()
