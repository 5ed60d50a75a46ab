"""Sweeps on this machine: what a unit is, what lands where, and what happens when something goes wrong."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cavalcade as cv
import pytest
from cavalcade import executors, sweeps
from cavalcade.executors import Reports
from jobs import KillsOnce

ROOT = Path(__file__).parents[3]
POLICIES = ["fair", "aalo", "varys"]


def traces(count: int = 2) -> list[cv.Trace]:
    return [cv.Trace.generate("facebook:coflows=20,ports=10", seed=seed) for seed in range(count)]


def study(out: Path, **others: Any) -> cv.Sweep:
    """A sweep of 24 units."""
    return cv.sweep(traces(), POLICIES, rates=["1Gbps", "10Gbps"], seeds=[1, 2], out=out, **others)


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_sweep_has_a_row_for_each_combination_in_order(tmp_path: Path) -> None:
    result = study(tmp_path)
    assert (result.run, result.found, len(result.units)) == (24, 0, 24)
    rows = result.summary.select(["trace", "rate", "seed", "policy"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (trace.name, rate, seed, policy)
        for trace in traces()
        for rate in ("1Gbps", "10Gbps")
        for seed in (1, 2)
        for policy in POLICIES
    ]
    assert result.coflows.num_rows == 24 * 20
    assert set(result.tasks.column("unit").to_pylist()) == {unit.id for unit in result.units}
    assert not [name for name in result.summary.column_names if name.startswith("wall")]


def test_a_units_rows_are_those_of_a_single_run(tmp_path: Path) -> None:
    result = cv.sweep(traces(1), "varys", rates="10Gbps", seeds=7, out=tmp_path)
    alone = cv.simulate(traces(1)[0], "varys", rate="10Gbps", seed=7).coflows.to_arrow()
    assert result.coflows.select(alone.column_names).to_pylist() == alone.to_pylist()


def test_the_bytes_are_the_same_on_one_core_and_on_two_and_in_another_order(tmp_path: Path) -> None:
    study(tmp_path / "one")
    study(tmp_path / "two", on=2)
    cv.sweep(
        traces()[::-1], POLICIES[::-1], rates=[10_000_000_000, "1000 Mbps"], seeds=[2, 1], out=tmp_path / "turned", on=2
    )
    one = files(tmp_path / "one")
    assert len(one) == 24 * 3
    assert one == files(tmp_path / "two") == files(tmp_path / "turned")


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    study(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    again = study(tmp_path)
    assert (again.run, again.found) == (0, 24)
    more = cv.sweep(traces(3), POLICIES, rates=["1Gbps", "10Gbps"], seeds=[1, 2], out=tmp_path)
    assert (more.run, more.found) == (12, 24)
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_unit_without_its_summary_is_run_again(tmp_path: Path) -> None:
    whole = study(tmp_path)
    kept = files(tmp_path)
    (tmp_path / "summary" / f"{whole.units[5].id}.parquet").unlink()
    assert study(tmp_path).run == 1
    assert files(tmp_path) == kept


def test_parts_of_an_array_of_jobs_are_the_whole(tmp_path: Path) -> None:
    study(tmp_path / "whole")
    counts = [study(tmp_path / "parts", part=(index, 5)).run for index in range(5)]
    assert counts == [5, 5, 5, 5, 4]
    assert files(tmp_path / "whole") == files(tmp_path / "parts")


def test_only_the_tables_that_are_asked_for_are_kept(tmp_path: Path) -> None:
    result = study(tmp_path, tables=["summary"])
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["summary"]
    with pytest.raises(ValueError, match="no table 'coflows' was kept: expected one of summary"):
        result.coflows  # noqa: B018
    assert study(tmp_path).run == 24


def test_any_place_of_fsspec_will_do() -> None:
    result = cv.sweep(traces(1), POLICIES, out="memory://study")
    assert result.summary.num_rows == 3
    assert cv.sweep(traces(1), POLICIES, out="memory://study").found == 3


def test_a_worker_killed_in_mid_sweep_costs_only_its_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study(tmp_path / "one")

    def killing(count: int, job: executors.Job, units: Any) -> Reports:
        return processes(count, KillsOnce(job, 2, str(tmp_path / "killed")), units)

    processes = executors.processes
    monkeypatch.setattr(executors, "processes", killing)
    result = study(tmp_path / "two", on=2)
    assert (tmp_path / "killed").exists() and (result.run, result.failures) == (24, [])
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_what_killed_workers_left_is_removed(tmp_path: Path) -> None:
    def dies(self: sweeps._Store, table: str, unit: str, content: bytes, owner: str) -> None:
        Path(self.root, ".parts", f"{owner}.{unit}.{table}.left").write_bytes(content[:10])
        raise OSError("no space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps._Store, "write", dies)
        with pytest.raises(cv.SweepError) as caught:
            study(tmp_path)
    assert files(tmp_path) == {}
    assert len(caught.value.sweep.failures) == 24
    assert study(tmp_path).run == 24


def test_failures_are_named_with_their_units_and_all_others_are_run(tmp_path: Path) -> None:
    with pytest.raises(cv.SweepError) as caught:
        cv.sweep(traces(1), POLICIES, fabrics=[None, "tree:pods=1,racks=2,hosts=2"], out=tmp_path, on=2)
    error: cv.SweepError = pickle.loads(pickle.dumps(caught.value))
    assert str(error).startswith("3 of 6 units failed:\n") and "tree:" in str(error)
    assert [failure.unit.policy for failure in error.sweep.failures] == [str(cv.policy(name)) for name in POLICIES]
    assert error.sweep.summary.num_rows == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rates": "10 parsecs"}, "rate|parsec"),
        ({"seeds": []}, "a sweep of no units"),
        ({"on": 0}, "at least one process"),
        ({"on": "slurm"}, "expected None, a number of processes"),
        ({"part": (3, 3)}, "with i from 0 to n - 1"),
        ({"tables": ["flows"]}, "no table 'flows'"),
        ({"engine": "quantum"}, "engine|quantum"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_written(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        cv.sweep(traces(), POLICIES, out=tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


def test_policies_that_workers_cannot_name_are_refused(tmp_path: Path) -> None:
    class Mine(cv.Policy):
        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            return coflows

    with pytest.raises(TypeError, match="a sweep takes policies of the registry; compare\\(\\) takes this one"):
        cv.sweep(traces(1), [Mine()], out=tmp_path)  # type: ignore[list-item]
    with pytest.raises(cv.UsageError, match="aallo"):
        cv.sweep(traces(1), ["aallo"], out=tmp_path)


def test_a_log_of_a_real_network_needs_its_rate(tmp_path: Path) -> None:
    log = cv.read(Path(__file__).resolve().parents[3] / "examples/spark-eventlog.json")
    with pytest.raises(cv.UsageError, match="is the log of a real network, whose rate is not given") as caught:
        cv.sweep([traces(1)[0], log], ["fair"], out=tmp_path / "without")
    assert caught.value.cure is not None and 'rate="10Gbps"' in caught.value.cure
    assert not (tmp_path / "without").exists()
    assert cv.sweep(log, ["fair"], rates="1Gbps", out=tmp_path / "with").run == 1


def test_workers_of_another_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sweeps.identity()
    monkeypatch.setattr(sweeps, "identity", lambda: {**real, "cavalcade": "9.9.9"})
    with pytest.raises(RuntimeError, match=r"a worker has other versions: cavalcade 0\.\d.*the caller has cavalcade 9\.9\.9"):
        study(tmp_path, on=1)
    assert files(tmp_path) == {}


def test_an_interrupt_ends_it_at_once_and_what_was_written_stays_whole(tmp_path: Path) -> None:
    def interrupt(done: int, of: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study(tmp_path, on=2, progress=interrupt)
    assert not list((tmp_path / ".parts").iterdir())
    assert study(tmp_path / "fresh").units == (result := study(tmp_path)).units
    assert result.found >= 5 and result.run == 24 - result.found


def test_progress_counts_up_to_all_units(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    tell: Callable[[int, int], object] = lambda done, of: seen.append((done, of))  # noqa: E731
    study(tmp_path, progress=tell)
    assert seen == [(done, 24) for done in range(25)]


def test_a_trace_is_known_by_its_name_and_by_what_was_read(tmp_path: Path) -> None:
    read = cv.read(ROOT / "examples/shuffles.txt")
    same = cv.Trace.from_bytes(read.to_bytes(), name=read.name)
    other = cv.Trace.from_bytes(read.to_bytes(), name="other")
    result = cv.sweep([read, same, other], "fair", out=tmp_path)
    assert [unit.trace for unit in result.units] == [read.name, "other"]
    assert result.summary.column("trace").to_pylist() == [read.name, "other"]


def test_ids_are_the_same_everywhere() -> None:
    unit = sweeps.Unit("fb", "0" * 64, "fair", None, "1Gbps", 1)
    script = "from cavalcade.sweeps import Unit; print(Unit('fb', '0' * 64, 'fair', None, '1Gbps', 1).id)"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment, timeout=120)
    assert other.stdout.strip() == unit.id
