"""Long work: Ctrl-C ends it, progress is told, other threads go on, and a child after a fork works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import cavalcade as cv

# Seconds after which something hangs, however busy the machine is.
PATIENCE = 60

LONG = """
import sys, time, cavalcade as cv
class Stuck(cv.Policy):
    def order(self, coflows):
        while True: pass
trace = cv.Trace.generate("facebook:coflows=400,ports=40", seed=1)
work = {
    "runs": lambda: cv.compare(trace, ["baraat", "dcas"], rate=[f"{n}Gbps" for n in range(1, 200)]),
    "packets": lambda: cv.compare(trace, ["fair"], engine="packet"),
    "bound": lambda: cv.bound(cv.Trace.generate("facebook:coflows=6000,ports=40", seed=1), budget="600s"),
    "stuck": lambda: cv.simulate(trace, Stuck()),
}[sys.argv[1]]
print("begun", flush=True)
try:
    work()
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""


@pytest.mark.parametrize("work", ["runs", "packets", "bound", "stuck"])
def test_ctrl_c_ends_it(work: str) -> None:
    with subprocess.Popen([sys.executable, "-c", LONG, work], stdout=subprocess.PIPE, text=True) as child:
        hangs = threading.Timer(PATIENCE, child.kill)
        hangs.start()
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "begun\n"
            hangs.cancel()
            time.sleep(0.7)
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
            said, _ = child.communicate(timeout=PATIENCE)
        finally:
            hangs.cancel()
            child.kill()
    assert said, "the interrupt is raised where the call stands"
    # The clock is one for all processes. A busy machine may take long, but not as long as the work itself.
    took = float(said) - sent
    print(f"{work}: {took:.3f} s after the signal")
    assert took < PATIENCE


def test_progress_is_told_and_may_end_the_work(trace: cv.Trace) -> None:
    told: list[tuple[int, int]] = []
    cv.compare(trace, ["fair", "sebf"], progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (2 * trace.coflows, 2 * trace.coflows)

    class Enough(Exception):
        pass

    def stop(done: int, of: int) -> None:
        raise Enough

    with pytest.raises(Enough):
        cv.compare(trace, ["fair", "sebf"], progress=stop)
    cv.compare(trace, ["fair"], progress=True)
    with pytest.raises(TypeError, match="progress"):
        cv.compare(trace, ["fair"], progress=5)  # type: ignore[arg-type]


def test_threads_run_side_by_side_and_give_the_same(trace: cv.Trace) -> None:
    class Mine(cv.Policy):
        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            return coflows[::-1]

    def run() -> str:
        return cv.compare(trace, ["fair", "sebf", Mine()]).coflows.to_csv()

    expected, found = run(), []
    threads = [threading.Thread(target=lambda: found.append(run()), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [expected] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_after_a_fork_runs(trace: cv.Trace) -> None:
    expected = cv.compare(trace, ["fair", "sebf"]).coflows.to_csv()
    child = os.fork()
    if child == 0:
        same = False
        try:
            same = cv.compare(trace, ["fair", "sebf"]).coflows.to_csv() == expected
        finally:
            os._exit(0 if same else 1)
    hangs = threading.Timer(PATIENCE, os.kill, (child, signal.SIGKILL))
    hangs.start()
    try:
        status = os.waitpid(child, 0)[1]
    finally:
        hangs.cancel()
    assert os.waitstatus_to_exitcode(status) == 0
