"""Flows that the kernel carries: where an enforcer is at work beside the agent, connections are handed over to it.

A line is written for each, and the flow is plain TCP until the enforcer has read it. What it refuses, and everything once it is
gone, the session carries itself. A flow that ends before its connection does is released: another line, and the kernel sets the
connection back as it was.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import Optional

from .carriage import Carriage

_RETRY_REFUSED = 0.1
# The longest time for an enforcer to answer before nothing more is handed over to it.
_PATIENCE = 0.2


class KernelPath:
    """The connection to the enforcer, and what was handed over to it. It is called with the session's lock held."""

    def __init__(self) -> None:
        self.enforcer: Optional[socket.socket] = None
        # In the order in which they were.
        self._handed: dict[Carriage, None] = {}
        # What was asked and when, in the order of the answers; none for a release.
        self._asked: deque[tuple[Optional[Carriage], float]] = deque()
        # How many lines were written, and how many answered.
        self._written = self._answered = 0
        self._refused_at = float("-inf")

    def hand_over(self, carriage: Carriage) -> bool:
        """Hands a connection over; returns whether that could be asked for."""
        now = time.monotonic()
        hangs = bool(self._asked) and now - self._asked[0][1] > _PATIENCE
        if self.enforcer is None or hangs or now - self._refused_at < _RETRY_REFUSED:
            return False
        sends = "" if carriage.size is None else f" sends={carriage.size}"
        line = f"connection={carriage.connection} coflow={carriage.key}{sends}\n".encode()
        try:
            if self.enforcer.send(line, socket.MSG_DONTWAIT) < len(line):
                raise BrokenPipeError
        except BlockingIOError:
            # It has much to read.
            return False
        except OSError:
            # Its reader sees the end, and takes everything back.
            self.hang_up()
            return False
        self._note_asked(carriage)
        self._handed[carriage] = None
        carriage.is_in_kernel = carriage.options.was_in_kernel = True
        return True

    def _note_asked(self, carriage: Optional[Carriage]) -> int:
        self._asked.append((carriage, time.monotonic()))
        self._written += 1
        return self._written

    def release(self, carriage: Carriage) -> Optional[int]:
        """A flow is over, and its connection is not. Returns the number of the line; nothing where there is nobody to ask."""
        if self.enforcer is None or carriage not in self._handed:
            return None
        try:
            self.enforcer.sendall(f"release={carriage.connection}\n".encode())
        except OSError:
            self.hang_up()
            return None
        return self._note_asked(None)

    def has_answered(self, line: Optional[int]) -> bool:
        """Tells whether nothing is to be expected of a line any more."""
        return line is None or self.enforcer is None or line <= self._answered

    def handed(self) -> list[Carriage]:
        """Returns what was handed over."""
        return list(self._handed)

    def say_no_more(self) -> None:
        """The session is over. The connection ends once the enforcer has answered."""
        try:
            if self.enforcer is not None:
                self.enforcer.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self, carriage: Carriage) -> None:
        """A stream is over; what was written on it is kept until the enforcer has answered."""
        carriage.is_over = True
        if not self._is_asked(carriage):
            self._handed.pop(carriage, None)

    def _is_asked(self, carriage: Carriage) -> bool:
        """Tells whether the enforcer has yet to answer for it."""
        return any(asked is carriage for asked, _ in self._asked)

    def answer(self, is_taken: bool) -> Optional[Carriage]:
        """Takes an answer in. Returns what is refused."""
        carriage, _ = self._asked.popleft() if self._asked else (None, 0.0)
        self._answered += 1
        if carriage is None or carriage not in self._handed:
            return None
        if is_taken:
            if carriage.is_over:
                self._handed.pop(carriage, None)
            return None
        self._handed.pop(carriage, None)
        if not carriage.is_over:
            self._refused_at = time.monotonic()
        return carriage

    def lose(self) -> list[tuple[Carriage, bool]]:
        """The enforcer is gone. Returns all that was handed over, and whether it has told the agent of each."""
        self.enforcer = None
        lost = [(carriage, not self._is_asked(carriage)) for carriage in self._handed]
        self._handed.clear()
        self._asked.clear()
        self._answered = self._written
        return lost

    def hang_up(self) -> None:
        """Ends the connection to the enforcer."""
        if self.enforcer is not None:
            try:
                self.enforcer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
