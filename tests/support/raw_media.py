"""Media that can be checked: payloads with numbers and checksums, and whoever sends them in real time.

A viewer can tell that it was sent everything, in order and unharmed, and where something is missing.
"""

import asyncio
import struct
import zlib
from itertools import pairwise

from tests.support.raw_clients import RawClient
from tests.support.raw_rtmp import AUDIO, VIDEO, Corrupted, RawMessage

AVC_SETUP = bytes.fromhex("17 00 000000 01 42c01e ffe1 0004 6742c01e 01 0002 68ce")
AAC_SETUP = bytes.fromhex("af 00 1210")
_HEADS = {"key": b"\x17\x01\x00\x00\x00", "inter": b"\x27\x01\x00\x00\x00", "audio": b"\xaf\x01"}


def numbered(kind: str, tag: int, number: int, size: int = 100) -> bytes:
    """A payload that says which stream it is of and which message it is, with a checksum."""
    body = struct.pack(">II", tag, number) + bytes(max(0, size - len(_HEADS[kind]) - 12))
    checked = _HEADS[kind] + body
    return checked + struct.pack(">I", zlib.crc32(checked))


def number_of(payload: bytes, tag: int) -> int:
    """Which message of a stream this is; raises if a byte of it is wrong."""
    if struct.unpack_from(">I", payload, len(payload) - 4)[0] != zlib.crc32(payload[:-4]):
        raise Corrupted(f"a payload of {len(payload)} bytes is not what was published")
    found, number = struct.unpack_from(">II", payload, 2 if payload[0] == 0xAF else 5)
    if found != tag:
        raise Corrupted(f"a message of stream {found} reached a viewer of stream {tag}")
    return int(number)


def is_setup(payload: bytes) -> bool:
    return payload[1] == 0


def is_key(payload: bytes) -> bool:
    return payload[0] == 0x17 and payload[1] == 1


class Broadcast:
    """Numbered media of one publication: a key frame each so often, audio between, at any pace."""

    def __init__(self, client: RawClient, stream_id: int, tag: int = 1, *, gop: int = 10, start_ms: int = 0) -> None:
        self.client = client
        self.stream_id = stream_id
        self.tag = tag
        self.gop = gop
        self.time_ms = start_ms
        self.next_number = 0
        self._videos = 0
        self.is_stopped = False

    def send_setup(self) -> None:
        self._send(VIDEO, AVC_SETUP)
        self._send(AUDIO, AAC_SETUP)

    def send_video(self, size: int = 500, step_ms: int = 40) -> None:
        kind = "key" if self._videos % self.gop == 0 else "inter"
        self._videos += 1
        self._send(VIDEO, numbered(kind, self.tag, self._number(), size))
        self.time_ms += step_ms

    def send_audio(self, size: int = 60) -> None:
        self._send(AUDIO, numbered("audio", self.tag, self._number(), size))

    async def run(self, *, fps: float = 25, size: int = 500, key_size: int | None = None) -> None:
        """Go on in real time until stopped or cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self.is_stopped and not self.client.is_closed:
            is_key_next = self._videos % self.gop == 0
            self.send_video(key_size if is_key_next and key_size is not None else size, step_ms=round(1000 / fps))
            self.send_audio()
            due += 1 / fps
            await asyncio.sleep(max(0.0, due - loop.time()))

    def _send(self, type_id: int, payload: bytes) -> None:
        self.client.send_media(RawMessage(type_id, self.time_ms, self.stream_id, payload))

    def _number(self) -> int:
        self.next_number += 1
        return self.next_number - 1


def numbers(messages: list[RawMessage], tag: int = 1) -> list[int]:
    """The numbers of all media but set-up; raises if one is wrong, doubled or out of order."""
    found = [number_of(message.payload, tag) for message in messages if not is_setup(message.payload)]
    if any(later <= earlier for earlier, later in pairwise(found)):
        raise Corrupted(f"out of order: {found}")
    return found


def check_start(messages: list[RawMessage]) -> None:
    """What a viewer of audio and video must get first: set-up of both, then a key frame."""
    kinds = ["setup" if is_setup(m.payload) else "key" if is_key(m.payload) else "other" for m in messages[:3]]
    assert kinds == ["setup", "setup", "key"], kinds


def gaps(found: list[int]) -> int:
    """How often numbers are missing between two that came."""
    return sum(1 for earlier, later in pairwise(found) if later != earlier + 1)
