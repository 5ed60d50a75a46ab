"""What tests of the analysis package share: small traces, and the program whose bytes they compare with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import cavalcade as cv

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def program() -> Callable[..., bytes]:
    """Runs the program with arguments and returns what it prints. `CAVALCADE_PROGRAM` says where it is."""
    named = os.environ.get("CAVALCADE_PROGRAM")
    path = Path(named or ROOT / "target/debug/cavalcade")
    if not path.exists():
        if named:
            pytest.fail(f"CAVALCADE_PROGRAM is {named}, which is not there")
        pytest.skip(f"needs the program: {path} is not there")

    def run(*arguments: str | Path) -> bytes:
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return run


@pytest.fixture
def shuffles() -> Path:
    return ROOT / "examples/shuffles.txt"


@pytest.fixture
def queries() -> Path:
    return ROOT / "examples/queries.jsonl"


@pytest.fixture
def trace() -> cv.Trace:
    return cv.Trace.generate("facebook:coflows=30,ports=10", seed=1)


@pytest.fixture
def flows() -> dict[str, list[object]]:
    """Four flows of two coflows between named hosts."""
    return {
        "src": ["web-1", "web-2", "db-1", "web-1"],
        "dst": ["db-1", "db-1", "web-2", "web-2"],
        "bytes": [1_500_000, 500_000, 900_000, 40_000],
        "start_ms": [0.0, 1.5, 0.1, 7.0],
        "coflow": ["q1", "q1", "q2", "q2"],
    }
