"""Clients that break the rules: RTMP written by hand on plain sockets, with no code of the product.

Owns raw messages and sockets that can be driven into any state and left there. Refuses to wait for ever: every wait has
a deadline. What the server answers is searched for words, not read.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Self

DEADLINE_S = 10.0
SET_CHUNK_SIZE, ABORT, ACKNOWLEDGEMENT, USER_CONTROL, WINDOW_SIZE, PEER_BANDWIDTH = range(1, 7)
AUDIO, VIDEO, AMF3_DATA, AMF3_COMMAND, DATA, COMMAND, AGGREGATE = 8, 9, 15, 17, 18, 20, 22
SET_BUFFER_LENGTH, PING_REQUEST, PING_RESPONSE = 3, 6, 7
DEFAULT_CHUNK_BYTES = 128
WRITE_BYTES = 64 * 1024
ATTACK_BPS = 20_000_000
"""What all attackers of a flood send together."""
_TICK_S = 0.02
_MAX_BURST_S = 0.5
GREETING = b"\x03" + bytes(1536)

AmfLike = str | float | None | dict[str, "AmfLike"]


def amf(*values: AmfLike) -> bytes:
    """AMF0 values one after another."""
    return b"".join(_amf_value(value) for value in values)


def _amf_value(value: AmfLike) -> bytes:
    if value is None:
        return b"\x05"
    if isinstance(value, bool):
        return b"\x01" + bytes([value])
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogateescape")
        if len(text) > 0xFFFF:
            return b"\x0c" + struct.pack(">I", len(text)) + text
        return b"\x02" + _short_text(text)
    if isinstance(value, dict):
        members = b"".join(_short_text(name.encode()) + _amf_value(member) for name, member in value.items())
        return b"\x03" + members + b"\x00\x00\x09"
    return b"\x00" + struct.pack(">d", value)


def _short_text(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text


def message(
    type_id: int,
    payload: bytes,
    *,
    csid: int = 3,
    stream_id: int = 0,
    time_ms: int = 0,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
) -> bytes:
    """One message with a full header, in chunks."""
    pieces = [payload[start : start + chunk_bytes] for start in range(0, len(payload), chunk_bytes)] or [b""]
    header = full_header(csid, type_id, len(payload), stream_id=stream_id, time_ms=time_ms)
    return header + basic_header(3, csid).join(pieces)


def full_header(csid: int, type_id: int, length: int, *, stream_id: int = 0, time_ms: int = 0) -> bytes:
    """The header of a first chunk: any length may be declared. Times of four bytes are not for messages of many."""
    fields = min(time_ms, 0xFFFFFF).to_bytes(3, "big") + length.to_bytes(3, "big") + bytes([type_id])
    extended = time_ms.to_bytes(4, "big") if time_ms >= 0xFFFFFF else b""
    return basic_header(0, csid) + fields + struct.pack("<I", stream_id) + extended


def basic_header(fmt: int, csid: int) -> bytes:
    """One to three bytes, as the number of the chunk stream needs."""
    if csid < 64:
        return bytes([fmt << 6 | csid])
    if csid < 320:
        return bytes([fmt << 6, csid - 64])
    return bytes([fmt << 6 | 1, (csid - 64) & 0xFF, (csid - 64) >> 8])


def command(*values: AmfLike, stream_id: int = 0, csid: int = 3) -> bytes:
    """One command message."""
    return message(COMMAND, amf(*values), stream_id=stream_id, csid=csid)


def control(type_id: int, payload: bytes) -> bytes:
    """One protocol control or user control message."""
    return message(type_id, payload, csid=2)


def connect_command(app: str = "live") -> bytes:
    """The connect of a plain player."""
    return command("connect", 1.0, {"app": app, "flashVer": "hostile", "tcUrl": "rtmp://127.0.0.1/live"})


def nested_objects(depth: int) -> bytes:
    """An AMF0 value of objects inside each other, never closed."""
    return b"\x03\x00\x01a" * depth


class HostileClient:
    """One connection that does as it likes."""

    def __init__(self, port: int, receive_buffer_bytes: int | None = None, source: str = "127.0.0.1") -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        # Nagle's algorithm and delayed acknowledgements would cost 40 ms for each opening.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(DEADLINE_S)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))
        self.heard = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def greeted(self) -> Self:
        """Past the handshake."""
        self.send(GREETING)
        while len(self.heard) < 3073:
            self.heard += self._receive("the end of the handshake")
        self.send(bytes(1536))
        self.heard = self.heard[3073:]
        return self

    def connected(self, app: str = "live") -> Self:
        """Past an accepted connect."""
        self.greeted().send(connect_command(app))
        return self.until(b"NetConnection.Connect.Success")

    def with_stream(self, app: str = "live") -> Self:
        """Past createStream: message stream 1 is there."""
        self.connected(app).send(command("createStream", 2.0, None))
        return self.until(b"_result")

    def publishing(self, name: str) -> Self:
        """Past an accepted publish."""
        self.with_stream().send(command("publish", 3.0, None, name, "live", stream_id=1))
        return self.until(b"NetStream.Publish.Start")

    def playing(self, name: str) -> Self:
        """Past an accepted play of a stream that is there."""
        self.with_stream().send(command("play", 3.0, None, name, stream_id=1))
        return self.until(b"NetStream.Play.Start")

    def send(self, data: bytes) -> None:
        """All of it, or an error at the deadline."""
        self.socket.settimeout(DEADLINE_S)
        self.socket.sendall(data)

    def push(self, data: bytes) -> int:
        """As much as is taken now, without waiting; 0 too if the connection is gone."""
        self.socket.setblocking(False)
        try:
            return self.socket.send(data)
        except OSError:
            return 0

    def until(self, words: bytes) -> Self:
        """Read until the server says this; what came before is forgotten."""
        while words not in self.heard:
            self.heard += self._receive(words.decode())
        self.heard = self.heard.partition(words)[2]
        return self

    def _receive(self, waited_for: str) -> bytes:
        self.socket.settimeout(DEADLINE_S)
        data = self.socket.recv(WRITE_BYTES)
        if not data:
            raise ConnectionError(f"the server closed while {waited_for} was waited for; it said {self.heard!r}")
        return data

    def answer(self, deadline_s: float = DEADLINE_S) -> bytes | None:
        """All that the server says until it closes; None if it has not closed by the deadline."""
        said, is_closed = self.said_within(deadline_s)
        return said if is_closed else None

    def said_within(self, deadline_s: float) -> tuple[bytes, bool]:
        """All that the server says until it closes or the time is over, and whether it closed."""
        said = self.heard
        give_up_at = time.monotonic() + deadline_s
        while (left_s := give_up_at - time.monotonic()) > 0:
            self.socket.settimeout(left_s)
            try:
                data = self.socket.recv(WRITE_BYTES)
            except TimeoutError:
                break
            except OSError:
                return said, True
            if not data:
                return said, True
            said += data
        return said, False

    def is_refused(self, deadline_s: float = DEADLINE_S) -> bool:
        """Whether the server closes the connection in time."""
        return self.answer(deadline_s) is not None

    def reset(self) -> None:
        """Leave without a word: the server gets an RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@contextmanager
def hostile_crowd(port: int, size: int) -> Iterator[list[HostileClient]]:
    """Many connections that have said nothing yet."""
    with ExitStack() as stack:
        yield [stack.enter_context(HostileClient(port)) for _ in range(size)]


def flood(
    attacks: Iterable[tuple[HostileClient, bytes]],
    seconds: float,
    *,
    bps: float = ATTACK_BPS,
    reads: bool = False,
    audience: Iterable[HostileClient] = (),
    comes_back: Callable[[], HostileClient] | None = None,
) -> list[int]:
    """Push each client's bytes again and again, `bps` in all, until all clients are closed or the time is over.

    What is not taken when it is due is not sent later. Answers are thrown away unread, or left where they are without
    `reads`; the audience only reads. `comes_back`: another in the place of one that was closed. How many bytes were
    taken of each place.
    """
    attackers = [_Attacker(client, data) for client, data in attacks]
    readers = [_Attacker(client, b"") for client in audience]
    filled_at = time.monotonic()
    give_up_at = filled_at + seconds
    while filled_at < give_up_at and (standing := [attacker for attacker in attackers if not attacker.is_closed]):
        time.sleep(_TICK_S)
        now = time.monotonic()
        share_bytes = bps / 8 * min(now - filled_at, _MAX_BURST_S) / len(standing)
        filled_at = now
        for attacker in (*standing, *readers) if reads else readers:
            attacker.drain()
        for attacker in standing:
            attacker.push(share_bytes)
            if attacker.is_closed and comes_back is not None:
                attacker.begin_anew(comes_back())
    return [attacker.taken_bytes for attacker in attackers]


class _Attacker:
    """One client of a flood, with the place in its bytes where the last push was cut, so that messages stay whole."""

    _waste = bytearray(1 << 20)

    def __init__(self, client: HostileClient, data: bytes) -> None:
        self._load = memoryview(data * max(1, WRITE_BYTES // max(1, len(data))))
        self._due_bytes = 0.0
        self.taken_bytes = 0
        self._begin(client)

    def begin_anew(self, client: HostileClient) -> None:
        """From the first byte, on another connection."""
        self._socket.close()
        self._begin(client)

    def _begin(self, client: HostileClient) -> None:
        client.socket.setblocking(False)
        self._socket = client.socket
        self._at = 0
        self.is_closed = False

    def push(self, share_bytes: float) -> None:
        """As much as is due and taken."""
        self._due_bytes += share_bytes
        due_bytes = int(self._due_bytes)
        self._due_bytes -= due_bytes
        while due_bytes > 0:
            try:
                taken = self._socket.send(self._load[self._at : self._at + due_bytes])
            except BlockingIOError:
                return
            except OSError:
                self.is_closed = True
                return
            self.taken_bytes += taken
            due_bytes -= taken
            self._at = (self._at + taken) % len(self._load)

    def drain(self) -> None:
        """Forget what has come. MSG_TRUNC: the kernel drops it without a copy."""
        with suppress(BlockingIOError):
            try:
                while taken := self._socket.recv_into(self._waste, 0, socket.MSG_TRUNC):
                    if taken < len(self._waste):
                        return
            except ConnectionError:
                pass
            self.is_closed = True


def closed_of(clients: Iterable[HostileClient], deadline_s: float) -> int:
    """How many of the clients the server has closed by the deadline."""
    give_up_at = time.monotonic() + deadline_s
    closed = 0
    for client in clients:
        with suppress(OSError):
            client.socket.setblocking(True)
        closed += client.is_refused(max(give_up_at - time.monotonic(), 0.01))
    return closed
