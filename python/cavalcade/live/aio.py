"""Coflows for asyncio: a writer that waits for its gate without holding up the loop.

    from cavalcade.live import Session, aio

    reader, writer = await asyncio.open_connection("10.0.0.7", 9000)
    stream = aio.stream(session, writer, shuffle)
    await stream.write(b"map output")
    await stream.close()
"""

from __future__ import annotations

import asyncio
import os
import select
import weakref
from typing import Any, Optional

from . import arguments
from .carriage import Carriage
from .session import Session
from .stream import PIECE, Buffer, CoflowSocket, end_with
from .wire import OFF, CoflowKey, Directive


def stream(
    session: Session, writer: asyncio.StreamWriter, key: CoflowKey, size_bytes: Optional[int] = None
) -> "CoflowWriter":
    """Makes the connection of ``writer`` carry a flow of a coflow.

    Raises ``OSError`` where it has ended.
    """
    loop = asyncio.get_running_loop()
    key, size_bytes = arguments.key(key), arguments.size(size_bytes)
    sock = writer.get_extra_info("socket")
    if sock is None:
        raise TypeError(f"expected a writer over TCP, found {writer!r}")
    return CoflowWriter(session, writer, session._open(sock, key, size_bytes), loop)


async def register(session: Session, **facts: Any) -> CoflowKey:
    """:meth:`Session.register` without holding up the loop."""
    return await asyncio.to_thread(session.register, **facts)


async def sendall(stream: CoflowSocket, data: Buffer) -> None:
    """Sends all of ``data`` on a stream that does not block: ``loop.sock_sendall``, which would ask again and again for a turn.

    Calls of several tasks follow each other.
    """
    if stream.gettimeout() != 0:
        raise ValueError("the socket must be non-blocking")
    view = memoryview(data).cast("B")
    if stream._tasks is None:
        stream._tasks = asyncio.Lock()
    async with stream._tasks:
        while len(view):
            try:
                view = view[stream.send(view) :]
            except BlockingIOError:
                if stream.directive.gate == OFF:
                    await _readable(stream.gate_fileno(), stream.fileno())
                await _writable(stream.fileno())


class _Hangup:
    """Sees when a connection has ended in both directions, or was reset, whether anybody reads it or not."""

    def __init__(self, descriptor: int) -> None:
        self._epoll = select.epoll()
        # epoll always reports EPOLLHUP. Edge-triggered, so that entries of the error queue that stay unread do not wake the loop.
        self._epoll.register(descriptor, select.EPOLLET)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def is_gone(self) -> bool:
        return any(events & select.EPOLLHUP for _, events in self._epoll.poll(0))

    def close(self) -> None:
        self._epoll.close()


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _readable(gate: int, connection: int) -> None:
    """Waits until a gate can be read, or a connection is gone."""
    loop = asyncio.get_running_loop()
    news: asyncio.Future[None] = loop.create_future()
    # The loop may have business of the application's with the numbers themselves.
    hangup, copy = _Hangup(connection), os.dup(gate)
    loop.add_reader(copy, _done, news)
    loop.add_reader(hangup.fileno(), _done, news)
    try:
        await news
    finally:
        loop.remove_reader(copy)
        loop.remove_reader(hangup.fileno())
        os.close(copy)
        hangup.close()


async def _writable(connection: int) -> None:
    """Waits until a connection can be written."""
    loop = asyncio.get_running_loop()
    news: asyncio.Future[None] = loop.create_future()
    copy = os.dup(connection)
    loop.add_writer(copy, _done, news)
    try:
        await news
    finally:
        loop.remove_writer(copy)
        os.close(copy)


class CoflowWriter:
    """A connection whose writes are a flow of a coflow. Dropping it ends the flow; the connection is its writer's.

    What one call writes is in one piece, whichever other tasks write.
    """

    def __init__(
        self,
        session: Session,
        writer: asyncio.StreamWriter,
        carriage: Carriage,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._session, self._writer, self._carriage = session, writer, carriage
        self._loop, self._news = loop, asyncio.Event()
        self._turn = asyncio.Lock()
        # What is being written in several pieces: it goes on where its caller is cancelled.
        self._rest: "Optional[asyncio.Task[None]]" = None
        self._limited: Optional[asyncio.BaseTransport] = None
        carriage.wake = weakref.WeakMethod(self._wake)
        end_with(self, session, carriage)

    def _wake(self) -> None:
        """Called by a thread of the session."""
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:
            pass  # The loop is closed.

    def _limit(self) -> None:
        """Has ``drain`` wait until what was written has gone: a gate that closes could not hold back what waits here.

        Not at 0 bytes: the transport of TLS takes an empty buffer for a full one then (python/cpython#102792).
        """
        if self._limited is not self._writer.transport:
            self._limited = self._writer.transport
            self._writer.transport.set_write_buffer_limits(high=1, low=0)

    async def write(self, data: Buffer) -> None:
        """Sends all of ``data``, as the gate lets it.

        Where it is cancelled after some has gone, the rest goes all the same, before what is written next: as with a
        ``StreamWriter``, no message is cut off in the middle.
        """
        view = memoryview(data).cast("B")
        async with self._turn:
            await self._wait_for_rest()
            await self._wait_for_gate()
            if len(view) <= PIECE:
                await self._write(view)
            else:
                # It may be changed once this is cancelled.
                view = view if view.readonly else memoryview(bytes(view))
                self._rest = self._loop.create_task(self._write_all(view))
                await asyncio.shield(self._rest)

    async def _wait_for_rest(self) -> None:
        """Waits until what a cancelled call has left is written."""
        if self._rest is not None and not self._rest.done():
            await asyncio.wait({self._rest})

    async def _write_all(self, rest: memoryview) -> None:
        while len(rest):
            await self._wait_for_gate()
            piece, rest = rest[:PIECE], rest[PIECE:]
            await self._write(piece)

    async def _write(self, piece: memoryview) -> None:
        self._limit()
        self._writer.write(piece)
        self._session._sent(self._carriage, len(piece))
        await self._writer.drain()

    async def _wait_for_gate(self) -> None:
        """Waits while the flow may not send, unless the connection is gone: then to write says how."""
        self._session._set_idle(self._carriage, False)
        if self.directive.gate != OFF or self._writer.is_closing():
            return
        hangup = _Hangup(self._writer.get_extra_info("socket").fileno())
        # No public way to wait for the end of a connection can be given up without ending others' waiting.
        waiter = getattr(self._writer.transport.get_protocol(), "_get_close_waiter", None)
        closed: "Optional[asyncio.Future[None]]" = None if waiter is None else waiter(self._writer)
        self._loop.add_reader(hangup.fileno(), self._news.set)
        if closed is not None:
            closed.add_done_callback(self._see_closed)
        try:
            while not (self._writer.is_closing() or hangup.is_gone()):
                self._news.clear()
                if self.directive.gate != OFF:
                    return
                await self._news.wait()
        finally:
            self._loop.remove_reader(hangup.fileno())
            hangup.close()
            if closed is not None:
                closed.remove_done_callback(self._see_closed)

    def _see_closed(self, _: "asyncio.Future[None]") -> None:
        self._news.set()

    def rest(self) -> None:
        """Says that there is nothing to send until the next write."""
        self._session._set_idle(self._carriage, True)

    @property
    def directive(self) -> Directive:
        """How it is to be sent at present."""
        return self._session._directive(self._carriage)

    @property
    def is_in_kernel(self) -> bool:
        """True while the kernel carries orders out: the connection was handed over to an enforcer."""
        return self._carriage.is_in_kernel and not self._carriage.is_over

    def end(self) -> None:
        """Ends the flow and leaves the connection to its writer, as it was before."""
        self._session._close(self._carriage, True)

    async def close(self) -> None:
        """Ends the flow and closes the connection."""
        self._session._close(self._carriage, False)
        await self._wait_for_rest()
        self._writer.close()
        await self._writer.wait_closed()
