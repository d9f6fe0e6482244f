"""Key pictures, told from the bitstream alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.media.codecs import VideoCodec
from penstock.media.random_access import MAX_UNITS, is_random_access
from tests.media import setup_messages as golden


def is_key(codec: VideoCodec, body: str, nal_length_size: int = 4) -> bool | None:
    data = bytes.fromhex(body)
    return is_random_access(codec, data, 0, len(data), nal_length_size)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("00000002 6588", True),
        ("00000002 419a", False),
        ("00000002 0910 00000004 67640028 00000002 68ce 00000003 0605ff 00000002 6588", True),
        ("00000002 0910 00000003 0605ff 00000002 019e", False),
        ("00000002 0910", None),
        ("00000000 00000002 6588", True),
        ("0000ffff 06", None),
        ("000000", None),
        ("", None),
    ],
)
def test_avc(body: str, expected: bool | None) -> None:
    assert is_key(VideoCodec.AVC, body) is expected


@pytest.mark.parametrize(
    ("nal_type", "expected"),
    [(0, False), (1, False), (9, False), *((nal_type, True) for nal_type in range(16, 22)), (22, False), (31, False)],
)
def test_hevc(nal_type: int, expected: bool) -> None:
    parameter_set = "00000003 420101"
    assert is_key(VideoCodec.HEVC, f"{parameter_set} 00000003 {nal_type << 1:02x}01af") is expected


def test_the_bytes_after_an_empty_unit_are_no_picture() -> None:
    assert is_key(VideoCodec.HEVC, "00000000 00000003 2601af") is True
    assert is_key(VideoCodec.VVC, "00000001 00 00000003 0039af") is True


@pytest.mark.parametrize(
    ("nal_type", "expected"), [(0, False), (7, True), (8, True), (9, True), (10, False), (11, False)]
)
def test_vvc(nal_type: int, expected: bool) -> None:
    parameter_set = "00000003 0079aa"
    assert is_key(VideoCodec.VVC, f"{parameter_set} 00000003 00{nal_type << 3 | 1:02x}af") is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Key frames of libaom (temporal delimiter, sequence header, frame) and of SVT-AV1 (no delimiter).
        ("12000a0b0000000cc4ff6736be401032c92110", True),
        ("0a0b000000043ea7bcfbf90040328622140021", True),
        ("3247320104", False),
        ("1200 3247", False),
        ("1200 1a02", False),
        # A delimiter with an extension byte; a unit without a size; sizes cut short.
        ("160800 0a0b", True),
        ("10", None),
        ("1280", None),
        ("7a05aa", None),
        ("", None),
    ],
)
def test_av1(body: str, expected: bool | None) -> None:
    assert is_key(VideoCodec.AV1, body) is expected


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (golden.VP9_PROFILE0_KEY, True),
        (golden.VP9_PROFILE0_INTER, False),
        (golden.VP9_PROFILE3_KEY, True),
        (golden.VP9_PROFILE3_INTER, False),
    ],
)
def test_vp9_as_libvpx_writes_it(payload: bytes, expected: bool) -> None:
    assert is_random_access(VideoCodec.VP9, payload, 5, len(payload)) is expected


@pytest.mark.parametrize(("body", "expected"), [("88", False), ("b4", False), ("42", None), ("", None)])
def test_vp9_shows_an_old_frame_or_is_none(body: str, expected: bool | None) -> None:
    assert is_key(VideoCodec.VP9, body) is expected


@pytest.mark.parametrize(("body", "expected"), [("1057009d012a", True), ("1157", False), ("", None)])
def test_vp8(body: str, expected: bool | None) -> None:
    assert is_key(VideoCodec.VP8, body) is expected


def test_codecs_that_tell_in_the_tag_alone_are_not_guessed() -> None:
    assert is_key(VideoCodec.SORENSON_H263, "00008400") is None


@pytest.mark.parametrize("size", [1, 2, 3])
def test_other_nal_length_sizes(size: int) -> None:
    body = f"{2:0{size * 2}x} 0910 {2:0{size * 2}x} 6588"
    assert is_key(VideoCodec.AVC, body, nal_length_size=size) is True


def test_the_number_of_units_looked_at_is_bounded() -> None:
    sei = "00000001 06"
    assert is_key(VideoCodec.AVC, sei * (MAX_UNITS - 1) + "00000002 6588") is True
    assert is_key(VideoCodec.AVC, sei * MAX_UNITS + "00000002 6588") is None
    padding = "7a00"
    assert is_key(VideoCodec.AV1, padding * (MAX_UNITS - 1) + "0a0b") is True
    assert is_key(VideoCodec.AV1, padding * MAX_UNITS + "0a0b") is None


def test_nothing_past_the_end_of_the_track_is_looked_at() -> None:
    data = bytes.fromhex("00000002 0910 00000002 6588")
    assert is_random_access(VideoCodec.AVC, data, 0, 6) is None
    assert is_random_access(VideoCodec.AVC, data, 6, 12) is True


@given(st.sampled_from(VideoCodec), st.binary(max_size=60), st.integers(1, 4))
@settings(max_examples=200)
def test_any_bytes_give_an_answer(codec: VideoCodec, body: bytes, nal_length_size: int) -> None:
    assert is_random_access(codec, body, 0, len(body), nal_length_size) in (True, False, None)
