"""Video decoder configuration records, as real encoders write them and as they are when damaged."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.codecs import VideoCodec
from penstock.media.describe import read_video_setup
from penstock.media.setup_record import VideoSetup
from tests.media import setup_messages as golden

AVC_1080P30 = VideoSetup(
    codec=VideoCodec.AVC,
    profile="High",
    level="4.0",
    width_px=1920,
    height_px=1080,
    frames_per_second=30.0,
    bit_depth=8,
    is_interlaced=False,
    nal_length_size=4,
)
HEVC_1080P30 = VideoSetup(
    codec=VideoCodec.HEVC,
    profile="Main",
    level="4.0",
    tier="Main",
    width_px=1920,
    height_px=1080,
    bit_depth=8,
    nal_length_size=4,
)
AV1_360P30 = VideoSetup(codec=VideoCodec.AV1, profile="Main", level="2.1", width_px=640, height_px=360, bit_depth=8)

AS_FFPROBE_SAYS: list[tuple[bytes, VideoSetup]] = [
    (golden.AVC_HIGH_1080P30, AVC_1080P30),
    (
        golden.AVC_BASELINE_90P25,
        replace(
            AVC_1080P30,
            profile="Constrained Baseline",
            level="1.1",
            width_px=160,
            height_px=90,
            frames_per_second=25.0,
        ),
    ),
    (
        golden.AVC_MAIN_1080I25,
        replace(AVC_1080P30, profile="Main", level="4.1", frames_per_second=25.0, is_interlaced=True),
    ),
    (
        golden.AVC_MAIN_718P29,
        replace(
            AVC_1080P30,
            profile="Main",
            level="3.1",
            width_px=1278,
            height_px=718,
            frames_per_second=30000 / 1001,
        ),
    ),
    (
        golden.AVC_HIGH422_360P60,
        replace(
            AVC_1080P30,
            profile="High 4:2:2",
            level="3.1",
            width_px=640,
            height_px=360,
            frames_per_second=60.0,
            bit_depth=10,
        ),
    ),
    (
        golden.AVC_HIGH444_182P24,
        replace(
            AVC_1080P30,
            profile="High 4:4:4 Predictive",
            level="1.3",
            width_px=322,
            height_px=182,
            frames_per_second=24.0,
        ),
    ),
    (golden.HEVC_MAIN_1080P30, HEVC_1080P30),
    (
        golden.HEVC_MAIN10_720P50,
        replace(HEVC_1080P30, profile="Main 10", width_px=1280, height_px=720, bit_depth=10),
    ),
    (
        golden.HEVC_REXT_362P25,
        replace(
            HEVC_1080P30,
            profile="Range Extensions",
            level="4.1",
            tier="High",
            width_px=642,
            height_px=362,
            bit_depth=10,
        ),
    ),
    (golden.AV1_MAIN_360P30, AV1_360P30),
    (
        golden.AV1_MAIN_10BIT_1080P30,
        replace(AV1_360P30, level="4.0", tier="Main", width_px=1920, height_px=1080, bit_depth=10),
    ),
    (golden.AV1_HIGH_182P30, replace(AV1_360P30, profile="High", level="2.0", width_px=320, height_px=182)),
    (golden.AV1_SVT_240P25, replace(AV1_360P30, level="2.0", width_px=426, height_px=240)),
    (golden.VP9_PROFILE0_360P30, VideoSetup(VideoCodec.VP9, profile="Profile 0", level="2.1", bit_depth=8)),
    (golden.VP9_PROFILE3_186P30, VideoSetup(VideoCodec.VP9, profile="Profile 3", level="1.1", bit_depth=10)),
]


def record_of(message: bytes) -> bytes:
    """Legacy and plain enhanced set-up messages both have five bytes before the record."""
    return message[5:]


@pytest.mark.parametrize(("message", "expected"), AS_FFPROBE_SAYS)
def test_a_record_tells_what_ffprobe_says(message: bytes, expected: VideoSetup) -> None:
    assert read_video_setup(expected.codec, record_of(message)) == expected


@pytest.mark.parametrize(("message", "expected"), AS_FFPROBE_SAYS)
def test_a_record_cut_anywhere_gives_facts_or_malformed_media(message: bytes, expected: VideoSetup) -> None:
    record = record_of(message)
    for size in range(len(record)):
        try:
            setup = read_video_setup(expected.codec, record[:size])
        except MalformedMedia:
            continue
        # What is missing may only be what comes last; no fact may turn into another one.
        assert setup == expected or setup == replace(expected, width_px=None, height_px=None)


@pytest.mark.parametrize(("message", "expected"), AS_FFPROBE_SAYS)
def test_a_record_with_any_one_byte_changed_gives_facts_or_malformed_media(
    message: bytes, expected: VideoSetup
) -> None:
    record = record_of(message)
    for at in range(len(record)):
        for changed in (0x00, 0x01, 0x7F, 0xFF, record[at] ^ 0x80):
            damaged = record[:at] + bytes((changed,)) + record[at + 1 :]
            with suppress(MalformedMedia):
                read_video_setup(expected.codec, damaged)


@given(st.sampled_from(VideoCodec), st.binary(max_size=80))
@settings(max_examples=300)
def test_any_bytes_give_facts_or_malformed_media(codec: VideoCodec, record: bytes) -> None:
    try:
        setup = read_video_setup(codec, record)
    except MalformedMedia:
        return
    assert setup.codec is codec


@given(st.sampled_from([message for message, _ in AS_FFPROBE_SAYS]), st.data())
@settings(max_examples=200)
def test_a_record_whose_tail_is_any_bytes_gives_facts_or_malformed_media(message: bytes, data: st.DataObject) -> None:
    expected = dict(AS_FFPROBE_SAYS)[message]
    record = record_of(message)
    keep = data.draw(st.integers(0, len(record)))
    tail = data.draw(st.binary(max_size=80))
    with suppress(MalformedMedia):
        read_video_setup(expected.codec, record[:keep] + tail)


def test_codecs_whose_record_is_not_read_tell_their_name() -> None:
    assert read_video_setup(VideoCodec.VVC, b"\xff") == VideoSetup(VideoCodec.VVC)
