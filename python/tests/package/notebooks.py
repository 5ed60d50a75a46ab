"""Runs every notebook of examples/ in a copy of that folder, side by side, with the interpreter that runs this.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


async def run(path: Path, folder: str) -> None:
    """Runs one notebook; an error in a cell is raised with the cell."""
    begun = time.monotonic()
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}})
    await client.async_execute()
    print(f"{path.name}: {time.monotonic() - begun:.1f} s", flush=True)


async def run_all() -> None:
    """Runs all notebooks, each in a folder of its own."""
    notebooks = sorted(EXAMPLES.glob("*.ipynb"))
    if len(notebooks) < 5:
        raise SystemExit(f"expected the five notebooks in {EXAMPLES}, found {len(notebooks)}")
    with tempfile.TemporaryDirectory() as scratch:
        folders = [shutil.copytree(EXAMPLES, Path(scratch, path.stem)) for path in notebooks]
        running = (run(path, str(folder)) for path, folder in zip(notebooks, folders))
        ended = await asyncio.gather(*running, return_exceptions=True)
    failed = [f"{path.name}:\n{error}" for path, error in zip(notebooks, ended) if error is not None]
    if failed:
        raise SystemExit("\n\n".join(failed))


if __name__ == "__main__":
    asyncio.run(run_all())
