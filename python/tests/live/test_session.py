"""What a session promises an application, tried against an agent that does what the test says."""

import http.client
import multiprocessing
import os
import socket
import struct
import tempfile
import threading
import unittest
from unittest import mock

from agents import KEY, Enforcer, WithAgent, eventually
from cavalcade.live import Refused, Session, wire


class Sessions(WithAgent):
    def test_a_request_that_is_never_answered_ends_though_the_agent_goes_on_talking(self):
        agent = self.agent(registers=False)
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            answered = threading.Event()
            threading.Thread(target=lambda: (session.register(), answered.set()), daemon=True).start()
            self.assertTrue(answered.wait(60))

    def test_packets_are_marked_while_an_order_holds_and_as_before_when_none_does(self):
        agent = self.agent(off=True)
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            near, _far = self.connection()
            near.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 8)
            _stream = session.stream(near, session.register())
            eventually(lambda: near.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 40 << 2)
            agent.is_silent = True
            eventually(lambda: near.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 8)

    def test_a_clock_that_is_set_back_keeps_no_flow_waiting(self):
        agent = self.agent(off=True)
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            near, far = self.connection()
            stream = session.stream(near, session.register())
            eventually(lambda: stream.directive.gate == wire.OFF)
            with mock.patch("time.time_ns", lambda: 1), mock.patch("time.time", lambda: 1e-9):
                agent.is_silent = True
                stream.sendall(b"x")
            self.assertEqual(far.recv(1), b"x")

    def test_serials_grow_though_the_clock_is_set_back(self):
        with Session("/nonexistent/agent.sock") as session:
            first = session.register()
            with mock.patch("time.time_ns", lambda: 1):
                self.assertLess(first, session.register())

    def test_a_flow_that_waits_obeys_the_timeout_of_its_socket(self):
        agent = self.agent(off=True)
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            near, _far = self.connection()
            stream = session.stream(near, session.register())
            eventually(lambda: stream.directive.gate == wire.OFF)
            stream.settimeout(0.01)
            self.assertRaises(TimeoutError, stream.sendall, b"x")
            stream.setblocking(False)
            self.assertRaises(BlockingIOError, stream.send, b"x")

    def test_a_refused_registration_says_why_at_once_and_its_coflow_is_plain_tcp(self):
        agent = self.agent(refuses=True)
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            with self.assertLogs("cavalcade", "WARNING"):
                self.assertEqual(session.register().serial % 2, 1, "a key of the client's own")
                with self.assertRaisesRegex(Refused, "one user may have 7 coflows .* --user-budget coflows="):
                    session.register(required=True)
            self.assertEqual(len(session.refusals()), 2)

    def test_a_stream_needs_the_key_of_a_coflow(self):
        with Session("/nonexistent/agent.sock") as session:
            near, _far = self.connection()
            with self.assertRaisesRegex(TypeError, "CoflowKey"):
                session.stream(near, "shuffle")

    def test_a_forked_child_sends_on_its_parents_stream_as_plain_tcp(self):
        agent = self.agent(off=True)
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            near, far = self.connection()
            stream = session.stream(near, session.register())
            eventually(lambda: stream.directive.gate == wire.OFF)
            child = multiprocessing.get_context("fork").Process(target=stream.sendall, args=(b"child",))
            child.start()
            child.join(60)
            self.assertEqual(child.exitcode, 0)
            self.assertEqual(far.recv(5), b"child")
            self.assertEqual(stream.directive.gate, wire.OFF, "the parent's flow still waits")

    def test_a_forked_child_is_a_client_of_its_own(self):
        agent = self.agent()
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))

            def use() -> None:
                assert session.wait_ready(60) and session.register() == KEY

            child = multiprocessing.get_context("fork").Process(target=use)
            child.start()
            child.join(60)
            self.assertEqual(child.exitcode, 0)
            self.assertEqual(len(agent.clients), 2)
            self.assertEqual(session.register(), KEY, "the parent's session goes on")

    def test_a_connection_is_handed_over_to_the_enforcer_and_is_the_sessions_again_when_that_is_gone(self):
        agent = self.agent(off=True)
        enforcer = Enforcer(agent, b"ok 7.0.7\n")
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            near, far = self.connection()
            eventually(lambda: session._kernel.enforcer is not None)
            stream = session.stream(near, session.register(), 100)
            self.assertTrue(stream.is_in_kernel)
            stream.sendall(b"kernel")
            self.assertEqual(far.recv(6), b"kernel")
            cookie = struct.unpack("Q", near.getsockopt(socket.SOL_SOCKET, 57, 8))[0]
            line = f"connection={near.fileno()}:{cookie} coflow=7.0.7 sends=100\n"
            eventually(lambda: enforcer.lines == ["library\n", line])
            enforcer.close()
            eventually(lambda: not stream.is_in_kernel)
            eventually(lambda: stream.directive.gate == wire.OFF)
            agent.is_silent = True
            stream.sendall(b"library")
            self.assertEqual(far.recv(7), b"library")
            stream.close()

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user")
    def test_nothing_is_said_to_another_user_in_the_enforcers_place(self):
        agent = self.agent()
        os.chmod(os.path.dirname(agent.path), 0o777)
        listens = multiprocessing.get_context("fork").Event()

        def stand_there() -> None:
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(agent.path + ".enforcer")
                listener.listen()
                listens.set()
                sock, _ = listener.accept()
                os._exit(0 if sock.recv(100) == b"" else 1)

        stranger = multiprocessing.get_context("fork").Process(target=stand_there)
        stranger.start()
        self.assertTrue(listens.wait(60))
        with Session(agent.path):
            stranger.join(60)
        self.assertEqual(stranger.exitcode, 0)

    def test_what_an_enforcer_refuses_the_session_carries_itself(self):
        agent = self.agent(off=True)
        enforcer = Enforcer(agent, b"no it belongs to a coflow already\n")
        self.addCleanup(enforcer.close)
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            near, _far = self.connection()
            eventually(lambda: session._kernel.enforcer is not None)
            stream = session.stream(near, session.register())
            eventually(lambda: not stream.is_in_kernel and stream.directive.gate == wire.OFF)

    def test_a_name_goes_to_the_agent_and_comes_back_and_what_is_none_is_refused(self):
        frame = wire.register(7, [], None, wire.Facts(0, name="sort-7"))
        self.assertTrue(frame.endswith(b"\x01\x06sort-7"))
        reader = wire.Reader(b"\x01\x06sort-7")
        self.assertEqual(reader.name(), "sort-7")
        reader.end()
        with Session("/nonexistent/agent.sock") as session:
            session.register(name="query72/stage3@worker-1")
            for text in ["", "7", "two words", "größe", "s" * 40]:
                with self.assertRaisesRegex(ValueError, "as sort-7"):
                    session.register(name=text)

    def test_the_library_of_http_works_on_a_stream(self):
        def serve(far: socket.socket) -> None:
            request = b""
            while b"\r\n\r\n" not in request:
                request += far.recv(4096)
            far.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

        with Session("/nonexistent/agent.sock") as session:
            near, far = self.connection()
            threading.Thread(target=serve, args=(far,), daemon=True).start()
            client = http.client.HTTPConnection("localhost")
            client.sock = session.stream(near, session.register())
            client.request("GET", "/")
            self.assertEqual(client.getresponse().read(), b"hello")

    def test_a_connection_closes_with_the_last_of_its_files(self):
        with Session("/nonexistent/agent.sock") as session:
            near, far = self.connection()
            stream = session.stream(near, session.register())
            with stream.makefile("wb") as file:
                stream.close()
                file.write(b"after")
            self.assertEqual(far.recv(5), b"after")
            self.assertEqual(far.recv(1), b"")

    def test_files_and_buffers_arrive_whole(self):
        with Session("/nonexistent/agent.sock") as session, tempfile.TemporaryFile() as file:
            file.write(b"0123456789")
            near, far = self.connection()
            stream = session.stream(near, session.register())
            self.assertEqual(stream.sendfile(file, 2, 5), 5)
            self.assertEqual(stream.sendmsg([b"ab", b"c"]), 3)
            stream.shutdown(socket.SHUT_WR)
            with far.makefile("rb") as received:
                self.assertEqual(received.read(), b"23456abc")


if __name__ == "__main__":
    unittest.main()
