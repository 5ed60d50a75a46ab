"""Sweeps on real clusters of this machine, one worker of each killed in mid-sweep: the same bytes as on one core.

Dask and Ray are optional; where one is not installed, its tests are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cavalcade as cv
import pytest
from cavalcade import executors
from cavalcade.executors import Reports
from jobs import Noting, killing


def study(out: Path, **others: Any) -> cv.Sweep:
    """A sweep of 24 units."""
    traces = [cv.Trace.generate("facebook:coflows=20,ports=10", seed=seed) for seed in range(2)]
    return cv.sweep(traces, ["fair", "aalo", "varys"], rates=["1Gbps", "10Gbps"], seeds=[1, 2], out=out, **others)


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def holds(tmp_path: Path, **on: Any) -> None:
    """A sweep in which a worker is killed has the bytes of one on one core."""
    study(tmp_path / "one")
    result = study(tmp_path / "many", **on)
    assert (tmp_path / "killed").exists(), "no worker was killed"
    assert (result.run, result.failures) == (24, [])
    assert files(tmp_path / "one") == files(tmp_path / "many")


def test_dask_with_a_worker_killed_gives_the_same_bytes(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing("dask", tmp_path, monkeypatch)
    holds(tmp_path, on=client)


def test_ray_with_a_worker_killed_gives_the_same_bytes(
    ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing("ray", tmp_path, monkeypatch)
    holds(tmp_path, on="ray")


def test_an_address_of_dask_is_enough(client: Any, tmp_path: Path) -> None:
    address = client.scheduler_info()["address"].replace("tcp://", "dask://")
    assert study(tmp_path, on=address).run == 24


def ends(execute: Callable[..., Reports], tmp_path: Path) -> None:
    """A unit that is wrong, or kills its workers, fails alone."""
    units = ["a", "wrong", "deadly", "b", "c"]
    errors = {report.number: report.error for report in execute(Noting(str(tmp_path)), units)}
    assert errors.pop(1) == "ValueError: a unit that cannot be"
    died = errors.pop(2)
    assert died is not None and "workers or more died while they ran it" in died
    assert errors == {0: None, 3: None, 4: None}


def test_on_dask_a_unit_that_cannot_be_run_fails_alone(client: Any, tmp_path: Path) -> None:
    ends(partial(executors.dask, client), tmp_path)


def test_on_ray_a_unit_that_cannot_be_run_fails_alone(ray: None, tmp_path: Path) -> None:
    ends(executors.ray, tmp_path)
