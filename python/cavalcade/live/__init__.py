"""Coflows on an application's own TCP connections, scheduled by the Cavalcade agent of its host.

    from cavalcade import live

    with live.coflow("shuffle", deadline=2.5) as shuffle:
        with shuffle.connect(("10.0.0.7", 9000)) as stream:
            stream.sendall(b"map output")

Without an agent, or with one that is silent, everything is plain TCP; the session obeys the agent again once there is one.
No call waits for longer than a lease of the agent after its last word. A session may be used in forked children.

This package needs the standard library only, and nothing of the rest of ``cavalcade``. It is a client in Python and not a binding of
the Rust crate: a stream has to wait as Python's sockets do, for asyncio, green threads, signals and forks.

Modules: ``wire`` has the byte format, ``client`` the state machine without sockets or clocks (both as in the Rust crate
``protocol``), ``arguments`` the checks of what callers pass, ``session`` and ``threads`` what keeps the connection to the agent,
``carriage`` a flow's connection and its gate, ``stream`` the socket of a flow, ``coflows`` blocks, decorators and what travels to
workers, ``aio`` the writer for asyncio.
"""

from .coflows import Coflow, coflow, current, shared_session, taking_part
from .session import NoAgent, Refused, Session, default_paths
from .stream import CoflowSocket
from .wire import CoflowKey, Directive, Gate

__all__ = [
    "Coflow",
    "CoflowKey",
    "CoflowSocket",
    "Directive",
    "Gate",
    "NoAgent",
    "Refused",
    "Session",
    "coflow",
    "current",
    "default_paths",
    "shared_session",
    "taking_part",
]
