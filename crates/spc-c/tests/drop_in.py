"""A program written for sockets, with nothing changed but the import: drop_in.py serve HOST PORT | drop_in.py ask HOST PORT"""

import errno
import http.client
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
    server.settimeout(None)
    print("listens", flush=True)
    while True:
        connection, _ = server.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


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
    silent = socket.socket(task=9)
    silent.settimeout(0.3)
    assert silent.connect_ex((host, port + 1)) == errno.ETIMEDOUT
    print("same", flush=True)


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
