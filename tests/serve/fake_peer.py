"""An RTMP client in memory: says literal bytes to a connection of the server, and reads strictly what it is sent."""

import struct

from penstock.serve.connections.rtmp_connection import RtmpConnection
from tests.serve.fakes import FakeLoop, FakeTransport
from tests.support.hostile_clients import (
    AUDIO,
    GREETING,
    USER_CONTROL,
    VIDEO,
    command,
    connect_command,
    control,
    message,
)
from tests.support.independent_rtmp import read_amf0_values
from tests.support.raw_rtmp import COMMAND, RawMessage, RawReader

HANDSHAKE_BYTES = 1 + 1536 + 1536
HELLO = GREETING + bytes(1536)
"""The client's whole side of the handshake; the server does not look at what it repeats."""


def ping(number: int = 0) -> bytes:
    """A request for a sign of life: the smallest message that is answered and causes no event."""
    return control(USER_CONTROL, struct.pack(">HI", 6, number))


def audio(time_ms: int = 0, body: bytes = b"sound", *, stream_id: int = 1) -> bytes:
    return message(AUDIO, b"\xaf\x01" + body, csid=4, stream_id=stream_id, time_ms=time_ms)


def video(time_ms: int = 0, body: bytes = b"picture", *, is_key: bool = False, stream_id: int = 1) -> bytes:
    head = b"\x17\x01\x00\x00\x00" if is_key else b"\x27\x01\x00\x00\x00"
    return message(VIDEO, head + body, csid=6, stream_id=stream_id, time_ms=time_ms)


class FakePeer:
    """The other side of one connection."""

    def __init__(self, loop: FakeLoop, transport: FakeTransport, connection: RtmpConnection) -> None:
        self.loop = loop
        self.transport = transport
        self.connection = connection
        self.messages: list[RawMessage] = []
        """All that it was sent, handshake left out."""
        self._reader = RawReader(self.messages.append)
        self._read_bytes = 0

    def say(self, *pieces: bytes) -> list[RawMessage]:
        """Send, let the server do everything that follows from it, and give what it says to that."""
        self.transport.feed(b"".join(pieces))
        self.loop.settle()
        return self.hear()

    def hear(self) -> list[RawMessage]:
        """The messages that came since the last time."""
        before = len(self.messages)
        output = self.transport.output
        start = max(self._read_bytes, HANDSHAKE_BYTES)
        if len(output) > start:
            self._read_bytes = len(output)
            self._reader.feed(bytes(output[start:]))
        return self.messages[before:]

    @property
    def is_between_messages(self) -> bool:
        self.hear()
        return self._reader.is_between_messages

    def connected(self, app: str = "live") -> "FakePeer":
        """Past an accepted connect."""
        self.say(HELLO, connect_command(app))
        return self

    def with_streams(self, count: int = 1) -> "FakePeer":
        """Past connect and createStream: message streams 1 to `count` are there."""
        self.connected().say(*(command("createStream", 2.0, None) for _ in range(count)))
        return self

    def publish(self, name: str = "a", *, stream_id: int = 1) -> list[str]:
        return codes(self.say(command("publish", 3.0, None, name, "live", stream_id=stream_id)))

    def play(self, name: str = "a", *, stream_id: int = 1) -> list[str]:
        return codes(self.say(command("play", 3.0, None, name, stream_id=stream_id)))

    def close_stream(self, stream_id: int = 1) -> list[str]:
        return codes(self.say(command("closeStream", 4.0, None, stream_id=stream_id)))

    def hang_up(self) -> None:
        """Say that no more comes: seen by whoever reads."""
        self.transport.is_ended = True
        self.loop.settle()

    def reset(self) -> None:
        """Be gone in both directions: told to whoever waits for anything."""
        self.transport.is_hung_up = True
        self.loop.settle()


def codes(messages: list[RawMessage]) -> list[str]:
    """The status codes and names of commands among messages."""
    found = []
    for each in messages:
        if each.type_id == COMMAND:
            values = read_amf0_values(each.payload)
            status = values[3] if len(values) > 3 else None
            found.append(str(status["code"]) if isinstance(status, dict) and "code" in status else str(values[0]))
    return found


def media(messages: list[RawMessage]) -> list[tuple[int, bytes]]:
    """Audio and video among messages: time and payload."""
    return [(each.timestamp_ms, each.payload) for each in messages if each.type_id in (AUDIO, VIDEO)]
