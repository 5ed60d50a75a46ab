"""Flows that the kernel carries: where an enforcer is at work beside the agent, connections are handed over to it.

A line is written for each, and the flow is plain TCP until the enforcer has read it. What it refuses, and everything once it is
gone, the session carries itself.
"""

from __future__ import annotations

import socket
import sys
import time
from collections import deque
from typing import NamedTuple, Optional

from .wire import CoflowKey

_RETRY_REFUSED = 0.1
# The longest time for an enforcer to answer before nothing more is handed over to it.
_PATIENCE = 0.2
_SO_COOKIE = 57


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
        # With the time at which it was asked for.
        self._asked: deque[tuple[int, float]] = deque()
        self._next = -1
        self._refused_at = float("-inf")

    def hand_over(self, handed: Handed) -> Optional[int]:
        """Hands a connection over; returns its number, or nothing where that cannot be asked for."""
        now = time.monotonic()
        hangs = bool(self._asked) and now - self._asked[0][1] > _PATIENCE
        if self.enforcer is None or handed.sock is None or hangs or now - self._refused_at < _RETRY_REFUSED:
            return None
        sends = "" if handed.size is None else f" sends={handed.size}"
        try:
            cookie = int.from_bytes(handed.sock.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8), sys.byteorder)
            line = f"connection={handed.sock.fileno()}:{cookie} coflow={handed.key}{sends}\n".encode()
            if self.enforcer.send(line, socket.MSG_DONTWAIT) < len(line):
                raise BrokenPipeError
        except BlockingIOError:
            # It has much to read.
            return None
        except OSError:
            # Its reader sees the end, and takes everything back.
            self.hang_up()
            return None
        number, self._next = self._next, self._next - 1
        self._asked.append((number, now))
        self.handed[number], self.sent[number] = handed, 0
        return number

    def close(self, number: int) -> None:
        """A stream is over; what was written on it is kept until the enforcer has answered."""
        if self.is_asked(number):
            self.handed[number] = self.handed[number]._replace(sock=None)
        else:
            self.handed.pop(number, None)
            self.sent.pop(number, None)

    def is_asked(self, number: int) -> bool:
        """Tells whether the enforcer has yet to answer for it: numbers follow each other."""
        return bool(self._asked) and number <= self._asked[0][0]

    def answer(self, is_taken: bool) -> Optional[int]:
        """Takes an answer in. Returns the number of what is refused."""
        number, _ = self._asked.popleft() if self._asked else (0, 0.0)
        if number not in self.handed:
            return None
        is_over = self.handed[number].sock is None
        if is_taken:
            if is_over:
                self.close(number)
            return None
        if not is_over:
            self._refused_at = time.monotonic()
        return number

    def lose(self) -> list[tuple[int, bool]]:
        """The enforcer is gone. Returns the numbers of all that was handed over, and whether it has told the agent of each."""
        self.enforcer = None
        lost = [(number, not self.is_asked(number)) for number in self.handed]
        self._asked.clear()
        return lost

    def hang_up(self) -> None:
        """Ends the connection to the enforcer."""
        if self.enforcer is not None:
            try:
                self.enforcer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
