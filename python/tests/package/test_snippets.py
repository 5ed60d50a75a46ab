"""The examples of the README and of docs/python.md run as they are printed, in a folder that has examples/."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import snippets

# The example of the live client connects to a host that is not there; the type checkers read it.
ELSEWHERE = '"10.0.0.7"'
PAGES = ("readme_", "python_readme_", "docs_python_")
RUN = [name for name, text in snippets.snippets().items() if name.startswith(PAGES) and ELSEWHERE not in text]


@pytest.mark.parametrize("name", RUN)
def test_an_example_of_a_page_runs_as_printed(name: str, tmp_path: Path) -> None:
    shutil.copytree(snippets.ROOT / "examples", tmp_path / "examples")
    script = tmp_path / name
    script.write_text(snippets.snippets()[name])
    command = [sys.executable, "-B", str(script)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
