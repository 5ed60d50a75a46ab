"""What a sweep costs beside its runs: time for each unit, what a second process gains, and the memory of a worker.

    python examples/sweep_cost.py [dask] [ray]

Small units, of some milliseconds, show what is not the run itself; larger ones show what two processes gain. Figures are for this
machine and this moment: compare those of one call with each other.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cavalcade as cv

SMALL = cv.Trace.generate("fixed:coflows=2,ports=5,size=1MB", seed=1)
LARGE = cv.Trace.generate("facebook:coflows=300,ports=60", seed=1)


def seconds(trace: cv.Trace, units: int, on: Any) -> float:
    """The time that a sweep of so many units takes."""
    with tempfile.TemporaryDirectory() as out:
        begin = time.perf_counter()
        cv.sweep(trace, "sebf", seeds=range(units), out=out, on=on)
        return time.perf_counter() - begin


def plain(trace: cv.Trace, units: int) -> float:
    """The time of the same runs without a sweep around them."""
    begin = time.perf_counter()
    for seed in range(units):
        cv.simulate(trace, "sebf", seed=seed)
    return time.perf_counter() - begin


def main() -> None:
    asked = sys.argv[1:]
    places: dict[str, Any] = {"this process": None, "1 process": 1, "2 processes": 2}
    if "dask" in asked:
        from distributed import Client, LocalCluster

        places["Dask, 2 workers"] = Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))
    if "ray" in asked:
        places["Ray"] = "ray"
    # What starts workers and loads libraries is counted apart: a sweep of two units.
    begun = {name: seconds(SMALL, 2, on) for name, on in places.items()}
    units = 300
    base = plain(SMALL, units)
    print(f"{'where':<16} {'first two units':>16} {'each more':>10} {'of which the run':>17}")
    for name, on in places.items():
        each = (seconds(SMALL, units, on) - (begun[name] if on in (1, 2) else 0.0)) / units
        print(f"{name:<16} {begun[name]:>14.2f} s {1e3 * each:>7.1f} ms {1e3 * base / units:>14.1f} ms")
    units = 60
    one, two = (seconds(LARGE, units, on) - begun[name] for name, on in places.items() if on in (1, 2))
    print(f"{units} large units: 1 process {one:.2f} s, 2 processes {two:.2f} s: {one / two:.2f} times as fast")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"a worker at its largest: {memory:.0f} MiB of memory")
    with tempfile.TemporaryDirectory() as out:
        cv.sweep(LARGE, "sebf", seeds=1, out=out)
        sizes = {path.parent.name: path.stat().st_size for path in Path(out).glob("*/*.parquet")}
    shown = ", ".join(f"{name} {size / 1000:.1f} KB" for name, size in sorted(sizes.items()))
    print(f"files of a unit of {LARGE.coflows} coflows: {shown}")


if __name__ == "__main__":
    main()
