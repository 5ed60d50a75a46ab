"""A policy in Python stands beside those in Rust: told what they are told, checked as they are."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pytest

import cavalcade as cv

Engine = Literal["fluid", "packet", "control"]
ENGINES: list[Engine] = ["fluid", "packet", "control"]


class Fifo(cv.Policy):
    name = "mine"

    def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
        return sorted(coflows, key=lambda coflow: (coflow.task_arrived_s, coflow.task))


class Shortest(cv.Policy):
    clairvoyant = True

    def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
        return sorted(coflows, key=lambda coflow: (coflow.remaining_bytes, coflow.id))


@pytest.fixture
def small() -> cv.Trace:
    return cv.Trace.generate("fixed:coflows=10,ports=4,size=200KB", seed=1)


def times(runs: cv.Runs, run: str) -> list[int]:
    table = runs.coflows.to_pandas()
    return list(table[table.run == run].cct_ns)


def test_the_same_order_gives_the_times_of_the_policy_in_rust(trace: cv.Trace) -> None:
    runs = cv.compare(trace, ["fair", "fifo", Fifo()])
    assert times(runs, "mine") == times(runs, "fifo") != times(runs, "fair")


@pytest.mark.parametrize("engine", ENGINES)
def test_it_runs_in_every_engine_and_always_alike(engine: Engine, small: cv.Trace) -> None:
    def run(policy: cv.Policy) -> str:
        return cv.compare(small, ["fair", policy], engine=engine, rate=["1Gbps", "2Gbps"]).coflows.to_csv()

    assert run(Fifo()) == run(Fifo())
    assert run(Shortest()) == run(Shortest())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", ["size_bytes", "remaining_bytes", "bottleneck_s", "flow"])
def test_sizes_are_told_to_whom_says_so_alone(engine: Engine, what: str, small: cv.Trace) -> None:
    class Curious(cv.Policy):
        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            looked = coflows[0].flows[0].size_bytes if what == "flow" else getattr(coflows[0], what)
            assert looked >= 0
            return coflows

    with pytest.raises(AttributeError, match="clairvoyant = True"):
        cv.simulate(small, Curious(), engine=engine)
    if engine != "control":  # where a coordinator knows no sizes of what has not been sent

        class Told(Curious):
            clairvoyant = True

        cv.simulate(small, Told(), engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_exception_in_it_is_the_exception_of_the_run(engine: Engine, small: cv.Trace) -> None:
    class Broken(cv.Policy):
        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            return [coflows[99]]

    with pytest.raises(IndexError) as caught:
        cv.compare(small, ["fair", Broken()], engine=engine)
    assert "coflows[99]" in "".join(traceback.format_tb(caught.value.__traceback__))


BAD_ORDERS = {
    "nothing": (lambda coflows: None, TypeError, "NoneType"),
    "too few": (lambda coflows: coflows[1:], ValueError, "each coflow once"),
    "twice": (lambda coflows: [*coflows, coflows[0]], ValueError, "twice"),
    "something else": (lambda coflows: [coflow.id for coflow in coflows], TypeError, "int"),
}


@pytest.mark.parametrize(("order", "kind", "said"), BAD_ORDERS.values(), ids=BAD_ORDERS)
def test_an_order_that_is_none_ends_the_run(order: object, kind: type[Exception], said: str, small: cv.Trace) -> None:
    class Bad(cv.Policy):
        def order(self, coflows: list[cv.Coflow]) -> Iterable[cv.Coflow]:
            return order(coflows)  # type: ignore[operator, no-any-return]

    with pytest.raises(kind, match=said):
        cv.simulate(small, Bad())


def test_coflows_cannot_be_looked_at_later(small: cv.Trace) -> None:
    kept: list[cv.Coflow] = []

    class Keeper(cv.Policy):
        def __deepcopy__(self, _: object) -> Keeper:
            return self

        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            kept.extend(coflows)
            return coflows

    cv.simulate(small, Keeper())
    assert kept[0].name and kept[0].arrived_s >= 0
    for what in ("sent_bytes", "flows", "now_s"):
        with pytest.raises(RuntimeError, match="order|ended"):
            getattr(kept[0], what)


def test_each_run_has_a_copy_of_its_own(small: cv.Trace) -> None:
    class Counting(cv.Policy):
        def __init__(self) -> None:
            self.asked = 0

        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            self.asked += 1
            return coflows if self.asked % 2 else coflows[::-1]

    policy = Counting()
    first = cv.compare(small, [policy], rate=["1Gbps", "2Gbps"]).coflows.to_csv()
    assert policy.asked == 0
    assert cv.compare(small, [policy], rate=["1Gbps", "2Gbps"]).coflows.to_csv() == first


def test_it_is_asked_again_every_so_often(small: cv.Trace) -> None:
    seen: list[float] = []

    class Ticking(cv.Policy):
        every = "100us"

        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            seen.append(coflows[0].now_s)
            return sorted(coflows, key=lambda coflow: coflow.sent_bytes)

    cv.simulate(small, Ticking())
    assert len(seen) > 40 and seen == sorted(seen)


def test_what_it_cannot_be_is_refused(small: cv.Trace, tmp_path: object) -> None:
    class Greedy(cv.Policy):
        discipline = "greedy"

        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            return coflows

    with pytest.raises(cv.UsageError, match="sizes"):
        cv.simulate(small, Greedy())
    with pytest.raises(cv.UsageError, match="two policies are called mine"):
        cv.compare(small, [Fifo(), Fifo()])
    with pytest.raises(TypeError, match="order"):
        cv.compare(small, [object()])  # type: ignore[list-item]
    with pytest.raises(cv.UsageError, match="cannot be made again"):
        cv.compare(small, [Fifo()]).save(f"{tmp_path}/runs")
    with pytest.raises(TypeError, match="abstract"):
        cv.Policy()  # type: ignore[abstract]


def test_a_policy_sees_the_iterations_that_training_jobs_declare(tmp_path: Path) -> None:
    stages = '[{"flows":[[0,1,500]]},{"flows":[[0,1,700]],"starts_after":[0]}]'
    trained = f'{{"name":"trains","arrival_ns":0,"stages":{stages},"iterations":{{"gpus":8,"compute_ns":2500,"of_coflows":[3,4]}}}}'
    other = '{"name":"other","arrival_ns":0,"stages":[{"flows":[[1,0,900]]}]}'
    written = tmp_path / "trace.jsonl"
    written.write_text(f'{{"cavalcade_trace":1,"ports":2,"tasks":2}}\n{trained}\n{other}\n')
    seen = set()

    class Looks(cv.Policy):
        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            seen.update((coflow.name, repr(coflow.iteration)) for coflow in coflows)
            return coflows

    cv.compare(cv.read(written), [Looks()])
    assert {said for name, said in seen if name == "other"} == {"None"}
    assert sorted(said for name, said in seen if name != "other") == [
        "Iteration(3, bytes=500, gpus=8, compute_s=0.0000025)",
        "Iteration(4, bytes=700, gpus=8, compute_s=0.0000025)",
    ]
