"""The bytes of this library against those of the Rust crate ``protocol``, in ``clients/vectors.txt``."""

import pathlib
import unittest

from cavalcade.live import CoflowKey, wire

_KEY = CoflowKey(1_000, 2, 1_300)
_FACTS = wire.Facts(1_700_000_000_000_000_000, 1_700_000_001_000_000_000, 1 << 40, True, 3, "sort-7")
_V4 = (("10.0.0.1", 40000), ("10.0.0.2", 7337))
_V6 = (("fe80::1", 1), ("2001:db8::2", 65535))

_SAID = {
    "hello": wire.hello((1 << 64) - 1),
    "register": wire.register(0, [], None, wire.Facts(0)),
    "register with all": wire.register(
        300, [_KEY, CoflowKey(7, 0, 5)], 250_000_000, wire.Facts(0, None, 5, True, 9, "query72/stage3@worker-1")
    ),
    "join": wire.join(_KEY, None, 0),
    "join with all": wire.join(_KEY, _FACTS, 128),
    "unregister": wire.unregister(_KEY),
    "open": wire.open_flow(1, _KEY, _V4, None, 0),
    "open with all": wire.open_flow(2, _KEY, _V6, 5, 4),
    "sent": wire.progress(127, 127, False),
    "sent idle": wire.progress(128, 16_384, True),
    "close": wire.close_flow(2, (1 << 64) - 1),
    "grant": wire.grant(_KEY, 1_001),
}


def _shown(message: object) -> str:
    if isinstance(message, wire.Welcome):
        return f"welcome {message.period} {message.lease}"
    if isinstance(message, wire.Registered):
        assert message.facts == _FACTS
        return f"registered {message.request} {message.key}"
    if isinstance(message, wire.Direct):
        gate, kind = message.directive.gate, message.directive.traffic_class
        rate = f" {gate.rate}" if gate.kind == "paced" else ""
        return f"direct {message.flow} {gate.kind}{rate} {'none' if kind is None else kind}"
    if isinstance(message, wire.Refused):
        return f"refused {message.subject}: {message.reason}"
    return "alive"


class Vectors(unittest.TestCase):
    def test_each_message_is_the_bytes_of_the_specification(self):
        path = pathlib.Path(__file__).parents[3] / "clients/vectors.txt"
        said = set()
        for line in path.read_text(encoding="utf-8").splitlines():
            speaker, what, digits = line.split("\t")
            frame = bytes.fromhex(digits)
            if speaker == "client":
                self.assertEqual(_SAID[what], frame, what)
                said.add(what)
            else:
                (message,) = wire.Frames().push(frame)
                self.assertEqual(_shown(message), what)
        self.assertEqual(said, set(_SAID))


if __name__ == "__main__":
    unittest.main()
