"""SPC streams for programs that use Python's socket module: ``import cavalcade_spc as socket``.

An SPC stream is a stream of bytes between two hosts under a task-id, by which the switches of the fabric give it its rate
(Baraat, SIGCOMM 2014). A socket takes its id when it is made: from ``task=``, else from ``counter=``, else from the
counter of this process (``use_counter``).

What is there: ``socket`` (bind, listen, accept, connect, connect_ex, send, sendall, recv, recv_into, shutdown, close, makefile, time-outs,
names, ``with``), ``create_connection``, ``create_server``. ``select``, ``selectors`` and asyncio wait for them (``loop.sock_connect``,
``asyncio.open_connection(sock=…)``, ``asyncio.start_server(…, sock=…)``): ``fileno`` is a descriptor that shows whether a call would wait, and is
to be used for nothing else. What is not: datagrams, options beyond SO_ERROR and those that mean nothing here (TCP_NODELAY, SO_REUSEADDR,
SO_KEEPALIVE).

The library is found at $CAVALCADE_SPC_LIBRARY, else as libcavalcade_spc.so.0 where the system looks for libraries.
"""

import ctypes
import errno
import os
import select
import socket as _system
import sys
import threading
import time
from socket import (
    AF_INET,
    AF_INET6,
    IPPROTO_TCP,
    SHUT_RD,
    SHUT_RDWR,
    SHUT_WR,
    SO_ERROR,
    SO_KEEPALIVE,
    SO_REUSEADDR,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_NODELAY,
    error,
    gaierror,
    getaddrinfo,
    gethostname,
    timeout,
)

__all__ = [
    "AF_INET", "AF_INET6", "IPPROTO_TCP", "SHUT_RD", "SHUT_RDWR", "SHUT_WR", "SOCK_STREAM", "SOL_SOCKET", "SO_ERROR",
    "SO_KEEPALIVE", "SO_REUSEADDR", "TCP_NODELAY", "TaskCounter", "create_connection", "create_server", "error", "gaierror", "getaddrinfo",
    "getdefaulttimeout", "gethostname", "setdefaulttimeout", "socket", "timeout", "use_counter", "use_fabric",
]

#: The most that a call copies of what it is to write: there is room for a part of it only.
_PIECE = 1 << 18
#: The time of a call of the library that is not to wait.
_AT_ONCE = 0
#: The most that one poll waits, in seconds: it takes no large numbers.
_LONGEST = 86_400
_MEANINGLESS = {(IPPROTO_TCP, TCP_NODELAY), (SOL_SOCKET, SO_REUSEADDR), (SOL_SOCKET, SO_KEEPALIVE)}


class _Fabric(ctypes.Structure):
    _fields_ = [("rate_bps", ctypes.c_uint64), ("round_trip_ns", ctypes.c_uint64)]


def _load():
    library = ctypes.CDLL(os.environ.get("CAVALCADE_SPC_LIBRARY", "libcavalcade_spc.so.0"))
    handle, text, out = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)
    number, nanos, size = ctypes.POINTER(ctypes.c_uint32), ctypes.c_int64, ctypes.c_size_t
    functions = {
        "endpoint_open": [text, ctypes.POINTER(_Fabric), out],
        "endpoint_address": [handle, text, size],
        "endpoint_close": [handle],
        "connect_begin": [handle, text, ctypes.c_uint32, out],
        "is_open": [handle],
        "listen": [handle, out],
        "accept": [handle, nanos, out],
        "listener_descriptor": [handle],
        "listener_close": [handle],
        "read": [handle, ctypes.c_void_p, size, nanos],
        "write": [handle, ctypes.c_void_p, size, nanos],
        "shutdown": [handle, ctypes.c_int],
        "task": [handle, number],
        "peer": [handle, text, size],
        "name": [handle, text, size],
        "descriptor": [handle],
        "close": [handle],
        "counter_new": [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int, out],
        "counter_of_agent": [text, text, out],
        "counter_next": [handle, number],
        "counter_close": [handle],
    }
    for name, arguments in functions.items():
        function = getattr(library, f"cavalcade_spc_{name}")
        function.argtypes = arguments
        function.restype = None if name.endswith("close") else ctypes.c_int
    library.cavalcade_spc_read.restype = library.cavalcade_spc_write.restype = ctypes.c_ssize_t
    library.cavalcade_spc_error.restype = ctypes.c_char_p
    return library


_library = _load()


def _call(name, *arguments):
    """Calls a function of the library; raises what it returns as an error."""
    result = getattr(_library, f"cavalcade_spc_{name}")(*arguments)
    if result is not None and result < 0:
        words = _library.cavalcade_spc_error().decode()
        raise timeout(words) if -result == errno.ETIMEDOUT else OSError(-result, words)
    return result


def _handle(name, *arguments):
    """Calls a function that gives out a handle."""
    made = ctypes.c_void_p()
    _call(name, *arguments, ctypes.byref(made))
    return made


def _waiting(limit, descriptor, event, call):
    """Calls until it answers or the limit has passed: None for ever, 0 not at all. ``descriptor()`` is one that shows whether it would.

    The library's own waits cannot be interrupted, and this can: Ctrl-C comes at once."""
    until = None if limit is None else time.monotonic() + limit
    while True:
        try:
            return call()
        except BlockingIOError:
            if limit == 0:
                raise
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise timeout("timed out")
        waiting = select.poll()
        waiting.register(descriptor(), event)
        waiting.poll(None if left is None else min(left, _LONGEST) * 1000)


def _name(handle, function):
    buffer = ctypes.create_string_buffer(128)
    _call(function, handle, buffer, len(buffer))
    host, port = buffer.value.decode().rsplit(":", 1)
    host = host.strip("[]")
    return (host, int(port), 0, 0) if ":" in host else (host, int(port))


def _text(address):
    host, port = address[:2]
    host = host or "0.0.0.0"
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


class TaskCounter:
    """Task-ids: ``first``, ``first + step`` and so on; or those of a counter that the host's agent holds (``of_agent``)."""

    def __init__(self, first=1, step=1, *, background=False):
        self._counter = _handle("counter_new", first, step, background)

    @classmethod
    def of_agent(cls, path, name):
        """The counter of that name, at the agent's socket for counters."""
        counter = cls.__new__(cls)
        counter._counter = _handle("counter_of_agent", os.fsencode(path), name.encode())
        return counter

    def next_id(self):
        """The id of the task that arrives now."""
        number = ctypes.c_uint32()
        _call("counter_next", self._counter, ctypes.byref(number))
        return number.value

    def __del__(self):
        if getattr(self, "_counter", None):
            _library.cavalcade_spc_counter_close(self._counter)
            self._counter = None


_lock = threading.Lock()
_fabric = None
_counter = None
_default_timeout = None


def use_fabric(rate_bps, round_trip_ns):
    """Tells sockets that are made from here on the rate of the host's link and the fabric's round trip."""
    global _fabric
    _fabric = _Fabric(rate_bps, round_trip_ns)


def use_counter(counter):
    """Takes the ids of sockets that are given none from this counter."""
    global _counter
    _counter = counter


def setdefaulttimeout(seconds):
    """Sets the time-out of sockets that are made from here on."""
    global _default_timeout
    _default_timeout = seconds


def getdefaulttimeout():
    """The time-out of new sockets."""
    return _default_timeout


def _next_task():
    global _counter
    with _lock:
        if _counter is None:
            _counter = TaskCounter()
        return _counter.next_id()


class socket:
    """A socket that speaks SPC; as ``socket.socket`` for streams."""

    def __init__(self, family=AF_INET, type=SOCK_STREAM, proto=0, fileno=None, *, task=None, counter=None):
        if type & ~(getattr(_system, "SOCK_CLOEXEC", 0) | getattr(_system, "SOCK_NONBLOCK", 0)) != SOCK_STREAM:
            raise OSError(errno.EPROTONOSUPPORT, "SPC has streams only")
        if fileno is not None:
            raise OSError(errno.EBADF, "an SPC socket has no descriptor")
        self.family, self.type, self.proto = family, SOCK_STREAM, proto
        self._given = task if task is not None else counter and counter.next_id()
        self._endpoint = self._listener = self._stream = None
        self._timeout = _default_timeout
        self._files, self._closed, self._descriptor = 0, False, -1
        self._opening = False
        self._sending, self._receiving = threading.Lock(), threading.Lock()

    def _open(self, address):
        if self._endpoint is None:
            fabric = ctypes.byref(_fabric) if _fabric is not None else None
            self._endpoint = _handle("endpoint_open", _text(address), fabric)

    def _connected(self):
        if self._stream is None and self._closed:
            raise OSError(errno.EBADF, "the socket is closed")
        if self._stream is None:
            raise OSError(errno.ENOTCONN, "the socket is not connected")
        return self._stream

    @property
    def task(self):
        """The task-id; of a socket that listens, none."""
        if self._stream is None:
            return self._given
        number = ctypes.c_uint32()
        _call("task", self._stream, ctypes.byref(number))
        return number.value

    def bind(self, address):
        """Takes an address."""
        self._open(address)

    def listen(self, backlog=128):
        """Accepts streams from here on."""
        self._open(("", 0))
        if self._listener is None:
            self._listener = _handle("listen", self._endpoint)
            self._show()

    def accept(self):
        """The next stream, as a socket under its opener's task, and the address of the other end."""
        if self._listener is None:
            raise OSError(errno.EINVAL, "the socket does not listen")
        descriptor = lambda: _call("listener_descriptor", self._listener)
        stream = _waiting(self._timeout, descriptor, select.POLLIN, lambda: _handle("accept", self._listener, _AT_ONCE))
        accepted = socket(self.family)
        accepted._stream = stream
        return accepted, accepted.getpeername()

    def connect(self, address):
        """Opens a stream to an address."""
        if self._stream is not None:
            self._give_up_opening()
        host, port = address[:2]
        found = getaddrinfo(host, port, self.family, SOCK_STREAM)[0][4]
        self._open(("::" if ":" in found[0] else "0.0.0.0", 0))
        if self._given is None:
            self._given = _next_task()
        self._stream = _handle("connect_begin", self._endpoint, _text(found), self._given)
        self._opening = self._timeout == 0
        self._show()
        if self._opening:
            # As TCP answers, also where the other end has been quicker than this call.
            raise BlockingIOError(errno.EINPROGRESS, "the stream is being opened")
        try:
            _waiting(self._timeout, self._shown, select.POLLOUT, self._check_open)
        except BaseException:
            self._drop_stream()
            raise

    def _shown(self):
        """The library's descriptor of the stream."""
        return _call("descriptor", self._connected())

    def _check_open(self):
        if not _call("is_open", self._connected()):
            raise BlockingIOError(errno.EINPROGRESS, "the stream is being opened")

    def _drop_stream(self):
        stream, self._stream = self._stream, None
        _library.cavalcade_spc_close(stream)

    def _give_up_opening(self):
        """Drops a stream that could not be opened, so that another can be; raises if it is open or still being opened."""
        try:
            is_open = _call("is_open", self._stream)
        except OSError:
            if self._opening:
                return self._drop_stream()
            is_open = True
        if is_open:
            raise OSError(errno.EISCONN, "the socket is connected")
        raise OSError(errno.EALREADY, "the stream is being opened")

    def connect_ex(self, address):
        """As ``connect``, with the error's number for an answer."""
        try:
            self.connect(address)
        except OSError as error:
            return error.errno or errno.ETIMEDOUT
        return 0

    def recv_into(self, buffer, nbytes=0, flags=0):
        """Reads into a buffer; zero at the end."""
        _no_flags(flags)
        view = memoryview(buffer).cast("B")
        size = nbytes or len(view)
        if size == 0:
            return 0
        place = (ctypes.c_char * len(view)).from_buffer(view)
        with self._receiving:
            read = lambda: _call("read", self._connected(), place, size, _AT_ONCE)
            return _waiting(self._timeout, self._shown, select.POLLIN, read)

    def recv(self, bufsize, flags=0):
        """Reads at most so many bytes; none at the end."""
        buffer = bytearray(bufsize)
        return bytes(buffer[: self.recv_into(buffer, flags=flags)]) if bufsize else b""

    def send(self, data, flags=0):
        """Writes as much as there is room for, and returns how much."""
        _no_flags(flags)
        data = bytes(memoryview(data).cast("B")[:_PIECE])
        if not data:
            return 0
        with self._sending:
            write = lambda: _call("write", self._connected(), data, len(data), _AT_ONCE)
            return _waiting(self._timeout, self._shown, select.POLLOUT, write)

    def sendall(self, data, flags=0):
        """Writes all."""
        view = memoryview(data).cast("B")
        while len(view) > 0:
            view = view[self.send(view, flags) :]

    def sendmsg(self, buffers, ancdata=(), flags=0, address=None):
        """Writes as much of these buffers as there is room for, and returns how much."""
        if ancdata or address is not None:
            raise OSError(errno.EOPNOTSUPP, "SPC streams carry nothing but bytes")
        piece = bytearray()
        for buffer in buffers:
            piece += memoryview(buffer).cast("B")[: _PIECE - len(piece)]
        return self.send(piece, flags)

    def shutdown(self, how):
        """Ends a direction, or both."""
        _call("shutdown", self._connected(), how)

    def makefile(self, mode="r", buffering=None, *, encoding=None, errors=None, newline=None):
        """A file of the stream, as ``socket.makefile``."""
        return _system.socket.makefile(self, mode, buffering, encoding=encoding, errors=errors, newline=newline)

    # What socket.makefile and socket.SocketIO ask of a socket.
    @property
    def _io_refs(self):
        return self._files

    @_io_refs.setter
    def _io_refs(self, count):
        self._files = count

    def _decref_socketios(self):
        self._files = max(0, self._files - 1)
        if self._closed:
            self.close()

    def fileno(self):
        """A descriptor to wait for; -1 once the socket is closed. Event loops ask for it before they connect."""
        if self._descriptor < 0 and not (self._closed and self._stream is None):
            self._descriptor = os.open(os.devnull, os.O_RDONLY)
            self._show()
        return self._descriptor

    def _show(self):
        """Makes the descriptor that was given out refer to the stream or listener that the socket has now."""
        if self._descriptor < 0:
            return
        if self._stream is not None:
            os.dup2(_call("descriptor", self._stream), self._descriptor, inheritable=False)
        elif self._listener is not None:
            os.dup2(_call("listener_descriptor", self._listener), self._descriptor, inheritable=False)

    def settimeout(self, seconds):
        """Lets no call wait for longer; None for ever, 0 not at all."""
        if seconds is not None and seconds < 0:
            raise ValueError("a time-out is not negative")
        self._timeout = seconds

    def gettimeout(self):
        """The time-out."""
        return self._timeout

    def setblocking(self, flag):
        """As ``settimeout(None)`` or ``settimeout(0)``."""
        self._timeout = None if flag else 0.0

    def getblocking(self):
        """Whether calls wait."""
        return self._timeout != 0

    def getsockname(self):
        """This end's address."""
        if self._stream is not None:
            return _name(self._stream, "name")
        if self._endpoint is None:
            raise OSError(errno.EINVAL, "the socket has no address yet")
        return _name(self._endpoint, "endpoint_address")

    def getpeername(self):
        """The other end's address."""
        return _name(self._connected(), "peer")

    def setsockopt(self, level, option, value, length=None):
        """Takes the options that mean nothing here, and refuses others."""
        if (level, option) not in _MEANINGLESS:
            raise OSError(errno.ENOPROTOOPT, "an SPC socket has no such option")

    def getsockopt(self, level, option, length=0):
        """The answer to those options; for SO_ERROR, why a stream that was to be opened without a wait is not."""
        if (level, option) == (SOL_SOCKET, SO_ERROR):
            try:
                if self._stream is not None:
                    _call("is_open", self._stream)
            except OSError as error:
                return 0 if error.errno == errno.ENOTCONN else error.errno or errno.ETIMEDOUT
            return 0
        self.setsockopt(level, option, 0)
        return 0

    def close(self):
        """Ends what was written. Files of the stream go on until they are closed.

        Waits until the last byte is acknowledged. For a non-blocking socket a thread does that, so its port may stay in use for a little longer."""
        self._closed = True
        if self._files == 0:
            self._let_go(self._timeout != 0)

    def _let_go(self, waits):
        """Closes all handles; waits for the last byte here, or leaves that to a thread."""
        handles = [("close", self._stream), ("endpoint_close", self._endpoint)]
        if self._listener is not None:
            _library.cavalcade_spc_listener_close(self._listener)
        self._stream = self._listener = self._endpoint = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if all(handle is None for _, handle in handles):
            return
        if not waits:
            try:
                threading.Thread(target=_close, args=(handles,), name="spc close").start()
                return
            except RuntimeError:
                # No thread can be started.
                pass
        _close(handles)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if not getattr(self, "_closed", True):
            self._closed = True
            # A thread that is started during the interpreter's shutdown never runs.
            self._let_go(self._timeout != 0 or sys.is_finalizing())

    def __repr__(self):
        return f"<cavalcade_spc.socket task={self._given}{' closed' if self._closed else ''}>"


def _close(handles):
    for function, handle in handles:
        if handle is not None:
            getattr(_library, f"cavalcade_spc_{function}")(handle)


def _no_flags(flags):
    if flags:
        raise OSError(errno.EOPNOTSUPP, "SPC streams know no flags")


def create_connection(address, timeout=_system._GLOBAL_DEFAULT_TIMEOUT, source_address=None, *, task=None, counter=None, all_errors=False):
    """As ``socket.create_connection``, under a task."""
    made = socket(task=task, counter=counter)
    try:
        if timeout is not _system._GLOBAL_DEFAULT_TIMEOUT:
            made.settimeout(timeout)
        if source_address:
            made.bind(source_address)
        made.connect(address)
    except BaseException:
        made.close()
        raise
    return made


def create_server(address, *, family=AF_INET, backlog=None, reuse_port=False, dualstack_ipv6=False):
    """As ``socket.create_server``."""
    made = socket(family)
    try:
        made.bind(address)
        made.listen(backlog or 128)
    except BaseException:
        made.close()
        raise
    return made
