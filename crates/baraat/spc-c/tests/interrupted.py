"""Waits in a call that nothing answers: interrupted.py connect HOST PORT | interrupted.py accept, recv or sendall"""

import signal
import sys

import cavalcade_spc as socket

# Whoever starts this may have Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
call, *address = sys.argv[1:]
if call == "connect":
    made, arguments = socket.socket(task=1), [(address[0], int(address[1]))]
else:
    server = socket.create_server(("127.0.0.1", 0))
    made = socket.create_connection(server.getsockname(), task=1)
    other, _ = server.accept()
    made, arguments = {"accept": (server, []), "recv": (made, [1]), "sendall": (made, [bytes(50_000_000)])}[call]
# A time-out in an hour is to change nothing.
made.settimeout(3600)
print("waits", flush=True)
getattr(made, call)(*arguments)
sys.exit("it has been answered")
