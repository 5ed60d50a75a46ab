"""A program written for sockets, with nothing changed but the import: drop_in.py serve HOST PORT | drop_in.py ask HOST PORT"""

import asyncio
import errno
import http.client
import os
import select
import sys
import threading

import cavalcade_spc as socket

socket.use_fabric(50_000_000, 2_000_000)


def answer(connection):
    with connection, connection.makefile("rb") as lines:
        request = lines.readline()
        if not request:
            return
        while lines.readline().strip():
            pass
        path = request.split()[1]
        body = path * 20_000
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nx-task: {connection.task}\r\nconnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


def serve(host, port):
    server = socket.create_server((host, port))
    server.settimeout(0.01)
    try:
        server.accept()
        sys.exit("a stream came from nowhere")
    except socket.timeout:
        pass
    server.setblocking(False)
    try:
        server.accept()
        sys.exit("a stream came from nowhere")
    except BlockingIOError:
        pass
    threading.Thread(target=asyncio.run, args=(echo(host, port + 2),), daemon=True).start()
    server.settimeout(None)
    print("listens", flush=True)
    while True:
        select.select([server], [], [])
        connection, _ = server.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


async def echo(host, port):
    async def answer(reader, writer):
        writer.write(await reader.read())
        writer.close()

    listening = await asyncio.start_server(answer, sock=socket.create_server((host, port)))
    await listening.serve_forever()


async def ask_many(host, port):
    async def ask_one(task):
        made = socket.socket(task=task)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (host, port))
        reader, writer = await asyncio.open_connection(sock=made)
        sent = bytes([task]) * 300_000
        writer.write(sent)
        await writer.drain()
        writer.write_eof()
        back = await reader.read()
        writer.close()
        assert back == sent, len(back)

    await asyncio.gather(*[ask_one(task) for task in range(20, 25)])
    refused = socket.socket(task=1)
    refused.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(refused, ("127.0.0.1", closed_port()))
        sys.exit("the connection should have been refused")
    except ConnectionRefusedError:
        pass
    # A second attempt succeeds, and carries more than one call takes.
    assert refused.connect_ex((host, port)) == errno.EINPROGRESS
    assert refused.connect_ex((host, port)) in (errno.EALREADY, errno.EISCONN)
    reader, writer = await asyncio.open_connection(sock=refused)
    writer.write(bytes(5_000_000))
    writer.write_eof()
    assert len(await reader.read()) == 5_000_000
    writer.close()
    # Never closed: the interpreter's shutdown has to cope.
    global left
    left = socket.socket(task=1)
    left.setblocking(False)
    left.connect_ex((host, port))


def closed_port():
    """A port of an endpoint that accepts nothing; it stays."""
    global idle
    idle = socket.socket()
    idle.bind(("127.0.0.1", 0))
    return idle.getsockname()[1]


def ask(host, port):
    counter = socket.TaskCounter(3, 4)
    for nth in range(3):
        client = http.client.HTTPConnection(host, port)
        client._create_connection = lambda address, *rest: socket.create_connection(address, counter=counter)
        client.request("GET", f"/{nth}")
        response = client.getresponse()
        body = response.read()
        client.close()
        assert body == f"/{nth}".encode() * 20_000, len(body)
        assert response.headers["x-task"] == str(3 + 4 * nth), response.headers["x-task"]
    of_agent = socket.TaskCounter.of_agent(os.environ["COUNTERS"], "own")
    ids = [of_agent.next_id() for _ in range(2)]
    assert ids[0] % 4 == 3 and ids[1] == ids[0] + 4, ids
    background = socket.TaskCounter(background=True)
    assert background.next_id() > ids[1], "behind all tasks of users"
    with socket.socket() as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert plain.connect_ex((host, port)) == 0 and plain.task == 1
        assert plain.getpeername() == (host, port)
        try:
            plain.settimeout(0.05)
            plain.recv(1)
            sys.exit("an answer without a question")
        except TimeoutError:
            pass
    asyncio.run(ask_many(host, port + 2))
    silent = socket.socket(task=9)
    silent.settimeout(0.3)
    assert silent.connect_ex((host, port + 1)) == errno.ETIMEDOUT
    print("same", flush=True)


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
