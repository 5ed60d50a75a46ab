"""Runs of experiments on workers: what ``cavalcade experiment run --on`` starts beside itself.

    python -m cavalcade.experiments dask://host:8786

The program reads experiments, knows which runs are to be made, and keeps their rows; here runs go to workers and come back. It asks in
one line of JSON on standard input (:class:`Asked`) and is answered on standard output with a line for each run, in the order in which
they end: ``{"unit": 3, "seconds": 0.2, "words": [...]}``, or ``"error"`` in place of the words. Where nothing can be run the only line
is ``{"refused": ...}``. Its hanging up ends everything.

A run has the same row wherever it is made: it is the program's own code, in the compiled part. Rejected: files that workers leave in a
folder which all reach, as sweeps do: a row is less than a kilobyte, and the program would have to look for it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from . import executors, sweeps
from ._native import Experiment, __version__


@dataclass(frozen=True)
class Unit:
    """One run: the number of its experiment, and its key in the file of rows."""

    experiment: int
    workload: str
    policy: str
    conditions: str
    seed: int


@dataclass(frozen=True)
class Text:
    """An experiment as it travels: its text, and the files that runs need."""

    name: str
    text: str
    data: Mapping[str, bytes]
    beside: Mapping[str, bytes]


@dataclass(frozen=True)
class Job:
    """What all units share, in the form that travels: experiments, and the caller's version."""

    texts: tuple[Text, ...]
    version: str

    def __call__(self, unit: Unit) -> list[int]:
        """Makes a run and returns its row."""
        if __version__ != self.version:
            raise executors.Unfit(
                f"a worker has cavalcade {__version__}, the program is {self.version}: install the same in both"
            )
        return self._experiments[unit.experiment].row(unit.workload, unit.policy, unit.conditions, unit.seed)

    def __reduce__(self) -> Any:
        # Without what was read here, which does not travel.
        return Job, (self.texts, self.version)

    @cached_property
    def _experiments(self) -> list[Experiment]:
        # Read once in each worker, and not before versions are known to be the same.
        return [Experiment(one.name, one.text, one.data, one.beside) for one in self.texts]


@dataclass(frozen=True)
class Asked:
    """What the program asks for."""

    job: Job
    units: list[Unit]

    @staticmethod
    def read(line: str) -> Asked:
        """Reads the line, and the files that it names."""
        asked = json.loads(line)

        def contents(paths: Mapping[str, str]) -> dict[str, bytes]:
            # A run reports by itself that its file is missing.
            return {name: Path(path).read_bytes() for name, path in paths.items() if Path(path).is_file()}

        texts = (Text(one["name"], one["text"], contents(one["data"]), contents(one["beside"])) for one in asked["experiments"])
        return Asked(Job(tuple(texts), asked["version"]), [Unit(*unit) for unit in asked["units"]])


def answers(on: Any, asked: Asked) -> Iterator[dict[str, Any]]:
    """Runs all that is asked for, and yields an answer for each run."""
    execute = sweeps.executor(on)
    with closing(execute(asked.job, asked.units)) as reports:
        for report in reports:
            if report.ends_all:
                yield {"refused": report.error}
                return
            came = {"words": report.value} if report.error is None else {"error": report.error}
            yield {"unit": report.number, "seconds": report.seconds, **came}


def _end_with_the_program() -> None:
    """Interrupts this thread once the program has hung up: it is gone, or wants no more."""
    waiting = threading.get_ident()

    def listen() -> None:
        # Not by way of `sys.stdin`, whose lock the end of the interpreter would wait for.
        while os.read(0, 4096):
            pass
        signal.pthread_kill(waiting, signal.SIGINT)

    threading.Thread(target=listen, daemon=True).start()


def main(words: Sequence[str] | None = None) -> int:
    """Answers one question; the command ``python -m cavalcade.experiments``."""
    (on,) = sys.argv[1:] if words is None else words
    # What workers and clusters print is no answer.
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: Mapping[str, Any]) -> None:
        print(json.dumps(answer), file=said, flush=True)

    try:
        asked = Asked.read(sys.stdin.buffer.readline().decode())
        _end_with_the_program()
        for answer in answers(int(on) if on.isdigit() else on, asked):
            say(answer)
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    except Exception as error:
        say({"refused": f"{type(error).__name__}: {error}"})
        return 1
    finally:
        # The program hangs up when it has all: the interrupt would come in the middle of the end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return 0


if __name__ == "__main__":
    # By its name: workers do not know what this module is called here.
    from cavalcade import experiments

    sys.exit(experiments.main())
