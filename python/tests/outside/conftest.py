"""Clusters of this machine, one on Dask and one on Ray, for all tests that use them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def reachable() -> Iterator[None]:
    """Lets the workers import the jobs of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        places = [str(TESTS / "sweeps"), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(place for place in places if place))
        yield


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A cluster of two processes on Dask."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    # A unit that kills its workers is given up after two of them, and once more when it is alone.
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}):
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with distributed.Client(cluster) as client:
                yield client


@pytest.fixture(scope="session")
def ray() -> Iterator[None]:
    """A cluster of two processes on Ray."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()
