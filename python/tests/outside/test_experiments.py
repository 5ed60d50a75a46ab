"""`cavalcade experiment run --on`: workers write the same bytes as the program alone, even if one of them is killed.

The program is the one that came with the package, and finds this Python beside itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cavalcade as cv
import pytest
from cavalcade import executors, experiments
from jobs import killing

TEXT = """
title = "A test"
source = "ours"
question = "Does it run?"
seeds = {seeds}
[[panel]]
title = "Queues"
axis = {{ name = "queues", values = [1, 2] }}
workload = "{workload}"
against = "fair"
series = [
  {{ name = "fair", policy = "fair" }},
  {{ name = "Aalo", policy = "dclas:queues={{x}}" }},
]
"""
# A generator; and a file beside the text, whose arrivals each seed gives out again.
GENERATED, BESIDE = "facebook:coflows=30,ports=10", "file:shuffles.txt | permute"
SHUFFLES = Path(__file__).resolve().parents[3] / "examples/shuffles.txt"


def laid(folder: Path, seeds: int = 10, workload: str = GENERATED) -> Path:
    """A folder with two experiments."""
    for name, source in [("one", workload), ("two", BESIDE)]:
        (folder / "experiments" / name).mkdir(parents=True)
        (folder / "experiments" / name / "experiment.toml").write_text(TEXT.format(seeds=seeds, workload=source))
    (folder / "experiments/two/shuffles.txt").write_bytes(SHUFFLES.read_bytes())
    (folder / "experiments/claims.toml").write_text("")
    return folder


def command(*words: str) -> list[str]:
    program = Path(sys.executable).with_name("cavalcade")
    if not program.exists():
        pytest.skip("no wheel is installed here: cargo xtask wheel")
    return [str(program), "experiment", "run", *words]


def ran(folder: Path, *words: str, code: int = 0) -> str:
    """Runs the program in a folder, and returns what it says."""
    done = subprocess.run(command(*words), cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stderr


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all that the program alone makes."""
    folder = laid(tmp_path_factory.mktemp("alone"))
    assert "60 runs made" in ran(folder)
    return folder


def test_two_processes_make_the_programs_bytes_and_nothing_twice(alone: Path, tmp_path: Path) -> None:
    laid(tmp_path)
    assert "30 runs made" in ran(tmp_path, "one", "--on", "2")
    assert "30 runs made" in ran(tmp_path, "--on", "2")
    assert files(tmp_path) == files(alone)
    assert "0 runs made" in ran(tmp_path)


def test_dask_with_a_worker_killed_makes_the_programs_bytes(client: Any, alone: Path, tmp_path: Path) -> None:
    from distributed import WorkerPlugin

    mark = str(tmp_path / "killed")

    class KillsAtTheFirstRow(WorkerPlugin):  # type: ignore[misc]
        def transition(self, key: str, start: str, finish: str, **others: Any) -> None:
            if finish == "memory" and not os.path.exists(mark):
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)

    client.register_plugin(KillsAtTheFirstRow(), name="kills")
    address = client.scheduler_info()["address"].replace("tcp://", "dask://")
    try:
        said = ran(laid(tmp_path / "many"), "--on", address)
    finally:
        client.unregister_worker_plugin("kills")
    assert "60 runs made" in said and os.path.exists(mark), "no worker was killed"
    assert files(tmp_path / "many") == files(alone)


def asked(alone: Path, version: str = cv.__version__) -> experiments.Asked:
    """The question for the rows of an experiment's first two seeds."""
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = alone / "experiments/one"
    text = (folder / "experiment.toml").read_text()
    keys = parquet.read_table(folder / "rows.parquet", columns=["workload", "policy", "conditions", "seed"]).to_pylist()
    units = [[0, *key.values()] for key in keys if key["seed"] <= 2]
    one = {"name": "one", "text": text, "data": {}, "beside": {}}
    return experiments.Asked.read(json.dumps({"version": version, "experiments": [one], "units": units}))


def test_ray_with_a_worker_killed_gives_the_same_rows(
    ray: None, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = asked(alone)
    expected = {report.number: report.value for report in executors.here(question.job, question.units)}
    killing("ray", tmp_path, monkeypatch)
    came = {answer["unit"]: answer["words"] for answer in experiments.answers("ray", question)}
    assert (tmp_path / "killed").exists(), "no worker was killed"
    assert came == expected and len(came) == 6


def test_workers_of_another_version_than_the_program_are_refused(client: Any, alone: Path) -> None:
    (answer,) = experiments.answers(client, asked(alone, version="9.9.9"))
    assert answer == {
        "refused": f"a worker has cavalcade {cv.__version__}, the program is 9.9.9: install the same in both"
    }


def test_a_run_that_the_text_does_not_have_fails_alone(alone: Path) -> None:
    question = asked(alone)
    question.units[1] = experiments.Unit(0, GENERATED, "fair", "in space", 1)
    errors = {answer["unit"]: answer.get("error") for answer in experiments.answers(1, question)}
    assert errors == {0: None, 1: f"UsageError: one: no run of fair on {GENERATED}, seed 1", **dict.fromkeys(range(2, 6))}


def test_a_file_that_is_not_there_fails_its_own_runs(tmp_path: Path) -> None:
    laid(tmp_path, seeds=2)
    (tmp_path / "experiments/two/shuffles.txt").unlink()
    assert "shuffles.txt is not there" in ran(tmp_path, "--on", "2", code=1)
    assert "0 runs made" in ran(tmp_path, "one")


def test_a_cluster_that_is_not_there_is_an_error_and_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    pytest.importorskip("distributed")
    assert "OSError" in ran(laid(tmp_path), "--on", "dask://127.0.0.1:1", code=1)


def test_workers_end_with_the_program(tmp_path: Path) -> None:
    laid(tmp_path, seeds=200, workload="facebook:coflows=300,ports=60")
    with subprocess.Popen(command("one", "--on", "2"), cwd=tmp_path, stderr=subprocess.DEVNULL) as program:
        try:
            while len(started := descendants(program.pid)) < 3:
                assert program.poll() is None, "the program ended before its workers began"
                time.sleep(0.01)
            program.send_signal(signal.SIGINT)
            assert program.wait(timeout=60) == 130
        finally:
            program.kill()
    deadline = time.monotonic() + 60
    while any(Path("/proc", str(process)).exists() for process in started):
        assert time.monotonic() < deadline, "workers outlive the program"
        time.sleep(0.01)


def descendants(process: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    found: list[int] = []
    for thread in Path("/proc", str(process), "task").iterdir():
        try:
            children = [int(child) for child in (thread / "children").read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found
