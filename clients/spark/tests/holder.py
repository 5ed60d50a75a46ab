"""Holds the host's port for `cargo xtask spark`: holder.py AGENT_SOCKET, with the Python client on the path.

It sends a little all the time as a coflow of its own, until its input ends. Under `fifo` all that comes later waits.
"""

import socket
import sys
import threading
import time

from cavalcade.live import Session


def drain(server):
    connection, _ = server.accept()
    while connection.recv(1 << 16):
        pass


def main():
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=drain, args=(server,), daemon=True).start()
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    with Session(sys.argv[1]) as session:
        session.wait_ready(20)
        with session.connect(server.getsockname(), session.register(name="holder")) as stream:
            print("holds", flush=True)
            while not over.is_set():
                stream.sendall(bytes(500))
                time.sleep(0.02)


main()
