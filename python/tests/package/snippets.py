"""Writes each Python example of the pages, and the code of each notebook, as a file for type checkers: `snippets.py FOLDER`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = ["README.md", "python/README.md", "docs/python.md", "clients/README.md"]


def snippets() -> dict[str, str]:
    """The examples by the names of their files."""
    found = {}
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
        stem = re.sub(r"\W+", "_", page.removesuffix(".md")).lower()
        found.update({f"{stem}_{number}.py": block for number, block in enumerate(blocks)})
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        found[f"notebook_{path.stem.replace('-', '_')}.py"] = "\n\n".join(code) + "\n"
    return found


if __name__ == "__main__":
    for name, text in snippets().items():
        Path(sys.argv[1], name).write_text(text)
