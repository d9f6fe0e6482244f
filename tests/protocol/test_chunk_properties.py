"""What holds for all chunk streams: the reader gives back what was written, whatever the sizes, cuts and mixtures."""

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.protocol.chunk_reader import ChunkReader
from penstock.protocol.chunk_writer import ChunkWriter, basic_header, write_standalone
from penstock.protocol.message import Message
from penstock.protocol.work import WorkMeter
from tests.support.cuts import random_cuts
from tests.support.independent_rtmp import read_messages

HANDSHAKE = b"\x03" + bytes(2 * 1536)

# Types 1 and 2 would steer the reader; all others are cargo to the chunk layer.
messages = st.builds(
    Message,
    type_id=st.integers(3, 255),
    timestamp_ms=st.one_of(st.integers(0, 5000), st.integers(0xFFFFF0, 0x1000010), st.integers(0, 0xFFFFFFFF)),
    stream_id=st.sampled_from([0, 1, 2, 0x01020304, 0xFFFFFFFF]),
    payload=st.one_of(
        st.binary(max_size=40),
        st.binary(min_size=1, max_size=8).flatmap(lambda unit: st.integers(1, 300).map(lambda times: unit * times)),
    ),
    chunk_stream_id=st.sampled_from([2, 3, 4, 6, 63, 64, 319, 320, 65599]),
)
chunk_sizes = st.one_of(st.integers(1, 300), st.sampled_from([4096, 65536, 0x7FFFFFFF]))


def read_cut(data: bytes, chunk_size: int, seed: int) -> list[Message]:
    reader = ChunkReader()
    reader.chunk_size = chunk_size
    found = []
    for piece in random_cuts(data, seed):
        reader.receive_data(piece)
        while (message := reader.next_message()) is not None:
            found.append(message)
    assert reader.buffered_bytes == 0
    return found


@given(st.lists(messages, max_size=20), chunk_sizes, st.integers(0, 2**16))
def test_what_the_writer_writes_the_reader_reads(sent: list[Message], chunk_size: int, seed: int) -> None:
    writer = ChunkWriter()
    writer.chunk_size = chunk_size
    assert read_cut(b"".join(writer.write_message(message) for message in sent), chunk_size, seed) == sent


@given(st.lists(messages, max_size=20), chunk_sizes, st.integers(0, 2**16), st.integers(1, 9))
def test_a_reader_that_is_stopped_after_any_work_reads_the_same(
    sent: list[Message], chunk_size: int, seed: int, units: int
) -> None:
    work = WorkMeter()
    reader = ChunkReader(work=work)
    reader.chunk_size = chunk_size
    found = []
    for piece in random_cuts(b"".join(write_standalone(message, chunk_size) for message in sent), seed):
        reader.receive_data(piece)
        while (message := reader.next_message(work.done + units)) is not None or not reader.needs_bytes:
            if message is not None:
                found.append(message)
    assert found == sent


@given(st.lists(messages, max_size=20), chunk_sizes, st.integers(0, 2**16))
def test_standalone_messages_are_read_in_any_order(sent: list[Message], chunk_size: int, seed: int) -> None:
    pieces = [(message, write_standalone(message, chunk_size)) for message in sent]
    random.Random(seed).shuffle(pieces)
    read = read_cut(b"".join(piece for _, piece in pieces), chunk_size, seed)
    assert read == [message for message, _ in pieces]


@given(st.lists(messages.filter(lambda m: m.chunk_stream_id < 64 and m.type_id > 6), max_size=20))
def test_an_independent_reader_agrees_on_what_is_written(sent: list[Message]) -> None:
    writer = ChunkWriter()
    written = HANDSHAKE + b"".join(writer.write_message(message) for message in sent)
    assert [(m.type_id, m.timestamp, m.stream_id, m.payload, m.csid) for m in read_messages(written)] == [
        tuple(message) for message in sent
    ]


def split_into_chunks(message: Message, chunk_size: int) -> list[bytes]:
    """The chunks of a stand-alone message, found by their known sizes."""
    written = write_standalone(message, chunk_size)
    extended_bytes = 4 if message.timestamp_ms >= 0xFFFFFF else 0
    head_bytes = len(basic_header(3, message.chunk_stream_id)) + extended_bytes
    first_bytes = head_bytes + 11 + min(chunk_size, len(message.payload))
    chunks, rest = [written[:first_bytes]], written[first_bytes:]
    while rest:
        chunks.append(rest[: head_bytes + chunk_size])
        rest = rest[head_bytes + chunk_size :]
    return chunks


@given(
    st.lists(messages, max_size=8, unique_by=lambda m: m.chunk_stream_id),
    st.integers(16, 300),
    st.integers(0, 2**16),
)
def test_any_interleaving_of_chunk_streams_gives_the_same_messages(
    sent: list[Message], chunk_size: int, seed: int
) -> None:
    generator = random.Random(seed)
    waiting = [split_into_chunks(message, chunk_size) for message in sent]
    mixed = b""
    while waiting:
        chunks = generator.choice(waiting)
        mixed += chunks.pop(0)
        if not chunks:
            waiting.remove(chunks)
    assert sorted(read_cut(mixed, chunk_size, seed)) == sorted(sent)


@given(st.binary(max_size=600), st.integers(1, 200), st.integers(0, 2**16))
def test_any_bytes_give_messages_or_a_violation_however_they_are_cut(data: bytes, chunk_size: int, seed: int) -> None:
    def outcome(pieces: list[bytes]) -> tuple[list[Message], str | None]:
        reader = ChunkReader()
        reader.chunk_size = chunk_size
        found: list[Message] = []
        try:
            for piece in pieces:
                reader.receive_data(piece)
                while (message := reader.next_message()) is not None:
                    found.append(message)
        except ProtocolViolation as violation:
            return found, str(violation)
        return found, None

    assert outcome([data]) == outcome(random_cuts(data, seed))
