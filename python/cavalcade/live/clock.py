"""The time of a session: nanoseconds since 1970 when the process started, and monotonic from then on.

Leases, reports and the serials of coflows go by this clock. The wall clock can be set back while a program runs; a lease that
went by it would hold for as long as the clock was set back, and keep a flow waiting.
"""

import time

_OFFSET = time.time_ns() - time.monotonic_ns()


def now() -> int:
    """Returns the time in nanoseconds. It never goes back."""
    return _OFFSET + time.monotonic_ns()
