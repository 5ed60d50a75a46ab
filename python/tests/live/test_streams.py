"""Streams on blocking and non-blocking sockets: what callers may expect of a connection."""

import gc
import os
import resource
import selectors
import signal
import socket
import ssl
import struct
import tempfile
import threading
import time
import unittest
import warnings

from agents import Enforcer, WithAgent, eventually
from cavalcade.live import Session, wire

ABSENT = "/nonexistent/agent.sock"
RATE, UNSENT, PRIORITY = 47, 25, 12


def options(sock: socket.socket) -> tuple:
    """What a session may have set: rate, mark, unsent bytes, priority."""
    rate = int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, RATE, 8), "little")
    is_six = sock.family == socket.AF_INET6
    mark = sock.getsockopt(*((socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if is_six else (socket.IPPROTO_IP, socket.IP_TOS)))
    unsent = sock.getsockopt(socket.IPPROTO_TCP, UNSENT)
    return rate, mark, unsent, sock.getsockopt(socket.SOL_SOCKET, PRIORITY)


def reset(sock: socket.socket) -> None:
    """Closes a connection by a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def received(far: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length and (more := far.recv(1 << 20)):
        data += more
    return data


class Streams(WithAgent):
    def session(self, agent) -> Session:
        session = Session(agent.path)
        self.addCleanup(session.close)
        self.assertTrue(session.wait_ready(60))
        return session

    def gated(self, **more) -> tuple:
        """A stream that may not send, and the other end of its connection."""
        agent = self.agent(off=True)
        session = self.session(agent)
        near, far = self.connection()
        stream = session.stream(near, session.register(), **more)
        eventually(lambda: stream.directive.gate == wire.OFF)
        return agent, session, stream, far

    def test_what_one_call_sends_is_in_one_piece_whoever_else_sends(self):
        with Session(ABSENT) as session, tempfile.TemporaryFile() as file:
            near, far = self.connection()
            near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 10)
            stream = session.stream(near, session.register())
            length = 3 << 20
            file.write(b"e" * length)
            unbuffered = stream.makefile("wb", buffering=0)
            buffered = stream.makefile("wb")
            ways = {
                b"a": lambda data: stream.sendall(data),
                b"b": lambda data: stream.sendall(bytearray(data)),
                b"c": lambda data: unbuffered.write(data),
                b"d": lambda data: buffered.write(data),
                b"e": lambda data: stream.sendfile(file),
            }
            threads = [threading.Thread(target=send, args=(letter * length,)) for letter, send in ways.items()]
            for thread in threads:
                thread.start()
            time.sleep(0.05)
            data = received(far, len(ways) * length)
            for thread in threads:
                thread.join()
            runs = 1 + sum(one != next for one, next in zip(data[::1024], data[1024::1024]))
            self.assertEqual((len(data), runs), (len(ways) * length, len(ways)))

    def test_who_waits_for_another_threads_turn_obeys_the_timeout_of_the_socket(self):
        _agent, _session, stream, far = self.gated()

        def send() -> None:
            try:
                stream.sendall(b"first")
            except OSError:
                pass  # It may be closed by then.

        waiting = threading.Thread(target=send, daemon=True)
        waiting.start()
        eventually(lambda: not stream._turn.acquire(blocking=False) or stream._turn.release())
        stream.settimeout(0.01)
        self.assertRaises(TimeoutError, stream.sendall, b"second")
        stream.setblocking(False)
        self.assertRaises(BlockingIOError, stream.send, b"second")
        stream.settimeout(None)
        stream.close()
        waiting.join(60)
        self.assertFalse(waiting.is_alive(), "closing ends the wait")
        del far

    def end_in_each_way(self, end) -> None:
        agent = self.agent()
        session = self.session(agent)
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
            near6 = socket.create_connection(server.getsockname()[:2])
            far6, _ = server.accept()
        self.addCleanup(near6.close)
        self.addCleanup(far6.close)
        for near in (self.connection()[0], near6):
            is_six = near.family == socket.AF_INET6
            mark = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if is_six else (socket.IPPROTO_IP, socket.IP_TOS)
            near.setsockopt(*mark, 8)
            near.setsockopt(socket.SOL_SOCKET, RATE, (50_000_000).to_bytes(8, "little"))
            near.setsockopt(socket.IPPROTO_TCP, UNSENT, 300_000)
            near.setsockopt(socket.SOL_SOCKET, PRIORITY, 5)
            before = options(near)
            self.assertEqual(before, (50_000_000, 8, 300_000, 5))
            copy = near.dup()
            self.addCleanup(copy.close)
            key = session.register()
            stream = session.stream(near, key)
            eventually(lambda: agent.flows)
            eventually(lambda: agent.pace(8_000_000) or options(copy)[:3] == (1_000_000, 40 << 2, 128 << 10))
            self.assertEqual(options(copy)[3], 5, "to set a mark does not change the priority")
            agent.pace(8_000_000_000)
            eventually(lambda: options(copy)[0] == 50_000_000)
            agent.pace(8_000_000)
            eventually(lambda: options(copy)[0] == 1_000_000)
            holder = [stream]
            del stream
            end(agent, session, holder, key)
            eventually(lambda: options(copy) == before)

    def test_what_was_set_on_a_connection_is_undone_when_its_flow_is_detached(self):
        def end(_agent, _session, holder, _key):
            descriptor = holder[0].detach()
            with socket.socket(fileno=descriptor) as again:
                self.assertEqual(options(again), (50_000_000, 8, 300_000, 5), "at once")

        self.end_in_each_way(end)

    def test_what_was_set_on_a_connection_is_undone_when_it_is_closed_here(self):
        self.end_in_each_way(lambda _agent, _session, holder, _key: holder[0].close())

    def test_what_was_set_on_a_connection_is_undone_when_it_is_shut_down(self):
        self.end_in_each_way(lambda _agent, _session, holder, _key: holder[0].shutdown(socket.SHUT_WR))

    def test_what_was_set_on_a_connection_is_undone_when_its_coflow_ends(self):
        self.end_in_each_way(lambda _agent, session, _holder, key: session.unregister(key))

    def test_what_was_set_on_a_connection_is_undone_when_its_stream_is_dropped(self):
        self.end_in_each_way(lambda _agent, _session, holder, _key: holder.clear())

    def test_rates_and_marks_are_undone_when_the_agent_falls_silent(self):
        def end(agent, _session, holder, _key):
            agent.is_silent = True
            eventually(lambda: options(holder[0])[:2] == (50_000_000, 8))
            agent.is_silent = False
            holder[0].close()

        self.end_in_each_way(end)

    def test_what_was_set_on_connections_is_undone_when_the_session_ends(self):
        agent = self.agent(off=True)
        session = self.session(agent)
        near, _far = self.connection()
        before = options(near)
        stream = session.stream(near, session.register())
        eventually(lambda: options(near)[1] == 40 << 2)
        session.close()
        self.assertEqual(options(near), before)
        stream.sendall(b"plain")

    def test_what_the_application_sets_meanwhile_is_its_own(self):
        agent = self.agent()
        session = self.session(agent)
        near, _far = self.connection()
        stream = session.stream(near, session.register())
        eventually(lambda: agent.flows)
        agent.pace(8_000_000)
        eventually(lambda: options(near)[0] == 1_000_000)
        stream.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 32)
        stream.setsockopt(socket.SOL_SOCKET, RATE, (7_000_000).to_bytes(8, "little"))
        near2 = socket.socket(fileno=stream.detach())
        self.addCleanup(near2.close)
        self.assertEqual(options(near2)[:2], (7_000_000, 32))

    def test_a_flow_over_ipv4_on_a_socket_for_both_families_is_marked_there(self):
        agent = self.agent(off=True)
        session = self.session(agent)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_INET6) as near:
            near.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
            stream = session.stream(near, session.register())
            eventually(lambda: near.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 40 << 2)
            self.assertEqual(near.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS), 0)
            stream.close()

    def test_a_session_that_is_closed_has_said_what_its_flows_have_sent(self):
        for _ in range(20):
            agent = self.agent()
            with Session(agent.path) as session:
                self.assertTrue(session.wait_ready(60))
                near, _far = self.connection()
                session.stream(near, session.register()).sendall(bytes(1000))
            eventually(lambda: list(agent.sent.values()) == [1000])

    def test_a_session_that_is_closed_does_not_wait_for_an_agent_that_hangs(self):
        with socket.socket(socket.AF_UNIX) as listener, tempfile.TemporaryDirectory() as folder:
            listener.bind(os.path.join(folder, "agent.sock"))
            listener.listen()
            session = Session(listener.getsockname())
            near, _far = self.connection()
            stream = session.stream(near, session.register())
            session.close()
            stream.sendall(b"plain TCP")

    def test_a_stream_that_is_dropped_closes_and_its_flow_ends(self):
        agent = self.agent(off=True)
        session = self.session(agent)
        key = session.register()
        before, streams = len(os.listdir("/proc/self/fd")), 50
        with socket.create_server(("127.0.0.1", 0)) as server, warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for _ in range(streams):
                stream = session.connect(server.getsockname(), key)
                far, _ = server.accept()
                stream.setblocking(False)
                stream.gate_fileno()
                stream.makefile("rb")
                del stream
                gc.collect()
                far.settimeout(60)
                self.assertEqual(far.recv(1), b"", "the other end sees it")
                far.close()
        eventually(lambda: not agent.flows and not session._carriages)
        # Threads of sessions look for agents and enforcers meanwhile; one descriptor of each stream would be 50.
        eventually(lambda: len(os.listdir("/proc/self/fd")) < before + streams // 2)

    def test_a_stream_that_is_dropped_ends_its_flow_also_without_an_agent(self):
        with Session(ABSENT) as session:
            near, _far = self.connection()
            session.stream(near, session.register())
            eventually(lambda: not session._client._flows)
            self.assertEqual(options(near)[2], 0)

    def test_an_event_loop_waits_for_a_gate_without_turning(self):
        agent, _session, stream, far = self.gated()
        stream.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(stream.gate_fileno(), selectors.EVENT_READ)
            began = resource.getrusage(resource.RUSAGE_THREAD)
            self.assertEqual(selector.select(0.3), [], "while it may not send there is nothing to do")
            ended = resource.getrusage(resource.RUSAGE_THREAD)
            self.assertLess(ended.ru_utime - began.ru_utime, 0.1)
            with self.assertRaisesRegex(BlockingIOError, "gate_fileno"):
                stream.send(b"x")
            agent.open_gates()
            self.assertEqual(len(selector.select(60)), 1)
            self.assertEqual(stream.send(b"x"), 1)
        self.assertEqual(far.recv(1), b"x")

    def test_a_gate_opens_when_the_agent_is_gone_and_when_the_coflow_ends(self):
        for end in ("agent", "coflow", "session"):
            agent, session, stream, _far = self.gated()
            with selectors.DefaultSelector() as selector:
                selector.register(stream.gate_fileno(), selectors.EVENT_READ)
                self.assertEqual(selector.select(0), [])
                if end == "agent":
                    agent.is_silent = True
                elif end == "coflow":
                    session.unregister(stream._carriage.key)
                else:
                    session.close()
                self.assertEqual(len(selector.select(60)), 1, end)
                stream.sendall(b"x")
                stream.close()
                self.assertEqual(stream.gate_fileno(), -1)

    def test_a_write_that_waits_sees_that_the_other_end_is_gone_as_a_plain_one_does(self):
        _agent, _session, stream, far = self.gated()
        raised = []

        def send() -> None:
            try:
                stream.sendall(b"x")
            except OSError as error:
                raised.append(type(error))

        for timeout in (None, 60):
            stream.settimeout(timeout)
        waiting = threading.Thread(target=send)
        waiting.start()
        eventually(lambda: stream._carriage.gate is not None)
        reset(far)
        waiting.join(60)
        self.assertEqual(raised, [ConnectionResetError])
        stream.setblocking(False)
        self.assertRaises(BrokenPipeError, stream.send, b"x")

    def test_a_write_that_waits_goes_on_waiting_while_the_other_end_has_only_stopped_sending(self):
        agent, _session, stream, far = self.gated()
        far.shutdown(socket.SHUT_WR)
        stream.settimeout(0.1)
        self.assertRaises(TimeoutError, stream.sendall, b"x")
        stream.settimeout(60)
        agent.open_gates()
        stream.sendall(b"late")
        self.assertEqual(far.recv(4), b"late")

    def test_a_handler_of_a_signal_may_send_on_the_stream_whose_write_it_interrupts(self):
        agent, _session, stream, far = self.gated()
        before = signal.signal(signal.SIGUSR1, lambda *_: agent.open_gates() or stream.sendall(b"inner "))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        stream.sendall(b"outer")
        self.assertEqual(received(far, 11), b"inner outer")

    def test_what_would_take_the_descriptor_and_send_past_the_flow_is_refused_and_the_flow_goes_on(self):
        import asyncio

        with Session(ABSENT) as session:
            near, far = self.connection()
            stream = session.stream(near, session.register())
            context = ssl.create_default_context()

            async def adopt() -> None:
                await asyncio.open_connection(sock=stream)

            async def send_a_file() -> None:
                with open(__file__, "rb") as file:
                    stream.setblocking(False)
                    await asyncio.get_running_loop().sock_sendfile(stream, file)

            for take in (
                lambda: context.wrap_socket(stream, server_hostname="localhost"),
                lambda: asyncio.run(adopt()),
                lambda: asyncio.run(send_a_file()),
                lambda: session.stream(stream, session.register()),
            ):
                with self.assertRaisesRegex(TypeError, "wrap the socket in TLS first"):
                    take()
            stream.setblocking(True)
            with self.assertRaisesRegex(ValueError, "use send"):
                stream.sendto(b"x", far.getsockname())
            stream.sendall(b"goes on")
            self.assertEqual(far.recv(7), b"goes on")
            (flow,) = session._client._flows.values()
            self.assertEqual(flow.sent, 7)

    def test_what_is_written_over_tls_is_counted_whichever_method_writes(self):
        class OverTls:
            """As much of ssl.SSLSocket as matters: it has a method to write."""

            def __init__(self, sock: socket.socket) -> None:
                self._sock = sock

            def __getattr__(self, name: str):
                return getattr(self._sock, name)

            def write(self, data: bytes) -> int:
                raise AssertionError("past the flow")

        with Session(ABSENT) as session:
            near, far = self.connection()
            stream = session.stream(OverTls(near), session.register())
            self.assertEqual(stream.write(b"four"), 4)
            self.assertEqual(far.recv(4), b"four")
            (flow,) = session._client._flows.values()
            self.assertEqual(flow.sent, 4)

    def test_a_copy_is_a_plain_socket_of_the_same_connection(self):
        _agent, _session, stream, far = self.gated()
        with stream.dup() as copy:
            self.assertIs(type(copy), socket.socket)
            copy.sendall(b"plain")
        self.assertEqual(far.recv(5), b"plain")

    def test_flows_that_the_kernel_carries_end_with_their_coflow_and_with_the_session(self):
        agent = self.agent()
        enforcer = Enforcer(agent, *[b"ok 7.0.7\n"] * 5)
        self.addCleanup(enforcer.close)
        session = self.session(agent)
        eventually(lambda: session._kernel.enforcer is not None)
        key = session.register()
        streams = [session.stream(self.connection()[0], key) for _ in range(4)]
        names = [stream._carriage.connection for stream in streams]
        handed = ["library\n"] + [f"connection={name} coflow=7.0.7\n" for name in names]
        eventually(lambda: enforcer.lines == handed and not session._kernel._asked)
        before = options(streams[0]._sock)
        with socket.socket(fileno=streams[0].detach()) as detached:
            self.assertEqual(options(detached), before)
        streams[1].close()
        session.unregister(key)
        self.assertFalse(any(stream.is_in_kernel for stream in streams))
        self.assertEqual(session._kernel.handed(), [])
        again = session.stream(self.connection()[0], session.register())
        self.assertTrue(again.is_in_kernel)
        session.close()
        self.assertFalse(again.is_in_kernel)
        for stream in (streams[2], streams[3], again):
            stream.sendall(b"plain")


if __name__ == "__main__":
    unittest.main()
