"""What is wrong is said with its place, what was expected, and the cure; and never in words of the command line."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import cavalcade as cv

WRONG: dict[str, tuple[Callable[[cv.Trace], object], type[cv.Error], str]] = {
    "policy": (lambda t: cv.compare(t, ["aallo"]), cv.UsageError, "aalo"),
    "parameter": (lambda t: cv.policy("dclas", queue=3), cv.UsageError, "queues"),
    "value": (lambda t: cv.policy("dclas", queues=-1), cv.UsageError, "queues"),
    "no policies": (lambda t: cv.compare(t, []), cv.UsageError, "no policies"),
    "twice": (lambda t: cv.compare(t, ["fair", "tcp"]), cv.UsageError, "two policies"),
    "rate": (lambda t: cv.compare(t, ["fair"], rate="fast"), cv.UsageError, "rate fast"),
    "no rate": (lambda t: cv.compare(t, ["fair"], rate=0), cv.UsageError, "rate"),
    "no rates": (lambda t: cv.compare(t, ["fair"], rate=[]), cv.UsageError, "rate"),
    "rate twice": (lambda t: cv.compare(t, ["fair"], rate=["1Gbps", "1000Mbps"]), cv.UsageError, "twice"),
    "seeds": (lambda t: cv.compare(t, ["fair"], seeds=[]), cv.UsageError, "seeds"),
    "fabric": (lambda t: cv.compare(t, ["fair"], fabric="trea"), cv.UsageError, "tree"),
    "too small": (lambda t: cv.compare(t, ["fair"], fabric="tree:pods=1,racks=1,hosts=2"), cv.InputError, "port"),
    "engine": (lambda t: cv.compare(t, ["fair"], engine="solid"), cv.UsageError, "engine"),  # type: ignore[arg-type]
    "transport": (lambda t: cv.compare(t, ["fair"], transport="dctcp"), cv.UsageError, "packets"),
    "baseline": (lambda t: cv.compare(t, ["fair"], baseline="sebf"), cv.UsageError, "baseline"),
    "delay": (lambda t: cv.compare(t, ["fair"], control_delay="soon"), cv.UsageError, "control_delay"),
    "loss": (lambda t: cv.compare(t, ["fair"], control_loss=2.0), cv.UsageError, "control_loss"),
    "period": (lambda t: cv.compare(t, ["fair"], engine="control", period="0ms"), cv.UsageError, "period"),
    "counters": (lambda t: cv.compare(t, ["fair"], counters=0), cv.UsageError, "counters"),
    "negative": (lambda t: cv.compare(t, ["fair"], rate=-5), cv.UsageError, "rate -5"),
    "negative seed": (lambda t: cv.compare(t, ["fair"], seeds=[-1]), cv.UsageError, "seeds -1"),
    "large packets": (lambda t: cv.compare(t, ["fair"], engine="packet", mtu=100_000), cv.UsageError, "mtu 100000"),
    "two units": (
        lambda t: cv.Trace.from_flows({"src": [0], "dst": [1], "bytes": [5], "start_ms": [1]}, unit="s"),
        cv.UsageError,
        "another unit",
    ),
    "mtu": (lambda t: cv.compare(t, ["fair"], engine="packet", mtu=40), cv.UsageError, "headers"),
    "budget": (lambda t: cv.bound(t, budget="much"), cv.UsageError, "budget"),
    "width": (lambda t: cv.simulate(t).plot.cdf(width="wide"), cv.UsageError, "width"),  # type: ignore[arg-type]
    "by": (lambda t: cv.simulate(t).plot.cdf(by="colour"), cv.UsageError, "by colour"),
    "gain of one": (lambda t: cv.simulate(t).plot.gain(), cv.UsageError, "another policy"),
    "tasks of none": (lambda t: cv.simulate(t).plot.tasks(), cv.UsageError, "single coflow"),
    "packets have no rates": (lambda t: cv.simulate(t, engine="packet").schedule, cv.UsageError, "fluid"),
    "generator": (lambda t: cv.Trace.generate("facebok"), cv.UsageError, "facebook"),
    "no file": (lambda t: cv.read("/nowhere/trace.txt"), cv.InputError, "/nowhere/trace.txt"),
    "format": (lambda t: cv.Trace.from_bytes(b"1 1\n", format="excel"), cv.UsageError, "excel"),
    "bytes": (lambda t: cv.Trace.from_bytes(b"src,dst,bytes,start_s\n0,1,x,0\n"), cv.InputError, "bytes"),
    "no run": (lambda t: cv.replay("/nowhere"), cv.InputError, "manifest"),
    "no schedule": (lambda t: cv.validate("/nowhere"), cv.InputError, "manifest"),
}


@pytest.mark.parametrize(("wrong", "kind", "said"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_told(
    wrong: Callable[[cv.Trace], object], kind: type[cv.Error], said: str, trace: cv.Trace
) -> None:
    with pytest.raises(kind) as caught:
        wrong(trace)
    error = caught.value
    assert said in str(error), str(error)
    assert error.message and error.message in str(error)
    assert " --" not in str(error) and not str(error).startswith("--"), str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.place, again.expected, again.cure) == (
        error.message,
        error.place,
        error.expected,
        error.cure,
    )


def test_what_is_of_another_type_is_a_type_error(trace: cv.Trace) -> None:
    with pytest.raises(TypeError, match="expected a Trace"):
        cv.compare("trace.txt", ["fair"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rate: expected"):
        cv.compare(trace, ["fair"], rate=1e9)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="seeds: expected"):
        cv.compare(trace, ["fair"], seeds=["one"])  # type: ignore[list-item]


def test_numbers_of_numpy_are_numbers(trace: cv.Trace) -> None:
    np = pytest.importorskip("numpy")
    runs = cv.compare(trace, ["fair"], rate=np.int64(10**9), seeds=np.arange(2))
    assert (runs.rates, runs.seeds) == (["1Gbps"], [0, 1])


def test_a_fault_of_a_trace_has_its_line() -> None:
    with pytest.raises(cv.InputError) as caught:
        cv.Trace.from_bytes(b"src,dst,bytes,start_s\n0,1,5,0\n0,1,-5,0\n", name="mine.csv")
    assert caught.value.place == "mine.csv:3"
    assert caught.value.expected is not None and "whole bytes" in caught.value.expected


def test_a_run_that_was_changed_is_noticed(trace: cv.Trace, tmp_path: Path) -> None:
    cv.simulate(trace, "sebf").save(tmp_path / "run", schedule=True)
    cv.replay(tmp_path / "run")
    text = (tmp_path / "run/flows.csv").read_text()
    (tmp_path / "run/flows.csv").write_text(text.replace("\n0,", "\n1,", 1))
    with pytest.raises(cv.InputError, match="SHA-256"):
        cv.replay(tmp_path / "run")


def test_nothing_is_left_of_a_folder_that_cannot_be_written(trace: cv.Trace, tmp_path: Path) -> None:
    runs = cv.compare(trace, ["fair"], engine="packet", transport="dctcp")
    with pytest.raises(cv.UsageError, match="schedule"):
        runs.save(tmp_path / "runs", schedule=True)
    assert not list(tmp_path.iterdir())


def test_names_are_described_by_the_registry() -> None:
    described = {one.name: one for one in cv.policies()}
    assert described["aalo"].paper and described["aalo"].told_sizes is False
    assert any(parameter.name == "queues" for parameter in described["dclas"].parameters)
    assert "dctcp" in {one.name for one in cv.transports()}
    assert "facebook" in {one.name for one in cv.generators()}
    chosen = cv.policy("dclas", queues=20, weighted=False)
    assert pickle.loads(pickle.dumps(chosen)) == chosen and str(chosen) == "dclas:queues=20,weighted=false"
    assert chosen.parameters["queues"] == "20" and not chosen.told_sizes
    fabric = cv.fabric("tree", pods=1, racks=3, hosts=4)
    assert pickle.loads(pickle.dumps(fabric)) == fabric and hash(fabric) == hash(cv.fabric(str(fabric)))
    assert str(cv.transport("dctcp", marking="30KB")) == "dctcp:marking=30KB"
