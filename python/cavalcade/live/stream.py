"""A connected socket whose bytes are a flow of a coflow."""

from __future__ import annotations

import errno
import io
import os
import socket
import threading
import time
import weakref
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Iterable, Iterator, Optional, Union

from .carriage import Carriage
from .wire import Directive

if TYPE_CHECKING:
    from .session import Session

PIECE = 256 << 10
Buffer = Union[bytes, bytearray, memoryview]


def _drop(session: "weakref.ref[Session]", carriage: Carriage, process: int) -> None:
    """A stream was dropped; called by who collects garbage."""
    if process != os.getpid():
        return
    keeper = session()
    if keeper is not None:
        keeper._note_dropped(carriage)
    else:
        carriage.options.restore()


def end_with(stream: Any, session: "Session", carriage: Carriage) -> None:
    """Has the flow end when ``stream`` is dropped."""
    weakref.finalize(stream, _drop, weakref.ref(session), carriage, os.getpid()).atexit = False


class CoflowSocket:
    """A connected socket whose bytes are a flow of a coflow. Closing or dropping it ends the flow and the connection.

    It has the methods of ``socket.socket`` that connections use. Those that send wait for the flow's turn, at most as long as
    the socket's timeout. One call's data are sent without a gap: while ``sendall`` runs, other senders wait.

    TLS goes below: wrap the socket first, and make what comes out a stream. What would take the descriptor and send past the
    flow, as ``SSLContext.wrap_socket`` and ``asyncio.open_connection(sock=...)``, is refused with a ``TypeError``.

    On a socket that does not block, ``send`` raises ``BlockingIOError`` while the flow waits for its turn, though the socket could
    be written: wait until :meth:`gate_fileno` can be read, and then for the socket. ``aio.sendall`` does so.
    """

    def __init__(self, session: "Session", sock: socket.socket, carriage: Carriage) -> None:
        self._session, self._sock, self._carriage = session, sock, carriage
        self._process = os.getpid()
        self._files = 0
        self._is_closed = False
        # The same thread may come again, from a handler of a signal.
        self._turn = threading.RLock()
        # The same between tasks: a lock of asyncio.
        self._tasks: Any = None
        end_with(self, session, carriage)

    def __getattr__(self, name: str) -> Any:
        """Gives whatever neither sends nor closes from the socket itself: ``recv``, ``settimeout``, ``fileno``, …"""
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "type":
            # What asks for it is about to take the descriptor: TLS, event loops.
            raise TypeError(
                "a CoflowSocket is no socket for TLS or an event loop, which would send past its flow: wrap the socket in "
                "TLS first and make the result a stream; on asyncio make a stream of a StreamWriter, with cavalcade.live.aio"
            )
        found = getattr(self._sock, name)
        # That of TLS.
        return self.send if name == "write" else found

    def __reduce__(self) -> Any:
        raise TypeError("a CoflowSocket stays in its process: pass a Coflow or a CoflowKey, and connect where it arrives")

    @property
    def _is_own(self) -> bool:
        """Tells whether the flow is this process's: a forked child sends on its parent's stream as plain TCP."""
        return self._process == os.getpid()

    @contextmanager
    def _in_turn(self, until: Optional[float]) -> Iterator[None]:
        """Waits until no other thread is sending."""
        if not self._is_own:
            # A thread of the parent may have held the lock at the fork.
            yield
            return
        wait = -1 if until is None else min(max(until - time.monotonic(), 0), threading.TIMEOUT_MAX)
        if not self._turn.acquire(timeout=wait):
            raise self._late()
        try:
            yield
        finally:
            self._turn.release()

    def _late(self) -> OSError:
        if self._sock.gettimeout() == 0:
            text = "the flow waits for its turn: wait until gate_fileno() can be read"
            return BlockingIOError(errno.EAGAIN, text)
        return TimeoutError("timed out while the flow waited for its turn")

    def _until(self) -> Optional[float]:
        timeout = self._sock.gettimeout()
        return None if timeout is None else time.monotonic() + timeout

    def send(self, data: Buffer, flags: int = 0) -> int:
        """Sends some of ``data`` once the flow may, and returns how much.

        Raises ``TimeoutError``, or ``BlockingIOError`` on a socket that does not block, where its turn does not come.
        """
        if not self._is_own:
            return self._sock.send(data, flags)
        until = self._until()
        with self._in_turn(until):
            return self._send(memoryview(data).cast("B"), flags, until)

    def sendall(self, data: Buffer, flags: int = 0) -> None:
        """Sends all of ``data``. Turns are waited for, in all, for as long as the socket's timeout."""
        if not self._is_own:
            return self._sock.sendall(data, flags)
        view, until = memoryview(data).cast("B"), self._until()
        with self._in_turn(until):
            while len(view):
                view = view[self._send(view, flags, until) :]

    def _send(self, view: memoryview, flags: int, until: Optional[float]) -> int:
        wait = None if until is None else max(until - time.monotonic(), 0)
        if not self._session._wait_for_gate(self._carriage, self._sock, wait):
            raise self._late()
        sent = self._sock.send(view[:PIECE], flags)
        self._session._sent(self._carriage, sent)
        return sent

    def _send_for_file(self, data: Buffer) -> Optional[int]:
        """Sends all of ``data``, or as much as the socket's timeout allows; nothing where it does not block and takes nothing."""
        if not self._is_own:
            return self._sock.send(data)
        view, sent, until = memoryview(data).cast("B"), 0, self._until()
        try:
            with self._in_turn(until):
                while sent < len(view):
                    sent += self._send(view[sent:], 0, until)
        except BlockingIOError:
            return sent or None
        except TimeoutError:
            if not sent:
                raise
        return sent

    def sendto(self, data: Buffer, *_: Any) -> int:
        """Is for sockets that are no flow."""
        raise ValueError("a flow carries bytes to its peer alone: use send()")

    def dup(self) -> socket.socket:
        """Returns a plain socket of the same connection; what it sends goes past the flow."""
        return self._sock.dup()

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
        with self._in_turn(self._until()):
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
            self._session._set_idle(self._carriage, True)

    def gate_fileno(self) -> int:
        """Returns a descriptor that can be read while the flow may send, for ``select``, ``epoll`` and event loops.

        Only wait for it: who reads it or closes it takes the news from others. It closes with the stream.
        """
        if self._is_closed:
            return -1
        return self._session._gate(self._carriage).fileno()

    @property
    def directive(self) -> Directive:
        """How the flow is to be sent at present."""
        return self._session._directive(self._carriage) if self._is_own else Directive()

    @property
    def is_in_kernel(self) -> bool:
        """True while the kernel carries orders out: the connection was handed over to an enforcer."""
        return self._is_own and self._carriage.is_in_kernel and not self._carriage.is_over

    def shutdown(self, how: int) -> None:
        """Shuts down the connection; where nothing more can be sent, the flow ends."""
        if how != socket.SHUT_RD:
            self._end_flow(False)
        self._sock.shutdown(how)

    def close(self) -> None:
        """Ends the flow and closes the connection."""
        self._end_flow(False)
        self._is_closed = True
        self._carriage.gate = None
        if self._files == 0:
            self._sock.close()

    def detach(self) -> int:
        """Ends the flow and returns the descriptor, which stays open; the connection is as it was before."""
        self._end_flow(True)
        self._is_closed = True
        self._carriage.gate = None
        return self._sock.detach()

    def _end_flow(self, stays: bool) -> None:
        if self._is_own:
            self._session._close(self._carriage, stays)

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
        return self._stream._send_for_file(data)

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stream._file_closed()
