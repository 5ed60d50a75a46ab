"""What a policy costs in Python: first in, first out, beside the same policy in Rust, in events per second of the fluid engine.

Events are arrivals and ends of coflows, at each of which the policy is asked. Both runs give the same times, which is checked.
"""

import time

import cavalcade as cv


class Fifo(cv.Policy):
    name = "in Python"

    def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
        return sorted(coflows, key=lambda coflow: (coflow.task_arrived_s, coflow.task))


def measured(trace: cv.Trace, policy: cv.Policy | str) -> tuple[float, list[int]]:
    begin = time.perf_counter()
    runs = cv.simulate(trace, policy)
    seconds = time.perf_counter() - begin
    return seconds, runs.coflows.to_arrow().column("cct_ns").to_pylist()


def main() -> None:
    print(f"{'coflows':>8} {'Rust, events/s':>16} {'Python, events/s':>18} {'times as long':>14}")
    for coflows in (50, 200, 500):
        trace = cv.Trace.generate(f"facebook:coflows={coflows},ports=20", seed=1)
        rust, expected = measured(trace, "fifo")
        python, found = measured(trace, Fifo())
        assert found == expected, "both are one policy"
        events = 2 * coflows
        print(f"{coflows:>8} {events / rust:>16,.0f} {events / python:>18,.0f} {python / rust:>13.1f}×")


if __name__ == "__main__":
    main()
