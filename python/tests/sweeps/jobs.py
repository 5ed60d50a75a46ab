"""Jobs that tests of executors run in other processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cavalcade import executors
from cavalcade.executors import Reports, Unfit


@dataclass(frozen=True)
class Noting:
    """Leaves a file for each unit, named by it, with the worker's process in it."""

    folder: str

    def __call__(self, unit: str) -> None:
        if unit == "wrong":
            raise ValueError("a unit that cannot be")
        if unit == "unfit":
            raise Unfit("this worker is another version")
        if unit == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        if unit == "long":
            time.sleep(600)
        print("what a unit prints is no answer")
        (Path(self.folder) / unit).write_text(str(os.getpid()))


@dataclass(frozen=True)
class KillsOnce:
    """Kills its worker when it first comes to a unit, and else does what ``job`` does."""

    job: Callable[[Any], Any]
    number: int
    mark: str

    def __call__(self, unit: Any) -> Any:
        if unit.seed == self.number:
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.job(unit)


def killing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has an executor kill the worker that first comes to a unit with seed 2."""
    execute: Callable[..., Reports] = getattr(executors, name)

    def kill(*given: Any) -> Reports:
        *before, job, units = given
        return execute(*before, KillsOnce(job, 2, str(tmp_path / "killed")), units)

    monkeypatch.setattr(executors, name, kill)
