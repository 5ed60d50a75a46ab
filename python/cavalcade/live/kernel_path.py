"""Flows that the kernel carries: where an enforcer is at work beside the agent, connections are handed over to it.

A line is written for each, and the flow is plain TCP until the enforcer has read it. What it refuses, and everything once it is
gone, the session carries itself. Where a flow ends before its connection, the programs in the kernel are told by an option of the
connection, and set it back as it was.
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
        self._handed: dict[Carriage, object] = {}
        # What was asked and when, in the order of the answers.
        self._asked: deque[tuple[Carriage, float]] = deque()
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
        self._asked.append((carriage, now))
        self._handed[carriage] = None
        carriage.is_in_kernel = carriage.options.was_in_kernel = True
        return True

    def handed(self) -> list[Carriage]:
        """Returns what was handed over."""
        return list(self._handed)

    def close(self, carriage: Carriage, stays: bool) -> None:
        """A stream is over, and its connection ``stays``; what was written on it is kept until the enforcer has answered."""
        carriage.is_over, carriage.stays = True, stays
        if not self._is_asked(carriage):
            self._forget(carriage)

    def _forget(self, carriage: Carriage) -> None:
        self._handed.pop(carriage, None)
        if carriage.stays:
            carriage.options.release()

    def _is_asked(self, carriage: Carriage) -> bool:
        """Tells whether the enforcer has yet to answer for it."""
        return any(asked is carriage for asked, _ in self._asked)

    def answer(self, is_taken: bool) -> Optional[Carriage]:
        """Takes an answer in. Returns what is refused."""
        if not self._asked:
            return None
        carriage, _ = self._asked.popleft()
        if is_taken:
            if carriage.is_over:
                self._forget(carriage)
            return None
        del self._handed[carriage]
        if not carriage.is_over:
            self._refused_at = time.monotonic()
        return carriage

    def lose(self) -> list[tuple[Carriage, bool]]:
        """The enforcer is gone. Returns all that was handed over, and whether it has told the agent of each."""
        self.enforcer = None
        lost = [(carriage, not self._is_asked(carriage)) for carriage in self._handed]
        self._handed.clear()
        self._asked.clear()
        return lost

    def hang_up(self) -> None:
        """Ends the connection to the enforcer."""
        if self.enforcer is not None:
            try:
                self.enforcer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
