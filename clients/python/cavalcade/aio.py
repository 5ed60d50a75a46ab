"""Coflows for asyncio: a writer that waits for its gate without holding up the loop.

    from cavalcade import Session, aio

    reader, writer = await asyncio.open_connection("10.0.0.7", 7337)
    stream = aio.stream(session, writer, shuffle)
    await stream.write(b"map output")
    await stream.close()
"""

from __future__ import annotations

import asyncio
from typing import Any, Optional

from .session import Session
from .stream import PIECE, Buffer
from .wire import OFF, CoflowKey, Directive


def stream(
    session: Session, writer: asyncio.StreamWriter, key: CoflowKey, size_bytes: Optional[int] = None
) -> "CoflowWriter":
    """Makes the connection of ``writer`` carry a flow of a coflow."""
    return CoflowWriter(session, writer, session._open(writer.get_extra_info("socket"), key, size_bytes))


async def register(session: Session, **facts: Any) -> CoflowKey:
    """:meth:`Session.register` without holding up the loop."""
    return await asyncio.to_thread(session.register, **facts)


class CoflowWriter:
    """A connection whose writes are a flow of a coflow."""

    def __init__(self, session: Session, writer: asyncio.StreamWriter, flow: int) -> None:
        self._session, self._writer, self._flow = session, writer, flow
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        # What has been written is to have gone: a gate that closes could not hold back what waits here.
        writer.transport.set_write_buffer_limits(high=0)
        session._listen_to(flow, self._wake)

    def _wake(self) -> None:
        """Called by a thread of the session."""
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:
            pass  # The loop is closed.

    async def write(self, data: Buffer) -> None:
        """Sends all of ``data``, as the gate lets it."""
        view = memoryview(data).cast("B")
        self._session._set_idle(self._flow, False)
        while len(view):
            while self.directive.gate == OFF:
                self._news.clear()
                if self.directive.gate == OFF:
                    await self._news.wait()
            piece, view = view[:PIECE], view[PIECE:]
            self._writer.write(piece)
            await self._writer.drain()
            self._session._sent(self._flow, len(piece))

    def rest(self) -> None:
        """Says that there is nothing to send until the next write."""
        self._session._set_idle(self._flow, True)

    @property
    def directive(self) -> Directive:
        """How it is to be sent at present."""
        return self._session._directive(self._flow)

    @property
    def is_in_kernel(self) -> bool:
        """True while the kernel carries orders out: the connection was handed over to an enforcer."""
        return self._session._is_in_kernel(self._flow)

    async def close(self) -> None:
        """Ends the flow and closes the connection."""
        self._session._close(self._flow)
        self._writer.close()
        await self._writer.wait_closed()
