"""Sends a transfer of its own coflow over loopback, no faster than its program makes the data.

    python3 examples/transfer.py NAME MEGABYTES MEGABYTES_PER_SECOND

Run it with PYTHONPATH=python, or with the package installed. Without an agent it sends as any program does.
"""

import socket
import sys
import threading
import time

from cavalcade.live import Session

CHUNK = bytes(250_000)


def receive(listener: socket.socket) -> None:
    with listener.accept()[0] as connection:
        while connection.recv(1 << 20):
            pass


def main() -> None:
    name, megabytes, pace = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=receive, args=(listener,)).start()
    with Session() as session:
        session.wait_ready(5)
        coflow = session.register(name=name)
        start = time.monotonic()
        with session.connect(listener.getsockname(), coflow) as stream:
            for _ in range(round(megabytes * 1_000_000 / len(CHUNK))):
                stream.sendall(CHUNK)
                time.sleep(len(CHUNK) / (pace * 1_000_000))
        session.unregister(coflow)
        print(f"{name}: {megabytes:g} MB in {time.monotonic() - start:.1f} s", flush=True)


main()
