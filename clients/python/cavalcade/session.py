"""A session with the agent, and sockets whose bytes are flows of coflows: for programs that block.

Two threads keep a session: one reads what the agent says, one writes and keeps the time. Rates are set with
SO_MAX_PACING_RATE, classes as DSCP; both need no privilege.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from typing import Callable, Optional

from . import wire
from .client import Client
from .wire import CoflowKey, Directive, Facts, OFF

_PATIENCE = 0.2
_RETRY = 0.05
_PIECE = 256 << 10
_UNSENT = 128 << 10
_SO_MAX_PACING_RATE = 47
_TCP_NOTSENT_LOWAT = 25
# CS5 to CS2, the default, then lower effort (RFC 8622).
_DSCP = (40, 32, 24, 16, 0, 1, 1, 1)


class Session:
    """An application's connection to the agent of its host. There may be none: then all is plain TCP."""

    def __init__(self, path: str, dscp: tuple = _DSCP) -> None:
        self._path, self._dscp = path, dscp
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._news = threading.Condition(self._lock)
        self._sockets: dict[int, socket.socket] = {}
        self._listeners: dict[int, Callable[[], None]] = {}
        self._client = Client(int.from_bytes(os.urandom(8), "little"), self._directed)
        self._is_closed = self._is_broken = False
        threading.Thread(target=_keep_connected, args=(weakref.ref(self), path), daemon=True).start()

    def wait_ready(self, seconds: float) -> bool:
        """Waits until an agent has answered; for tests and tools, since everything works without."""
        with self._news:
            return self._news.wait_for(lambda: self._client.welcomed, seconds)

    def register(
        self,
        parents: Optional[list[CoflowKey]] = None,
        deadline_s: Optional[float] = None,
        size_bytes: Optional[int] = None,
        background: bool = False,
        weight: int = 1,
    ) -> CoflowKey:
        """A new coflow, which starts after ``parents`` and has ``deadline_s`` from now. Returns at once without an agent."""
        facts = Facts(0, None, size_bytes, background, max(weight, 1))
        deadline = None if deadline_s is None else int(deadline_s * 1e9)
        with self._news:
            request = self._client.register(time.time_ns(), list(parents or []), deadline, facts)
            self._work.notify_all()
            while request not in self._client.keys:
                if not self._news.wait(_PATIENCE) and request not in self._client.keys:
                    # The agent hangs: the client gets along without.
                    self._client.handle_disconnected(time.time_ns())
                    self._is_broken = True
            return self._client.keys.pop(request)

    def stream(self, sock: socket.socket, key: CoflowKey, size_bytes: Optional[int] = None) -> "CoflowSocket":
        """Makes ``sock``, connected to its receiver, carry a flow of a coflow."""
        return CoflowSocket(self, sock, self._open(sock, key, size_bytes))

    def unregister(self, key: CoflowKey) -> None:
        """A coflow is over."""
        with self._work:
            self._client.unregister(key)
            self._work.notify_all()

    def close(self) -> None:
        """Ends the session; its flows go on as plain TCP."""
        with self._work:
            self._is_closed = True
            self._client.handle_disconnected(time.time_ns())
            self._work.notify_all()
            self._news.notify_all()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _open(self, sock: socket.socket, key: CoflowKey, size: Optional[int]) -> int:
        ends = (sock.getsockname()[:2], sock.getpeername()[:2])
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT)
        with self._work:
            flow = self._client.open(key, ends, size)
            self._sockets[flow] = sock
            self._work.notify_all()
            return flow

    def _close(self, flow: int) -> None:
        with self._work:
            self._client.close(flow)
            self._sockets.pop(flow, None)
            self._listeners.pop(flow, None)
            self._work.notify_all()

    def _directive(self, flow: int) -> Directive:
        with self._lock:
            return self._client.directive(flow)

    def _wait_for_gate(self, flow: int) -> None:
        with self._news:
            self._client.set_idle(flow, False)
            self._news.wait_for(lambda: self._client.directive(flow).gate != OFF)

    def _sent(self, flow: int, more: int) -> None:
        with self._lock:
            self._client.sent(flow, more)

    def _set_idle(self, flow: int, idle: bool) -> None:
        with self._lock:
            self._client.set_idle(flow, idle)

    def _directed(self, flow: int) -> None:
        """Carries out what the client has been told; called with the lock held."""
        sock = self._sockets.get(flow)
        if sock is not None:
            directive = self._client.directive(flow)
            gate = directive.gate
            rate = max(gate.rate // 8, 1) if gate.kind == "paced" else (1 << 64) - 1
            field = self._dscp[min(directive.traffic_class, 7)] << 2
            try:
                sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate.to_bytes(8, "little"))
                if sock.family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, field)
                else:
                    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, field)
            except OSError:
                pass  # Closed by now, or a kernel without: the gate holds all the same.
        self._news.notify_all()
        listener = self._listeners.get(flow)
        if listener is not None:
            listener()


class CoflowSocket:
    """A connected socket whose bytes are a flow of a coflow. Closing it ends the flow and the connection."""

    def __init__(self, session: Session, sock: socket.socket, flow: int) -> None:
        self._session, self._sock, self._flow = session, sock, flow

    def send(self, data) -> int:
        """Sends some of ``data`` once the flow may, and returns how much."""
        self._session._wait_for_gate(self._flow)
        sent = self._sock.send(memoryview(data)[:_PIECE])
        self._session._sent(self._flow, sent)
        return sent

    def sendall(self, data) -> None:
        """Sends all of ``data``."""
        view = memoryview(data).cast("B")
        while len(view):
            view = view[self.send(view) :]

    def rest(self) -> None:
        """Says that there is nothing to send until the next call, so that others may use what this flow does not."""
        self._session._set_idle(self._flow, True)

    @property
    def directive(self) -> Directive:
        """How it is to be sent at present."""
        return self._session._directive(self._flow)

    def recv(self, size: int) -> bytes:
        """Receives, as the socket does."""
        return self._sock.recv(size)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._sock.fileno()

    def close(self) -> None:
        """Ends the flow and closes the connection."""
        self._session._close(self._flow)
        self._sock.close()

    def __enter__(self) -> "CoflowSocket":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _keep_connected(weak, path: str) -> None:
    """Looks for the agent until the session is closed or dropped."""
    while True:
        session = weak()
        if session is None or session._is_closed:
            return
        del session
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
            _attend(weak, sock)
        except OSError:
            pass
        finally:
            sock.close()
        session = weak()
        if session is None:
            return
        with session._news:
            session._is_broken = False
            session._client.handle_disconnected(time.time_ns())
            session._news.notify_all()
        del session
        time.sleep(_RETRY)


def _attend(weak, sock: socket.socket) -> None:
    """One connection, from its hello to its end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, b"\0" * 8 + (200_000).to_bytes(8, "little"))
    session = weak()
    if session is not None:
        with session._lock:
            session._client.handle_connected()
    del session
    listening = threading.Thread(target=_listen, args=(weak, sock), daemon=True)
    listening.start()
    try:
        _talk(weak, sock)
    finally:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        listening.join()


def _listen(weak, sock: socket.socket) -> None:
    """Reads until the connection ends."""
    frames = wire.Frames()
    try:
        while data := sock.recv(16 << 10):
            session = weak()
            if session is None:
                return
            with session._news:
                for message in frames.push(data):
                    session._client.handle_message(time.time_ns(), message)
                session._news.notify_all()
                session._work.notify_all()
            del session
    except (OSError, wire.WireError):
        pass
    session = weak()
    if session is not None:
        with session._work:
            session._is_broken = True
            session._work.notify_all()


def _talk(weak, sock: socket.socket) -> None:
    """Writes what is to be said, and keeps the time."""
    connected = time.monotonic()
    while True:
        session = weak()
        if session is None or session._is_closed:
            return
        with session._work:
            client = session._client
            is_silent = client.handle_timeout(time.time_ns())
            hangs = not client.welcomed and time.monotonic() - connected > _PATIENCE
            if is_silent or hangs or session._is_broken:
                return
            said, client.outbox = b"".join(client.outbox), []
            if not said:
                session._work.wait(max(client.timeout(time.time_ns()) / 1e9, 1e-4))
        del session
        if said:
            sock.sendall(said)
