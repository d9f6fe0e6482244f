"""What attackers say: bytes made once, so that an attack costs its own machine little.

Owns floods that are dense (headers of one byte wherever RTMP allows it), aggregates, and who the attackers are when
the flood begins: connected, publishing or watching, so many of them.
"""

import itertools
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from tests.support.hostile_clients import (
    ABORT,
    ACKNOWLEDGEMENT,
    AGGREGATE,
    COMMAND,
    GREETING,
    SET_BUFFER_LENGTH,
    SET_CHUNK_SIZE,
    USER_CONTROL,
    VIDEO,
    AmfLike,
    HostileClient,
    amf,
    basic_header,
    command,
    connect_command,
    control,
    full_header,
    message,
)

MAX_PAYLOAD_BYTES = 0xFFFFFF
BIG_CHUNK_BYTES = 0xFFFFFF
BIG_CHUNKS = control(SET_CHUNK_SIZE, BIG_CHUNK_BYTES.to_bytes(4, "big"))
AVC_CONFIG = bytes.fromhex("1700000000 0142c01e ff e10004 6742c01e 010004 68ce3c80")
KEY_FRAME_TAG = b"\x17\x01\0\0\0"
_INTERLEAVED_BYTES = 30_000
"""Two of them are below what the server may keep of anybody's half messages."""
_COME_IN_S = 10.0
_names = itertools.count()


@dataclass(frozen=True, slots=True)
class Load:
    """What one attacker sends: once, and then again and again."""

    once: bytes
    again: bytes


def repeated(type_id: int, payload: bytes, *, csid: int = 3, stream_id: int = 0) -> Load:
    """One message in one chunk; all but the first have a header of one byte."""
    once = message(type_id, payload, csid=csid, stream_id=stream_id)
    return Load(once, (basic_header(3, csid) + payload) * 1000)


def interleaved(type_id: int, stream_id: int) -> Load:
    """Two messages at a time, in chunks of one byte that take turns."""
    heads = b"".join(full_header(csid, type_id, _INTERLEAVED_BYTES, stream_id=stream_id) + b"x" for csid in (4, 5))
    turns = (basic_header(3, 4) + b"x" + basic_header(3, 5) + b"x") * (_INTERLEAVED_BYTES - 1)
    return Load(control(SET_CHUNK_SIZE, (1).to_bytes(4, "big")), heads + turns)


EVENTLESS = {
    "interleaved chunks of 1 byte": interleaved(VIDEO, stream_id=5),
    "unknown commands of 4 bytes": repeated(COMMAND, amf("x")),
    "user control messages": repeated(USER_CONTROL, b"\x7f\xff", csid=2),
    "buffer lengths": repeated(USER_CONTROL, SET_BUFFER_LENGTH.to_bytes(2, "big") + bytes(8), csid=2),
    "acknowledgements": repeated(ACKNOWLEDGEMENT, bytes(4), csid=2),
    "stray media": repeated(VIDEO, b"\x17", csid=6, stream_id=5),
    "aborts": repeated(ABORT, (6).to_bytes(4, "big"), csid=2),
}
"""Floods that cause no event in the server."""


def aggregate(type_id: int, payload: bytes, size_bytes: int, stream_id: int) -> bytes:
    """One message of about this size that holds as many as fit. In one chunk: `BIG_CHUNKS` must have been sent."""
    item = bytes([type_id]) + len(payload).to_bytes(3, "big") + bytes(7) + payload + (11 + len(payload)).to_bytes(4)
    body = item * (size_bytes // len(item))
    return message(AGGREGATE, body, csid=6, stream_id=stream_id, chunk_bytes=BIG_CHUNK_BYTES)


def stream_command(name: str, *values: AmfLike, stream_id: int = 1) -> bytes:
    """A command on a message stream that wants no numbered answer."""
    return command(name, 0.0, None, *values, stream_id=stream_id)


def play_and_close(name: str) -> bytes:
    """Join and leave."""
    return stream_command("play", name) + stream_command("closeStream")


def pipelined_opening(app: str = "live") -> bytes:
    """From the handshake to createStream without waiting for any answer."""
    return GREETING + bytes(1536) + connect_command(app) + command("createStream", 2.0, None)


def new_name() -> str:
    """A stream that nobody has."""
    return f"attack-{next(_names)}"


def come_and_go(new_client: Callable[[], HostileClient], data: bytes, seconds: float, per_s: float) -> int:
    """Connect, say something and leave without listening, one after another. How many came."""
    started_at = time.monotonic()
    count = 0
    while (passed_s := time.monotonic() - started_at) < seconds:
        if count > passed_s * per_s:
            time.sleep(0.001)
            continue
        client = new_client()
        client.push(data)
        # Every other one with an RST, so that neither side keeps the address for long.
        if count % 2:
            client.reset()
        else:
            client.socket.close()
        count += 1
    return count


class Target(Protocol):
    """What attackers can come to."""

    def attacker(self, receive_buffer_bytes: int | None = None) -> HostileClient: ...


State = Callable[[HostileClient], HostileClient]


def connected(client: HostileClient) -> HostileClient:
    """Neither publishing nor watching."""
    return client.with_stream()


def publishing(client: HostileClient) -> HostileClient:
    """A stream of its own."""
    return client.publishing(new_name())


def watching(name: str) -> State:
    """A viewer of a stream that is there."""
    return lambda client: client.playing(name)


def crowd(target: Target, stack: ExitStack, size: int, state: State = connected) -> list[HostileClient]:
    """So many attackers, all past their opening. Whoever is turned away for coming too fast tries again."""
    give_up_at = time.monotonic() + _COME_IN_S
    attackers: list[HostileClient] = []
    while len(attackers) < size:
        client = target.attacker()
        try:
            attackers.append(state(client))
        except OSError:
            client.socket.close()
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.05)
        else:
            stack.callback(client.socket.close)
    return attackers


def begun(clients: list[HostileClient], load: Load) -> list[tuple[HostileClient, bytes]]:
    """The clients after what is sent once, as `flood` takes them."""
    for client in clients:
        client.send(load.once)
    return [(client, load.again) for client in clients]
