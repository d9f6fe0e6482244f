"""Codec strings: those that FFmpeg's HLS writer gives for the same records, and examples of the specifications.

FFmpeg 8.1.2 wrote "avc1.4d400a,mp4a.40.2", "av01.0.00M.08,ac-3" and "vp09.00.10.08,ec-3" into the multivariant
playlists of files that `tests.support.pyav_encode` made.
"""

import pytest

from penstock.media.codec_string import audio_codec_string, video_codec_string
from penstock.media.codecs import AudioCodec, VideoCodec
from tests.media import setup_messages


@pytest.mark.parametrize(
    ("codec", "record", "name"),
    [
        (VideoCodec.AVC, bytes.fromhex("014d400affe1"), "avc1.4d400a"),
        (VideoCodec.AVC, setup_messages.AVC_HIGH_1080P30[5:], "avc1.640028"),
        (VideoCodec.AV1, bytes.fromhex("81000c00"), "av01.0.00M.08"),
        # Main, level 3.0, 10 bit, as in AV1 in ISOBMFF, section 5; Professional, level 5.1, High tier, 12 bit.
        (VideoCodec.AV1, bytes.fromhex("81044c00"), "av01.0.04M.10"),
        (VideoCodec.AV1, bytes.fromhex("814dec00"), "av01.2.13H.12"),
        (VideoCodec.VP9, bytes.fromhex("000a820202020000"), "vp09.00.10.08"),
        (VideoCodec.VP9, bytes.fromhex("0233a40202020000"), "vp09.02.51.10"),
        (VideoCodec.VP9, bytes.fromhex("0000820202020000"), "vp09.00.10.08"),
        (VideoCodec.HEVC, setup_messages.HEVC_MAIN_1080P30[5:], "hvc1.1.6.L120.90"),
        (VideoCodec.HEVC, setup_messages.HEVC_MAIN10_720P50[5:], "hvc1.2.4.L120.90"),
        (VideoCodec.HEVC, setup_messages.HEVC_REXT_362P25[5:], "hvc1.4.10.H123.9D.8"),
        # MP4Box 1.0.1 gives this name to the file that libx265 made of 160x90.
        (VideoCodec.HEVC, bytes.fromhex("01 01 60000000 900000000000 1e"), "hvc1.1.6.L30.90"),
        # Profile space 1, no constraints.
        (VideoCodec.HEVC, bytes.fromhex("0141 60000000 000000000000 5d"), "hvc1.A1.6.L93"),
        (VideoCodec.VP8, b"", None),
        (VideoCodec.VVC, b"\0", None),
    ],
)
def test_a_video_codec_has_a_name(codec: VideoCodec, record: bytes, name: str | None) -> None:
    assert video_codec_string(codec, record) == name


@pytest.mark.parametrize(
    ("codec", "record", "name"),
    [
        (AudioCodec.AAC, bytes.fromhex("119056e500"), "mp4a.40.2"),
        (AudioCodec.AAC, bytes.fromhex("2b11880800"), "mp4a.40.5"),
        (AudioCodec.AAC, bytes.fromhex("eb098800"), "mp4a.40.29"),
        (AudioCodec.AAC, bytes.fromhex("f9464000"), "mp4a.40.42"),
        (AudioCodec.OPUS, b"", "opus"),
        (AudioCodec.AC3, b"", "ac-3"),
        (AudioCodec.EAC3, b"", "ec-3"),
        (AudioCodec.FLAC, b"", "fLaC"),
        (AudioCodec.MP3, b"", "mp3"),
        (AudioCodec.SPEEX, b"", None),
    ],
)
def test_an_audio_codec_has_a_name(codec: AudioCodec, record: bytes, name: str | None) -> None:
    assert audio_codec_string(codec, record) == name
