"""A connected socket whose bytes are a flow of a coflow."""

from __future__ import annotations

import errno
import io
import os
import socket
import time
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Iterable, Optional, Union

from .wire import Directive

if TYPE_CHECKING:
    from .session import Session

PIECE = 256 << 10
Buffer = Union[bytes, bytearray, memoryview]


class CoflowSocket:
    """A connected socket whose bytes are a flow of a coflow. Closing it ends the flow and the connection.

    It has the methods of ``socket.socket`` that connections use; those that send wait for the flow's turn, for as long as
    the socket's timeout allows. TLS goes below: wrap the socket first, and make what comes out a stream.
    """

    def __init__(self, session: "Session", sock: socket.socket, flow: int) -> None:
        self._session, self._sock, self._flow = session, sock, flow
        self._process = os.getpid()
        self._files = 0
        self._is_closed = False

    def __getattr__(self, name: str) -> Any:
        """Gives whatever neither sends nor closes from the socket itself: ``recv``, ``settimeout``, ``fileno``, …"""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._sock, name)

    @property
    def _is_own(self) -> bool:
        """Tells whether the flow is this process's: a forked child sends on its parent's stream as plain TCP."""
        return self._process == os.getpid()

    def send(self, data: Buffer, flags: int = 0) -> int:
        """Sends some of ``data`` once the flow may, and returns how much.

        Raises ``TimeoutError``, or ``BlockingIOError`` on a socket that does not block, where its turn does not come.
        """
        return self._send(data, flags, self._sock.gettimeout())

    def sendall(self, data: Buffer, flags: int = 0) -> None:
        """Sends all of ``data``. Turns are waited for, in all, for as long as the socket's timeout."""
        view, timeout = memoryview(data).cast("B"), self._sock.gettimeout()
        until = None if timeout is None else time.monotonic() + timeout
        while len(view):
            wait = None if until is None else max(until - time.monotonic(), 0)
            view = view[self._send(view, flags, wait) :]

    def _send(self, data: Buffer, flags: int, wait: Optional[float]) -> int:
        if not self._is_own:
            return self._sock.send(data, flags)
        if not self._session._wait_for_gate(self._flow, wait):
            if self._sock.gettimeout() == 0:
                raise BlockingIOError(errno.EAGAIN, "the flow waits for its turn")
            raise TimeoutError("timed out while the flow waited for its turn")
        sent = self._sock.send(memoryview(data).cast("B")[:PIECE], flags)
        self._session._sent(self._flow, sent)
        return sent

    def sendmsg(
        self, buffers: Iterable[Buffer], ancdata: Iterable[Any] = (), flags: int = 0, address: object = None
    ) -> int:
        """Sends some of the ``buffers`` in order, and returns how much. Ancillary data are for sockets that are no flow."""
        if ancdata or address is not None:
            raise ValueError("a flow carries bytes alone: send ancillary data on the socket itself")
        return self.send(b"".join(bytes(buffer) for buffer in buffers), flags)

    def sendfile(self, file: BinaryIO, offset: int = 0, count: Optional[int] = None) -> int:
        """Sends a file from ``offset``, at most ``count`` bytes, and returns how many."""
        file.seek(offset)
        total = 0
        while count is None or total < count:
            piece = file.read(PIECE if count is None else min(PIECE, count - total))
            if not piece:
                break
            self.sendall(piece)
            total += len(piece)
        file.seek(offset + total)
        return total

    def makefile(
        self,
        mode: str = "r",
        buffering: Optional[int] = None,
        *,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
    ) -> IO[Any]:
        """Makes a file of the connection, as ``socket.makefile`` does. The connection closes with the last of them."""
        if not set(mode) <= {"r", "w", "b"} or not set(mode) & {"r", "w"}:
            raise ValueError(f"invalid mode {mode!r}: expected r, w or rw, with or without b")
        raw = _Raw(self, "r" in mode, "w" in mode)
        size = io.DEFAULT_BUFFER_SIZE if buffering is None or buffering < 0 else buffering
        if size == 0:
            if "b" not in mode:
                raise ValueError("unbuffered files must be binary")
            return raw  # type: ignore[return-value]
        buffered: Any
        if raw.readable() and raw.writable():
            buffered = io.BufferedRWPair(raw, raw, size)
        else:
            buffered = io.BufferedReader(raw, size) if raw.readable() else io.BufferedWriter(raw, size)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def rest(self) -> None:
        """Marks the flow as idle until the next call, so that others may use what it does not."""
        if self._is_own:
            self._session._set_idle(self._flow, True)

    @property
    def directive(self) -> Directive:
        """How the flow is to be sent at present."""
        return self._session._directive(self._flow) if self._is_own else Directive()

    @property
    def is_in_kernel(self) -> bool:
        """True while the kernel carries orders out: the connection was handed over to an enforcer."""
        return self._is_own and self._session._is_in_kernel(self._flow)

    def shutdown(self, how: int) -> None:
        """Shuts down the connection; where nothing more can be sent, the flow ends."""
        if how != socket.SHUT_RD:
            self._end_flow()
        self._sock.shutdown(how)

    def close(self) -> None:
        """Ends the flow and closes the connection."""
        self._end_flow()
        self._is_closed = True
        if self._files == 0:
            self._sock.close()

    def detach(self) -> int:
        """Ends the flow and returns the descriptor, which stays open."""
        self._end_flow()
        return self._sock.detach()

    def _end_flow(self) -> None:
        if self._is_own:
            self._session._close(self._flow)

    def _file_closed(self) -> None:
        self._files -= 1
        if self._is_closed and self._files == 0:
            self._sock.close()

    def __enter__(self) -> "CoflowSocket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Raw(io.RawIOBase):
    """The unbuffered file of a stream."""

    def __init__(self, stream: CoflowSocket, readable: bool, writable: bool) -> None:
        self._stream, self._may_read, self._may_write = stream, readable, writable
        stream._files += 1

    def readable(self) -> bool:
        return self._may_read

    def writable(self) -> bool:
        return self._may_write

    def readinto(self, buffer: Any) -> Optional[int]:
        try:
            return self._stream._sock.recv_into(buffer)
        except BlockingIOError:
            return None

    def write(self, data: Any) -> Optional[int]:
        try:
            return self._stream.send(data)
        except BlockingIOError:
            return None

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stream._file_closed()
