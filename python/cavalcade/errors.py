"""What goes wrong, as exceptions: each says where, what was expected there, and what to do about it."""

from __future__ import annotations


class Error(Exception):
    """What went wrong. `str()` of it is the message, with the cure behind it."""

    message: str
    place: str | None
    expected: str | None
    cure: str | None

    def __init__(
        self,
        message: str,
        place: str | None = None,
        expected: str | None = None,
        cure: str | None = None,
    ) -> None:
        super().__init__(message, place, expected, cure)
        self.message, self.place, self.expected, self.cure = message, place, expected, cure

    def __str__(self) -> str:
        said = [self.message]
        if self.expected and self.expected not in self.message:
            said.append(f"expected {self.expected}")
        if self.cure:
            said.append(self.cure)
        return "; ".join(said)


class InputError(Error, ValueError):
    """A trace, a table or a run's folder holds something that it must not."""


class UsageError(Error, ValueError):
    """An argument is not valid."""


class RunError(Error, RuntimeError):
    """A run, or the writing of its results, failed."""


class CheckError(Error, AssertionError):
    """A validation or a replay did not hold."""


class CapabilityError(Error):
    """This machine or build lacks something."""
