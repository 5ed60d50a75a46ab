"""Which transfers should go first, so that whole tasks finish sooner: coflow schedulers compared on a trace.

    import cavalcade as cv

    trace = cv.Trace.generate("facebook:coflows=100,ports=20", seed=1)
    runs = cv.compare(trace, ["tcp", "aalo", "varys"], rate="1Gbps")
    print(runs)

`cavalcade.live` is the client of the live system: coflows on a program's own TCP connections.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cavalcade._native import (
        Bound,
        Coflow,
        Description,
        Fabric,
        Figure,
        Flow,
        Iteration,
        JobRuns,
        NamedPolicy,
        Parameter,
        Plots,
        Replay,
        Runs,
        Table,
        Trace,
        Transport,
        Verdict,
        Workload,
        __version__,
        bound,
        compare,
        compare_jobs,
        fabric,
        generators,
        policies,
        policy,
        read,
        replay,
        simulate,
        sweep_figure,
        transport,
        transports,
        validate,
        workload,
    )
    from cavalcade.errors import CapabilityError, CheckError, Error, InputError, RunError, UsageError
    from cavalcade.own_policy import Policy
    from cavalcade.sweeps import Sweep, SweepError, sweep

__all__ = [
    "Bound",
    "CapabilityError",
    "CheckError",
    "Coflow",
    "Description",
    "Error",
    "Fabric",
    "Figure",
    "Flow",
    "InputError",
    "Iteration",
    "JobRuns",
    "NamedPolicy",
    "Parameter",
    "Plots",
    "Policy",
    "Replay",
    "RunError",
    "Runs",
    "Sweep",
    "SweepError",
    "Table",
    "Trace",
    "Transport",
    "UsageError",
    "Verdict",
    "Workload",
    "__version__",
    "bound",
    "compare",
    "compare_jobs",
    "fabric",
    "generators",
    "policies",
    "policy",
    "read",
    "replay",
    "simulate",
    "sweep",
    "sweep_figure",
    "transport",
    "transports",
    "validate",
    "workload",
]


# Where names come from that are not compiled. All are loaded when they are asked for: `cavalcade.live` has to work without the
# compiled part, and in a checkout there is none.
_PLACES = {
    **dict.fromkeys(("CapabilityError", "CheckError", "Error", "InputError", "RunError", "UsageError"), "cavalcade.errors"),
    **dict.fromkeys(("Sweep", "SweepError", "sweep"), "cavalcade.sweeps"),
    "Policy": "cavalcade.own_policy",
}


def __getattr__(name: str) -> object:
    if name in ("live", "sweeps"):
        return importlib.import_module(f"cavalcade.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'cavalcade' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACES.get(name, "cavalcade._native")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
