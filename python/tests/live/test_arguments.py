"""What a caller may not pass is refused before anything is stored, with an agent and without."""

import decimal
import math
import os
import socket
import tempfile
import threading
import unittest
from pathlib import Path

from agents import WithAgent, eventually
from cavalcade.live import CoflowKey, Session, aio

ABSENT = "/nonexistent/agent.sock"
KEY = CoflowKey(7, 0, 7)
NAN, INFINITE = math.nan, math.inf


class Endless:
    """Parents without end, if somebody were to go through all."""

    def __len__(self) -> int:
        raise OverflowError


WRONG = [
    (dict(size_bytes=-1), ValueError, "a size of -1 bytes: expected 0 to 9223372036854775807"),
    (dict(size_bytes=1 << 63), ValueError, "a size of 9223372036854775808 bytes"),
    (dict(size_bytes=1 << 70), ValueError, "a size of"),
    (dict(size_bytes=1.5), TypeError, "a size of 1.5: expected a whole number"),
    (dict(size_bytes=NAN), TypeError, "a size of nan"),
    (dict(size_bytes="7"), TypeError, "a size of '7'"),
    (dict(size_bytes=True), TypeError, "a size of True"),
    (dict(deadline_s=-1), ValueError, "a deadline of -1 s from now: expected 0 to 3155760000 s"),
    (dict(deadline_s=-0.5), ValueError, "a deadline of -0.5 s from now"),
    (dict(deadline_s=NAN), ValueError, "a deadline of nan s from now"),
    (dict(deadline_s=INFINITE), ValueError, "a deadline of inf s from now"),
    (dict(deadline_s=10**400), ValueError, "a deadline of inf s from now"),
    (dict(deadline_s=3_155_760_001), ValueError, "a deadline of 3155760001 s from now"),
    (dict(deadline_s="5"), TypeError, "a deadline of '5': expected a number of seconds"),
    (dict(weight=0), ValueError, "a weight of 0: expected 1 to 4294967295"),
    (dict(weight=-3), ValueError, "a weight of -3"),
    (dict(weight=1 << 32), ValueError, "a weight of 4294967296"),
    (dict(weight=None), TypeError, "a weight of None"),
    (dict(weight=2.0), TypeError, "a weight of 2.0"),
    (dict(background="no"), TypeError, "background is 'no': expected True or False"),
    (dict(name=""), ValueError, "'' is no name of a coflow"),
    (dict(name="s" * 40), ValueError, "is no name of a coflow: expected 1 to 39"),
    (dict(name=b"sort"), TypeError, "a name of b'sort': expected a text"),
    (dict(parents=["7.0.7"]), TypeError, "expected the CoflowKey that register"),
    (dict(parents=KEY), TypeError, "parents are a list"),
    (dict(parents=7), TypeError, ""),
    (dict(parents=Endless()), TypeError, ""),
    (dict(parents=[CoflowKey(-1, 0, 0)]), ValueError, "'-1.0.0' is no key of a coflow, as 7.0.7"),
    (dict(parents=[CoflowKey(0, 65_536, 0)]), ValueError, "is no key"),
    (dict(parents=[CoflowKey(0, 0, 1 << 64)]), ValueError, "is no key"),
    (dict(parents=[CoflowKey(0, 0.5, 0)]), TypeError, "a part of a key"),
    (dict(parents=[KEY] * 1001), ValueError, "1001 parents: expected at most 1000"),
]


class Arguments(WithAgent):
    def check_that_nothing_is_stored(self, session: Session) -> None:
        client = session._client
        before = (len(client._coflows), len(client._flows), len(client._requests), client._next_request)
        for facts, kind, text in WRONG:
            with self.subTest(facts=facts), self.assertRaises(kind) as caught:
                session.register(**facts)
            self.assertIn(text, str(caught.exception))
        near, _far = self.connection()
        for size in (-1, 1 << 63, 1.5, "7", True):
            for use in (session.stream, lambda *all: session.connect(("127.0.0.1", 1), *all[1:])):
                with self.subTest(size=size), self.assertRaises((ValueError, TypeError)) as caught:
                    use(near, KEY, size)
                self.assertIn("a size of", str(caught.exception))
        wrong_keys = ["shuffle", None, (7, 0, 7), CoflowKey(-1, 0, 0), CoflowKey(0, 1 << 16, 0), []]
        for key in wrong_keys:
            for call in (
                lambda: session.stream(near, key),
                lambda: session.connect(("127.0.0.1", 1), key),
                lambda: session.unregister(key),
                lambda: session.grant(key, 7),
            ):
                with self.subTest(key=key), self.assertRaises((ValueError, TypeError)) as caught:
                    call()
                self.assertRegex(str(caught.exception), "CoflowKey|is no key")
        for user in (-1, (1 << 32) - 1, 1 << 40):
            with self.assertRaisesRegex(ValueError, f"user {user}: expected 0 to 4294967294"):
                session.grant(KEY, user)
        for user in ("root", 7.0, None, True):
            self.assertRaises(TypeError, session.grant, KEY, user)
        for seconds in (NAN, "5", None, True):
            with self.subTest(seconds=seconds), self.assertRaises((ValueError, TypeError)):
                session.wait_ready(seconds)
        after = (len(client._coflows), len(client._flows), len(client._requests), client._next_request)
        self.assertEqual(after, before)

    def test_without_an_agent_nothing_wrong_is_stored(self):
        with Session(ABSENT) as session:
            self.check_that_nothing_is_stored(session)
            self.assertFalse(session.wait_ready(-1))

    def test_with_an_agent_nothing_wrong_is_stored_or_said_and_the_session_outlives_a_restart(self):
        agent = self.agent()
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            self.check_that_nothing_is_stored(session)
            self.assertEqual(set(agent.received), {0}, "it has said hello alone")
            good = session.register(name="good")
            agent.close()
            eventually(lambda: not session._client.connected)
            os.unlink(agent.path)
            again = self.agent(at=agent.path)
            self.assertTrue(session.wait_ready(60))
            eventually(lambda: 2 in again.received)
            near, _far = self.connection()
            with session.stream(near, good):
                eventually(lambda: 4 in again.received)

    def test_what_is_registered_before_the_agent_comes_does_not_harm_it_later(self):
        path = os.path.join(tempfile.mkdtemp(), "agent.sock")
        with Session(path) as session:
            self.check_that_nothing_is_stored(session)
            session.register(size_bytes=0, deadline_s=0, weight=1)
            most = (1 << 63) - 1
            session.register(size_bytes=most, deadline_s=3_155_760_000, weight=(1 << 32) - 1, parents=iter([KEY]))
            agent = self.agent(at=path)
            self.assertTrue(session.wait_ready(60))
            eventually(lambda: agent.received.count(2) == 2)

    def test_numbers_of_other_types_are_taken(self):
        class Whole:
            def __index__(self) -> int:
                return 7

        with Session(ABSENT) as session:
            session.register(size_bytes=Whole(), weight=Whole(), deadline_s=decimal.Decimal("0.5"), parents=(KEY,))
            (facts,) = [coflow.facts for coflow in session._client._coflows.values()]
            self.assertEqual((facts.size, facts.weight, facts.deadline - facts.arrival), (7, 7, 500_000_000))

    def test_what_is_no_connection_over_tcp_is_refused(self):
        with Session(ABSENT) as session:
            key = session.register()
            near, far = socket.socketpair()
            datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            datagrams.connect(("127.0.0.1", 9))
            for sock in (near, datagrams):
                with self.assertRaisesRegex(ValueError, "expected a connected TCP socket"):
                    session.stream(sock, key)
            for thing in (None, 7, "socket"):
                with self.assertRaisesRegex(TypeError, "expected a connected TCP socket"):
                    session.stream(thing, key)
            with socket.socket() as unconnected:
                self.assertRaises(OSError, session.stream, unconnected, key)
            closed, _far = self.connection()
            closed.close()
            self.assertRaises(OSError, session.stream, closed, key)
            again = session.stream(self.connection()[0], key)
            self.assertRaises(TypeError, session.stream, again, key)
            for sock in (near, far, datagrams):
                sock.close()

    def test_a_session_takes_any_path_and_refuses_what_is_none(self):
        for wrong in (7, b"\0", "a\0b", "", "x" * 108, ["/run"]):
            with self.subTest(wrong=wrong), self.assertRaises((ValueError, TypeError)):
                Session(wrong)
        for wrong in ((), (64,), (-1,), (0,) * 9, (0.5,), 7):
            with self.subTest(dscp=wrong), self.assertRaises((ValueError, TypeError)):
                Session(ABSENT, wrong)
        agent = self.agent(off=True)
        with Session(Path(agent.path), [8]) as session:
            self.assertTrue(session.wait_ready(60))
            near, _far = self.connection()
            _stream = session.stream(near, session.register())
            eventually(lambda: near.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 8 << 2)

    def test_keys_are_read_strictly(self):
        self.assertEqual(CoflowKey.parse("7.0.7"), KEY)
        for text in ("", "7", "7.0", "7.0.7.0", "-7.0.7", " 7.0.7", "7.0.1_0", "7.65536.7", f"{1 << 64}.0.7", "٧.0.7"):
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, "is no key of a coflow, as 7.0.7"):
                CoflowKey.parse(text)
        self.assertRaises(TypeError, CoflowKey.parse, 7)

    def test_what_goes_wrong_in_a_thread_of_a_session_is_logged_and_tried_again(self):
        agent = self.agent()
        with Session(agent.path) as session:
            self.assertTrue(session.wait_ready(60))
            fails = threading.Event()

            def fail(*_: object) -> bool:
                fails.set()
                raise ZeroDivisionError

            whole, session._client.handle_timeout = session._client.handle_timeout, fail
            with self.assertLogs("cavalcade", "ERROR") as logs:
                self.assertTrue(fails.wait(60))
                eventually(lambda: logs.output and not session._client.connected)
            session._client.handle_timeout = whole
            self.assertTrue(session.wait_ready(60))

    def test_asyncio_refuses_the_same(self):
        import asyncio

        async def main() -> None:
            near, _far = self.connection()
            _, writer = await asyncio.open_connection(sock=near)
            with Session(ABSENT) as session:
                for key, size in ((KEY, -1), (KEY, 1 << 63), ("shuffle", None), (CoflowKey(-1, 0, 0), None)):
                    with self.assertRaises((ValueError, TypeError)):
                        aio.stream(session, writer, key, size)
                with self.assertRaisesRegex(ValueError, "a size of -1 bytes"):
                    await aio.register(session, size_bytes=-1)
                self.assertFalse(session._client._flows)
            writer.close()

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
