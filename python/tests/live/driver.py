"""The driver of the conformance suite for Python (see clients/README.md): ``driver.py SOCKET blocking|asyncio``."""

import asyncio
import gc
import selectors
import socket
import sys
import threading
import warnings
from concurrent.futures import Future, wait

from cavalcade.live import CoflowKey, Session, aio

# How long a write may take to fail.
PATIENCE = 20


def contents(length: int, first: int) -> bytes:
    ring = bytes((first + place) % 251 for place in range(251))
    return (ring * (length // 251 + 1))[:length]


def in_thread(work) -> Future:
    """Runs ``work`` in a thread of its own."""
    done = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


class Blocking:
    """Streams as sockets, each write by a thread."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def open(self, host, port, key, size):
        sock = socket.create_connection((host, port))
        try:
            return self._session.stream(sock, key, size)
        except BaseException:
            sock.close()
            raise

    def write(self, stream, data, before) -> Future:
        def in_turn() -> None:
            if before:
                before.result()
            stream.sendall(data)

        return in_thread(in_turn)

    def loop(self, stream, data) -> Future:
        stream.setblocking(False)
        return in_thread(lambda: self._select(stream, memoryview(data)))

    @staticmethod
    def _select(stream, view) -> None:
        with selectors.DefaultSelector() as selector:
            gate = selector.register(stream.gate_fileno(), selectors.EVENT_READ)
            # Nothing to read is expected: it shows that the other end is gone.
            connection = selector.register(stream, selectors.EVENT_READ)
            while len(view):
                ready = [key for key, _ in selector.select()]
                if connection in ready and not stream.recv(1):
                    selector.unregister(stream)
                    connection = None
                if gate in ready:
                    try:
                        view = view[stream.send(view) :]
                    except BlockingIOError:
                        if stream.directive.gate.kind != "off":
                            with selectors.DefaultSelector() as writable:
                                writable.register(stream, selectors.EVENT_WRITE)
                                writable.select()

    def close(self, stream) -> None:
        stream.close()

    def collect(self) -> None:
        gc.collect()

    def detach(self, stream):
        return socket.socket(fileno=stream.detach())


class Asyncio:
    """Streams of asyncio, on a loop in a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def _run(self, work) -> Future:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def open(self, host, port, key, size):
        async def connect():
            _, writer = await asyncio.open_connection(host, port)
            try:
                return aio.stream(self._session, writer, key, size)
            except BaseException:
                writer.close()
                raise

        return self._run(connect()).result()

    def write(self, stream, data, before) -> Future:
        async def in_turn() -> None:
            if before:
                await asyncio.wrap_future(before)
            await stream.write(data)

        return self._run(in_turn())

    def loop(self, stream, data) -> Future:
        return self.write(stream, data, None)

    def close(self, stream) -> None:
        try:
            self._run(stream.close()).result()
        except OSError:
            pass  # Of a connection that was reset.

    def collect(self) -> None:
        # By the thread of the loop, as in a program of asyncio: its transports may be closed by no other.
        self._loop.call_soon_threadsafe(gc.collect)

    def detach(self, stream):
        stream.end()
        return stream._writer


class Driver:
    def __init__(self, session: Session, face) -> None:
        self._session, self._face = session, face
        self._streams, self._writing, self._detached = {}, {}, []

    def _written(self, name) -> None:
        for writing in self._writing.pop(name, []):
            writing.result()

    def _register(self, words: list) -> CoflowKey:
        facts = {}
        for word in words:
            name, _, value = word.partition("=")
            if name == "parent":
                facts.setdefault("parents", []).append(CoflowKey.parse(value))
            elif name == "parents":
                facts["parents"] = [CoflowKey(7, 0, 7)] * int(value)
            elif name == "size":
                facts["size_bytes"] = int(value)
            elif name == "deadline":
                facts["deadline_s"] = float(value)
            elif name == "background":
                facts["background"] = True
            elif name == "name":
                facts["name"] = value
            elif name == "weight":
                facts["weight"] = int(value)
        return self._session.register(**facts)

    def answer(self, words: list) -> str:
        command, *rest = words
        session, face, streams = self._session, self._face, self._streams
        if command == "wait":
            return "ready" if session.wait_ready(20) else "no agent"
        if command == "register":
            return f"key {self._register(rest)}"
        if command == "open":
            name, host, port, key, *size = rest
            key, size = CoflowKey.parse(key), int(size[0]) if size else None
            streams[name] = face.open(host, int(port), key, size)
            return "opened"
        if command == "write":
            name, length, first = rest
            before = self._writing.get(name, [None])[-1]
            self._writing[name] = [face.write(streams[name], contents(int(length), int(first)), before)]
            return "writing"
        if command == "together":
            name, length, *values = rest
            parts = [bytes([int(value)]) * int(length) for value in values]
            self._writing[name] = [face.write(streams[name], part, None) for part in parts]
            return "writing"
        if command == "loop":
            name, length, first = rest
            self._writing[name] = [face.loop(streams[name], contents(int(length), int(first)))]
            return "writing"
        if command == "failed":
            writing = self._writing.pop(rest[0])
            wait(writing, PATIENCE)
            return "failed" if all(one.done() and isinstance(one.exception(), OSError) for one in writing) else "writing"
        if command == "gate":
            gate = streams[rest[0]].directive.gate
            return f"gate {gate.kind}" + (f" {gate.rate}" if gate.kind == "paced" else "")
        if command == "carrier":
            return "kernel" if streams[rest[0]].is_in_kernel else "library"
        if command == "finish":
            self._written(rest[0])
            face.close(streams.pop(rest[0]))
            return "finished"
        if command == "detach":
            self._written(rest[0])
            self._detached.append(face.detach(streams.pop(rest[0])))
            return "detached"
        if command == "drop":
            streams.pop(rest[0], None)
            face.collect()
            return "dropped"
        if command == "grant":
            session.grant(CoflowKey.parse(rest[0]), int(rest[1]))
            return "granted"
        if command == "unregister":
            session.unregister(CoflowKey.parse(rest[0]))
            return "unregistered"
        if command == "end":
            session.close()
            return "ended"
        raise AssertionError(f"no command {command}")


def main() -> None:
    path, face = sys.argv[1:]
    warnings.simplefilter("ignore", ResourceWarning)
    with Session(path) as session:
        driver = Driver(session, {"blocking": Blocking, "asyncio": Asyncio}[face](session))
        for line in sys.stdin:
            words = line.split()
            if words == ["quit"]:
                return
            try:
                answer = driver.answer(words)
            except (ValueError, TypeError) as error:
                answer = f"invalid {error}"
            print(answer, flush=True)


main()
