"""The handshake in both roles, and the chunk reader: the same however TCP cuts, and never more held than allowed."""

import random
from collections.abc import Iterable
from typing import Final

from tests.support.cuts import random_cuts
from tests.support.independent_rtmp import HANDSHAKE_BYTES

from fuzz import corpus
from fuzz.chunks import Habit, write_chunks
from fuzz.mutate import mutate
from fuzz.outcome import Outcome, Target, expect, expect_same, join_input, refusal, split_input
from penstock.errors import ProtocolViolation
from penstock.protocol.chunk_reader import ChunkLimits, ChunkReader
from penstock.protocol.control import Abort, SetChunkSize, read_control
from penstock.protocol.handshake import NONCE_BYTES, ClientHandshake, ServerHandshake
from penstock.protocol.message import Message

NONCE: Final = bytes(range(256)) * (NONCE_BYTES // 256 + 1)
_TIGHT: Final = ChunkLimits(max_buffered_bytes=1000, max_chunk_streams=3)


def run_handshake(data: bytes) -> Outcome:
    """A handshake of either role; the lowest bits of the choices say which, and whether a client signs."""
    choices, stream = split_input(data)
    whole = _shake(choices, [stream])
    expect_same(_shake(choices, random_cuts(stream, choices)), whole, "a handshake read whole and in pieces")
    return Outcome(len(whole[0]), whole[1] is not None)


def _shake(choices: int, pieces: Iterable[bytes]) -> tuple[bytes, str | None, str, bytes]:
    """What was sent, the refusal, the last state, and what follows the handshake."""
    handshake: ServerHandshake | ClientHandshake
    if choices & 1:
        handshake = ClientHandshake(nonce=NONCE[:NONCE_BYTES], time_ms=choices, digest=bool(choices & 2))
    else:
        handshake = ServerHandshake(nonce=NONCE[:NONCE_BYTES], time_ms=choices)
    sent = bytearray()
    trailing = bytearray()
    refused = None
    for piece in pieces:
        if handshake.is_done:
            trailing += piece
            continue
        try:
            handshake.receive_data(piece)
        except ProtocolViolation as fault:
            refused = refusal(fault)
            break
        sent += handshake.data_to_send()
        if handshake.is_done:
            trailing += handshake.trailing_data()
    sent += handshake.data_to_send()
    expect(len(sent) <= HANDSHAKE_BYTES, f"{len(sent)} bytes sent in a handshake")
    return bytes(sent), refused, handshake.state.value, bytes(trailing)


def run_chunks(data: bytes) -> Outcome:
    """A chunk stream, whole, in pieces, and in pieces under tight limits."""
    choices, stream = split_input(data)
    pieces = random_cuts(stream, choices)
    whole = _read_messages([stream], ChunkLimits())
    expect_same(_read_messages(pieces, ChunkLimits()), whole, "a chunk stream read whole and in pieces")
    # How much is unread at once depends on the cuts, so under tight limits only the bound itself is held.
    _read_messages(pieces, _TIGHT)
    return Outcome(len(whole[0]), whole[1] is not None)


def _read_messages(pieces: Iterable[bytes], limits: ChunkLimits) -> tuple[list[Message], str | None]:
    reader = ChunkReader(limits)
    messages: list[Message] = []
    fed_bytes = read_bytes = 0
    try:
        for piece in pieces:
            reader.receive_data(piece)
            fed_bytes += len(piece)
            while (message := reader.next_message()) is not None:
                messages.append(message)
                read_bytes += len(message.payload)
                _obey(reader, message)
                _expect_bounded(reader, limits)
            _expect_bounded(reader, limits)
            expect(reader.buffered_bytes + read_bytes <= fed_bytes, "more bytes in messages than were fed")
    except ProtocolViolation as fault:
        return messages, refusal(fault)
    return messages, None


def _obey(reader: ChunkReader, message: Message) -> None:
    if message.type_id in (1, 2):
        match read_control(message.type_id, message.payload):
            case SetChunkSize(chunk_size):
                reader.chunk_size = chunk_size
            case Abort(chunk_stream_id):
                reader.abort(chunk_stream_id)


def _expect_bounded(reader: ChunkReader, limits: ChunkLimits) -> None:
    expect(
        0 <= reader.buffered_bytes <= limits.max_buffered_bytes,
        f"{reader.buffered_bytes} bytes buffered, {limits.max_buffered_bytes} are allowed",
    )


def _make_handshake(chance: random.Random) -> bytes:
    choices = chance.getrandbits(32)
    pool = corpus.handshakes("server" if choices & 1 else "client")
    stream = chance.choice(pool)
    if chance.random() < 0.1:
        return join_input(choices, stream[: chance.randint(0, len(stream))])
    return join_input(choices, mutate(stream, chance, pool))


def _make_chunks(chance: random.Random) -> bytes:
    pool = corpus.messages(chance.choice(("client", "server")))
    if chance.random() < 0.1:
        stream = chance.choice(corpus.captures("client"))[HANDSHAKE_BYTES:]
    else:
        habit = chance.choice(tuple(Habit))
        stream, _ = write_chunks(chance.choices(pool, k=chance.randint(1, 12)), chance, habit)
        if chance.random() < 0.2:
            return join_input(chance.getrandbits(32), stream)
    return join_input(chance.getrandbits(32), mutate(stream, chance, (), corpus.CHUNK_TOKENS))


PROTOCOL_TARGETS = (
    Target("handshake", _make_handshake, run_handshake),
    Target("chunks", _make_chunks, run_chunks),
)
