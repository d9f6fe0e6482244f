"""Messages as chunk streams in any form that RTMP 1.0 (section 5.3) allows, by chance.

A second writer beside the product's, which writes only the forms that suit all peers: here chunk stream ids of all
three lengths, all four header types, extended times, interleaved messages and changes of the chunk size come in any
mix. What it writes is legal, so a reader must give back exactly the messages; damage is added afterwards. Only for the
habit of leaving extended timestamps out of continuations, or writing zeros there, a reader has to guess.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tests.support.independent_rtmp import SET_CHUNK_SIZE, OracleMessage

from fuzz.outcome import MAX_DATA_BYTES

_DEFAULT_CHUNK_BYTES = 128
_EXTENDED = 0xFFFFFF
_CHUNK_STREAM_IDS = (3, 4, 5, 6, 8, 63, 64, 319, 320, 65599)
_CHUNK_SIZES = (1, 2, 31, 128, 128, 4096, 65536)


class Habit(Enum):
    """What a peer writes behind the basic header of a continuation whose message has an extended timestamp."""

    REPEATS = "the same timestamp"
    OMITS = "nothing"
    ZEROS = "four zeros"


@dataclass(frozen=True, slots=True)
class _Header:
    """What the reader remembers of a chunk stream."""

    timestamp: int
    delta: int
    length: int
    type_id: int
    stream_id: int


def write_chunks(
    messages: Sequence[OracleMessage], chance: random.Random, habit: Habit = Habit.REPEATS
) -> tuple[bytes, list[OracleMessage]]:
    """The bytes, and the messages as a reader must give them: in the order of their ends, size changes among them.

    What is past the size of an input is left out.
    """
    writer = _Writer(chance, habit)
    waiting = list(reversed(messages))
    while waiting and len(writer.out) < MAX_DATA_BYTES:
        if chance.random() < 0.1:
            size = chance.choice(_CHUNK_SIZES)
            writer.write_alone(OracleMessage(2, 0, SET_CHUNK_SIZE, 0, size.to_bytes(4, "big")))
        if waiting[-1].type_id == SET_CHUNK_SIZE:
            writer.write_alone(waiting.pop())
            continue
        group = [waiting.pop()]
        if waiting and waiting[-1].type_id != SET_CHUNK_SIZE and chance.random() < 0.2:
            group.append(waiting.pop())
        writer.interleave(group)
    return bytes(writer.out), writer.ended


def write_plain(messages: Sequence[OracleMessage]) -> bytes:
    """The bytes of messages with full headers and chunks of 128 bytes, each on the chunk stream that it names."""
    chance = random.Random(0)
    return b"".join(chunk for each in messages for chunk in _Writer(chance, Habit.REPEATS).chunks_of(each))


class _Writer:
    def __init__(self, chance: random.Random, habit: Habit) -> None:
        self.out = bytearray()
        self.ended: list[OracleMessage] = []
        self._chance = chance
        self._habit = habit
        self._headers: dict[int, _Header] = {}
        self._chunk_bytes = _DEFAULT_CHUNK_BYTES

    def write_alone(self, message: OracleMessage) -> None:
        """Write a message on its own chunk stream, and obey it if it sets the chunk size."""
        self.out += b"".join(self.chunks_of(message))
        self.ended.append(message)
        if message.type_id == SET_CHUNK_SIZE:
            self._chunk_bytes = max(int.from_bytes(message.payload[:4], "big") & 0x7FFFFFFF, 1)

    def interleave(self, group: list[OracleMessage]) -> None:
        """Write messages on chunk streams of any number, their chunks mixed."""
        ids = self._chance.sample(_CHUNK_STREAM_IDS, len(group))
        moved = [replace(message, csid=csid) for message, csid in zip(group, ids, strict=True)]
        unwritten = [(message, self.chunks_of(message)) for message in moved]
        while len(unwritten) > 1:
            at = self._chance.randrange(len(unwritten))
            message, chunks = unwritten[at]
            # A run of chunks at a time: of one byte each, they may be thousands.
            run = self._chance.choice((1, 1, 2, 7, 1000))
            self.out += b"".join(chunks[:run])
            del chunks[:run]
            if not chunks:
                self.ended.append(message)
                del unwritten[at]
        ((message, chunks),) = unwritten
        self.out += b"".join(chunks)
        self.ended.append(message)

    def chunks_of(self, message: OracleMessage) -> list[bytes]:
        """The chunks of a message, of which the reader will remember the header."""
        last = self._headers.get(message.csid)
        header_type = self._chance.choice(_types_for(message, last))
        time_field = message.timestamp
        if last is not None and header_type > 0:
            time_field = last.delta if header_type == 3 else (message.timestamp - last.timestamp) & 0xFFFFFFFF
        extended = time_field.to_bytes(4, "big") if time_field >= _EXTENDED else b""
        fields = (
            min(time_field, _EXTENDED).to_bytes(3, "big")
            + len(message.payload).to_bytes(3, "big")
            + bytes((message.type_id,))
            + message.stream_id.to_bytes(4, "little")
        )
        head = _basic(header_type, message.csid) + fields[: (11, 7, 3, 0)[header_type]] + extended
        self._headers[message.csid] = _Header(
            message.timestamp, time_field, len(message.payload), message.type_id, message.stream_id
        )
        size = self._chunk_bytes
        pieces = [message.payload[at : at + size] for at in range(0, len(message.payload), size)] or [b""]
        again = {Habit.REPEATS: extended, Habit.OMITS: b"", Habit.ZEROS: bytes(len(extended))}[self._habit]
        further = _basic(3, message.csid) + again
        return [head + pieces[0], *(further + piece for piece in pieces[1:])]


def _types_for(message: OracleMessage, last: _Header | None) -> list[int]:
    if last is None or last.stream_id != message.stream_id:
        return [0]
    types = [0, 1]
    if last.length == len(message.payload) and last.type_id == message.type_id:
        types.append(2)
        if (last.timestamp + last.delta) & 0xFFFFFFFF == message.timestamp:
            types += [3, 3]
    return types


def _basic(header_type: int, csid: int) -> bytes:
    if csid < 64:
        return bytes((header_type << 6 | csid,))
    if csid < 320:
        return bytes((header_type << 6, csid - 64))
    return bytes((header_type << 6 | 1,)) + (csid - 64).to_bytes(2, "little")
