"""What a caller may pass, checked before anything is stored: a call that fails leaves its session as it was.

The libraries of all languages have the same bounds, and say the same of what is beyond them.
"""

from __future__ import annotations

import math
import operator
import os
import threading
from typing import Any, Iterable, Optional

from .wire import CoflowKey, name_of_coflow

# 2^63 - 1: the largest that every language and every file format of the project can say.
_MOST_BYTES = (1 << 63) - 1
# A hundred years.
_LONGEST_S = 3_155_760_000
_MOST_WEIGHT = (1 << 32) - 1
# An agent takes messages of up to 64 KiB.
_MOST_PARENTS = 1_000
# The number that means no user.
_NO_USER = (1 << 32) - 1
_LONGEST_PATH = 107


def _whole(what: str, value: Any) -> int:
    """Returns a whole number, of whichever type; a truth value is none."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{what} of {value!r}: expected a whole number")


def size(value: Optional[int]) -> Optional[int]:
    """Checks an amount of bytes."""
    if value is None:
        return None
    number = _whole("a size", value)
    if not 0 <= number <= _MOST_BYTES:
        raise ValueError(
            f"a size of {number} bytes: expected 0 to {_MOST_BYTES}, or none where it is not known"
        )
    return number


def _seconds(what: str, value: Any) -> float:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} of {value!r}: expected a number of seconds")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def deadline(value: Optional[float]) -> Optional[int]:
    """Checks a time from now in seconds; returns it in nanoseconds."""
    if value is None:
        return None
    seconds = _seconds("a deadline", value)
    if not 0 <= seconds <= _LONGEST_S:
        text = str(int(seconds)) if math.isfinite(seconds) and seconds == int(seconds) else str(seconds)
        raise ValueError(f"a deadline of {text} s from now: expected 0 to {_LONGEST_S} s, or none")
    return value * 1_000_000_000 if isinstance(value, int) else int(seconds * 1e9)


def patience(value: float) -> float:
    """Checks the longest time to wait in seconds."""
    seconds = _seconds("a wait", value)
    if math.isnan(seconds):
        raise ValueError("a wait of nan s: expected a number of seconds")
    return min(max(seconds, 0.0), threading.TIMEOUT_MAX)


def weight(value: int) -> int:
    """Checks the weight of a task."""
    number = _whole("a weight", value)
    if not 1 <= number <= _MOST_WEIGHT:
        raise ValueError(f"a weight of {number}: expected 1 to {_MOST_WEIGHT}")
    return number


def background(value: bool) -> bool:
    """Checks whether nothing waits for a task."""
    if not isinstance(value, bool):
        raise TypeError(f"background is {value!r}: expected True or False")
    return value


def key(value: CoflowKey) -> CoflowKey:
    """Checks the key of a coflow."""
    if not isinstance(value, CoflowKey):
        raise TypeError(f"expected the CoflowKey that register() returned, found {value!r}")
    parts = tuple(_whole("a part of a key", part) for part in value)
    for part, bits in zip(parts, (64, 16, 64)):
        if not 0 <= part < 1 << bits:
            raise ValueError(f"'{value}' is no key of a coflow, as 7.0.7")
    return CoflowKey(*parts)


def parents(value: Optional[Iterable[CoflowKey]]) -> list[CoflowKey]:
    """Checks the coflows that another one starts after."""
    if value is None:
        return []
    if isinstance(value, CoflowKey):
        raise TypeError("parents are a list of keys, found one key")
    checked = [key(parent) for parent in value]
    if len(checked) > _MOST_PARENTS:
        raise ValueError(f"{len(checked)} parents: expected at most {_MOST_PARENTS}")
    return checked


def user(value: int) -> int:
    """Checks the number of a user."""
    number = _whole("a user", value)
    if not 0 <= number < _NO_USER:
        raise ValueError(f"user {number}: expected 0 to {_NO_USER - 1}")
    return number


def name(value: Optional[str]) -> Optional[str]:
    """Checks the name of a coflow."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"a name of {value!r}: expected a text")
    return name_of_coflow(value)


def path(value: Any) -> str:
    """Checks where an agent listens."""
    text = os.fsdecode(os.fspath(value))
    length = len(os.fsencode(text))
    if "\0" in text:
        raise ValueError("a path with a zero byte: expected that of an agent's socket")
    if not 1 <= length <= _LONGEST_PATH:
        raise ValueError(f"a path of {length} bytes: expected 1 to {_LONGEST_PATH}, as sockets have")
    return text


def dscp(value: Iterable[int]) -> tuple[int, ...]:
    """Checks the DSCP of each class; what is left out at the end is as the last one."""
    listed = [_whole("a DSCP", number) for number in value]
    if not 1 <= len(listed) <= 8 or not all(0 <= number < 64 for number in listed):
        raise ValueError(f"{listed}: expected up to 8 numbers from 0 to 63, as 40,32,24,16,0,1")
    return tuple(listed + listed[-1:] * (8 - len(listed)))
