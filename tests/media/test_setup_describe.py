"""Streams in words, whatever state their set-up is in."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.media.describe import MAX_RECORD_BYTES, describe, describe_audio, describe_video
from tests.media import setup_messages as golden


def test_a_stream_is_described_by_its_two_set_up_messages() -> None:
    text = describe(golden.AVC_HIGH_1080P30, golden.AAC_LC_48K_STEREO)
    assert text == "H.264 High 4.0 1920x1080, AAC-LC 48 kHz stereo"


def test_half_a_stream_is_described_by_the_half_that_is_there() -> None:
    assert describe(golden.AVC_HIGH_1080P30, None) == "H.264 High 4.0 1920x1080"
    assert describe(None, golden.AAC_LC_48K_STEREO) == "AAC-LC 48 kHz stereo"
    assert describe(None, None) == ""
    assert describe(b"\x00", b"\xd0") == ""


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (golden.AVC_BASELINE_90P25, "H.264 Constrained Baseline 1.1 160x90"),
        (golden.HEVC_MAIN10_720P50, "H.265 Main 10 4.0 1280x720"),
        (golden.HEVC_REXT_362P25, "H.265 Range Extensions 4.1 High tier 642x362"),
        (golden.AV1_MAIN_10BIT_1080P30, "AV1 Main 4.0 1920x1080"),
        (golden.AV1_EMPTY_SETUP, "AV1"),
        (golden.VP9_PROFILE0_360P30, "VP9 Profile 0 2.1"),
        (b"\x1c\x00\x00\x00\x00" + golden.HEVC_MAIN_1080P30[5:], "H.265 Main 4.0 1920x1080"),
        (golden.AVC_HIGH_1080P30[:20], "H.264 AVC"),
        (bytes.fromhex("1701000000"), "H.264 AVC"),
        (bytes.fromhex("90") + b"vvc1", "H.266 VVC"),
        (golden.H263_KEY_FRAME, "Sorenson H.263"),
        (golden.SCREEN_KEY_FRAME, "Screen Video"),
        (bytes.fromhex("14"), "VP6"),
        (bytes.fromhex("15"), "VP6 with alpha"),
        (bytes.fromhex("16"), "Screen Video 2"),
        (bytes.fromhex("5700"), None),
        (b"", None),
    ],
)
def test_video_is_described_as_far_as_its_message_tells(payload: bytes, text: str | None) -> None:
    assert describe_video(payload) == text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (golden.AAC_LC_44K1_MONO, "AAC-LC 44.1 kHz mono"),
        (golden.AAC_LC_48K_5_1, "AAC-LC 48 kHz 5.1"),
        (golden.AAC_LC_48K_7_1, "AAC-LC 48 kHz 7.1"),
        (golden.AAC_LC_48K_QUAD, "AAC-LC 48 kHz 4 channels"),
        (b"\x90Opus" + golden.OPUS_HEAD_STEREO, "Opus 48 kHz stereo"),
        (b"\x90fLaC" + golden.FLAC_44K1_STEREO, "FLAC 44.1 kHz stereo"),
        (b"\x91ac-3", "AC-3"),
        (b"\x91ec-3", "E-AC-3"),
        (b"\x91.mp3", "MP3"),
        (bytes.fromhex("af00"), "AAC"),
        (bytes.fromhex("af01"), "AAC"),
        (golden.MP3_FRAME, "MP3 44.1 kHz stereo"),
        (golden.SPEEX_FRAME, "Speex 16 kHz mono"),
        (golden.NELLYMOSER_FRAME, "Nellymoser 44.1 kHz mono"),
        (golden.MU_LAW_FRAME, "G.711 mu-law 8 kHz mono"),
        (golden.PCM_FRAME, "PCM little-endian 44.1 kHz stereo"),
        (b"", None),
    ],
)
def test_audio_is_described_as_far_as_its_message_tells(payload: bytes, text: str | None) -> None:
    assert describe_audio(payload) == text


@given(st.binary(max_size=40), st.binary(max_size=40))
@settings(max_examples=100)
def test_any_two_messages_can_be_described(video: bytes, audio: bytes) -> None:
    assert isinstance(describe(video, audio), str)


def test_a_record_that_is_too_long_is_not_opened() -> None:
    padding = bytes(MAX_RECORD_BYTES - len(golden.AVC_HIGH_1080P30) + 5)
    assert describe_video(golden.AVC_HIGH_1080P30 + padding) == "H.264 High 4.0 1920x1080"
    assert describe_video(golden.AVC_HIGH_1080P30 + padding + b"\x00") == "H.264 AVC"
    assert describe_audio(golden.AAC_LC_48K_STEREO + bytes(MAX_RECORD_BYTES)) == "AAC"
