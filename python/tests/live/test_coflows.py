"""Coflows for blocks and functions, what travels to workers, and where an agent is looked for."""

import asyncio
import logging
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from agents import KEY, Agent, WithAgent, eventually
from cavalcade import live
from cavalcade.live import NoAgent, Refused, Session, coflows, threads, wire
from cavalcade.live.client import Client

NOWHERE = "/nonexistent/agent.sock"
# Kinds of messages.
REGISTER, UNREGISTER, OPEN = 1, 3, 4


def part_of(shared: live.Coflow, address: tuple[str, int]) -> str:
    """What a worker does that is passed a coflow."""
    assert live.shared_session().wait_ready(60)
    with live.taking_part(shared), shared.connect(address) as stream:
        stream.sendall(str(live.current().key).encode())
    live.shared_session().close()
    return str(shared.key)


class Shared(WithAgent):
    """Tests of the session that a process shares."""

    def setUp(self) -> None:
        super().setUp()
        threads._missed.clear()
        threads._missed_at = float("-inf")
        self.addCleanup(self.forget)

    def forget(self) -> None:
        if coflows._shared is not None:
            coflows._shared.close()
            coflows._shared = None

    def found(self, **options) -> Agent:
        """An agent that the process's session finds."""
        agent = self.agent(**options)
        patch = mock.patch.dict(os.environ, {"CAVALCADE_SOCKET": agent.path})
        patch.start()
        self.addCleanup(patch.stop)
        self.assertTrue(live.shared_session().wait_ready(60))
        return agent


class Blocks(Shared):
    def test_a_coflow_begins_and_ends_with_its_block(self):
        agent = self.found()
        with live.coflow("shuffle", deadline=2.5, size=7) as shuffle:
            self.assertEqual((shuffle.key, shuffle.name, live.current()), (KEY, "shuffle", shuffle))
            near, far = self.connection()
            with shuffle.stream(near) as stream:
                stream.sendall(b"map output")
            self.assertEqual(far.recv(10), b"map output")
            self.assertNotIn(UNREGISTER, agent.received)
        self.assertIsNone(live.current())
        eventually(lambda: UNREGISTER in agent.received)
        self.assertLess(agent.received.index(OPEN), agent.received.index(UNREGISTER))

    def test_a_coflow_ends_with_a_block_that_fails(self):
        agent = self.found()
        with self.assertRaisesRegex(KeyError, "lost"), live.coflow():
            raise KeyError("lost")
        eventually(lambda: UNREGISTER in agent.received)
        self.assertIsNone(live.current())

    def test_each_call_of_a_function_has_a_coflow_of_its_own(self):
        agent = self.found()

        @live.coflow("stage")
        def exchange(more: int) -> int:
            """Doc."""
            assert live.current().key == KEY
            return more + 1

        self.assertEqual(([exchange(1), exchange(more=2)], exchange.__doc__, exchange.__name__), ([2, 3], "Doc.", "exchange"))
        eventually(lambda: agent.received.count(UNREGISTER) == 2)
        self.assertEqual(agent.received.count(REGISTER), 2)

    def test_after_an_inner_block_the_outer_coflow_is_the_current_one(self):
        with live.coflow("outer") as outer:
            with live.coflow("inner", parents=[outer]) as inner:
                self.assertEqual((live.current(), inner.key.task), (inner, outer.key.task))
            self.assertEqual(live.current(), outer)

    def test_a_coroutines_coflow_ends_with_what_is_awaited(self):
        agent = self.found()

        @live.coflow("stage")
        async def exchange() -> str:
            await asyncio.sleep(0.05)
            assert UNREGISTER not in agent.received
            return live.current().name

        self.assertEqual(asyncio.run(exchange()), "stage")
        eventually(lambda: UNREGISTER in agent.received)

    def test_a_generator_is_refused_since_it_runs_after_the_call(self):
        def chunks():
            yield b""

        with self.assertRaisesRegex(TypeError, "use 'with' inside"):
            live.coflow("stage")(chunks)

    def test_a_block_begins_once(self):
        block = live.coflow("stage")
        with block, self.assertRaisesRegex(RuntimeError, "call coflow\\(\\) again"):
            block.__enter__()

    def test_a_wrong_argument_is_refused_before_the_block(self):
        for wrong in [{"deadline": -1}, {"size": -1}, {"weight": 0}, {"name": "two words"}]:
            with self.assertRaises(ValueError):
                live.coflow(**wrong)
        with self.assertRaises(TypeError):
            live.coflow("stage", parents=["7.0.7"])

    def test_a_coflow_travels_to_workers_by_its_id(self):
        self.found()
        with socket.create_server(("127.0.0.1", 0)) as server, live.coflow("shuffle") as shuffle:
            for method in ["fork", "spawn"]:
                with multiprocessing.get_context(method).Pool(2) as pool:
                    waiting = pool.starmap_async(part_of, [(shuffle, server.getsockname())] * 2)
                    for _ in range(2):
                        with server.accept()[0] as far, far.makefile("rb") as received:
                            self.assertEqual(received.read(), str(KEY).encode())
                    self.assertEqual(waiting.get(60), [str(KEY)] * 2)
        copy = pickle.loads(pickle.dumps(shuffle))
        self.assertEqual((copy, str(copy)), (shuffle, "shuffle"))

    def test_what_stays_in_its_process_says_so(self):
        with Session(NOWHERE) as session:
            near, _far = self.connection()
            stream = session.stream(near, session.register())
            for what in [session, stream]:
                with self.assertRaisesRegex(TypeError, "pass a Coflow"):
                    pickle.dumps(what)

    def test_the_client_needs_nothing_but_the_standard_library(self):
        script = (
            "import sys, cavalcade.live; foreign = {'pyarrow', 'numpy', 'polars', 'cavalcade._native'}; "
            "print(sorted(foreign & set(sys.modules)))"
        )
        package = os.path.dirname(os.path.dirname(os.path.dirname(live.__file__)))
        environment = {**os.environ, "PYTHONPATH": package}
        ran = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, env=environment)
        self.assertEqual((ran.stdout, ran.stderr), ("[]\n", ""))


class Places(Shared):
    def test_a_variable_names_the_socket_and_else_the_users_own_agent_comes_before_the_hosts(self):
        with mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": "/run/user/7"}):
            os.environ.pop("CAVALCADE_SOCKET", None)
            self.assertEqual(live.default_paths(), ("/run/user/7/cavalcade.sock", "/run/cavalcade.sock"))
            os.environ["CAVALCADE_SOCKET"] = "/srv/agent.sock"
            self.assertEqual(live.default_paths(), ("/srv/agent.sock",))
            del os.environ["CAVALCADE_SOCKET"], os.environ["XDG_RUNTIME_DIR"]
            self.assertEqual(live.default_paths(), ("/run/cavalcade.sock",))

    def test_the_hosts_agent_is_found_where_the_user_has_none_and_the_users_own_is_preferred(self):
        hosts = self.agent()
        with tempfile.TemporaryDirectory() as folder:
            own = os.path.join(folder, "cavalcade.sock")
            with mock.patch("cavalcade.live.session.default_paths", lambda: (own, hosts.path)):
                with Session() as session:
                    self.assertTrue(session.wait_ready(60))
                    self.assertEqual(session._agents_place, hosts.path)
                self.agent(at=own)
                with Session() as session:
                    self.assertTrue(session.wait_ready(60))
                    self.assertEqual(session._agents_place, own)

    def test_that_there_is_no_agent_is_said_once_with_all_places(self):
        with mock.patch("cavalcade.live.session.default_paths", lambda: (NOWHERE, NOWHERE + "2")):
            with self.assertLogs("cavalcade", "WARNING") as logs:
                sessions = [Session() for _ in range(3)]
                eventually(lambda: logs.output)
                for session in sessions:
                    session.register()
                    session.close()
        self.assertEqual(len(logs.output), 1)
        self.assertIn(f"no agent at {NOWHERE} or {NOWHERE}2: all is plain TCP", logs.output[0])

    def test_what_has_to_be_scheduled_fails_without_an_agent(self):
        with Session(NOWHERE) as session:
            with self.assertRaisesRegex(NoAgent, f"no agent answers at {NOWHERE}: .*CAVALCADE_SOCKET"):
                session.register(required=True)
            self.assertRaises(Refused, live.coflow(required=True, session=session).__enter__)
            self.assertEqual(session._client._coflows, {}, "nothing of it is left")

    def test_what_has_to_be_scheduled_fails_where_the_agent_does_not_answer(self):
        with Session(self.agent(registers=False).path) as session:
            self.assertTrue(session.wait_ready(60))
            self.assertRaises(NoAgent, session.register, required=True)
            self.assertEqual(session._client._coflows, {})

    def test_a_session_just_opened_finds_its_agent_for_what_has_to_be_scheduled(self):
        agent = self.agent()
        for _ in range(20):
            with Session(agent.path) as session:
                self.assertEqual(session.register(required=True), KEY)

    def test_refusals_are_logged_at_most_once_a_second_and_counted(self):
        client = Client(7, lambda flow: None)
        [said] = list(wire.Frames().push(wire.Writer(4).number(1).number(0).number(4).number(1).number(7).frame()))
        with self.assertLogs("cavalcade", logging.WARNING) as logs:
            for millisecond in range(2_500):
                client.handle_message(millisecond * 1_000_000, said)
                client.handle_timeout(millisecond * 1_000_000)
            client.handle_timeout(4_000_000_000)
        self.assertLessEqual(len(logs.output), 5)
        self.assertIn("the agent refused 999 more", logs.output[1])


if __name__ == "__main__":
    unittest.main()
