"""H.264 records: the parts of a sequence parameter set that common encoders leave out, and damage."""

import pytest

from penstock.errors import MalformedMedia
from penstock.media.codecs import VideoCodec
from penstock.media.describe import read_video_setup
from tests.media.bit_text import bytes_of


# An SPS written by hand from the syntax tables: profile, constraints, level, then the fields as bits.
def avc_record(profile_idc: int, constraints: int, level_idc: int, bits: str) -> bytes:
    sps = bytes((0x67, profile_idc, constraints, level_idc)) + bytes_of(bits)
    return bytes((1, profile_idc, constraints, level_idc, 0xFD, 0xE1)) + len(sps).to_bytes(2, "big") + sps


# sps id 0, frame number length 4, order type 2, one reference, no gaps, 11 by 9 macroblocks (176x144), frames only,
# direct inference, no cropping, no VUI.
QCIF_BITS = "1" + "1" + "011" + "010" + "0" + "0001011" + "0001001" + "1" + "1" + "0" + "0"


@pytest.mark.parametrize(
    ("profile_idc", "constraints", "level_idc", "profile", "level"),
    [
        (66, 0x00, 10, "Baseline", "1.0"),
        (66, 0x40, 11, "Constrained Baseline", "1.1"),
        (66, 0x10, 11, "Baseline", "1b"),
        (77, 0x00, 9, "Main", "1b"),
        (88, 0x00, 51, "Extended", "5.1"),
        (99, 0x00, 62, "profile 99", "6.2"),
    ],
)
def test_avc_profile_and_level_have_their_names(
    profile_idc: int, constraints: int, level_idc: int, profile: str, level: str
) -> None:
    setup = read_video_setup(VideoCodec.AVC, avc_record(profile_idc, constraints, level_idc, QCIF_BITS))
    assert (setup.profile, setup.level) == (profile, level)
    assert (setup.width_px, setup.height_px, setup.frames_per_second) == (176, 144, None)
    assert setup.nal_length_size == 2


def test_avc_order_type_one_is_skipped_with_its_cycle() -> None:
    # Order type 1 (010), flag, two offsets of 0, a cycle of 2 frames with offsets +1 and -1.
    order = "010" + "0" + "1" + "1" + "011" + "010" + "011"
    bits = "1" + "1" + order + "010" + "0" + "0001011" + "0001001" + "1" + "1" + "0" + "0"
    setup = read_video_setup(VideoCodec.AVC, avc_record(66, 0, 30, bits))
    assert (setup.width_px, setup.height_px) == (176, 144)


def test_an_avc_order_cycle_past_its_limit_is_refused() -> None:
    # 256 as Exp-Golomb: eight zeros, then 257 in nine bits.
    order = "010" + "0" + "1" + "1" + "0" * 8 + f"{257:b}"
    with pytest.raises(MalformedMedia, match="picture order cycle of 256 frames"):
        read_video_setup(VideoCodec.AVC, avc_record(66, 0, 30, "1" + "1" + order + "1" * 300))


def test_avc_scaling_lists_are_skipped() -> None:
    # High profile: 4:2:0, 8 bits, no bypass, matrices present: the first list ends at once (delta -8), the second is
    # flat to its end (16 deltas of 0), the seventh is flat too (64 deltas), the others are absent.
    lists = "1" + "000010001" + "1" + "1" * 16 + "0000" + "1" + "1" * 64 + "0"
    chroma = "010" + "1" + "1" + "0" + "1" + lists
    setup = read_video_setup(VideoCodec.AVC, avc_record(100, 0, 30, "1" + chroma + QCIF_BITS[1:]))
    assert (setup.profile, setup.width_px, setup.height_px) == ("High", 176, 144)


def test_avc_without_chroma_subsampling_has_twelve_scaling_lists() -> None:
    # 4:4:4 with joint planes; the last of the twelve lists ends at once.
    chroma = "00100" + "0" + "1" + "1" + "0" + "1" + "0" * 11 + "1" + "000010001"
    setup = read_video_setup(VideoCodec.AVC, avc_record(244, 0, 30, "1" + chroma + QCIF_BITS[1:]))
    assert (setup.profile, setup.width_px, setup.height_px) == ("High 4:4:4 Predictive", 176, 144)


def test_avc_monochrome_crops_by_single_samples_and_full_vui_is_walked() -> None:
    # 4:0:0 at 8 bits; cropped by 1 on the right and 3 at the bottom.
    chroma = "1" + "1" + "1" + "0" + "0"
    cropping = "1" + "1" + "010" + "1" + "00100"
    # Extended aspect ratio, overscan, colour description, chroma location, timing 1001/60000.
    vui = "1" + f"{255:08b}" + f"{1:032b}" + "11" + "1" + "1010" + "1" + "0" * 24 + "1" + "1" + "1" + "1"
    timing = f"{1001:032b}" + f"{60000:032b}" + "1"
    bits = "1" + chroma + QCIF_BITS[1:-2] + cropping + "1" + vui + timing
    record = avc_record(100, 0, 30, bits)
    # Emulation prevention, as an encoder must write it.
    sps = record[8:]
    escaped = sps.replace(b"\x00\x00\x00", b"\x00\x00\x03\x00").replace(b"\x00\x00\x01", b"\x00\x00\x03\x01")
    record = record[:6] + len(escaped).to_bytes(2, "big") + escaped
    setup = read_video_setup(VideoCodec.AVC, record)
    assert (setup.width_px, setup.height_px, setup.frames_per_second) == (175, 141, 60000 / 2002)


def test_avc_timing_of_zero_is_no_frame_rate() -> None:
    vui = "0" + "0" + "0" + "0" + "1" + f"{0:032b}" + f"{60:032b}"
    setup = read_video_setup(VideoCodec.AVC, avc_record(66, 0, 30, QCIF_BITS[:-1] + "1" + vui))
    assert setup.frames_per_second is None


def test_avc_vui_without_timing_is_no_frame_rate() -> None:
    setup = read_video_setup(VideoCodec.AVC, avc_record(66, 0, 30, QCIF_BITS[:-1] + "1" + "0" * 5))
    assert setup.frames_per_second is None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("", "AVC set-up: record of 0 bytes"),
        ("02640028ffe1001b67", "AVC set-up: record version 2"),
        ("01640028ffe00000", "AVC set-up: record without a sequence parameter set"),
        ("01640028ffe1001b67640028", "AVC set-up: sequence parameter set of 27 bytes in a record of 12"),
        ("01640028ffe1000468ce0fcb", "AVC set-up: NAL unit type 8 where the sequence parameter set should be"),
        ("01640028ffe100066764002897ff", "AVC set-up: chroma format 4"),
        # An Exp-Golomb code of nothing but zeros.
        ("01420028ffe1000a67420028000000000000", "AVC set-up: Exp-Golomb code too long"),
    ],
)
def test_a_damaged_avc_record_says_what_is_wrong(record: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_video_setup(VideoCodec.AVC, bytes.fromhex(record))
    assert str(caught.value).startswith(message)


def test_an_avc_bit_depth_past_every_profile_is_refused() -> None:
    with pytest.raises(MalformedMedia, match="AVC set-up: bit depth 15"):
        read_video_setup(VideoCodec.AVC, avc_record(100, 0, 30, "1" + "010" + "0001000" + "1" * 40))


def test_an_avc_picture_cropped_away_is_refused() -> None:
    cropping = "1" + "1" + "0000001011001" + "1" + "1"  # 88 pairs of columns off the right of 176
    with pytest.raises(MalformedMedia, match="AVC set-up: picture of 0x144"):
        read_video_setup(VideoCodec.AVC, avc_record(66, 0, 30, QCIF_BITS[:-2] + cropping + "0"))
