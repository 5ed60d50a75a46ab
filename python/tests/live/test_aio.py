"""Streams of asyncio, over TCP and over TLS, on its own loop and on uvloop where that is installed."""

import asyncio
import gc
import os
import shutil
import ssl
import subprocess
import tempfile
import time
import unittest
import warnings

from agents import WithAgent
from cavalcade.live import Session, aio, wire
from test_streams import options, received, reset

try:
    import uvloop
except ImportError:
    uvloop = None

ABSENT = "/nonexistent/agent.sock"
LOOPS = [asyncio.new_event_loop] + ([uvloop.new_event_loop] if uvloop else [])
# A limit of 256 KiB is crossed by one byte; the rest is more than sockets hold.
SIZES = [10, 262_145, 1_000_000, 10, 1, 0, 3_000_000, 10, 262_144]


def contexts() -> tuple:
    """The two ends of TLS with a certificate that was made for this."""
    folder = tempfile.mkdtemp()
    made = [os.path.join(folder, name) for name in ("key.pem", "certificate.pem")]
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*command.split(), "-keyout", made[0], "-out", made[1]], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made[1], made[0])
    client = ssl.create_default_context(cafile=made[1])
    client.check_hostname = False
    shutil.rmtree(folder)
    return server, client


def run(loop, main) -> None:
    loop = loop()
    try:
        loop.run_until_complete(asyncio.wait_for(main, 60))
    finally:
        loop.close()


async def until(holds) -> None:
    while not holds():
        await asyncio.sleep(0.005)


class Aio(WithAgent):
    def each_loop(self, main) -> None:
        for loop in LOOPS:
            with self.subTest(loop=loop.__module__):
                run(loop, main())

    async def opened(self, session, **more) -> tuple:
        """A stream of asyncio, its writer, and the other end of its connection."""
        near, far = self.connection()
        _, writer = await asyncio.open_connection(sock=near)
        key = await aio.register(session)
        return aio.stream(session, writer, key, **more), writer, far

    async def write_all_sizes(self, session, server_side, client_side) -> None:
        got = asyncio.Queue()

        async def serve(reader, writer) -> None:
            got.put_nowait(await reader.read())
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_side)
        address = server.sockets[0].getsockname()
        _, writer = await asyncio.open_connection(*address, ssl=client_side)
        stream = aio.stream(session, writer, await aio.register(session))
        sent = b""
        for place, size in enumerate(SIZES * 2):
            data = bytes([place]) * size
            await stream.write(data)
            sent += data
        await stream.close()
        self.assertTrue(await got.get() == sent)
        server.close()

    @unittest.skipUnless(shutil.which("openssl"), "needs openssl")
    def test_writes_of_any_size_return_over_tcp_and_over_tls_with_an_agent_and_without(self):
        ends = contexts()
        agent = self.agent()
        for path in (ABSENT, agent.path):
            with Session(path) as session:
                for server_side, client_side in ((None, None), ends):
                    self.each_loop(lambda: self.write_all_sizes(session, server_side, client_side))

    @unittest.skipUnless(shutil.which("openssl"), "needs openssl")
    def test_a_connection_that_turns_to_tls_under_a_stream_goes_on(self):
        if not hasattr(asyncio.StreamWriter, "start_tls"):
            self.skipTest("needs Python 3.11")
        server_side, client_side = contexts()

        async def main() -> None:
            async def serve(reader, writer) -> None:
                await reader.readexactly(5)
                writer.write(b"go")
                await writer.start_tls(server_side)
                got.set_result(await reader.readexactly(2_000_000))
                writer.close()

            got = asyncio.get_running_loop().create_future()
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            with Session(ABSENT) as session:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                stream = aio.stream(session, writer, session.register())
                await stream.write(b"start")
                await reader.readexactly(2)
                await writer.start_tls(client_side)
                await stream.write(b"x" * 1_000_000)
                await stream.write(b"x" * 1_000_000)
                self.assertEqual(len(await got), 2_000_000)
                await stream.close()
            server.close()

        run(LOOPS[0], main())

    def test_what_one_call_writes_is_in_one_piece_whichever_other_tasks_write(self):
        async def main() -> None:
            with Session(ABSENT) as session:
                stream, _, far = await self.opened(session)
                length = 600 << 10
                reading = asyncio.create_task(asyncio.to_thread(received, far, 4 * length))
                await asyncio.gather(*(stream.write(letter * length) for letter in (b"a", b"b", b"c", b"d")))
                data = await reading
                runs = 1 + sum(one != next for one, next in zip(data[::1024], data[1024::1024]))
                self.assertEqual((len(data), runs), (4 * length, 4))
                await stream.close()

        self.each_loop(main)

    def test_a_call_that_is_cancelled_cuts_no_message_off(self):
        async def main() -> None:
            with Session(ABSENT) as session:
                stream, _, far = await self.opened(session)
                length = 6 << 20
                message = bytearray(b"a" * length)
                writing = asyncio.create_task(stream.write(message))
                await asyncio.sleep(0.1)
                self.assertFalse(writing.done(), "nobody reads")
                writing.cancel()
                await asyncio.wait({writing})
                message[:] = b"!" * length
                reading = asyncio.create_task(asyncio.to_thread(received, far, length + 1))
                await stream.write(b"b")
                self.assertTrue(await reading == b"a" * length + b"b")
                await stream.close()

        self.each_loop(main)

    def test_a_call_that_is_cancelled_before_its_turn_writes_nothing(self):
        agent = self.agent(off=True)

        async def main() -> None:
            agent.off = True
            with Session(agent.path) as session:
                await asyncio.to_thread(session.wait_ready, 60)
                stream, _, far = await self.opened(session)
                await until(lambda: stream.directive.gate == wire.OFF)
                for _ in range(2):
                    with self.assertRaises(asyncio.TimeoutError):
                        await asyncio.wait_for(stream.write(b"never"), 0.05)
                agent.open_gates()
                await stream.write(b"this")
                self.assertEqual(far.recv(9), b"this")
                await stream.close()

        self.each_loop(main)

    def test_a_write_that_waits_sees_that_the_other_end_is_gone_as_a_plain_one_does(self):
        agent = self.agent(off=True)

        async def main() -> None:
            with Session(agent.path) as session:
                await asyncio.to_thread(session.wait_ready, 60)
                for is_read in (True, False):
                    stream, writer, far = await self.opened(session)
                    if not is_read:
                        writer.transport.pause_reading()
                    await until(lambda: stream.directive.gate == wire.OFF)
                    writing = asyncio.create_task(stream.write(b"x"))
                    await asyncio.sleep(0.05)
                    self.assertFalse(writing.done())
                    reset(far)
                    with self.assertRaises(ConnectionError):
                        await writing
                    # On a transport that is closed: of uvloop.
                    with self.assertRaises((ConnectionError, RuntimeError)):
                        await stream.write(b"x")
                    writer.close()

        self.each_loop(main)

    def test_a_write_that_waits_ends_when_another_task_closes_the_connection(self):
        agent = self.agent(off=True)

        async def main() -> None:
            with Session(agent.path) as session:
                await asyncio.to_thread(session.wait_ready, 60)
                for close in ("stream", "writer", "abort"):
                    stream, writer, _far = await self.opened(session)
                    await until(lambda: stream.directive.gate == wire.OFF)
                    writing = asyncio.create_task(stream.write(b"x"))
                    await asyncio.sleep(0.05)
                    if close == "stream":
                        await stream.close()
                    elif close == "writer":
                        writer.close()
                    else:
                        writer.transport.abort()
                    await asyncio.wait({writing})
                    writing.exception()

        self.each_loop(main)

    def test_what_was_set_on_a_connection_is_undone_when_its_flow_ends(self):
        agent = self.agent(off=True)

        async def main() -> None:
            with Session(agent.path) as session:
                await asyncio.to_thread(session.wait_ready, 60)
                stream, writer, _far = await self.opened(session)
                sock = writer.get_extra_info("socket")
                await until(lambda: options(sock)[1:3] == (40 << 2, 128 << 10))
                stream.end()
                self.assertEqual(options(sock), ((1 << 64) - 1, 0, 0, 0))
                await stream.write(b"plain")
                writer.close()

        self.each_loop(main)

    def test_a_stream_that_is_dropped_ends_its_flow_and_closes_with_its_writer(self):
        agent = self.agent(off=True)

        async def main() -> None:
            with Session(agent.path) as session, warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                await asyncio.to_thread(session.wait_ready, 60)
                stream, writer, far = await self.opened(session)
                await until(lambda: stream.directive.gate == wire.OFF)  # noqa: F821 (it is deleted below)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(stream.write(b"never"), 0.05)
                del stream
                gc.collect()
                await until(lambda: not agent.flows)
                sock = writer.get_extra_info("socket")
                self.assertEqual(options(sock)[1:3], (0, 0))
                writer.close()
                del writer
                self.assertEqual(await asyncio.to_thread(far.recv, 1), b"")

        self.each_loop(main)

    def test_a_stream_that_does_not_block_is_sent_on_without_the_loop_turning(self):
        agent = self.agent(off=True)

        async def main() -> None:
            agent.off = True
            with Session(agent.path) as session:
                await asyncio.to_thread(session.wait_ready, 60)
                near, far = self.connection()
                stream = session.stream(near, await aio.register(session))
                with self.assertRaisesRegex(ValueError, "non-blocking"):
                    await aio.sendall(stream, b"x")
                stream.setblocking(False)
                await until(lambda: stream.directive.gate == wire.OFF)
                length = 600 << 10
                sending = [asyncio.create_task(aio.sendall(stream, letter * length)) for letter in (b"a", b"b")]
                await asyncio.sleep(0.05)
                began = time.thread_time()
                await asyncio.sleep(0.3)
                self.assertLess(time.thread_time() - began, 0.1)
                agent.open_gates()
                reading = asyncio.create_task(asyncio.to_thread(received, far, 2 * length))
                await asyncio.gather(*sending)
                self.assertTrue(await reading == b"a" * length + b"b" * length)
                stream.close()

        self.each_loop(main)

    def test_a_stream_that_does_not_block_sees_that_the_other_end_is_gone(self):
        agent = self.agent(off=True)

        async def main() -> None:
            with Session(agent.path) as session:
                await asyncio.to_thread(session.wait_ready, 60)
                near, far = self.connection()
                stream = session.stream(near, await aio.register(session))
                stream.setblocking(False)
                await until(lambda: stream.directive.gate == wire.OFF)
                sending = asyncio.create_task(aio.sendall(stream, b"x"))
                await asyncio.sleep(0.05)
                reset(far)
                with self.assertRaises(ConnectionError):
                    await sending
                stream.close()

        self.each_loop(main)

    def test_a_connection_that_a_loop_has_closed_is_not_set_anything_on(self):
        agent = self.agent()

        async def main() -> None:
            with Session(agent.path) as session:
                await asyncio.to_thread(session.wait_ready, 60)
                stream, writer, _far = await self.opened(session)
                await until(lambda: agent.flows)
                writer.transport.abort()
                await asyncio.sleep(0.05)
                # It has got the number of what was closed.
                other, _ = self.connection()
                agent.pace(8_000_000)
                await until(lambda: stream.directive.gate.kind == "paced")
                await asyncio.sleep(0.02)
                self.assertEqual(options(other), ((1 << 64) - 1, 0, 0, 0))

        self.each_loop(main)


if __name__ == "__main__":
    unittest.main()
