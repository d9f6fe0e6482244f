"""Writing chunk streams: messages in, literal bytes out."""

import pytest

from penstock.errors import MisuseError
from penstock.protocol.chunk_writer import ChunkWriter, basic_header, write_standalone
from penstock.protocol.message import Message


def hex_bytes(text: str) -> bytes:
    return bytes.fromhex(text)


class TestBasicHeader:
    @pytest.mark.parametrize(
        ("chunk_type", "chunk_stream_id", "expected"),
        [
            (0, 2, "02"),
            (3, 6, "C6"),
            (0, 63, "3F"),
            (0, 64, "00 00"),
            (2, 319, "80 FF"),
            (1, 320, "41 00 01"),
            (0, 65599, "01 FF FF"),
        ],
    )
    def test_the_shortest_form_is_written(self, chunk_type: int, chunk_stream_id: int, expected: str) -> None:
        assert basic_header(chunk_type, chunk_stream_id) == hex_bytes(expected)

    @pytest.mark.parametrize("chunk_stream_id", [-1, 0, 1, 65600])
    def test_ids_that_no_header_can_say_are_refused(self, chunk_stream_id: int) -> None:
        with pytest.raises(MisuseError, match=f"chunk stream {chunk_stream_id} is not in"):
            basic_header(0, chunk_stream_id)


class TestWriteStandalone:
    def test_a_message_that_fits_one_chunk(self) -> None:
        message = Message(1, 1000, 0, hex_bytes("00001000"), 2)
        assert write_standalone(message, 128) == hex_bytes("02 0003E8 000004 01 00000000 00001000")

    def test_a_message_in_three_chunks(self) -> None:
        message = Message(9, 2000, 1, bytes(384), 6)
        written = write_standalone(message, 128)
        assert written[:12] == hex_bytes("06 0007D0 000180 09 01000000")
        assert written[12:] == bytes(128) + b"\xc6" + bytes(128) + b"\xc6" + bytes(128)
        assert len(written) == 398

    def test_an_extended_timestamp(self) -> None:
        written = write_standalone(Message(8, 20_000_000, 1, bytes(64), 4), 128)
        assert written == hex_bytes("04 FFFFFF 000040 08 01000000 01312D00") + bytes(64)

    @pytest.mark.parametrize(
        ("timestamp_ms", "fields"),
        [(0xFFFFFE, "FFFFFE"), (0xFFFFFF, "FFFFFF"), (0x1_0000_0005, "000005")],
    )
    def test_the_time_field_ends_one_below_its_marker_and_wraps_at_32_bits(
        self, timestamp_ms: int, fields: str
    ) -> None:
        written = write_standalone(Message(8, timestamp_ms, 1, b"", 4), 128)
        assert written[1:4] == hex_bytes(fields)
        assert written[12:] == (hex_bytes("00FFFFFF") if fields == "FFFFFF" else b"")

    def test_continuations_repeat_an_extended_timestamp(self) -> None:
        written = write_standalone(Message(9, 20_000_000, 1, bytes(300), 6), 128)
        again = hex_bytes("C6 01312D00")
        assert written[16:] == bytes(128) + again + bytes(128) + again + bytes(44)

    def test_a_payload_that_the_length_field_cannot_say_is_refused(self) -> None:
        with pytest.raises(MisuseError, match="a message of 16777216 bytes"):
            write_standalone(Message(9, 0, 1, bytes(0x1000000), 6), 65536)


class TestChunkWriter:
    def test_headers_get_shorter_while_nothing_changes(self) -> None:
        writer = ChunkWriter()
        first = writer.write_message(Message(8, 1000, 1, b"a" * 64, 4))
        assert first == hex_bytes("04 0003E8 000040 08 01000000") + b"a" * 64
        second = writer.write_message(Message(8, 1033, 1, b"b" * 32, 4))
        assert second == hex_bytes("44 000021 000020 08") + b"b" * 32
        third = writer.write_message(Message(8, 1066, 1, b"c" * 32, 4))
        assert third == hex_bytes("84 000021") + b"c" * 32

    def test_a_message_never_begins_with_a_type_3_header(self) -> None:
        writer = ChunkWriter()
        written = [writer.write_message(Message(8, 26 * count, 1, b"a", 4)) for count in range(5)]
        assert [piece[0] >> 6 for piece in written] == [0, 2, 2, 2, 2]

    def test_another_type_needs_a_type_1_header(self) -> None:
        writer = ChunkWriter()
        writer.write_message(Message(8, 0, 1, b"a", 4))
        assert writer.write_message(Message(9, 0, 1, b"a", 4)) == hex_bytes("44 000000 000001 09 61")

    def test_another_message_stream_needs_a_type_0_header(self) -> None:
        writer = ChunkWriter()
        writer.write_message(Message(8, 0, 1, b"a", 4))
        assert writer.write_message(Message(8, 5, 2, b"a", 4)) == hex_bytes("04 000005 000001 08 02000000 61")

    def test_time_that_goes_back_needs_a_type_0_header(self) -> None:
        writer = ChunkWriter()
        writer.write_message(Message(8, 1000, 1, b"a", 4))
        assert writer.write_message(Message(8, 999, 1, b"a", 4)) == hex_bytes("04 0003E7 000001 08 01000000 61")

    def test_a_delta_is_never_extended(self) -> None:
        writer = ChunkWriter()
        writer.write_message(Message(8, 0, 1, b"a", 4))
        assert writer.write_message(Message(8, 0xFFFFFE, 1, b"a", 4)) == hex_bytes("84 FFFFFE 61")
        written = writer.write_message(Message(8, 0xFFFFFE + 0xFFFFFF, 1, b"a", 4))
        assert written == hex_bytes("04 FFFFFF 000001 08 01000000 01FFFFFD 61")

    def test_chunk_streams_are_compressed_apart(self) -> None:
        writer = ChunkWriter()
        writer.write_message(Message(8, 100, 1, b"a", 4))
        assert writer.write_message(Message(9, 100, 1, b"v", 6))[0] == 0x06
        assert writer.write_message(Message(8, 123, 1, b"a", 4)) == hex_bytes("84 000017 61")

    def test_the_chunk_size_can_be_changed_between_messages(self) -> None:
        writer = ChunkWriter()
        assert writer.chunk_size == 128
        writer.chunk_size = 4096
        assert len(writer.write_message(Message(9, 0, 1, bytes(4096), 6))) == 12 + 4096

    @pytest.mark.parametrize("chunk_size", [0, -1, 0x80000000])
    def test_chunk_sizes_that_no_peer_would_take_are_refused(self, chunk_size: int) -> None:
        with pytest.raises(MisuseError, match="chunk size"):
            ChunkWriter().chunk_size = chunk_size

    def test_a_payload_that_the_length_field_cannot_say_is_refused_behind_a_delta_too(self) -> None:
        writer = ChunkWriter()
        writer.write_message(Message(9, 0, 1, b"v", 6))
        with pytest.raises(MisuseError, match="a message of 16777216 bytes"):
            writer.write_message(Message(9, 0, 1, bytes(0x1000000), 6))
