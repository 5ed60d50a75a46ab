"""A connection that carries a flow: what a session sets on it, and the gate at which it waits.

What the application had set itself comes back when the flow ends. Options are read before they are set: where one is not as the
session left it, the application has changed it meanwhile, and what it set then is its own.

A session does not keep a connection open: it refers to sockets weakly, so one that is dropped closes as any other does.
"""

from __future__ import annotations

import ipaddress
import os
import select
import socket
import sys
import types
import weakref
from typing import Any, Callable, Optional

from .wire import CoflowKey, Ends

_SO_PRIORITY = 12
_SO_MAX_PACING_RATE = 47
_SO_COOKIE = 57
_TCP_NOTSENT_LOWAT = 25
_RATE, _PRIORITY = (socket.SOL_SOCKET, _SO_MAX_PACING_RATE), (socket.SOL_SOCKET, _SO_PRIORITY)
_UNSENT = (socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT)
_UNLIMITED = (1 << 64) - 1
# Is no time of TCP_KEEPIDLE: a kernel without the programs of an enforcer refuses it (bpf/enforce.h).
_RELEASE = 0x7E1EA5ED
# A state of TCP.
_CLOSED = 7
# The pause of who waits for a connection with notices to read.
_AGAIN = 0.1
# The kernel keeps the bits of ECN to itself.
_DSCP_BITS = 0xFC


def cookie(sock: Any) -> int:
    """Returns the number of a socket that no other one of this host has had."""
    return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8), sys.byteorder)


def ends_of(sock: Any) -> Ends:
    """Returns the two ends of a connection; raises where it is none, or not over TCP."""
    if not hasattr(sock, "getpeername"):
        raise TypeError(f"expected a connected TCP socket, found {sock!r}")
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type & 0xF != socket.SOCK_STREAM:
        raise ValueError(f"expected a connected TCP socket, found {sock!r}")
    return sock.getsockname()[:2], sock.getpeername()[:2]


def _mark_option(sock: Any, peer: str) -> tuple[int, int]:
    """Returns the option that has the DSCP of a connection's packets: IPv4 may go over a socket for both families."""
    if sock.family == socket.AF_INET6 and ipaddress.IPv6Address(peer.split("%")[0]).ipv4_mapped is None:
        return socket.IPPROTO_IPV6, socket.IPV6_TCLASS
    return socket.IPPROTO_IP, socket.IP_TOS


class Options:
    """What was set on a connection, and what stood there before."""

    def __init__(self, sock: Any, peer: str) -> None:
        try:
            self._sock: Callable[[], Any] = weakref.ref(sock)
        except TypeError:
            # What stands for the socket of an event loop's transport, which closes that itself.
            self._sock = lambda: sock
        self._mark, self._cookie = _mark_option(sock, peer), cookie(sock)
        # By option: what was set, and the application's own.
        self._set: dict[tuple[int, int], tuple[int, int]] = {}
        # What stood there at first: what an enforcer sets is not the application's.
        self._first = {option: _try_to_read(sock, option) for option in (_RATE, self._mark)}
        self.was_in_kernel = False

    def limit_unsent(self, size: int) -> None:
        """Keeps what waits in the kernel unsent to so many bytes, so that a gate that closes is seen soon."""
        self._change({_UNSENT: size})

    def direct(self, rate: Optional[int], mark: Optional[int]) -> None:
        """Sets the rate in bytes per second, and the byte that has the DSCP; none for the application's own."""
        self._change({_RATE: rate, self._mark: mark})

    def restore(self) -> None:
        """Sets all as it was before."""
        self._change({option: None for option in self._set})

    def release(self) -> None:
        """Has the programs of an enforcer set all as it was before; no program may set the mark of IPv4 on such a socket."""
        first = self._first[self._mark]
        try:
            sock = self._sock()
            if sock is None or cookie(sock) != self._cookie:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _RELEASE)
            if sock.family == socket.AF_INET6 and self._mark[0] == socket.IPPROTO_IP and first is not None:
                _write_keeping_priority(sock, self._mark, first)
        except (OSError, ValueError):
            pass  # Closed by now, or not handed over any more.

    def is_reachable(self) -> bool:
        """Tells whether somebody else has the socket."""
        return self._sock() is not None

    def _change(self, wanted: dict[tuple[int, int], Optional[int]]) -> None:
        try:
            sock = self._sock()
            # The number of what an event loop has closed may be another connection's by now.
            if sock is None or cookie(sock) != self._cookie:
                return
            for option, value in wanted.items():
                self._put(sock, option, value)
        except (OSError, ValueError):
            pass  # Closed by now, or a kernel without: the gate holds all the same.

    def _put(self, sock: Any, option: tuple[int, int], value: Optional[int]) -> None:
        if value is None and option not in self._set:
            return
        stands = _read(sock, option)
        first = self._first.get(option) if self.was_in_kernel else None
        ours, own = self._set.get(option, (stands, stands if first is None else first))
        if (stands ^ ours) & (_DSCP_BITS if option == self._mark else _UNLIMITED):
            own = stands
        if value is None:
            self._set.pop(option, None)
            value = own
        else:
            value = min(value, own) if option == _RATE else value
            self._set[option] = value, own
        if value != stands:
            _write_keeping_priority(sock, option, value)


def _read(sock: Any, option: tuple[int, int]) -> int:
    if option == _RATE:
        return int.from_bytes(sock.getsockopt(*option, 8), sys.byteorder)
    return int(sock.getsockopt(*option))


def _try_to_read(sock: Any, option: tuple[int, int]) -> Optional[int]:
    try:
        return _read(sock, option)
    except OSError:
        return None  # A kernel without.


def _write(sock: Any, option: tuple[int, int], value: int) -> None:
    sock.setsockopt(*option, value.to_bytes(8, sys.byteorder) if option == _RATE else value)


def _write_keeping_priority(sock: Any, option: tuple[int, int], value: int) -> None:
    """Sets an option; to set a TOS changes the priority."""
    priority = _read(sock, _PRIORITY)
    _write(sock, option, value)
    _write(sock, _PRIORITY, priority)


class Gate:
    """A descriptor that can be read while a flow may send."""

    def __init__(self, may_send: bool) -> None:
        self._may_send = may_send
        self._descriptor = os.eventfd(int(may_send), os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._descriptor

    def show(self, may_send: bool) -> None:
        """Makes it readable, or no longer so."""
        if may_send == self._may_send:
            return
        self._may_send = may_send
        try:
            if may_send:
                os.eventfd_write(self._descriptor, 1)
            else:
                os.eventfd_read(self._descriptor)
        except BlockingIOError:
            pass  # Somebody else has read it.

    def wait(self, sock: Any, seconds: Optional[float]) -> bool:
        """Waits until the flow may send or its connection is gone, at most for so long. Returns whether it is gone."""
        if not isinstance(getattr(select, "poll", None), types.BuiltinFunctionType):
            # Green threads have put something else in its place, or nothing, which does not see the end of a connection.
            select.select([self], [], [], _AGAIN if seconds is None else min(seconds, _AGAIN))
            return bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _CLOSED)
        if sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self, select.POLLIN)
        poll.register(sock, 0)
        for descriptor, events in poll.poll(None if seconds is None else seconds * 1e3):
            if descriptor == self._descriptor:
                continue
            if events & (select.POLLHUP | select.POLLNVAL):
                return True
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, os.strerror(error))
            # What the kernel has to say of packets that were sent, which the application reads or not.
            select.select([self], [], [], _AGAIN if seconds is None else min(seconds, _AGAIN))
        return False

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)


class Carriage:
    """What a session knows of a connection that carries a flow."""

    def __init__(self, sock: Any, key: CoflowKey, size: Optional[int]) -> None:
        self.key, self.size, self.ends = key, size, ends_of(sock)
        self.options = Options(sock, self.ends[1][0])
        # The client's number of the flow, while the session carries orders out.
        self.flow: Optional[int] = None
        self.is_in_kernel = False
        # What the enforcer calls the connection, and the bytes written while the kernel carries it.
        self.connection = f"{sock.fileno()}:{cookie(sock)}"
        self.sent = 0
        # Whether the stream is over; it is then only kept until an enforcer has answered. Its connection may stay.
        self.is_over = self.stays = False
        self.gate: Optional[Gate] = None
        # Called when the way to send changes.
        self.wake: Callable[[], Optional[Callable[[], None]]] = lambda: None

    def changed(self, may_send: bool) -> None:
        """Shows who waits that there is news."""
        if self.gate is not None:
            self.gate.show(may_send)
        wake = self.wake()
        if wake is not None:
            wake()
