"""Coflows for ``with`` and for functions, on a session that the process shares.

    from cavalcade import live

    with live.coflow("shuffle", deadline=2.5) as shuffle:
        with shuffle.connect(("10.0.0.7", 9000)) as stream:
            stream.sendall(b"map output")

A block's coflow begins with it and ends with it. Before a function, ``@live.coflow("shuffle")`` gives each call a coflow of its own,
which :func:`current` returns inside. A :class:`Coflow` pickles as its id: a worker of multiprocessing, Dask or PySpark that it
is passed to takes part in it, through the session of its own process. The coflow goes on until whoever registered it ends it.

Rejected: passing sessions to workers. Their sockets and threads belong to one process, and the agent of another host has another
socket; a coflow's id is all that both agents need.
"""

from __future__ import annotations

import functools
import inspect
import os
import socket
import threading
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Optional, TypeVar, Union

from . import arguments
from .session import Session
from .stream import CoflowSocket
from .wire import CoflowKey

Called = TypeVar("Called", bound=Callable[..., Any])

_shared: Optional[Session] = None
_sharing = threading.Lock()
_current: "ContextVar[Optional[Coflow]]" = ContextVar("cavalcade_coflow", default=None)


def shared_session() -> Session:
    """Returns the session that this process shares, which looks for its agent where ``default_paths`` says."""
    global _shared
    with _sharing:
        if _shared is None or _shared._is_closed:
            _shared = Session()
        return _shared


def _after_fork_in_child() -> None:
    global _sharing
    _sharing = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


@dataclass(frozen=True)
class Coflow:
    """A coflow that streams may belong to. It pickles as its key and name."""

    key: CoflowKey
    name: Optional[str] = None
    # Of another process than the one that registered it there is none: it shares its own.
    _session: Optional[Session] = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> Any:
        return Coflow, (self.key, self.name)

    def __str__(self) -> str:
        return self.name or str(self.key)

    def connect(
        self, address: tuple[str, int], size_bytes: Optional[int] = None, timeout: Optional[float] = None
    ) -> CoflowSocket:
        """Connects to ``address`` (host, port), and makes the connection carry a flow of this coflow."""
        return self._own().connect(address, self.key, size_bytes, timeout)

    def stream(self, sock: socket.socket, size_bytes: Optional[int] = None) -> CoflowSocket:
        """Makes ``sock``, connected to its receiver, carry a flow of this coflow."""
        return self._own().stream(sock, self.key, size_bytes)

    def grant(self, user: int) -> None:
        """Lets another user, by its number, take part."""
        self._own().grant(self.key, user)

    def end(self) -> None:
        """Ends this process's part. Streams that are still open go on as plain TCP."""
        self._own().unregister(self.key)

    def _own(self) -> Session:
        return shared_session() if self._session is None else self._session


def current() -> Optional[Coflow]:
    """Returns the coflow of the block or function that this thread or task is in, if it is in one."""
    return _current.get()


@contextmanager
def taking_part(shared: Coflow) -> Iterator[Coflow]:
    """Makes a coflow that was passed here the current one, and ends this process's part after the block."""
    outer = _current.get()
    _current.set(shared)
    try:
        yield shared
    finally:
        _current.set(outer)
        shared.end()


class Scope:
    """What :func:`coflow` returns: for one ``with`` block, or for the calls of a function."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Coflow]]) -> None:
        self._begin = begin
        self._block: Optional[AbstractContextManager[Coflow]] = None

    def __enter__(self) -> Coflow:
        if self._block is not None:
            raise RuntimeError("one block has one coflow: call coflow() again for another")
        self._block = self._begin()
        return self._block.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._block is not None:
            self._block.__exit__(kind, error, trace)

    def __call__(self, work: Called) -> Called:
        if inspect.isgeneratorfunction(work) or inspect.isasyncgenfunction(work):
            raise TypeError(f"{work!r} makes a generator, which runs after the call: use 'with' inside")
        begin = self._begin
        if inspect.iscoroutinefunction(work):

            @functools.wraps(work)
            async def awaited(*arguments: Any, **named: Any) -> Any:
                with begin():
                    return await work(*arguments, **named)

            return awaited  # type: ignore[return-value]

        @functools.wraps(work)
        def called(*arguments: Any, **named: Any) -> Any:
            with begin():
                return work(*arguments, **named)

        return called  # type: ignore[return-value]


def coflow(
    name: Optional[str] = None,
    *,
    deadline: Optional[float] = None,
    size: Optional[int] = None,
    parents: Iterable[Union[Coflow, CoflowKey]] = (),
    background: bool = False,
    weight: int = 1,
    required: bool = False,
    session: Optional[Session] = None,
) -> Scope:
    """A coflow for the length of a ``with`` block, or of each call of a function that this decorates.

    The arguments are those of :meth:`Session.register`; ``deadline`` is in seconds from the start of the block, ``size`` in bytes.
    ``parents`` may be coflows or keys. ``session`` is the one that the process shares unless another is given.
    """
    keys = [parent.key if isinstance(parent, Coflow) else parent for parent in parents]
    arguments.deadline(deadline)
    facts: dict[str, Any] = {
        "name": arguments.name(name),
        "parents": arguments.parents(keys),
        "deadline_s": deadline,
        "size_bytes": arguments.size(size),
        "background": arguments.background(background),
        "weight": arguments.weight(weight),
        "required": required,
    }
    return Scope(lambda: taking_part(register(session, facts)))


def register(chosen: Optional[Session], facts: dict[str, Any]) -> Coflow:
    """Registers a coflow with a session, or with the one that the process shares."""
    chosen = shared_session() if chosen is None else chosen
    return Coflow(chosen.register(**facts), facts["name"], chosen)
