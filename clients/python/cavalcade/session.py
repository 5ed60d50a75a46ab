"""A session with the agent, for programs that block.

Three threads keep a session: one reads what the agent says, one writes and keeps the time, one looks for the enforcer that
connections are handed over to. Without one, rates are set with SO_MAX_PACING_RATE, classes as DSCP; both need no privilege.

A session survives ``fork``: the child is another client of the agent, connected when it first uses the session. Streams
that the child inherits are plain TCP there; their flows stay the parent's.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
import weakref
from typing import Callable, Optional

from . import clock, wire
from .client import Client
from .kernel_path import Handed, KernelPath
from .stream import CoflowSocket
from .wire import CoflowKey, Directive, Facts, OFF

_PATIENCE = 0.2
_RETRY = 0.05
# Where the agent refuses the connection, or no enforcer is there.
_RETRY_REFUSED = 1.0
# The time in which the kernel part of an enforcer that was killed may still set rates and classes back.
_AFTERMATH = 5.0
_UNSENT = 128 << 10
_SO_MAX_PACING_RATE = 47
_TCP_NOTSENT_LOWAT = 25
# CS5 to CS2, the default, then lower effort (RFC 8622).
_DSCP = (40, 32, 24, 16, 0, 1, 1, 1)

_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


def default_path() -> str:
    """Returns where an agent listens that was given no path: ``cavalcade.sock`` in ``$XDG_RUNTIME_DIR``, else in ``/run``."""
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/run", "cavalcade.sock")


class Refused(Exception):
    """The agent refused a registration. The text says which limit was reached, who set it and how to raise it."""


class Session:
    """An application's connection to the agent of its host. Without an agent everything is plain TCP."""

    def __init__(self, path: Optional[str] = None, dscp: tuple[int, ...] = _DSCP) -> None:
        self._path, self._dscp = path or default_path(), dscp
        self._client = Client(_name(), self._directed)
        self._is_closed = False
        self._begin()
        _sessions.add(self)
        self._keep_connected()

    def _begin(self) -> None:
        """Sets up what belongs to one process: locks, sockets, and the thread."""
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._news = threading.Condition(self._lock)
        # With the byte that their packets were marked with when they were opened.
        self._sockets: dict[int, tuple[socket.socket, int]] = {}
        self._listeners: dict[int, Callable[[], None]] = {}
        self._is_broken = False
        self._agent: Optional[socket.socket] = None
        self._keeper: Optional[threading.Thread] = None
        self._kernel = KernelPath()
        # The client's flow of each connection that was handed over and is the session's again.
        self._returned: dict[int, int] = {}

    def _after_fork_in_child(self) -> None:
        client = self._client
        # Only this process's ends: a shutdown would cut off the parent.
        for sock in (self._agent, self._kernel.enforcer):
            if sock is not None:
                os.close(sock.detach())
        self._begin()
        self._client = client.forked(_name())

    def _keep_connected(self) -> None:
        """Starts the thread that looks for the agent, where there is none in this process."""
        if self._keeper is None and not self._is_closed:
            self._keeper = threading.Thread(
                target=_keep_connected, args=(weakref.ref(self), self._path), name="cavalcade", daemon=True
            )
            self._keeper.start()
            threading.Thread(
                target=_keep_enforcer,
                args=(weakref.ref(self), self._path),
                name="cavalcade-enforcer",
                daemon=True,
            ).start()

    def wait_ready(self, seconds: float) -> bool:
        """Waits until an agent has answered; for tests and tools, since everything works without."""
        with self._news:
            self._keep_connected()
            return self._news.wait_for(lambda: self._client.welcomed, seconds)

    def register(
        self,
        parents: Optional[list[CoflowKey]] = None,
        deadline_s: Optional[float] = None,
        size_bytes: Optional[int] = None,
        background: bool = False,
        weight: int = 1,
        name: Optional[str] = None,
        required: bool = False,
    ) -> CoflowKey:
        """Registers a coflow that starts after ``parents`` and is due ``deadline_s`` from now, and returns its key.

        ``name`` is what people see and type in place of the key, as ``sort-7``: 1 to 39 letters, digits or ``-_.:/@+``, the
        first a letter. Several coflows may have the same one. Raises ``ValueError`` where it is none.

        Takes at most 0.2 s: an agent that is absent or does not answer is done without. Where the agent refuses, the key is
        good all the same and the flows are plain TCP; with ``required`` that raises :class:`Refused`.
        """
        facts = Facts(0, None, size_bytes, background, max(weight, 1), wire.checked_name(name))
        deadline = None if deadline_s is None else int(deadline_s * 1e9)
        until = time.monotonic() + _PATIENCE
        with self._news:
            self._keep_connected()
            request = self._client.register(clock.now(), list(parents or []), deadline, facts)
            self._work.notify_all()
            # Every word of the agent notifies; the deadline is that of the call.
            if not self._news.wait_for(lambda: request in self._client.keys, until - time.monotonic()):
                self._client.handle_disconnected(clock.now())
                self._is_broken = True
            key = self._client.keys.pop(request)
            refusals = [refused for refused in self._client.refusals if refused.request == request]
        if required and refusals:
            raise Refused(f"the agent refused {refusals[0].subject}: {refusals[0].reason}")
        return key

    def stream(self, sock: socket.socket, key: CoflowKey, size_bytes: Optional[int] = None) -> CoflowSocket:
        """Makes ``sock``, connected to its receiver, carry a flow of the coflow ``key``.

        Raises ``TypeError`` where ``key`` is no key, and ``OSError`` where the socket is not connected.
        """
        return CoflowSocket(self, sock, self._open(sock, key, size_bytes))

    def connect(
        self,
        address: tuple[str, int],
        key: CoflowKey,
        size_bytes: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> CoflowSocket:
        """Connects to ``address`` (host, port) and makes the connection carry a flow of the coflow ``key``."""
        sock = socket.create_connection(address, timeout)
        try:
            return self.stream(sock, key, size_bytes)
        except BaseException:
            sock.close()
            raise

    def grant(self, key: CoflowKey, user: int) -> None:
        """Lets another user, by its number (``pwd.getpwnam(...).pw_uid``), take part in a coflow of this user.

        The agent refuses that to who does not own the coflow; see :meth:`refusals`.
        """
        with self._work:
            self._keep_connected()
            self._client.grant(key, user)
            self._work.notify_all()

    def unregister(self, key: CoflowKey) -> None:
        """Ends a coflow."""
        with self._work:
            self._client.unregister(key)
            self._work.notify_all()

    def refusals(self) -> list[str]:
        """Returns what the agent refused lately, oldest first. Each is also a warning of the logger ``cavalcade``."""
        with self._lock:
            return [f"{refused.subject}: {refused.reason}" for refused in self._client.refusals]

    def close(self) -> None:
        """Ends the session; its flows go on as plain TCP, but for those that the kernel carries."""
        with self._work:
            self._is_closed = True
            self._kernel.hang_up()
            self._client.handle_disconnected(clock.now())
            self._work.notify_all()
            self._news.notify_all()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, sock: socket.socket, key: CoflowKey, size: Optional[int]) -> int:
        if not isinstance(key, CoflowKey):
            raise TypeError(f"expected the CoflowKey that register() returned, found {key!r}")
        ends = (sock.getsockname()[:2], sock.getpeername()[:2])
        handed = Handed(sock, sock.getsockopt(*_mark_option(sock)), ends, key, size)
        with self._work:
            self._keep_connected()
            number = self._kernel.hand_over(handed)
            return self._carry(handed) if number is None else number

    def _carry(self, handed: Handed) -> int:
        """Carries orders out for a connection from here on; called with the lock held. Returns the client's flow."""
        assert handed.sock is not None, "a stream that is over is not carried"
        try:
            handed.sock.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT)
        except OSError:
            pass  # A gate that closes is seen later.
        flow = self._client.open(handed.key, handed.ends, handed.size)
        self._sockets[flow] = handed.sock, handed.mark
        self._work.notify_all()
        return flow

    def _take_back(self, number: int, is_told: bool) -> None:
        """Takes back what the kernel does not carry, or not any more; called with the lock held.

        The agent knows already what it has sent where ``is_told``.
        """
        handed, sent = self._kernel.handed.pop(number), self._kernel.sent.pop(number)
        if handed.sock is None:
            flow = self._client.open(handed.key, handed.ends, None)
            self._client.sent(flow, sent)
            self._client.close(flow)
            self._work.notify_all()
            return
        told = sent if is_told else 0
        left = None if handed.size is None or handed.size < told else handed.size - told
        flow = self._returned[number] = self._carry(handed._replace(size=left))
        self._client.sent(flow, sent - told)
        if number in self._listeners:
            self._listeners[flow] = self._listeners.pop(number)

    def _of_client(self, flow: int) -> Optional[int]:
        """Returns the client's number of a flow; nothing where the kernel carries it. Called with the lock held."""
        return flow if flow >= 0 else self._returned.get(flow)

    def _listen_to(self, flow: int, listener: Callable[[], None]) -> None:
        """Has ``listener`` called when a directive of the flow changes."""
        with self._lock:
            of_client = self._of_client(flow)
            self._listeners[flow if of_client is None else of_client] = listener

    def _is_in_kernel(self, flow: int) -> bool:
        with self._lock:
            return self._of_client(flow) is None

    def _close(self, number: int) -> None:
        with self._work:
            flow = self._of_client(number)
            if flow is None:
                self._listeners.pop(number, None)
                if number in self._kernel.handed:
                    self._kernel.close(number)
                return
            self._returned.pop(number, None)
            self._client.close(flow)
            self._sockets.pop(flow, None)
            self._listeners.pop(flow, None)
            self._work.notify_all()

    def _directive(self, flow: int) -> Directive:
        with self._lock:
            of_client = self._of_client(flow)
            return Directive() if of_client is None else self._client.directive(of_client)

    def _wait_for_gate(self, flow: int, timeout: Optional[float]) -> bool:
        """Waits while a flow may not send, for at most ``timeout`` seconds. Returns whether it may."""
        with self._news:
            of_client = self._of_client(flow)
            if of_client is None:
                return True
            self._client.set_idle(of_client, False)
            return self._news.wait_for(lambda: self._client.directive(of_client).gate != OFF, timeout)

    def _sent(self, flow: int, more: int) -> None:
        with self._lock:
            of_client = self._of_client(flow)
            if of_client is not None:
                self._client.sent(of_client, more)
            elif flow in self._kernel.sent:
                self._kernel.sent[flow] += more

    def _set_idle(self, flow: int, idle: bool) -> None:
        with self._lock:
            of_client = self._of_client(flow)
            if of_client is not None:
                self._client.set_idle(of_client, idle)

    def _directed(self, flow: int) -> None:
        """Carries out a new directive; called with the lock held."""
        if flow in self._sockets:
            sock, own = self._sockets[flow]
            gate, traffic_class = self._client.directive(flow)
            rate = max(gate.rate // 8, 1) if gate.kind == "paced" else (1 << 64) - 1
            field = own if traffic_class is None else self._dscp[min(traffic_class, 7)] << 2
            try:
                sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, rate.to_bytes(8, "little"))
                sock.setsockopt(*_mark_option(sock), field)
            except OSError:
                pass  # Closed by now, or a kernel without: the gate holds all the same.
        self._news.notify_all()
        listener = self._listeners.get(flow)
        if listener is not None:
            listener()


def _mark_option(sock: socket.socket) -> tuple[int, int]:
    """Returns the option that has the DSCP of a socket's packets."""
    if sock.family == socket.AF_INET6:
        return socket.IPPROTO_IPV6, socket.IPV6_TCLASS
    return socket.IPPROTO_IP, socket.IP_TOS


def _name() -> int:
    """Returns a number for a client, which no other client of this user on this host has."""
    return int.from_bytes(os.urandom(8), "little")


def _after_fork_in_child() -> None:
    for session in list(_sessions):
        session._after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _keep_connected(weak: "weakref.ref[Session]", path: str) -> None:
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
            session._agent = None
            session._is_broken = False
            pause = _RETRY_REFUSED if session._client.is_refused else _RETRY
            session._client.handle_disconnected(clock.now())
            session._news.notify_all()
        del session
        time.sleep(pause)


def _is_trusted(sock: socket.socket, agent: str) -> bool:
    """Tells whether who listens is root, this user, or who owns the agent's socket: others may have put their own there."""
    _, user, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user in (0, os.geteuid(), os.stat(agent).st_uid)


def _keep_enforcer(weak: "weakref.ref[Session]", agent: str) -> None:
    """Looks for the enforcer beside the agent until the session is closed or dropped."""
    lost_at = float("-inf")
    while True:
        session = weak()
        if session is None or session._is_closed:
            return
        lock, kernel = session._lock, session._kernel
        del session
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(agent + ".enforcer")
            if not _is_trusted(sock, agent):
                raise PermissionError
            sock.sendall(b"library\n")
            with lock:
                kernel.enforcer = sock
            _hear_enforcer(weak, sock)
        except OSError:
            pass
        session = weak()
        if session is None:
            sock.close()
            return
        with session._lock:
            lost = session._kernel.lose()
            lost_at = time.monotonic() if lost else lost_at
            for number, is_told in lost:
                session._take_back(number, is_told)
            # The kernel part of an enforcer that was killed may have set rates and classes back meanwhile.
            if time.monotonic() - lost_at < _AFTERMATH:
                for flow in session._sockets:
                    session._directed(flow)
        sock.close()
        del session
        time.sleep(_RETRY_REFUSED)


def _hear_enforcer(weak: "weakref.ref[Session]", sock: socket.socket) -> None:
    """Reads answers until the connection ends."""
    with sock.makefile("r") as answers:
        for answer in answers:
            session = weak()
            if session is None:
                return
            with session._lock:
                refused = session._kernel.answer(answer.startswith("ok "))
                if refused is not None:
                    session._take_back(refused, False)
            del session


def _attend(weak: "weakref.ref[Session]", sock: socket.socket) -> None:
    """Serves one connection, from its hello to its end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, b"\0" * 8 + (200_000).to_bytes(8, "little"))
    session = weak()
    if session is not None:
        with session._lock:
            session._agent = sock
            session._client.handle_connected()
    del session
    listening = threading.Thread(target=_listen, args=(weak, sock), name="cavalcade-reader", daemon=True)
    listening.start()
    try:
        _talk(weak, sock)
    finally:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        listening.join()


def _listen(weak: "weakref.ref[Session]", sock: socket.socket) -> None:
    """Reads until the connection ends."""
    frames = wire.Frames()
    try:
        while data := sock.recv(16 << 10):
            session = weak()
            if session is None:
                return
            with session._news:
                for message in frames.push(data):
                    session._client.handle_message(clock.now(), message)
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


def _talk(weak: "weakref.ref[Session]", sock: socket.socket) -> None:
    """Writes what is to be sent, and keeps the time."""
    connected = time.monotonic()
    while True:
        session = weak()
        if session is None or session._is_closed:
            return
        with session._work:
            client = session._client
            is_silent = client.handle_timeout(clock.now())
            hangs = not client.welcomed and time.monotonic() - connected > _PATIENCE
            if is_silent or hangs or session._is_broken:
                return
            said, client.outbox = b"".join(client.outbox), []
            if not said:
                session._work.wait(max(client.timeout(clock.now()) / 1e9, 1e-4))
        del session
        if said:
            sock.sendall(said)
