"""AV1 records: the parts of a sequence header that common encoders leave out, and damage."""

import pytest

from penstock.errors import MalformedMedia
from penstock.media.codecs import VideoCodec
from penstock.media.describe import read_video_setup
from penstock.media.setup_record import VideoSetup
from tests.media.bit_text import bytes_of
from tests.media.setup_messages import AV1_MAIN_360P30


def av1_record(bits: str, obu_header: str = "0a") -> bytes:
    body = bytes_of(bits)
    return bytes.fromhex("81010c00" + obu_header) + bytes((len(body),)) + body


SIZE_16_BY_8 = "0011" + "0010" + "1111" + "111"


def test_av1_timing_gives_the_frame_rate_past_a_full_decoder_model() -> None:
    timing = "1" + f"{1001:032b}" + f"{30000:032b}" + "1" + "1"
    # Delays of 2 bits each; one operating point of level 4.0 with tier, decoder model and display delay.
    model = "1" + "00001" + "0" * 32 + "0" * 10
    points = "1" + "00000" + "0" * 12 + "01000" + "1" + "1" + "00" + "00" + "0" + "1" + "0000"
    setup = read_video_setup(VideoCodec.AV1, av1_record("000" + "0" + "0" + timing + model + points + SIZE_16_BY_8))
    assert (setup.width_px, setup.height_px, setup.frames_per_second) == (16, 8, 30000 / 1001)


def test_av1_without_one_frame_distance_has_no_frame_rate() -> None:
    timing = "1" + f"{1:032b}" + f"{30:032b}" + "0" + "0"
    points = "0" + "00000" + "0" * 12 + "00000"
    setup = read_video_setup(VideoCodec.AV1, av1_record("000" + "0" + "0" + timing + points + SIZE_16_BY_8))
    assert (setup.width_px, setup.height_px, setup.frames_per_second) == (16, 8, None)


def test_av1_levels_below_4_0_have_no_tier() -> None:
    points = "0" + "00001" + "0" * 12 + "00111" + "0" * 12 + "00111"
    record = av1_record("000" + "0" + "0" + "0" + points + SIZE_16_BY_8)
    setup = read_video_setup(VideoCodec.AV1, record[:1] + b"\x07" + record[2:])
    assert (setup.level, setup.tier, setup.width_px, setup.height_px) == ("3.3", None, 16, 8)


def test_av1_ticks_of_zero_are_no_frame_rate() -> None:
    timing = "1" + f"{0:032b}" + f"{30:032b}" + "1" + "1" + "0"
    points = "0" + "00000" + "0" * 12 + "00000"
    setup = read_video_setup(VideoCodec.AV1, av1_record("000" + "0" + "0" + timing + points + SIZE_16_BY_8))
    assert setup.frames_per_second is None


def test_a_still_av1_picture_has_a_short_header() -> None:
    setup = read_video_setup(VideoCodec.AV1, av1_record("000" + "1" + "1" + "00000" + SIZE_16_BY_8))
    assert (setup.width_px, setup.height_px) == (16, 8)


def test_an_av1_record_may_come_without_a_sequence_header() -> None:
    expected = VideoSetup(VideoCodec.AV1, profile="Main", tier="High", bit_depth=12)
    assert read_video_setup(VideoCodec.AV1, bytes.fromhex("811fe000")) == expected


def test_other_av1_units_before_the_sequence_header_are_passed() -> None:
    # A padding unit with an extension byte, then the sequence header without a size field.
    record = bytes.fromhex("81010c00" + "7e0002aabb" + "08") + AV1_MAIN_360P30[5 + 6 :]
    setup = read_video_setup(VideoCodec.AV1, record)
    assert (setup.width_px, setup.height_px) == (640, 360)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("", "AV1 set-up: record of 0 bytes"),
        ("01010c00", "AV1 set-up: marker and version 0x01"),
        ("81010c000a0b0000", "AV1 set-up: OBU of 11 bytes at offset 6 of 8"),
        ("81010c000a", "AV1 set-up: leb128 cut short at offset 5"),
        ("81010c000affffffffffffffffff", "AV1 set-up: leb128 of more than 8 bytes before offset 13"),
        ("81010c000c", "AV1 set-up: OBU of -1 bytes at offset 6 of 5"),
        ("81010c00" + "7a00" * 17, "AV1 set-up: more than 16 OBUs before a sequence header"),
    ],
)
def test_a_damaged_av1_record_says_what_is_wrong(record: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        read_video_setup(VideoCodec.AV1, bytes.fromhex(record))
    assert str(caught.value) == message
