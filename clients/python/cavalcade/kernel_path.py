"""Flows that the kernel carries: where an enforcer is at work beside the agent, connections are handed over to it.

A line is written for each, and the flow is plain TCP until the enforcer has read it. What it refuses, and everything once it is
gone, the session carries itself.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import NamedTuple, Optional

from .wire import CoflowKey

_RETRY_REFUSED = 0.1


class Handed(NamedTuple):
    """A connection that was handed over, with all that it takes to carry it; without a socket once its stream is over."""

    sock: Optional[socket.socket]
    mark: int
    ends: tuple
    key: CoflowKey
    size: Optional[int]


class KernelPath:
    """The connection to the enforcer, and what was handed over to it. Its flows have numbers below zero."""

    def __init__(self) -> None:
        self.enforcer: Optional[socket.socket] = None
        self.handed: dict[int, Handed] = {}
        self.sent: dict[int, int] = {}
        self._asked: deque[int] = deque()
        self._next = -1
        self._refused_at = float("-inf")

    def hand_over(self, handed: Handed) -> Optional[int]:
        """Hands a connection over; returns its number, or nothing where that cannot be asked for."""
        if self.enforcer is None or handed.sock is None or time.monotonic() - self._refused_at < _RETRY_REFUSED:
            return None
        descriptor, port = handed.sock.fileno(), handed.ends[0][1]
        sends = "" if handed.size is None else f" sends={handed.size}"
        line = f"connection={descriptor}:{port} coflow={handed.key}{sends}\n".encode()
        try:
            if self.enforcer.send(line, socket.MSG_DONTWAIT) < len(line):
                raise BrokenPipeError
        except OSError:
            # Its reader sees the end, and takes everything back.
            self.hang_up()
            return None
        number, self._next = self._next, self._next - 1
        self._asked.append(number)
        self.handed[number], self.sent[number] = handed, 0
        return number

    def close(self, number: int) -> None:
        """A stream is over; what was written on it is kept until the enforcer has answered."""
        if number in self._asked:
            self.handed[number] = self.handed[number]._replace(sock=None)
        else:
            self.handed.pop(number, None)
            self.sent.pop(number, None)

    def answer(self, is_taken: bool) -> Optional[int]:
        """Takes an answer in. Returns the number of what is refused."""
        number = self._asked.popleft() if self._asked else None
        if number is None or number not in self.handed:
            return None
        is_over = self.handed[number].sock is None
        if is_taken:
            if is_over:
                self.close(number)
            return None
        if not is_over:
            self._refused_at = time.monotonic()
        return number

    def lose(self) -> list[int]:
        """The enforcer is gone. Returns the numbers of all that was handed over."""
        self.enforcer = None
        self._asked.clear()
        return list(self.handed)

    def hang_up(self) -> None:
        """Ends the connection to the enforcer."""
        if self.enforcer is not None:
            try:
                self.enforcer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
