"""A session with the agent, for programs that block.

Three threads keep a session (``threads``): one reads what the agent says, one writes and keeps the time, one looks for the
enforcer that connections are handed over to. Without one, rates are set with SO_MAX_PACING_RATE, classes as DSCP; both need no
privilege.

Every argument is checked before anything is stored, so a call that fails leaves the session as it was. A session keeps no
stream: one that is dropped closes, and its flow ends.

A session survives ``fork``: the child is another client of the agent, connected when it first uses the session. Streams
that the child inherits are plain TCP there; their flows stay the parent's.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections import deque
from typing import Any, Iterable, Optional, Union

from . import arguments, clock
from .carriage import Carriage, Gate
from .client import Client
from .kernel_path import KernelPath
from .stream import CoflowSocket
from .threads import start
from .wire import OFF, CoflowKey, Directive, Facts

_PATIENCE = 0.2
_UNSENT = 128 << 10
# CS5 to CS2, the default, then lower effort (RFC 8622).
_DSCP = (40, 32, 24, 16, 0, 1, 1, 1)

_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


def default_paths() -> tuple[str, ...]:
    """Returns where agents are looked for, in that order.

    ``$CAVALCADE_SOCKET`` alone where it is set; else ``cavalcade.sock`` in ``$XDG_RUNTIME_DIR``, where this user's own agent listens,
    and in ``/run``, where that of the host does.
    """
    named = os.environ.get("CAVALCADE_SOCKET")
    if named:
        return (named,)
    folders = [os.environ.get("XDG_RUNTIME_DIR"), "/run"]
    return tuple(dict.fromkeys(os.path.join(folder, "cavalcade.sock") for folder in folders if folder))


class Refused(Exception):
    """The agent refused a registration. The text says which limit was reached, who set it and how to raise it."""


class NoAgent(Refused):
    """No agent answered a registration that needs one. The text says where one was looked for."""


class Session:
    """An application's connection to the agent of its host. Without an agent everything is plain TCP.

    An agent is looked for at ``path``, or where :func:`default_paths` says. That there is none is a warning of the logger
    ``cavalcade``.
    A wrong argument raises ``ValueError``, or ``TypeError`` where its type is wrong, and changes nothing.
    """

    def __init__(self, path: Union[None, str, os.PathLike[str]] = None, dscp: Iterable[int] = _DSCP) -> None:
        places = default_paths() if path is None else (path,)
        self._paths = tuple(arguments.path(place) for place in places)
        self._dscp = arguments.dscp(dscp)
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
        # By the client's number of the flow.
        self._carriages: dict[int, Carriage] = {}
        # What was dropped: who collects garbage may hold any lock, and waits for none.
        self._dropped: deque[Carriage] = deque()
        self._is_broken = False
        self._agent: Optional[socket.socket] = None
        # Where the agent was found last.
        self._agents_place: Optional[str] = None
        self._is_kept = False
        self._kernel = KernelPath()

    def _after_fork_in_child(self) -> None:
        client = self._client
        # Only this process's ends: a shutdown would cut off the parent.
        for sock in (self._agent, self._kernel.enforcer):
            if sock is not None:
                os.close(sock.detach())
        for carriage in self._all_carriages():
            # It shows the turns of the parent's flow.
            carriage.gate = None
        self._begin()
        self._client = client.forked(_name())

    def _keep_connected(self) -> None:
        """Starts the threads that look for the agent, where there are none in this process."""
        if not self._is_kept and not self._is_closed:
            self._is_kept = True
            start(self, self._paths)

    def wait_ready(self, seconds: float) -> bool:
        """Waits until an agent has answered; for tests and tools, since everything works without."""
        seconds = arguments.patience(seconds)
        with self._news:
            self._keep_connected()
            return self._news.wait_for(lambda: self._client.welcomed, seconds)

    def register(
        self,
        parents: Optional[Iterable[CoflowKey]] = None,
        deadline_s: Optional[float] = None,
        size_bytes: Optional[int] = None,
        background: bool = False,
        weight: int = 1,
        name: Optional[str] = None,
        required: bool = False,
    ) -> CoflowKey:
        """Registers a coflow that starts after ``parents`` and is due ``deadline_s`` from now, and returns its key.

        ``name`` is what people see and type in place of the key, as ``sort-7``: 1 to 39 letters, digits or ``-_.:/@+``, the
        first a letter. Several coflows may have the same one. A size that is not known is ``None``.

        Takes at most 0.2 s: an agent that is absent or does not answer is done without. Where the agent refuses, the key is
        good all the same and the flows are plain TCP; with ``required`` that raises :class:`Refused`, and :class:`NoAgent` where none
        answers.
        """
        checked_parents, deadline = arguments.parents(parents), arguments.deadline(deadline_s)
        facts = Facts(
            0,
            None,
            arguments.size(size_bytes),
            arguments.background(background),
            arguments.weight(weight),
            arguments.name(name),
        )
        until = time.monotonic() + _PATIENCE
        with self._news:
            self._keep_connected()
            if required:
                # A session that was just opened may not have found its agent yet.
                self._news.wait_for(lambda: self._client.welcomed, until - time.monotonic())
            is_asked = self._client.connected
            request = self._client.register(clock.now(), checked_parents, deadline, facts)
            self._work.notify_all()
            # Every word of the agent notifies; the deadline is that of the call.
            if not self._news.wait_for(lambda: request in self._client.keys, until - time.monotonic()):
                self._client.handle_disconnected(clock.now())
                self._is_broken = True
            key = self._client.keys.pop(request)
            refusals = [refused for refused in self._client.refusals if refused.request == request]
            is_taken = is_asked and self._client.knows(key)
            if required and not is_taken:
                self._client.forget(key)
        if required and refusals:
            raise Refused(f"the agent refused {refusals[0].subject}: {refusals[0].reason}")
        if required and not is_taken:
            raise NoAgent(f"no agent answers at {' or '.join(self._paths)}: start one, or name its socket in CAVALCADE_SOCKET")
        return key

    def stream(self, sock: socket.socket, key: CoflowKey, size_bytes: Optional[int] = None) -> CoflowSocket:
        """Makes ``sock``, connected to its receiver, carry a flow of the coflow ``key``.

        Raises ``OSError`` where the socket is not connected.
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
        key, size_bytes = arguments.key(key), arguments.size(size_bytes)
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
        key, user = arguments.key(key), arguments.user(user)
        with self._work:
            self._keep_connected()
            self._client.grant(key, user)
            self._work.notify_all()

    def unregister(self, key: CoflowKey) -> None:
        """Ends a coflow. Streams of it that are still open go on as plain TCP."""
        key = arguments.key(key)
        with self._work:
            of_coflow = [carriage for carriage in self._all_carriages() if carriage.key == key]
            for carriage in of_coflow:
                self._end(carriage, True)
            self._client.unregister(key)
            self._work.notify_all()

    def refusals(self) -> list[str]:
        """Returns what the agent refused lately, oldest first. Each is also a warning of the logger ``cavalcade``."""
        with self._lock:
            return [f"{refused.subject}: {refused.reason}" for refused in self._client.refusals]

    def close(self) -> None:
        """Ends the session and its flows; streams that are open go on as plain TCP.

        The agent is told what each flow has sent. That takes at most 0.2 s: one that does not read is not waited for.
        """
        with self._work:
            self._is_closed = True
            for carriage in self._all_carriages():
                self._end(carriage, True)
            self._kernel.hang_up()
            self._work.notify_all()
            self._news.wait_for(lambda: self._agent is None, _PATIENCE)
            self._client.handle_disconnected(clock.now())
            self._news.notify_all()

    def __reduce__(self) -> Any:
        raise TypeError("a Session stays in its process: pass a Coflow or a CoflowKey, and open a session where it arrives")

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, sock: Any, key: CoflowKey, size: Optional[int]) -> Carriage:
        key, size = arguments.key(key), arguments.size(size)
        carriage = Carriage(sock, key, size)
        with self._work:
            self._reap()
            self._keep_connected()
            if self._is_closed:
                carriage.is_over = True
            elif not self._kernel.hand_over(carriage):
                self._carry(carriage, size)
        return carriage

    def _all_carriages(self) -> list[Carriage]:
        return [*self._carriages.values(), *self._kernel.handed()]

    def _carry(self, carriage: Carriage, size: Optional[int]) -> None:
        """Carries orders out for a connection from here on; called with the lock held."""
        carriage.options.limit_unsent(_UNSENT)
        carriage.flow = self._client.open(carriage.key, carriage.ends, size)
        carriage.is_in_kernel = False
        self._carriages[carriage.flow] = carriage
        self._work.notify_all()

    def _take_back(self, carriage: Carriage, is_told: bool) -> None:
        """Takes back what the kernel does not carry, or not any more; called with the lock held.

        The agent knows already what it has sent where ``is_told``.
        """
        if carriage.is_over:
            flow = self._client.open(carriage.key, carriage.ends, None)
            self._client.sent(flow, carriage.sent)
            self._client.close(flow)
            self._work.notify_all()
            return
        told = carriage.sent if is_told else 0
        size = carriage.size
        self._carry(carriage, None if size is None or size < told else size - told)
        self._note_sent(carriage, carriage.sent - told)

    def _note_dropped(self, carriage: Carriage) -> None:
        """A stream was dropped; called by who collects garbage, so it takes no lock."""
        self._dropped.append(carriage)

    def _reap(self) -> None:
        """Ends the flows of what was dropped; called with the lock held."""
        while self._dropped:
            carriage = self._dropped.popleft()
            self._end(carriage, carriage.options.is_reachable())

    def _close(self, carriage: Carriage, stays: bool) -> None:
        """A stream is over; its connection ``stays``, or is about to be closed."""
        with self._work:
            self._end(carriage, stays)

    def _end(self, carriage: Carriage, stays: bool) -> None:
        """Ends a flow; called with the lock held."""
        if carriage.is_over:
            return
        if carriage.is_in_kernel:
            self._kernel.close(carriage, stays)
        elif carriage.flow is not None:
            self._client.close(carriage.flow)
            self._carriages.pop(carriage.flow, None)
            carriage.options.restore()
        carriage.is_over = True
        carriage.changed(True)
        self._work.notify_all()

    def _directive(self, carriage: Carriage) -> Directive:
        with self._lock:
            return self._directive_of(carriage)

    def _directive_of(self, carriage: Carriage) -> Directive:
        if carriage.is_over or carriage.flow is None:
            return Directive()
        return self._client.directive(carriage.flow)

    def _gate(self, carriage: Carriage) -> Gate:
        """Returns the descriptor that can be read while a flow may send."""
        with self._lock:
            if carriage.gate is None:
                carriage.gate = Gate(self._directive_of(carriage).gate != OFF)
            return carriage.gate

    def _wait_for_gate(self, carriage: Carriage, sock: Any, seconds: Optional[float]) -> bool:
        """Waits while a flow may not send, for at most so long. Returns whether it may, or its connection is gone."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            with self._lock:
                if self._directive_of(carriage).gate != OFF:
                    self._set_idle(carriage, False)
                    return True
                self._set_idle(carriage, False)
            left = None if until is None else max(until - time.monotonic(), 0.0)
            if self._gate(carriage).wait(sock, left):
                return True
            if left == 0:
                return self._directive(carriage).gate != OFF

    def _sent(self, carriage: Carriage, more: int) -> None:
        with self._lock:
            self._note_sent(carriage, more)

    def _note_sent(self, carriage: Carriage, more: int) -> None:
        if carriage.flow is not None:
            self._client.sent(carriage.flow, more)
        else:
            carriage.sent += more

    def _set_idle(self, carriage: Carriage, idle: bool) -> None:
        with self._lock:
            if carriage.flow is not None:
                self._client.set_idle(carriage.flow, idle)

    def _directed(self, flow: int) -> None:
        """Carries out a new directive; called with the lock held."""
        carriage = self._carriages.get(flow)
        if carriage is None:
            return
        gate, traffic_class = self._client.directive(flow)
        rate = max(gate.rate // 8, 1) if gate.kind == "paced" else None
        mark = None if traffic_class is None else self._dscp[min(traffic_class, 7)] << 2
        carriage.options.direct(rate, mark)
        carriage.changed(gate != OFF)


def _name() -> int:
    """Returns a number for a client, which no other client of this user on this host has."""
    return int.from_bytes(os.urandom(8), "little")


def _after_fork_in_child() -> None:
    for session in list(_sessions):
        session._after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
