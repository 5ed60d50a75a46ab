"""An agent and an enforcer that do what a test says."""

import os
import socket
import struct
import tempfile
import threading
import time
import unittest

from cavalcade.live import CoflowKey, wire
from cavalcade.live.wire import Writer

LEASE_NS = 300_000_000
KEY = CoflowKey(7, 0, 7)


class Agent:
    """An agent that welcomes clients, keeps their leases, and turns every flow off if told to."""

    def __init__(
        self, registers: bool = True, off: bool = False, refuses: bool = False, at: str = ""
    ) -> None:
        self.registers, self.off, self.is_silent, self.refuses = registers, off, False, refuses
        self.path = at or os.path.join(tempfile.mkdtemp(), "agent.sock")
        self.received: list[int] = []
        # The open flows, by the connection that they were opened on.
        self.flows: dict[int, socket.socket] = {}
        self.clients: set[int] = set()
        # What each flow that has ended has sent.
        self.sent: dict[int, int] = {}
        self._connections: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # Closed before.
        self._listener.close()
        for sock in self._connections:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        threading.Thread(target=self._keep_alive, args=(sock,), daemon=True).start()
        buffer = b""
        try:
            while data := sock.recv(65536):
                buffer += data
                while len(buffer) >= 4 and len(buffer) >= 4 + struct.unpack_from("<I", buffer)[0]:
                    (length,) = struct.unpack_from("<I", buffer)
                    self._answer(sock, buffer[4 : 4 + length])
                    buffer = buffer[4 + length :]
        except OSError:
            pass

    def _answer(self, sock: socket.socket, message: bytes) -> None:
        reader = wire.Reader(message)
        kind = reader.number()
        self.received.append(kind)
        if kind == 0:
            self.flows.clear()
            reader.number()
            self.clients.add(reader.number())
            sock.sendall(Writer(0).number(1).number(0).number(10_000_000).number(LEASE_NS).frame())
        elif kind == 1 and self.refuses:
            sock.sendall(Writer(4).number(1).number(reader.number()).number(4).number(1).number(7).frame())
        elif kind == 1 and self.registers:
            facts = wire.Facts(1)
            sock.sendall(Writer(1).number(reader.number()).key(KEY).facts_of(facts).frame())
        elif kind == 4:
            flow = reader.number()
            self.flows[flow] = sock
            if self.off:
                self._direct(flow, 0)
        elif kind == 6:
            flow = reader.number()
            self.flows.pop(flow, None)
            self.sent[flow] = reader.number()

    def open_gates(self) -> None:
        """Has all flows send as fast as they can."""
        self.off = False
        for flow in list(self.flows):
            self._direct(flow, 1)

    def pace(self, rate: int) -> None:
        """Has all flows send at so many bits per second."""
        for flow in list(self.flows):
            self._direct(flow, 2, rate)

    def _direct(self, flow: int, gate: int, *rate: int) -> None:
        frame = Writer(2).number(flow).number(gate)
        for number in rate:
            frame.number(number)
        try:
            self.flows[flow].sendall(frame.optional(0).frame())
        except OSError:
            pass  # The client is about to come again.

    def _keep_alive(self, sock: socket.socket) -> None:
        try:
            while True:
                if not self.is_silent:
                    sock.sendall(Writer(3).frame())
                time.sleep(0.02)
        except OSError:
            pass


def facts_of(self: Writer, facts: wire.Facts) -> Writer:
    """Writes facts that may not be missing."""
    self.number(facts.arrival).optional(facts.deadline).optional(facts.size)
    return self.flag(facts.background).number(facts.weight).name(facts.name)


Writer.facts_of = facts_of


def eventually(holds) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "never"
        time.sleep(0.005)


class Enforcer:
    """An enforcer beside an agent that gives each line that it reads the next of these answers."""

    def __init__(self, agent: Agent, *answers: bytes) -> None:
        self.lines: list[str] = []
        self._answers = list(answers)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(agent.path + ".enforcer")
        self._listener.listen(8)
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            sock, _ = self._listener.accept()
            self._connections.append(sock)
            with sock, sock.makefile("r") as lines:
                for line in lines:
                    self.lines.append(line)
                    if line != "library\n":
                        sock.sendall(self._answers.pop(0))
        except OSError:
            pass

    def close(self) -> None:
        self._listener.close()
        for sock in self._connections:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # Closed by now.


class WithAgent(unittest.TestCase):
    """A test with an agent and connections over TCP."""

    def agent(self, **options) -> Agent:
        agent = Agent(**options)
        self.addCleanup(agent.close)
        return agent

    def connection(self) -> tuple:
        """A connected pair over TCP."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            near = socket.create_connection(server.getsockname())
            far, _ = server.accept()
        self.addCleanup(near.close)
        self.addCleanup(far.close)
        return near, far
