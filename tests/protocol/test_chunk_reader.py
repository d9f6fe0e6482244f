"""Reading chunk streams: literal bytes in, whole messages out, however TCP cuts them."""

import tracemalloc
from collections.abc import Iterable

import pytest

from penstock.errors import ProtocolViolation
from penstock.protocol.chunk_reader import ChunkLimits, ChunkReader
from penstock.protocol.message import Message
from tests.support.cuts import all_cuts, by_size

VIDEO_384 = bytes(range(256)) + bytes(range(128))


def read(pieces: Iterable[bytes], reader: ChunkReader | None = None) -> list[Message]:
    """All messages, with Set Chunk Size and Abort obeyed as a connection does."""
    reader = reader or ChunkReader()
    messages = []
    for piece in pieces:
        reader.receive_data(piece)
        while (message := reader.next_message()) is not None:
            if message.type_id == 1:
                reader.chunk_size = int.from_bytes(message.payload, "big")
            elif message.type_id == 2:
                reader.abort(int.from_bytes(message.payload, "big"))
            messages.append(message)
    return messages


def assert_reads(data: bytes, expected: list[Message]) -> None:
    for name, pieces in all_cuts(data):
        reader = ChunkReader()
        assert read(pieces, reader) == expected, name
        assert reader.buffered_bytes == 0, name


def hex_bytes(text: str) -> bytes:
    return bytes.fromhex(text)


class TestHeaders:
    def test_a_message_that_fits_one_chunk(self) -> None:
        data = hex_bytes("02 0003E8 000004 01 00000000 00001000")
        assert_reads(data, [Message(1, 1000, 0, hex_bytes("00001000"), 2)])

    def test_a_message_in_three_chunks(self) -> None:
        data = (
            hex_bytes("06 0007D0 000180 09 01000000")
            + VIDEO_384[:128]
            + b"\xc6"
            + VIDEO_384[128:256]
            + b"\xc6"
            + VIDEO_384[256:]
        )
        assert_reads(data, [Message(9, 2000, 1, VIDEO_384, 6)])

    def test_an_absolute_extended_timestamp(self) -> None:
        data = hex_bytes("04 FFFFFF 000040 08 01000000 01312D00") + bytes(64)
        assert_reads(data, [Message(8, 20_000_000, 1, bytes(64), 4)])

    def test_an_extended_timestamp_may_hold_the_marker_itself(self) -> None:
        data = hex_bytes("04 FFFFFF 000001 08 01000000 00FFFFFF AA")
        assert_reads(data, [Message(8, 0xFFFFFF, 1, b"\xaa", 4)])

    def test_type_1_and_type_2_headers_take_over_what_they_leave_out(self) -> None:
        data = (
            hex_bytes("04 0003E8 000040 08 01000000")
            + b"a" * 64
            + hex_bytes("44 000021 000020 08")
            + b"b" * 32
            + hex_bytes("84 000021")
            + b"c" * 32
        )
        assert_reads(
            data,
            [
                Message(8, 1000, 1, b"a" * 64, 4),
                Message(8, 1033, 1, b"b" * 32, 4),
                Message(8, 1066, 1, b"c" * 32, 4),
            ],
        )

    def test_an_extended_delta_is_added(self) -> None:
        data = hex_bytes("04 0003E8 000001 08 01000000 AA 44 FFFFFF 000001 08 01000000 BB")
        assert_reads(data, [Message(8, 1000, 1, b"\xaa", 4), Message(8, 0x01000000 + 1000, 1, b"\xbb", 4)])

    def test_an_extended_type_2_delta_is_added(self) -> None:
        data = hex_bytes("04 0003E8 000001 08 01000000 AA 84 FFFFFF 01000000 BB")
        assert_reads(data, [Message(8, 1000, 1, b"\xaa", 4), Message(8, 0x01000000 + 1000, 1, b"\xbb", 4)])

    @pytest.mark.parametrize(
        ("basic_header", "chunk_stream_id"),
        [
            ("3F", 63),
            ("00 00", 64),
            ("00 FF", 319),
            ("01 00 00", 64),
            ("01 00 01", 320),
            ("01 FF FF", 65599),
        ],
    )
    def test_basic_headers_of_every_length(self, basic_header: str, chunk_stream_id: int) -> None:
        head = hex_bytes(basic_header)
        continuation = bytes([head[0] | 0xC0]) + head[1:]
        data = head + hex_bytes("000064 000180 09 01000000") + VIDEO_384[:128]
        data += continuation + VIDEO_384[128:256] + continuation + VIDEO_384[256:]
        assert_reads(data, [Message(9, 100, 1, VIDEO_384, chunk_stream_id)])

    def test_both_long_forms_of_an_id_are_one_chunk_stream(self) -> None:
        data = hex_bytes("00 05 000064 000082 09 01000000") + VIDEO_384[:128] + hex_bytes("C1 05 00") + b"xy"
        assert_reads(data, [Message(9, 100, 1, VIDEO_384[:128] + b"xy", 69)])

    def test_the_message_stream_id_is_little_endian(self) -> None:
        data = (
            hex_bytes("03 000000 000008 14 04030201") + b"a" * 8 + hex_bytes("03 000000 000008 14 01000000") + b"b" * 8
        )
        assert_reads(data, [Message(20, 0, 0x01020304, b"a" * 8, 3), Message(20, 0, 1, b"b" * 8, 3)])

    def test_a_first_type_1_header_counts_from_zero(self) -> None:
        # librtmp pings like this.
        data = hex_bytes("42 000005 000006 04 0006 00000001")
        assert_reads(data, [Message(4, 5, 0, hex_bytes("0006 00000001"), 2)])

    def test_time_wraps_at_32_bits(self) -> None:
        data = hex_bytes("04 FFFFFF 000001 08 01000000 FFFFFFF0 AA 44 000020 000001 08 BB")
        assert_reads(data, [Message(8, 0xFFFFFFF0, 1, b"\xaa", 4), Message(8, 0x10, 1, b"\xbb", 4)])


class TestRepeatedHeaders:
    def test_type_3_opens_a_message_with_the_last_delta(self) -> None:
        data = hex_bytes("04 0003E8 000001 08 01000000 AA 44 00001A 000001 08 BB C4 CC C4 DD")
        assert [m.timestamp_ms for m in read([data])] == [1000, 1026, 1052, 1078]
        assert_reads(data, read([data]))

    def test_after_type_0_the_delta_is_its_time_field(self) -> None:
        data = hex_bytes("04 00001A 000001 08 01000000 AA C4 BB")
        assert_reads(data, [Message(8, 26, 1, b"\xaa", 4), Message(8, 52, 1, b"\xbb", 4)])

    def test_after_an_extended_delta_it_carries_the_delta_again(self) -> None:
        data = hex_bytes("04 000000 000001 08 01000000 AA 44 FFFFFF 000001 08 01000000 BB C4 01000000 CC")
        assert [m.timestamp_ms for m in read([data])] == [0, 0x01000000, 0x02000000]
        assert_reads(data, read([data]))

    def test_a_peer_that_leaves_the_extended_delta_out_is_read_too(self) -> None:
        first = hex_bytes("04 000000 000005 08 01000000 AABBCCDDEE 44 FFFFFF 000005 08 01000000 1122334455")
        data = first + hex_bytes("C4 5566778899")
        assert_reads(
            data,
            [
                Message(8, 0, 1, hex_bytes("AABBCCDDEE"), 4),
                Message(8, 0x01000000, 1, hex_bytes("1122334455"), 4),
                Message(8, 0x02000000, 1, hex_bytes("5566778899"), 4),
            ],
        )


class TestInterleaving:
    def test_audio_between_the_chunks_of_a_video_message(self) -> None:
        audio, video = b"a" * 200, b"v" * 300
        data = (
            hex_bytes("06 000064 00012C 09 01000000")
            + video[:128]
            + hex_bytes("04 000064 0000C8 08 01000000")
            + audio[:128]
            + b"\xc6"
            + video[128:256]
            + b"\xc4"
            + audio[128:]
            + b"\xc6"
            + video[256:]
        )
        assert_reads(data, [Message(8, 100, 1, audio, 4), Message(9, 100, 1, video, 6)])

    def test_interleaving_on_chunk_streams_seen_before(self) -> None:
        opening = hex_bytes("06 000000 000001 09 01000000 AA 04 000000 000001 08 01000000 BB")
        data = opening + hex_bytes("46 000021 00012C 09") + b"v" * 128 + hex_bytes("44 000017 000003 08") + b"aaa"
        data += b"\xc6" + b"v" * 128 + b"\xc6" + b"v" * 44
        assert read([data])[2:] == [Message(8, 23, 1, b"aaa", 4), Message(9, 33, 1, b"v" * 300, 6)]
        assert_reads(data, read([data]))

    def test_set_chunk_size_acts_on_the_next_chunk_of_a_message_in_hand(self) -> None:
        video = bytes(range(200)) * 2
        data = (
            hex_bytes("06 000064 000190 09 01000000")
            + video[:128]
            + hex_bytes("02 000000 000004 01 00000000 00000064")
            + b"\xc6"
            + video[128:228]
            + b"\xc6"
            + video[228:328]
            + b"\xc6"
            + video[328:]
        )
        assert_reads(data, [Message(1, 0, 0, hex_bytes("00000064"), 2), Message(9, 100, 1, video, 6)])

    def test_abort_drops_the_half_message_and_keeps_the_headers(self) -> None:
        data = (
            hex_bytes("06 000064 00012C 09 01000000")
            + b"x" * 128
            + hex_bytes("02 000000 000004 02 00000000 00000006")
            + hex_bytes("86 000021")
            + b"v" * 128
            + b"\xc6"
            + b"v" * 128
            + b"\xc6"
            + b"v" * 44
        )
        assert_reads(data, [Message(2, 0, 0, hex_bytes("00000006"), 2), Message(9, 133, 1, b"v" * 300, 6)])

    def test_abort_of_nothing_is_no_error(self) -> None:
        reader = ChunkReader()
        reader.abort(6)
        assert read([hex_bytes("06 000064 000001 09 01000000 AA")], reader) == [Message(9, 100, 1, b"\xaa", 6)]
        reader.abort(6)
        assert reader.buffered_bytes == 0

    def test_zero_length_messages_are_delivered(self) -> None:
        data = hex_bytes("04 000064 000000 08 01000000 84 000017 C4 44 000005 000001 08 AA")
        assert [(m.timestamp_ms, m.payload) for m in read([data])] == [
            (100, b""),
            (123, b""),
            (146, b""),
            (151, b"\xaa"),
        ]
        assert_reads(data, read([data]))

    @pytest.mark.parametrize("chunk_size", [1, 2, 127, 129, 4096, 0x7FFFFFFF])
    def test_any_chunk_size_is_obeyed(self, chunk_size: int) -> None:
        parts = [VIDEO_384[start : start + chunk_size] for start in range(0, 384, chunk_size)]
        data = hex_bytes("02 000000 000004 01 00000000") + chunk_size.to_bytes(4, "big")
        data += hex_bytes("06 000064 000180 09 01000000") + b"\xc6".join(parts)
        data += hex_bytes("46 000021 000180 09") + b"\xc6".join(parts)
        size = Message(1, 0, 0, chunk_size.to_bytes(4, "big"), 2)
        assert_reads(data, [size, Message(9, 100, 1, VIDEO_384, 6), Message(9, 133, 1, VIDEO_384, 6)])


TIME = 0x01312D00
TIME_BYTES = hex_bytes("01312D00")


def extended_message(payload: bytes, repeated: bytes, chunk_stream: str = "06") -> bytes:
    """A message with an extended timestamp; `repeated` is what the peer puts behind each continuation header."""
    head = hex_bytes(chunk_stream) + hex_bytes("FFFFFF") + len(payload).to_bytes(3, "big")
    head += hex_bytes("09 01000000") + TIME_BYTES
    continuation = bytes([head[0] | 0xC0]) + hex_bytes(chunk_stream)[1:] + repeated
    return head + continuation.join(payload[start : start + 128] for start in range(0, len(payload), 128))


PAYLOADS = {
    "counting": VIDEO_384 + VIDEO_384,
    "zeros": bytes(700),
    "the timestamp itself": TIME_BYTES * 175,
    "zeros, then the timestamp": bytes(256) + TIME_BYTES * 64,
    "the timestamp, then zeros": TIME_BYTES * 64 + bytes(256),
}


class TestExtendedTimestampOnContinuations:
    @pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
    @pytest.mark.parametrize("repeated", [TIME_BYTES, bytes(4), b""], ids=["repeats", "zeros", "omits"])
    @pytest.mark.parametrize("chunk_stream", ["06", "00 05", "01 05 07"], ids=["1 byte", "2 bytes", "3 bytes"])
    def test_every_habit_is_read_with_every_payload(self, payload: bytes, repeated: bytes, chunk_stream: str) -> None:
        data = extended_message(payload, repeated, chunk_stream) * 3
        messages = read([data])
        assert [(m.timestamp_ms, m.payload) for m in messages] == [(TIME, payload)] * 3
        assert_reads(data, messages)

    @pytest.mark.parametrize("repeated", [TIME_BYTES, b""], ids=["repeats", "omits"])
    @pytest.mark.parametrize("ambiguous", [bytes(400), TIME_BYTES * 100], ids=["zeros", "the timestamp"])
    def test_a_habit_once_learned_holds_for_the_connection(self, repeated: bytes, ambiguous: bytes) -> None:
        # Two chunks: from these bytes alone the habit cannot be told.
        two_chunks = extended_message(ambiguous[:200], repeated)
        data = extended_message(VIDEO_384, repeated) + two_chunks + two_chunks
        messages = read([data])
        assert [m.payload for m in messages] == [VIDEO_384, ambiguous[:200], ambiguous[:200]]
        assert_reads(data, messages)

    @pytest.mark.parametrize("repeated", [TIME_BYTES, bytes(4)], ids=["repeats", "zeros"])
    def test_a_last_chunk_that_leaves_it_open_is_read_by_the_specification(self, repeated: bytes) -> None:
        data = extended_message(VIDEO_384[:200], repeated)
        assert_reads(data, [Message(9, TIME, 1, VIDEO_384[:200], 6)])

    @pytest.mark.parametrize("repeated", [TIME_BYTES, bytes(4)], ids=["repeats", "zeros"])
    def test_a_guess_does_not_wait_for_bytes_that_may_never_come(self, repeated: bytes) -> None:
        # Under the other habit this message would end before the place that tells: the peer may want an answer first.
        payload = VIDEO_384[:128] + bytes(128) + b"zz"
        assert_reads(extended_message(payload, repeated), [Message(9, TIME, 1, payload, 6)])

    def test_audio_between_extended_chunks(self) -> None:
        video = extended_message(VIDEO_384, TIME_BYTES)
        first, rest = video[: 16 + 128], video[16 + 128 :]
        audio = hex_bytes("04 FFFFFF 000003 08 01000000 01312D00") + b"aaa"
        data = first + audio + rest + first + audio + rest
        expected = [Message(8, TIME, 1, b"aaa", 4), Message(9, TIME, 1, VIDEO_384, 6)] * 2
        assert_reads(data, expected)

    def test_a_long_chunk_is_not_waited_for(self) -> None:
        payload = bytes(200_000)
        data = hex_bytes("02 000000 000004 01 00000000 00011170")  # 70,000
        head = hex_bytes("06 FFFFFF") + len(payload).to_bytes(3, "big") + hex_bytes("09 01000000") + TIME_BYTES
        parts = [payload[start : start + 70_000] for start in range(0, 200_000, 70_000)]
        messages = read(by_size(data + head + (b"\xc6" + TIME_BYTES).join(parts), 1000))
        assert messages[1] == Message(9, TIME, 1, payload, 6)


class TestViolations:
    @pytest.mark.parametrize("chunk_type", [2, 3])
    def test_a_compressed_header_on_an_unseen_chunk_stream(self, chunk_type: int) -> None:
        with pytest.raises(ProtocolViolation, match=f"chunk: type {chunk_type} header on unseen chunk stream 5"):
            read([bytes([chunk_type << 6 | 5]) + bytes(11)])

    @pytest.mark.parametrize("header", ["06 000064 00012C 09 01000000", "86 000021", "46 000021 00012D 09"])
    def test_a_new_header_inside_a_message(self, header: str) -> None:
        data = hex_bytes("06 000064 00012C 09 01000000") + b"x" * 128 + hex_bytes(header) + b"x" * 128
        for _, pieces in all_cuts(data):
            with pytest.raises(ProtocolViolation, match=r"inside a message \(type 9, 128 of 300 bytes read\)"):
                read(pieces)

    def test_a_type_1_header_of_the_same_length_inside_a_message_is_borne_with(self) -> None:
        data = hex_bytes("06 000064 000100 09 01000000") + b"x" * 128 + hex_bytes("46 000021 000100 09") + b"y" * 128
        assert_reads(data, [Message(9, 100, 1, b"x" * 128 + b"y" * 128, 6)])

    def test_a_message_above_the_size_limit_is_refused_by_its_header(self) -> None:
        reader = ChunkReader(max_message_bytes=1000)
        with pytest.raises(
            ProtocolViolation, match=r"message of 1001 bytes \(type 20\) on chunk stream 3, at most 1000"
        ):
            read([hex_bytes("03 000000 0003E9 14 00000000")], reader)

    def test_the_size_limit_holds_on_a_known_chunk_stream_too(self) -> None:
        reader = ChunkReader(max_message_bytes=100)
        data = hex_bytes("03 000000 000001 14 00000000 AA 43 000000 000065 14") + bytes(101)
        with pytest.raises(ProtocolViolation, match="message of 101 bytes"):
            read([data], reader)

    def test_the_number_of_chunk_streams_is_bounded_but_not_their_ids(self) -> None:
        reader = ChunkReader(ChunkLimits(max_chunk_streams=3))
        message = hex_bytes("000000 000001 14 00000000 AA")
        assert (
            len(read([hex_bytes("01 FFFF") + message + b"\x03" + message + hex_bytes("00 80") + message], reader)) == 3
        )
        with pytest.raises(ProtocolViolation, match="chunk stream 4 would be one more than the 3 held"):
            read([b"\x04" + message], reader)

    def test_bytes_really_held_are_bounded_over_all_chunk_streams(self) -> None:
        reader = ChunkReader(ChunkLimits(max_buffered_bytes=1000))
        chunks = [bytes([csid]) + hex_bytes("000000 FFFFFF 09 01000000") + bytes(128) for csid in range(3, 20)]
        with pytest.raises(ProtocolViolation, match="at most 1000 are held"):
            read(chunks, reader)
        assert reader.buffered_bytes <= 1000 + 140

    def test_announced_lengths_take_no_memory(self) -> None:
        reader = ChunkReader()
        for chunk_stream_id in range(3, 60):
            read([bytes([chunk_stream_id]) + hex_bytes("000000 FFFFFF 09 01000000") + bytes(128)], reader)
        assert reader.buffered_bytes == 57 * 128

    def test_unread_bytes_count_as_held(self) -> None:
        reader = ChunkReader(ChunkLimits(max_buffered_bytes=100))
        reader.receive_data(bytes(100))
        with pytest.raises(ProtocolViolation, match="101 bytes unread and 0 in half messages"):
            reader.receive_data(b"x")


def test_a_message_in_many_pieces_is_copied_once_when_it_is_whole() -> None:
    reader = ChunkReader()
    reader.chunk_size = 0xFFFFFF
    reader.receive_data(hex_bytes("06 000000 400000 09 01000000"))
    assert reader.next_message() is None
    for _ in range(63):
        reader.receive_data(bytes(0x10000))
        assert reader.next_message() is None
    tracemalloc.start()
    try:
        reader.receive_data(bytes(0x10000))
        message = reader.next_message()
        # A second copy of its 4 MB would count here too.
        assert tracemalloc.get_traced_memory()[1] < 1.5 * 0x400000
    finally:
        tracemalloc.stop()
    assert message == Message(9, 0, 1, bytes(0x400000), 6)
