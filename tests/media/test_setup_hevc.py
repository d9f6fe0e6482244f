"""H.265 records: the parts of a sequence parameter set that common encoders leave out, and damage."""

import pytest

from penstock.errors import MalformedMedia
from penstock.media.codecs import VideoCodec
from penstock.media.describe import read_video_setup
from tests.media.bit_text import bytes_of
from tests.media.setup_messages import HEVC_MAIN_1080P30

GOLDEN_RECORD = HEVC_MAIN_1080P30[5:]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"", "HEVC set-up: record of 0 bytes"),
        (b"\x02" + GOLDEN_RECORD[1:], "HEVC set-up: record version 2"),
        (GOLDEN_RECORD[:22] + b"\x00", "HEVC set-up: no sequence parameter set in 23 bytes"),
        (GOLDEN_RECORD[:24], "HEVC set-up: NAL unit array cut short at offset 23 of 24"),
        (GOLDEN_RECORD[:30], "HEVC set-up: NAL unit of 24 bytes at offset 26 of 30"),
    ],
)
def test_a_damaged_hevc_record_says_what_is_wrong(record: bytes, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_video_setup(VideoCodec.HEVC, record)
    assert str(caught.value) == message


def hevc_record(sps_bits: str, average_frame_rate: int = 0) -> bytes:
    sps = b"\x42\x01" + bytes_of(sps_bits)
    head = GOLDEN_RECORD[:19] + average_frame_rate.to_bytes(2, "big") + b"\x0f\x01"
    return head + b"\x21\x00\x01" + len(sps).to_bytes(2, "big") + sps


PROFILE_TIER_LEVEL = "1" * 96


def test_hevc_sub_layers_are_skipped() -> None:
    # Three sub-layers: the first has a profile and a level, the second only a level.
    layers = "0000" + "010" + "1" + PROFILE_TIER_LEVEL + "11" + "01" + "00" * 6 + "1" * 96 + "1" * 8
    # id 0, 4:2:0, 8 by 4 samples, no cropping, 8 bits.
    setup = read_video_setup(VideoCodec.HEVC, hevc_record(layers + "1" + "010" + "0001001" + "00101" + "0" + "1"))
    assert (setup.width_px, setup.height_px, setup.bit_depth) == (8, 4, 8)


def test_hevc_separate_colour_planes_crop_by_single_samples() -> None:
    cropping = "1" + "1" + "010" + "1" + "1"
    bits = "0000" + "000" + "1" + PROFILE_TIER_LEVEL + "1" + "00100" + "1" + "0001001" + "00101" + cropping + "011"
    setup = read_video_setup(VideoCodec.HEVC, hevc_record(bits, average_frame_rate=25 * 256))
    assert (setup.width_px, setup.height_px, setup.bit_depth, setup.frames_per_second) == (7, 4, 10, 25.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("1" + "00101", "HEVC set-up: chroma format 4"),
        ("1" + "010" + "1" + "00101" + "0" + "1", "HEVC set-up: picture of 0x4"),
        ("1" + "010" + "0001001" + "00101" + "0" + "0001010", "HEVC set-up: bit depth 17"),
    ],
)
def test_an_hevc_parameter_set_out_of_range_is_refused(fields: str, message: str) -> None:
    with pytest.raises(MalformedMedia, match=message):
        read_video_setup(VideoCodec.HEVC, hevc_record("0000" + "000" + "1" + PROFILE_TIER_LEVEL + fields))


def test_so_many_units_of_an_hevc_record_are_looked_at() -> None:
    head, sps = (
        GOLDEN_RECORD[:22],
        hevc_record("0000" + "000" + "1" + PROFILE_TIER_LEVEL + "1" + "010" + "0001001" + "00101" + "0" + "1")[23:],
    )
    others = b"\x20\x00\x40" + b"\x00\x00" * 64
    assert read_video_setup(VideoCodec.HEVC, head + b"\x02" + others + sps).width_px == 8
    one_more = b"\x20\x00\x41" + b"\x00\x00" * 65
    with pytest.raises(MalformedMedia, match="more than 64 NAL units before a sequence parameter set"):
        read_video_setup(VideoCodec.HEVC, head + b"\x02" + one_more + sps)
    # However many it announces in however many arrays, of none of them a byte is read.
    with pytest.raises(MalformedMedia, match="more than 64 NAL units"):
        read_video_setup(VideoCodec.HEVC, head + b"\xff" + b"\x20\xff\xff" + b"\x00\x00" * 65535)
