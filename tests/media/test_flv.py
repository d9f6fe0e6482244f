"""The fixed fields of FLV, against bytes written by hand from the specification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MalformedMedia, MisuseError
from penstock.media.flv import (
    FlvHeader,
    read_file_header,
    read_tag_header,
    unwrap_timestamp,
    write_back_pointer,
    write_file_header,
    write_tag,
    write_tag_header,
)

DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("has_audio", "has_video", "flags"),
    [(True, True, "05"), (True, False, "04"), (False, True, "01"), (False, False, "00")],
)
def test_a_file_begins_with_its_header_and_a_back_pointer_of_zero(has_audio: bool, has_video: bool, flags: str) -> None:
    expected = bytes.fromhex(f"464c5601 {flags} 00000009 00000000")
    assert write_file_header(has_audio=has_audio, has_video=has_video) == expected
    assert read_file_header(expected) == FlvHeader(1, has_audio, has_video, 9)


def test_a_longer_file_header_moves_the_first_tag() -> None:
    assert read_file_header(bytes.fromhex("464c5601 05 0000000c")).first_tag_offset == 16


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("464c57 01 05 00000009", "flv: signature b'FLW' is not b'FLV'"),
        ("464c56 02 05 00000009", "flv: file version 2 is not 1"),
        ("464c56 01 05 00000008", "flv: file header of 8 bytes, outside 9 to 4096"),
        ("464c56 01 05 00001001", "flv: file header of 4097 bytes, outside 9 to 4096"),
        ("464c56 01 05 000000", "flv: 8 bytes hold no file header of 9"),
        ("", "flv: 0 bytes hold no file header of 9"),
    ],
)
def test_what_is_no_flv_header_is_refused_with_its_numbers(data: str, complaint: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_file_header(bytes.fromhex(data))
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("kind", "timestamp_ms", "size", "expected"),
    [
        (9, 0, 5, "09 000005 000000 00 000000"),
        (8, 0xFFFFFF, 0x010203, "08 010203 ffffff 00 000000"),
        (18, 0x01000000, 0, "12 000000 000000 01 000000"),
        (15, 0x12345678, 0xFFFFFF, "0f ffffff 345678 12 000000"),
        (8, 0xFFFFFFFF, 1, "08 000001 ffffff ff 000000"),
    ],
)
def test_a_tag_header_holds_the_low_24_bits_of_time_and_then_the_high_8(
    kind: int, timestamp_ms: int, size: int, expected: str
) -> None:
    assert write_tag_header(kind, timestamp_ms, size) == bytes.fromhex(expected)
    assert read_tag_header(bytes.fromhex(expected), 0, 0) == (kind, size, timestamp_ms)


@pytest.mark.parametrize(("timestamp_ms", "wraps_to"), [(1 << 32, 0), ((1 << 32) + 40, 40), (-1, 0xFFFFFFFF)])
def test_a_timestamp_is_written_modulo_2_to_the_32(timestamp_ms: int, wraps_to: int) -> None:
    assert write_tag_header(8, timestamp_ms, 0) == write_tag_header(8, wraps_to, 0)


def test_a_whole_tag_ends_with_its_size_including_its_header() -> None:
    assert write_tag(8, 23, b"\xaf\x00\x12\x08") == bytes.fromhex("08 000004 000017 00 000000 af001208 0000000f")
    assert write_back_pointer(0xFFFFFF + 11) == bytes.fromhex("0100000a")


@pytest.mark.parametrize("kind", [0, 10, 0x28, 256])
def test_only_kinds_that_the_format_knows_are_written(kind: int) -> None:
    with pytest.raises(MisuseError, match=f"tag kind {kind} is none of"):
        write_tag_header(kind, 0, 0)


def test_a_payload_past_24_bits_of_size_is_refused() -> None:
    with pytest.raises(MisuseError, match="payload of 16777216 bytes, a tag holds 16777215"):
        write_tag_header(9, 0, 1 << 24)


def test_an_encrypted_tag_is_told_from_an_unknown_one() -> None:
    with pytest.raises(MalformedMedia, match=r"^flv: encrypted tag 0x29 at offset 99$"):
        read_tag_header(bytes.fromhex("29 000005 000000 00 000000"), 0, 99)
    with pytest.raises(MalformedMedia, match=r"^flv: unknown tag kind 0x89 at offset 7$"):
        read_tag_header(bytes.fromhex("89 000005 000000 00 000000"), 0, 7)


@pytest.mark.parametrize(
    ("near_ms", "timestamp_ms", "unwrapped_ms"),
    [
        (0, 40, 40),
        (0xFFFFFFF0, 0x10, 0x100000010),
        (0x100000010, 0xFFFFFFF0, 0xFFFFFFF0),
        (3 * (1 << 32) + 5, 45, 3 * (1 << 32) + 45),
        (10, 0xFFFFFFFF, -1),
    ],
)
def test_a_clock_runs_on_over_the_wrap_and_back(near_ms: int, timestamp_ms: int, unwrapped_ms: int) -> None:
    assert unwrap_timestamp(near_ms, timestamp_ms) == unwrapped_ms


@given(st.integers(0, 1 << 40), st.integers(-20 * DAY_MS, 20 * DAY_MS))
def test_any_step_of_less_than_24_days_is_unwrapped(near_ms: int, step_ms: int) -> None:
    assert unwrap_timestamp(near_ms, (near_ms + step_ms) & 0xFFFFFFFF) == near_ms + step_ms
