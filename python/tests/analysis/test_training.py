"""Training jobs: workloads that are read, and jobs that are compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cavalcade as cv

JOBS = """
[cluster]
hosts = 2
gpus = 2
nics = 1
nic = "8Gbps"

[[job]]
name = "a"
gpus = "0"
iterations = 3
step = [{ compute = "1ms", collective = "all_reduce", bytes = "2MB" }]

[[job]]
name = "b"
gpus = "1"
iterations = 3
workload = "layers.txt"
"""

LAYERS = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1
1
layer -1 500000 NONE 0 500000 NONE 0 1 ALLREDUCE 1000000 100
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    (tmp_path / "layers.txt").write_text(LAYERS)
    (tmp_path / "jobs.toml").write_text(JOBS)
    return tmp_path / "jobs.toml"


def test_jobs_run_over_packets_too(jobs: Path) -> None:
    fluid, packets = (cv.compare_jobs(jobs, "fair", engine=engine) for engine in ("fluid", "packet"))
    means = [run.jobs.to_arrow().to_pylist()[0]["mean_s"] for run in (fluid, packets)]
    assert means[0] < means[1] < 1.5 * means[0]
    with pytest.raises(cv.Error, match="no packets"):
        cv.compare_jobs(jobs, "fair", transport="dctcp")


def test_jobs_have_a_row_under_each_policy(jobs: Path, tmp_path: Path) -> None:
    found = cv.compare_jobs(jobs, ["fair", cv.policy("sebf")], iterations=4)
    assert found.policies == ["fair", "sebf"]
    rows = found.jobs.to_arrow().to_pylist()
    assert [(row["policy"], row["job"]) for row in rows] == [("fair", "a"), ("fair", "b"), ("sebf", "a"), ("sebf", "b")]
    # Two megabytes at a gigabyte a second behind a millisecond of computation.
    assert rows[0]["alone_s"] == pytest.approx(3e-3)
    assert rows[0]["over_alone"] > 1
    parts = [name for name in rows[0] if name in ("computing", "waiting", "idle") or name.startswith("exposed_")]
    assert sum(rows[0][name] for name in parts) == pytest.approx(1)
    assert len(found.iterations) == 4 * 4
    assert set(found.gpu_use) == {"fair", "sebf"}
    assert {row["collective"] for row in found.collectives.to_arrow().to_pylist()} == {"all_reduce"}
    assert json.loads(found.json())["runs"][0]["jobs"][0]["mean_s"] == rows[0]["mean_s"]
    links = found.links.to_arrow().to_pylist()
    assert {row["policy"] for row in links} == {"fair", "sebf"} and all(0 < row["busy"] <= 1 for row in links)
    assert "Mean iteration, and over alone" in repr(found)
    assert {word for word, _ in found.notes["b"]} <= {"exact", "estimated", "left out"}
    found.report(tmp_path / "jobs.html")
    found.events(tmp_path / "events.json")
    assert "<svg" in (tmp_path / "jobs.html").read_text()
    assert json.loads((tmp_path / "events.json").read_text())["traceEvents"]


def test_a_workload_says_what_it_does_and_what_its_file_leaves_out(jobs: Path) -> None:
    found = cv.workload(jobs.parent / "layers.txt", ranks=4)
    assert (found.ranks, found.computation_s) == (4, [1e-3] * 4)
    expected = {"collective": "all_reduce", "group": "data", "members": 4, "bytes": 1_000_000}
    assert found.communication.to_arrow().to_pylist() == [expected]
    assert any(word == "estimated" for word, _ in found.notes)
    assert json.loads(found.json())["ranks"] == 4


def test_what_is_wrong_is_told_with_its_place(jobs: Path) -> None:
    with pytest.raises(cv.InputError, match=r"layers\.txt: the file does not say its ranks"):
        cv.workload(jobs.parent / "layers.txt")
    with pytest.raises(cv.UsageError, match="left_out"):
        cv.workload(jobs.parent / "layers.txt", ranks=4, host="gone")  # type: ignore[arg-type]
    with pytest.raises(cv.UsageError, match="nothing to run"):
        cv.compare_jobs(jobs, [])
    with pytest.raises(cv.UsageError, match="sebf"):
        cv.compare_jobs(jobs, "sefb")
    jobs.write_text(JOBS.replace('gpus = "1"', 'gpus = "0"'))
    with pytest.raises(cv.InputError, match="both placed on GPU 0"):
        cv.compare_jobs(jobs)
