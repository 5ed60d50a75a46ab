"""A policy of your own, in Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from cavalcade._native import Coflow


class Policy(ABC):
    """A policy of your own: write a class with `order`, and pass an object of it to `compare` or `simulate`.

    Each run has a copy of the object, made with `copy.deepcopy`, so it may keep what it likes about what it has seen.
    """

    name: ClassVar[str]
    """What it is called in tables; the name of its class unless it is set."""

    clairvoyant: ClassVar[bool] = False
    """Whether it is told sizes. Unless it is, asking for one raises."""

    every: ClassVar[str | None] = None
    """A time such as "10ms" after which `order` is asked again while anything is under way. Without it, only when a coflow arrives
    or ends."""

    discipline: ClassVar[str] = "maxmin"
    """How the flows of a coflow share what it is given: "maxmin", or of a clairvoyant policy "greedy" or "madd"."""

    @abstractmethod
    def order(self, coflows: list[Coflow]) -> Iterable[Coflow]:
        """The coflows under way, given in order of arrival, in the order in which they are to be served: each once."""
