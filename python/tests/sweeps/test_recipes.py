"""Recipes: what a cluster would run is run here, part by part, and its objects are those that Kubernetes knows."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cavalcade import recipes
from cavalcade.recipes import Recipe

STUDY = """\
import sys
import cavalcade as cv

traces = [cv.Trace.generate("facebook:coflows=5,ports=10", seed=seed) for seed in range(3)]
result = cv.sweep(traces, ["fair", "aalo"], out=sys.argv[1] if len(sys.argv) > 1 else "out", tables=["summary"])
print(result.run, len(result.units))
"""
UNITS = 6


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "my study.py").write_text(STUDY)
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    """The environment of a node, whose Python is this one. It has a shell, which the path of these tests may lack."""
    programs = os.path.dirname(sys.executable)
    return {**os.environ, "PATH": f"{programs}:{os.defpath}", **more}


def objects(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def commands(text: str) -> dict[str, str]:
    """What each role of a recipe runs, in a shell."""
    pods = [one["spec"]["template"]["spec"] for one in objects(text) if one["kind"] != "Service"]
    return {pod["containers"][0]["name"]: pod["containers"][0]["command"][2] for pod in pods}


def done(place: Path) -> int:
    return len(list((place / "out/summary").glob("*.parquet")))


@pytest.mark.parametrize("kind", ["kubernetes", "dask", "ray"])
def test_objects_are_those_that_kubernetes_knows(kind: str) -> None:
    for parts, cores in [(1, 1), (500, 8)]:
        text = recipes.KINDS[kind](Recipe("study.py", parts, image="registry.example/study:1", cores=cores))
        found = objects(text)
        assert {one["kind"] for one in found} == ({"Job"} if kind == "kubernetes" else {"Service", "Deployment", "Job"})
        for one in found:
            kubernetes_validate.validate(one, "1.34", strict=True)
    wrong = {**found[-1], "spec": {**found[-1]["spec"], "backofLimit": 3}}
    with pytest.raises(kubernetes_validate.ValidationError, match="backofLimit"):
        kubernetes_validate.validate(wrong, "1.34", strict=True)


def test_parts_of_an_array_run_each_unit_once(place: Path) -> None:
    script = Recipe("my study.py", parts=4, cores=1).slurm()
    assert "#SBATCH --array=0-3\n" in script and "#SBATCH --mem=2G\n" in script
    counts = []
    for index in range(4):
        node = environment(SLURM_ARRAY_TASK_ID=str(index))
        ran = subprocess.run(["sh"], input=script, env=node, cwd=place, capture_output=True, text=True, check=True)
        counts.append(ran.stdout.split())
    assert counts == [["2", "2"], ["2", "2"], ["1", "1"], ["1", "1"]] and done(place) == UNITS


def test_an_indexed_job_runs_each_unit_once_and_what_is_there_not_again(place: Path) -> None:
    job = commands(Recipe("my study.py", parts=2, image="study:1", cores=2).kubernetes())["study"]
    for _ in range(2):
        for index in range(2):
            node = environment(JOB_COMPLETION_INDEX=str(index))
            ran = subprocess.run(["sh", "-c", job], env=node, cwd=place, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0", "3"] and done(place) == UNITS


@contextmanager
def running(command: str, place: Path) -> Iterator[None]:
    """A command of a pod, ended at the end with all that it has started."""
    child = subprocess.Popen(["sh", "-c", command], env=environment(), cwd=place, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(child.pid, signal.SIGTERM)
        child.wait()


def test_the_study_runs_on_the_scheduler_and_workers_of_its_recipe(place: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        free_port = listener.getsockname()[1]
    text = Recipe("my study.py", parts=1, image="study:1", cores=2).dask()
    here = text.replace("study-scheduler:8786", f"127.0.0.1:{free_port}").replace("--port 8786", f"--port {free_port}")
    roles = commands(here.replace("dask scheduler", "dask scheduler --host 127.0.0.1 --dashboard-address :0"))
    with running(roles["scheduler"], place), running(roles["worker"], place):
        # As Kubernetes does, the job is begun again until the scheduler is there.
        for _ in range(30):
            ran = subprocess.run(["sh", "-c", roles["study"]], env=environment(), cwd=place, capture_output=True, text=True)
            if ran.returncode == 0:
                break
            time.sleep(1)
        assert ran.stdout.split() == [str(UNITS), str(UNITS)], ran.stderr
    assert done(place) == UNITS


def test_nodes_of_ray_share_a_token_that_is_no_part_of_the_recipe() -> None:
    text = Recipe("study.py", image="study:1").ray()
    for one in objects(text)[1:]:
        container = one["spec"]["template"]["spec"]["containers"][0]
        token = next(entry for entry in container["env"] if entry["name"] == "RAY_AUTH_TOKEN")
        assert token["valueFrom"]["secretKeyRef"]["name"] == "study-token" and "value" not in token
    assert text.startswith("# First: kubectl create secret generic study-token ")


def test_a_recipe_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in [
        (["kubernetes", "study.py"], "--image: expected an image"),
        (["slurm", "study.py", "--parts", "0"], "--parts 0: expected at least 1"),
        (["slurm", "study.py", "--memory", "much"], "--memory much: expected a size"),
        (["slurm", "study.py", "--time", "an hour"], "--time an hour: expected hours"),
        (["slurm", "study.py", "--name", "My_Study"], "--name My_Study: expected small letters"),
        (["slurm", "a\n#SBATCH --mem=1T"], "expected the path of a script"),
        (["pbs", "study.py"], "invalid choice"),
    ]:
        with pytest.raises(SystemExit) as ended:
            recipes.main(words)
        shown = capsys.readouterr()
        assert ended.value.code == 2 and said in shown.err and not shown.out, words
    assert recipes.main(["slurm", "My Big/Study 2.py"]) == 0
    printed = capsys.readouterr().out
    assert "--job-name=study-2\n" in printed and "exec python 'My Big/Study 2.py'" in printed


@pytest.mark.parametrize("part", ["1", "a/b", "4/4", "-1/4"])
def test_a_part_that_is_none_is_refused(part: str, place: Path) -> None:
    node = environment(CAVALCADE_PART=part)
    ran = subprocess.run([sys.executable, "my study.py"], env=node, cwd=place, capture_output=True, text=True)
    assert ran.returncode == 1 and re.search("CAVALCADE_PART|expected \\(i, n\\)", ran.stderr), ran.stderr
    assert not (place / "out").exists()


def test_texts_are_quoted_so_that_yaml_reads_what_was_meant() -> None:
    odd = {"a": 'x: "y" # z\n', "b": ["- 1", "null"], "c": {"d": [{"e": "yes"}, {"f": 1}]}}
    assert objects(recipes._yaml(odd, odd)) == [odd, odd]
