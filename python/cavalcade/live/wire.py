"""The byte format between a client and the agent: a frame is four bytes of length, little-endian, then one message.

Numbers are little-endian base-128 varints in as few bytes as they need; what may be missing begins with 0 or 1; a message
begins with the number of its kind. The Rust crate ``protocol`` is the definition; this is a reader and writer of its part.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from dataclasses import dataclass
from typing import Iterator, NamedTuple, Optional, Union

PROTOCOL = 4
MAX_FRAME = 2 << 20
_U64 = (1 << 64) - 1
_U16 = (1 << 16) - 1
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:/@+-]{0,38}")


# The two ends of a connection, the near one first: address and port.
Ends = tuple[tuple[str, int], tuple[str, int]]


class WireError(ValueError):
    """Bytes that are no message."""


class CoflowKey(NamedTuple):
    """The name of a coflow: the same on every host, and unique. Keys order as coflows do: tasks first, then stages."""

    task: int
    stage: int
    serial: int

    def __str__(self) -> str:
        return f"{self.task}.{self.stage}.{self.serial}"

    @staticmethod
    def parse(text: str) -> "CoflowKey":
        """Reads ``task.stage.serial``."""
        if not isinstance(text, str):
            raise TypeError(f"expected the text of a key, as 7.0.7, found {text!r}")
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
            raise ValueError(f"{text[:78]!r} is no key of a coflow, as 7.0.7")
        key = CoflowKey(*(int(part) for part in parts))
        if key.task > _U64 or key.stage > _U16 or key.serial > _U64:
            raise ValueError(f"{text[:78]!r} is no key of a coflow, as 7.0.7")
        return key

    @staticmethod
    def new(serial: int, parents: "list[CoflowKey]") -> "CoflowKey":
        """The key of a coflow registered as number ``serial`` that starts after ``parents``."""
        task = min((parent.task for parent in parents), default=serial)
        stage = max((min(parent.stage + 1, 0xFFFF) for parent in parents), default=0)
        return CoflowKey(task, stage, serial)


def name_of_coflow(name: Optional[str]) -> Optional[str]:
    """Returns ``name``; raises ``ValueError`` where it is no name of a coflow."""
    if name is not None and not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:78]!r} is no name of a coflow: expected 1 to 39 letters, digits or -_.:/@+, the first a letter, as sort-7"
        )
    return name


class Gate(NamedTuple):
    """Whether a flow may send: ``off``, ``open``, or ``paced`` at ``rate`` bits per second."""

    kind: str
    rate: int = 0


OPEN = Gate("open")
OFF = Gate("off")


class Directive(NamedTuple):
    """How a flow is to be sent: its gate, and the class for its packets, 0 first; none where no decision holds."""

    gate: Gate = OPEN
    traffic_class: Optional[int] = None


@dataclass(frozen=True)
class Facts:
    """What was said of a coflow at its registration; times in nanoseconds since 1970."""

    arrival: int
    deadline: Optional[int] = None
    size: Optional[int] = None
    background: bool = False
    weight: int = 1
    name: Optional[str] = None


class Writer:
    """Fields into bytes."""

    def __init__(self, kind: int) -> None:
        self._bytes = bytearray()
        self.number(kind)

    def number(self, value: int) -> "Writer":
        if not 0 <= value <= _U64:
            raise ValueError(f"{value} is no number of 64 bits")
        while value >= 0x80:
            self._bytes.append(value & 0x7F | 0x80)
            value >>= 7
        self._bytes.append(value)
        return self

    def flag(self, value: bool) -> "Writer":
        self._bytes.append(1 if value else 0)
        return self

    def optional(self, value: Optional[int]) -> "Writer":
        self.flag(value is not None)
        return self if value is None else self.number(value)

    def name(self, name: Optional[str]) -> "Writer":
        self.flag(name is not None)
        if name is not None:
            self.number(len(name))
            self._bytes += name.encode("ascii")
        return self

    def key(self, key: CoflowKey) -> "Writer":
        return self.number(key.task).number(key.stage).number((key.serial - key.task) & _U64)

    def facts(self, facts: Optional[Facts]) -> "Writer":
        self.flag(facts is not None)
        if facts is not None:
            self.number(facts.arrival).optional(facts.deadline).optional(facts.size)
            self.flag(facts.background).number(facts.weight).name(facts.name)
        return self

    def address(self, host: str, port: int) -> "Writer":
        # What is behind a percent sign is the scope, which stays on the host.
        address = ipaddress.ip_address(host.split("%")[0])
        self._bytes.append(address.version)
        self._bytes += address.packed + struct.pack("<H", port)
        return self

    def frame(self) -> bytes:
        return struct.pack("<I", len(self._bytes)) + bytes(self._bytes)


class Reader:
    """Fields out of bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def byte(self) -> int:
        if self._at >= len(self._data):
            raise WireError("the message is cut off")
        self._at += 1
        return self._data[self._at - 1]

    def number(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > _U64 or (byte == 0 and shift):
                    break
                return value
        raise WireError("a number is too long")

    def flag(self) -> bool:
        byte = self.byte()
        if byte > 1:
            raise WireError("expected 0 or 1")
        return byte == 1

    def optional(self) -> Optional[int]:
        return self.number() if self.flag() else None

    def name(self) -> Optional[str]:
        if not self.flag():
            return None
        name = bytes(self.byte() for _ in range(self.number())).decode("ascii", "replace")
        if not _NAME.fullmatch(name):
            raise WireError("expected the name of a coflow")
        return name

    def key(self) -> CoflowKey:
        task, stage, distance = self.number(), self.number(), self.number()
        return CoflowKey(task, stage, (task + distance) & _U64)

    def facts(self) -> Facts:
        return Facts(
            self.number(), self.optional(), self.optional(), self.flag(), self.number(), self.name()
        )

    def end(self) -> None:
        if self._at != len(self._data):
            raise WireError("bytes follow the message")


def hello(client: int) -> bytes:
    return Writer(0).number(PROTOCOL).number(client).frame()


def register(request: int, parents: list[CoflowKey], deadline: Optional[int], facts: Facts) -> bytes:
    writer = Writer(1).number(request).number(len(parents))
    for parent in parents:
        writer.key(parent)
    writer.optional(deadline).optional(facts.size).flag(facts.background).number(facts.weight)
    return writer.name(facts.name).frame()


def join(key: CoflowKey, facts: Optional[Facts], sent: int) -> bytes:
    return Writer(2).key(key).facts(facts).number(sent).frame()


def unregister(key: CoflowKey) -> bytes:
    return Writer(3).key(key).frame()


def open_flow(flow: int, key: CoflowKey, ends: Ends, size: Optional[int], sent: int) -> bytes:
    (local, remote) = ends
    writer = Writer(4).number(flow).key(key).address(*local).address(*remote)
    return writer.optional(size).number(sent).frame()


def progress(flow: int, sent: int, idle: bool) -> bytes:
    return Writer(5).number(flow).number(sent).flag(idle).frame()


def close_flow(flow: int, sent: int) -> bytes:
    return Writer(6).number(flow).number(sent).frame()


def grant(key: CoflowKey, user: int) -> bytes:
    return Writer(7).key(key).number(user).frame()


class Welcome(NamedTuple):
    period: int
    lease: int


class Registered(NamedTuple):
    request: int
    key: CoflowKey
    facts: Facts


class Direct(NamedTuple):
    flow: int
    directive: Directive


class Alive(NamedTuple):
    pass


class Refused(NamedTuple):
    """What was refused, and why: who set a limit and how to raise it."""

    subject: str
    reason: str
    # The number of a registration; None where something else was refused.
    request: Optional[int] = None
    is_connection: bool = False


Message = Union[Welcome, Registered, Direct, Alive, Refused]


def decode(data: bytes) -> Message:
    """What an agent says."""
    reader = Reader(data)
    message = _read(reader)
    reader.end()
    return message


def _read(reader: Reader) -> Message:
    kind = reader.number()
    if kind == 0:
        reader.number(), reader.number()
        return Welcome(reader.number(), reader.number())
    if kind == 1:
        return Registered(reader.number(), reader.key(), reader.facts())
    if kind == 2:
        return Direct(reader.number(), Directive(_gate(reader), reader.optional()))
    if kind == 3:
        return Alive()
    if kind == 4:
        return _refusal(reader)
    raise WireError(f"an agent says nothing of kind {kind}")


def _gate(reader: Reader) -> Gate:
    kind = reader.number()
    if kind == 2:
        return Gate("paced", reader.number())
    if kind > 2:
        raise WireError(f"there is no gate of kind {kind}")
    return (OFF, OPEN)[kind]


_LIMITS = ("connections", "coflows", "flows", "messages", "bytes")


def _refusal(reader: Reader) -> Refused:
    kind = reader.number()
    if kind == 0:
        return Refused("the connection", _reason(reader), is_connection=True)
    if kind == 1:
        request = reader.number()
        return Refused(f"registration {request}", _reason(reader), request)
    if kind == 2:
        return Refused(f"coflow {reader.key()}", _reason(reader))
    if kind == 3:
        return Refused(f"flow {reader.number()}", _reason(reader))
    raise WireError(f"there is no subject of a refusal of kind {kind}")


def _reason(reader: Reader) -> str:
    kind = reader.number()
    if kind == 0:
        return f"the agent speaks version {reader.number()} of the protocol: install the same release on both"
    if kind == 1:
        return "it belongs to another user, who may grant it, or is older than it can be"
    if kind == 2:
        return "there is a flow of that number already"
    if kind == 3:
        return "it was said before the hello, or the hello came twice"
    if kind == 4:
        limit, most = reader.number(), reader.number()
        if limit >= len(_LIMITS):
            raise WireError(f"there is no limit of kind {limit}")
        name = _LIMITS[limit]
        span = " a second" if name == "messages" else ""
        return (
            f"one user may have {most} {name} on this host{span}: "
            f"the agent's operator set that, and --user-budget {name}=NUMBER raises it"
        )
    raise WireError(f"there is no refusal of kind {kind}")


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def push(self, data: bytes) -> Iterator[Message]:
        """Takes in bytes; gives out the messages that are complete."""
        self._buffer += data
        while len(self._buffer) >= 4:
            (length,) = struct.unpack_from("<I", self._buffer)
            if length > MAX_FRAME:
                raise WireError(f"a frame of {length} bytes: the other side is no agent")
            if len(self._buffer) < 4 + length:
                return
            body = bytes(self._buffer[4 : 4 + length])
            del self._buffer[: 4 + length]
            yield decode(body)
