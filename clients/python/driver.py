"""The driver of the conformance suite for Python (see clients/README.md): ``driver.py SOCKET blocking|asyncio``."""

import asyncio
import socket
import sys
import threading

from cavalcade import CoflowKey, Session, aio


def contents(length: int, first: int) -> bytes:
    ring = bytes((first + place) % 251 for place in range(251))
    return (ring * (length // 251 + 1))[:length]


class Blocking:
    """Streams as sockets, each written by a thread."""

    def __init__(self, session: Session) -> None:
        self._session, self._streams, self._writing = session, {}, {}

    def open(self, name, host, port, key, size) -> None:
        sock = socket.create_connection((host, port))
        self._streams[name] = self._session.stream(sock, key, size)

    def write(self, name, data) -> None:
        stream, before = self._streams[name], self._writing.get(name)

        def in_turn() -> None:
            if before:
                before.join()
            stream.sendall(data)

        self._writing[name] = threading.Thread(target=in_turn)
        self._writing[name].start()

    def stream(self, name):
        return self._streams[name]

    def finish(self, name) -> None:
        if name in self._writing:
            self._writing.pop(name).join()
        self._streams.pop(name).close()


class Asyncio:
    """Streams of asyncio, on a loop in a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session, self._streams, self._writing = session, {}, {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def open(self, name, host, port, key, size) -> None:
        async def connect():
            _, writer = await asyncio.open_connection(host, port)
            return aio.stream(self._session, writer, key, size)

        self._streams[name] = self._run(connect()).result()

    def write(self, name, data) -> None:
        stream, before = self._streams[name], self._writing.get(name)

        async def in_turn() -> None:
            if before:
                await asyncio.wrap_future(before)
            await stream.write(data)

        self._writing[name] = self._run(in_turn())

    def stream(self, name):
        return self._streams[name]

    def finish(self, name) -> None:
        if name in self._writing:
            self._writing.pop(name).result()
        self._run(self._streams.pop(name).close()).result()


def register(session: Session, words: list) -> CoflowKey:
    facts = {}
    for word in words:
        name, _, value = word.partition("=")
        if name == "parent":
            facts.setdefault("parents", []).append(CoflowKey.parse(value))
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
    return session.register(**facts)


def answer(session: Session, face, words: list) -> str:
    command, *rest = words
    if command == "wait":
        return "ready" if session.wait_ready(20) else "no agent"
    if command == "register":
        return f"key {register(session, rest)}"
    if command == "open":
        name, host, port, key, *size = rest
        face.open(name, host, int(port), CoflowKey.parse(key), int(size[0]) if size else None)
        return "opened"
    if command == "write":
        name, length, first = rest
        face.write(name, contents(int(length), int(first)))
        return "writing"
    if command == "gate":
        gate = face.stream(rest[0]).directive.gate
        return f"gate {gate.kind}" + (f" {gate.rate}" if gate.kind == "paced" else "")
    if command == "carrier":
        return "kernel" if face.stream(rest[0]).is_in_kernel else "library"
    if command == "finish":
        face.finish(rest[0])
        return "finished"
    if command == "unregister":
        session.unregister(CoflowKey.parse(rest[0]))
        return "unregistered"
    raise ValueError(f"no command {command}")


def main() -> None:
    path, face = sys.argv[1:]
    with Session(path) as session:
        face = {"blocking": Blocking, "asyncio": Asyncio}[face](session)
        for line in sys.stdin:
            words = line.split()
            if words == ["quit"]:
                return
            print(answer(session, face, words), flush=True)


main()
