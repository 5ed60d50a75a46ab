"""Coflows on an application's own TCP connections, scheduled by the Cavalcade agent of its host.

    from cavalcade import Session

    with Session("/run/cavalcade.sock") as session:
        shuffle = session.register()
        with session.stream(socket.create_connection(("10.0.0.7", 7337)), shuffle) as stream:
            stream.sendall(b"map output")
        session.unregister(shuffle)

Without an agent, or with one that is silent, everything is plain TCP, and the session goes back under the agent's orders by
itself once there is one. No call waits for longer than a lease of the agent after its last word.

Modules: ``wire`` has the byte format, ``client`` the state machine without sockets or clocks (both as in the Rust crates
``protocol``), ``session`` the threads and the blocking face, ``aio`` the one for asyncio.
"""

from .session import CoflowSocket, Session
from .wire import CoflowKey, Directive, Gate

__all__ = ["CoflowKey", "CoflowSocket", "Directive", "Gate", "Session"]
