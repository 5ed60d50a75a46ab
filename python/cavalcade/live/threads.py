"""The threads that keep a session: with the agent, and with the enforcer beside it.

They hold a session weakly, and end once it is closed or dropped. Whatever goes wrong in them is logged and tried again: a session
without its threads would be plain TCP for good.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
import weakref
from typing import TYPE_CHECKING, Callable

from . import clock, wire

if TYPE_CHECKING:
    from .session import Session

# The longest time for an agent to answer or to read before it is taken to hang.
_PATIENCE = 0.2
_RETRY = 0.05
# Where the agent refuses the connection, or no enforcer is there.
_RETRY_REFUSED = 1.0
# The time in which the kernel part of an enforcer that was killed may still set rates and classes back.
_AFTERMATH = 5.0
# The pause between two lines in the log that say the same.
_QUIET = 1.0
_LOG = logging.getLogger("cavalcade")

# Places at which there is no agent, as the log says already: many sessions of a process look there.
_missed: set[tuple[str, ...]] = set()
_missed_at = float("-inf")


def start(session: "Session", paths: tuple[str, ...]) -> None:
    """Starts the threads that look for the agent at these places, the first where there is one, and for the enforcer beside it."""
    works: list[tuple[str, Callable[["weakref.ref[Session]", tuple[str, ...]], None]]] = [
        ("cavalcade", _keep_connected),
        ("cavalcade-enforcer", _keep_enforcer),
    ]
    for name, work in works:
        threading.Thread(target=work, args=(weakref.ref(session), paths), name=name, daemon=True).start()


def _connect(sock: socket.socket, paths: tuple[str, ...]) -> str:
    """Connects to the first agent that listens. Returns its place."""
    for path in paths[:-1]:
        try:
            sock.connect(path)
            return path
        except OSError:
            pass
    sock.connect(paths[-1])
    return paths[-1]


def _say_missed(paths: tuple[str, ...]) -> None:
    """Says once that there is no agent, and not more often than once a second where it comes and goes."""
    global _missed_at
    if paths not in _missed and time.monotonic() - _missed_at > _QUIET:
        _missed.add(paths)
        _missed_at = time.monotonic()
        _LOG.warning("no agent at %s: all is plain TCP", " or ".join(paths))


def _keep_connected(weak: "weakref.ref[Session]", paths: tuple[str, ...]) -> None:
    """Looks for the agent until the session is closed or dropped."""
    while True:
        session = weak()
        if session is None or session._is_closed:
            return
        del session
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        has_failed = False
        try:
            try:
                place = _connect(sock, paths)
            except OSError:
                _say_missed(paths)
                raise
            _missed.discard(paths)
            _serve_connection(weak, sock, place)
        except OSError:
            pass
        except Exception:
            has_failed = True
            _LOG.exception("the connection to the agent ends, and is tried again")
        finally:
            sock.close()
        session = weak()
        if session is None:
            return
        with session._news:
            session._reap()
            session._agent = None
            session._is_broken = False
            pause = _RETRY_REFUSED if session._client.is_refused or has_failed else _RETRY
            session._client.handle_disconnected(clock.now())
            session._news.notify_all()
        del session
        time.sleep(pause)


def _serve_connection(weak: "weakref.ref[Session]", sock: socket.socket, place: str) -> None:
    """Serves one connection, from its hello to its end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, b"\0" * 8 + (200_000).to_bytes(8, "little"))
    session = weak()
    if session is not None:
        with session._lock:
            session._agent = sock
            if session._agents_place not in (None, place):
                # Its enforcer is another one.
                session._kernel.hang_up()
            session._agents_place = place
            session._client.handle_connected()
    del session
    listening = threading.Thread(target=_listen, args=(weak, sock), name="cavalcade-reader", daemon=True)
    listening.start()
    try:
        _talk(weak, sock)
    finally:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        listening.join()


def _listen(weak: "weakref.ref[Session]", sock: socket.socket) -> None:
    """Reads until the connection ends."""
    frames = wire.Frames()
    try:
        while data := sock.recv(16 << 10):
            session = weak()
            if session is None:
                return
            with session._news:
                for message in frames.push(data):
                    session._client.handle_message(clock.now(), message)
                session._news.notify_all()
                session._work.notify_all()
            del session
    except (OSError, wire.WireError):
        pass
    except Exception:
        _LOG.exception("the connection to the agent ends, and is tried again")
    session = weak()
    if session is not None:
        with session._work:
            session._is_broken = True
            session._work.notify_all()


def _talk(weak: "weakref.ref[Session]", sock: socket.socket) -> None:
    """Writes what is to be sent, and keeps the time."""
    connected = time.monotonic()
    while True:
        session = weak()
        if session is None:
            return
        with session._work:
            session._reap()
            client, is_last = session._client, session._is_closed
            is_silent = client.handle_timeout(clock.now())
            hangs = not client.welcomed and time.monotonic() - connected > _PATIENCE
            if is_silent or hangs or session._is_broken:
                return
            said, client.outbox = b"".join(client.outbox), []
            if not said and not is_last:
                session._work.wait(max(client.timeout(clock.now()) / 1e9, 1e-4))
        del session
        if said:
            sock.sendall(said)
        if is_last:
            return


def _is_trusted(sock: socket.socket, agent: str) -> bool:
    """Tells whether who listens is root, this user, or who owns the agent's socket: others may have put their own there."""
    _, user, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user in (0, os.geteuid(), os.stat(agent).st_uid)


def _keep_enforcer(weak: "weakref.ref[Session]", paths: tuple[str, ...]) -> None:
    """Looks for the enforcer beside the agent until the session is closed or dropped."""
    lost_at = float("-inf")
    while True:
        session = weak()
        if session is None or session._is_closed:
            return
        lock, kernel = session._lock, session._kernel
        # Of several places only that of the agent in use counts: another enforcer speaks to another agent.
        agent = session._agents_place or (paths[0] if len(paths) == 1 else None)
        del session
        if agent is None:
            time.sleep(_RETRY)
            continue
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(agent + ".enforcer")
            if not _is_trusted(sock, agent):
                raise PermissionError
            sock.sendall(b"library\n")
            with lock:
                kernel.enforcer = sock
            _listen_to_enforcer(weak, sock)
        except OSError:
            pass
        except Exception:
            _LOG.exception("the connection to the enforcer ends, and is tried again")
        session = weak()
        if session is None:
            sock.close()
            return
        with session._news:
            lost = session._kernel.lose()
            lost_at = time.monotonic() if lost else lost_at
            for carriage, is_told in lost:
                session._take_back(carriage, is_told)
            # The kernel part of an enforcer that was killed may have set rates and classes back meanwhile.
            if time.monotonic() - lost_at < _AFTERMATH:
                for flow in session._carriages:
                    session._directed(flow)
            session._news.notify_all()
        sock.close()
        del session
        time.sleep(_RETRY_REFUSED)


def _listen_to_enforcer(weak: "weakref.ref[Session]", sock: socket.socket) -> None:
    """Reads answers until the connection ends."""
    with sock.makefile("r") as answers:
        for answer in answers:
            session = weak()
            if session is None:
                return
            with session._news:
                refused = session._kernel.answer(answer.startswith("ok "))
                if refused is not None:
                    session._take_back(refused, False)
                session._news.notify_all()
            del session
