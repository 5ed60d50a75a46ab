"""What every executor owes, of those that need no cluster."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from cavalcade import executors
from cavalcade.executors import Report
from jobs import Noting


def errors(reports: list[Report]) -> dict[int, str | None]:
    return {report.number: report.error for report in reports}


def test_units_are_run_in_order_where_there_is_one_process(tmp_path: Path) -> None:
    reports = list(executors.here(Noting(str(tmp_path)), ["a", "wrong", "b"]))
    assert [report.number for report in reports] == [0, 1, 2]
    assert errors(reports) == {0: None, 1: "ValueError: a unit that cannot be", 2: None}
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_processes_share_the_units(tmp_path: Path) -> None:
    units = [str(number) for number in range(40)]
    reports = list(executors.processes(2, Noting(str(tmp_path)), units))
    assert errors(reports) == dict.fromkeys(range(40))
    workers = {(tmp_path / unit).read_text() for unit in units}
    assert len(workers) == 2 and str(os.getpid()) not in workers


def test_no_more_processes_are_started_than_there_are_units(tmp_path: Path) -> None:
    assert len(list(executors.processes(1000, Noting(str(tmp_path)), ["a"]))) == 1


def test_a_unit_that_kills_its_workers_fails_alone(tmp_path: Path) -> None:
    units = ["a", "deadly", *(str(number) for number in range(20))]
    reports = errors(list(executors.processes(2, Noting(str(tmp_path)), units)))
    assert reports.pop(1) == (
        "3 workers or more died while they ran it (signal 9): it may need more memory than they have"
    )
    assert reports == {number: None for number in range(22) if number != 1}


def test_a_worker_that_is_unfit_says_so(tmp_path: Path) -> None:
    [report] = executors.processes(1, Noting(str(tmp_path)), ["unfit"])
    assert report.ends_all and report.error == "this worker is another version"


def test_what_is_under_way_ends_at_once_when_nobody_wants_it(tmp_path: Path) -> None:
    reports = executors.processes(2, Noting(str(tmp_path)), ["a", "long", "long", "b"])
    assert next(reports).number == 0
    begun = time.monotonic()
    reports.close()
    # Each would take ten minutes.
    assert time.monotonic() - begun < 60
    assert os.listdir(tmp_path) == ["a"]


def test_a_worker_that_cannot_start_is_no_failure_of_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors.sys, "path", [])
    with pytest.raises(RuntimeError, match="ended before its first unit, with code 1"):
        list(executors.processes(1, Noting(str(tmp_path)), ["a"]))
