"""Coflows on an application's own TCP connections, scheduled by the Cavalcade agent of its host.

    from cavalcade import Session

    with Session() as session:
        shuffle = session.register()
        with session.connect(("10.0.0.7", 7337), shuffle) as stream:
            stream.sendall(b"map output")
        session.unregister(shuffle)

Without an agent, or with one that is silent, everything is plain TCP; the session obeys the agent again once there is one.
No call waits for longer than a lease of the agent after its last word. A session may be used in forked children.

Modules: ``wire`` has the byte format, ``client`` the state machine without sockets or clocks (both as in the Rust crate
``protocol``), ``arguments`` the checks of what callers pass, ``session`` and ``threads`` what keeps the connection to the agent,
``carriage`` a flow's connection and its gate, ``stream`` the socket of a flow, ``aio`` the writer for asyncio.
"""

from .session import Refused, Session
from .stream import CoflowSocket
from .wire import CoflowKey, Directive, Gate

__all__ = ["CoflowKey", "CoflowSocket", "Directive", "Gate", "Refused", "Session"]
