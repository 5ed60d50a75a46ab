"""The library's side of the agent protocol, without sockets or clocks: what is transferred, and how it may be.

Nothing here makes an application wait for anything but an order that holds. Without an agent, with one that hangs, or between
two of them, every flow is open. The client is where the truth about its flows is, and says all of it again on every new
connection. It is the state machine of the Rust crate ``protocol``; times are nanoseconds since 1970 by a clock that is
never set back.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Callable, Optional

from . import wire
from .wire import CoflowKey, Directive, Ends, Facts

_STEP = 1 << 24
_U32 = (1 << 32) - 1
# What an agent's times are taken for at least and at most.
_SHORTEST, _LONGEST = 1_000_000, 600_000_000_000
# The pause between two lines in the log about refusals.
_QUIET = 1_000_000_000
_LOG = logging.getLogger("cavalcade")


@dataclass
class _Coflow:
    facts: Optional[Facts]
    sent: int = 0
    is_known: bool = False
    # Other users who may take part.
    granted: set[int] = field(default_factory=set)


@dataclass
class _Flow:
    key: CoflowKey
    ends: Ends
    size: Optional[int]
    sent: int = 0
    idle: bool = False
    said: tuple[int, bool] = (0, False)
    directive: Directive = field(default_factory=Directive)


class Client:
    """A client of the agent on its host."""

    def __init__(self, name: int, directed: Callable[[int], None]) -> None:
        self._name, self._directed = name, directed
        self.connected = self.welcomed = False
        self._period, self._lease = 10_000_000, 500_000_000
        self._lease_until: Optional[int] = None
        self._said_at = 0
        self._coflows: dict[CoflowKey, _Coflow] = {}
        self._flows: dict[int, _Flow] = {}
        self._requests: dict[int, tuple[list[CoflowKey], Optional[int], Facts]] = {}
        self._next_request = self._next_flow = 0
        self._next_serial = 0
        self.outbox: list[bytes] = []
        self.keys: dict[int, CoflowKey] = {}
        self.refusals: deque[wire.Refused] = deque(maxlen=64)
        # Whether the agent has refused this connection.
        self.is_refused = False
        # When the log spoke of a refusal last, and how many it has left out since.
        self._complained_at = -_QUIET
        self._unsaid = 0

    def forked(self, name: int) -> "Client":
        """Returns the client of a forked child: another client, which knows none of its parent's flows and coflows.

        Numbers go on where the parent's stood, so that a stream the child inherited names no flow of the child.
        """
        child = Client(name, self._directed)
        child._next_flow, child._next_request = self._next_flow, self._next_request
        return child

    def register(self, now: int, parents: list[CoflowKey], deadline: Optional[int], facts: Facts) -> int:
        """Asks for a coflow, whose key appears in ``keys`` under the number returned."""
        request = self._next_request
        self._next_request = (request + 1) & _U32
        if not self.connected:
            self._register_alone(now, request, parents, deadline, facts)
            return request
        self._requests[request] = (parents, deadline, facts)
        if self.welcomed:
            self.outbox.append(wire.register(request, parents, deadline, facts))
        return request

    def _register_alone(
        self, now: int, request: int, parents: list[CoflowKey], deadline: Optional[int], facts: Facts
    ) -> None:
        """A key from a counter that no other part of the system uses: odd numbers, never below the time."""
        start = (self._name * 2) % _STEP | 1
        least = max(now, self._next_serial)
        serial = least + (start - least) % _STEP
        self._next_serial = serial + 1
        key = CoflowKey.new(serial, parents)
        absolute = None if deadline is None else now + deadline
        own = Facts(now, absolute, facts.size, facts.background, facts.weight, facts.name)
        self._coflows[key] = _Coflow(own)
        self.keys[request] = key

    def open(self, key: CoflowKey, ends: Ends, size: Optional[int]) -> int:
        """A connection begins to carry a flow; returns its number."""
        # Numbers come around after four thousand million; no two open flows have the same.
        flow = self._next_flow
        while flow in self._flows:
            flow = (flow + 1) & _U32
        self._next_flow = (flow + 1) & _U32
        self._flows[flow] = _Flow(key, ends, size)
        self._join(key)
        if self.welcomed:
            self.outbox.append(wire.open_flow(flow, key, ends, size, 0))
        return flow

    def _join(self, key: CoflowKey) -> None:
        coflow = self._coflows.setdefault(key, _Coflow(None))
        if self.welcomed and not coflow.is_known:
            coflow.is_known = True
            self.outbox.append(wire.join(key, coflow.facts, coflow.sent))
            self.outbox += [wire.grant(key, user) for user in sorted(coflow.granted)]

    def sent(self, flow: int, more: int) -> None:
        """A flow has sent ``more`` bytes."""
        if flow in self._flows:
            self._flows[flow].sent += more

    def set_idle(self, flow: int, idle: bool) -> None:
        """Whether the application has nothing to send on a flow at present."""
        if flow in self._flows:
            self._flows[flow].idle = idle

    def close(self, flow: int) -> None:
        """A flow is over."""
        over = self._flows.pop(flow, None)
        if over is None:
            return
        if over.key in self._coflows:
            self._coflows[over.key].sent += over.sent
        if self.welcomed:
            self.outbox.append(wire.close_flow(flow, over.sent))

    def grant(self, key: CoflowKey, user: int) -> None:
        """Let another user take part in a coflow of this one, as long as this client takes part."""
        self._join(key)
        granted = self._coflows[key].granted
        if user not in granted:
            granted.add(user)
            if self.welcomed:
                self.outbox.append(wire.grant(key, user))

    def unregister(self, key: CoflowKey) -> None:
        """End this client's part in a coflow."""
        if self._coflows.pop(key, None) is not None and self.welcomed:
            self.outbox.append(wire.unregister(key))

    def knows(self, key: CoflowKey) -> bool:
        """Whether the agent knows of a coflow."""
        return key in self._coflows and self._coflows[key].is_known

    def forget(self, key: CoflowKey) -> None:
        """A coflow that the agent was never told of is none after all."""
        if not self.knows(key):
            self._coflows.pop(key, None)

    def directive(self, flow: int) -> Directive:
        """How a flow is to be sent now."""
        record = self._flows.get(flow)
        return Directive() if record is None or self._lease_until is None else record.directive

    def handle_connected(self) -> None:
        """There is a connection to an agent."""
        self.connected, self.is_refused = True, False
        self.outbox = [wire.hello(self._name)]

    def handle_disconnected(self, now: int) -> None:
        """The connection is gone; who waits for a key gets one."""
        self.connected = self.welcomed = False
        self.outbox = []
        self._fall_back()
        for coflow in self._coflows.values():
            coflow.is_known = False
        requests, self._requests = self._requests, {}
        for request, (parents, deadline, facts) in requests.items():
            self._register_alone(now, request, parents, deadline, facts)

    def handle_message(self, now: int, message: object) -> None:
        """The agent says something."""
        if self.welcomed:
            self._lease_until = now + self._lease
        if isinstance(message, wire.Welcome):
            self._period = min(max(message.period, _SHORTEST), _LONGEST)
            self._lease = min(max(message.lease, 4 * _SHORTEST), _LONGEST)
            self.welcomed = True
            self._lease_until = now + self._lease
            self._say_everything()
        elif isinstance(message, wire.Registered):
            if self._requests.pop(message.request, None) is not None:
                self._coflows[message.key] = _Coflow(message.facts, is_known=True)
                self.keys[message.request] = message.key
        elif isinstance(message, wire.Direct):
            if message.flow in self._flows:
                self._flows[message.flow].directive = message.directive
                self._directed(message.flow)
        elif isinstance(message, wire.Refused):
            self.refusals.append(message)
            self.is_refused |= message.is_connection
            self._complain(now, message)
            if message.request in self._requests:
                self._register_alone(now, message.request, *self._requests.pop(message.request))

    def _complain(self, now: int, refused: wire.Refused) -> None:
        """Puts a refusal into the log, at most one a second: a program may try again and again."""
        self._count_complaints(now)
        if now - self._complained_at < _QUIET:
            self._unsaid += 1
            return
        self._complained_at = now
        _LOG.warning("the agent refused %s: %s", refused.subject, refused.reason)

    def _count_complaints(self, now: int) -> None:
        """Says how many refusals the log has left out, once a second has passed."""
        if self._unsaid and now - self._complained_at >= _QUIET:
            _LOG.warning("the agent refused %d more; refusals() has the latest", self._unsaid)
            self._complained_at, self._unsaid = now, 0

    def _say_everything(self) -> None:
        """A new agent knows nothing."""
        for request, (parents, deadline, facts) in self._requests.items():
            self.outbox.append(wire.register(request, parents, deadline, facts))
        for key in sorted(self._coflows):
            self._join(key)
        for number, flow in self._flows.items():
            flow.said = (flow.sent, False)
            self.outbox.append(wire.open_flow(number, flow.key, flow.ends, flow.size, flow.sent))

    def _fall_back(self) -> None:
        self._lease_until = None
        for number, flow in self._flows.items():
            if flow.directive != Directive():
                flow.directive = Directive()
                self._directed(number)

    def handle_timeout(self, now: int) -> bool:
        """Does what has come due. Returns whether the agent has been silent for a whole lease: close its connection."""
        self._count_complaints(now)
        is_silent = self._lease_until is not None and self._lease_until <= now
        if is_silent:
            self._fall_back()
        if self.welcomed and self._flows and self._said_at + self._period <= now:
            self._said_at = now
            for number, flow in self._flows.items():
                state = (flow.sent, flow.idle)
                if flow.said != state:
                    flow.said = state
                    self.outbox.append(wire.progress(number, *state))
        return is_silent

    def timeout(self, now: int) -> int:
        """Nanoseconds until :meth:`handle_timeout` has something to do."""
        due = [now + 200_000_000]
        if self._lease_until is not None:
            due.append(self._lease_until)
        if self.welcomed and self._flows:
            due.append(self._said_at + self._period)
        return max(0, min(due) - now)
