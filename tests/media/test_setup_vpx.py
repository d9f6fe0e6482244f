"""VP9 and VP8: records with and without their box header, sizes out of key frames, and damage."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.codecs import VideoCodec
from penstock.media.describe import read_video_setup
from penstock.media.setup_record import VideoSetup
from penstock.media.setup_vpx import read_vpx_frame_size
from tests.media import setup_messages as golden


def test_a_vp_record_is_the_same_without_the_box_header() -> None:
    bare = golden.VP9_PROFILE0_360P30[5 + 4 :]
    assert bare == bytes.fromhex("0015820202020000")
    expected = VideoSetup(VideoCodec.VP9, profile="Profile 0", level="2.1", bit_depth=8)
    assert read_video_setup(VideoCodec.VP9, bare) == expected


def test_a_vp8_record_without_a_level_tells_none() -> None:
    expected = VideoSetup(VideoCodec.VP8, profile="Profile 0", bit_depth=8)
    assert read_video_setup(VideoCodec.VP8, bytes.fromhex("010000000000820202020000")) == expected


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("00158202", "VP set-up: record of 4 bytes"),
        ("0415820202020000", "VP set-up: profile 4 with bit depth 8"),
        ("0015920202020000", "VP set-up: profile 0 with bit depth 9"),
    ],
)
def test_a_damaged_vp_record_says_what_is_wrong(record: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_video_setup(VideoCodec.VP9, bytes.fromhex(record))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("codec", "frame", "expected"),
    [
        (VideoCodec.VP9, golden.VP9_PROFILE0_KEY[5:], (640, 360)),
        (VideoCodec.VP9, golden.VP9_PROFILE3_KEY[5:], (330, 186)),
        (VideoCodec.VP9, golden.VP9_PROFILE0_INTER[5:], None),
        (VideoCodec.VP9, golden.VP9_PROFILE3_INTER[5:], None),
        (VideoCodec.VP8, golden.VP8_KEY_FRAME, (330, 186)),
        (VideoCodec.VP8, bytes.fromhex("1157"), None),
        # Profile 1 in RGB: no range bit, one reserved bit. Then 16 by 8.
        (VideoCodec.VP9, bytes.fromhex("a2498342e000f00070"), (16, 8)),
    ],
)
def test_a_vp_key_frame_tells_its_size(codec: VideoCodec, frame: bytes, expected: tuple[int, int] | None) -> None:
    assert read_vpx_frame_size(codec, frame) == expected


@pytest.mark.parametrize(
    ("codec", "frame", "message"),
    [
        (VideoCodec.VP8, "", "VP frame: VP8 key frame of 0 bytes"),
        (VideoCodec.VP8, "1057009d012b4a01ba00", "VP frame: VP8 start code 9d012b"),
        (VideoCodec.VP8, "1057009d012a0000ba00", "VP frame: picture of 0x186"),
        (VideoCodec.VP9, "", "VP frame: 2 bits wanted at bit 0 of 0"),
        (VideoCodec.VP9, "42", "VP frame: VP9 frame marker 1"),
        (VideoCodec.VP9, "8249834300", "VP frame: VP9 sync code 0x498343"),
        (VideoCodec.VP9, "82498342", "VP frame: 3 bits wanted at bit 32 of 32"),
        (VideoCodec.VP9, "a249834200", "VP frame: "),
    ],
)
def test_a_damaged_vp_key_frame_says_what_is_wrong(codec: VideoCodec, frame: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_vpx_frame_size(codec, bytes.fromhex(frame))
    assert str(caught.value).startswith(message)


@given(st.sampled_from([VideoCodec.VP8, VideoCodec.VP9]), st.binary(max_size=40))
@settings(max_examples=200)
def test_any_bytes_as_a_vp_frame_give_a_size_or_none_or_malformed_media(codec: VideoCodec, frame: bytes) -> None:
    try:
        size = read_vpx_frame_size(codec, frame)
    except MalformedMedia:
        return
    assert size is None or min(size) > 0
