"""Tracks of MP4: sample entries as FFmpeg writes them, and what is left out.

Each box below was written by FFmpeg 8.1.2 (PyAV 18.1.0), which copied the FLV that `tests.support.pyav_encode` made
with the encoder named beside it to MP4 with `-movflags +frag_keyframe+empty_moov+delay_moov`. In `esds` the two bit
rates are set to 0, since ours are; `vpcC` has the record's own matrix, which FFmpeg sets to 0. Records and first bytes
of frames are those of the same FLV.
"""

import pytest

from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.fmp4_init import init_segment
from penstock.media.fmp4_tracks import LeftOut, Mp4Track, audio_track, video_track
from tests.media import setup_messages
from tests.support.mp4_reader import read_boxes, sample_entries, timescales

AVC_RECORD = "014d400affe10016674d400aeca146fc90800000030080000014078912cb01000468ce0fc8"
HEVC_RECORD = (
    "0101600000009000000000001ef000fcfdf8f800000f03200001001840010c01ffff01600000030090000003000003001e959009210001002942"
    "010101600000030090000003000003001ea0142061f26595912930b9a0200000030020000003028122000100064401c073c189"
)
AV1_RECORD = "81000c000a0a00000003b4fd900be001"
VP9_RECORD = "01000000000a820202020000"
VP9_KEY_FRAME = "824983420009f005960638241c184a"
STREAMINFO = "12001200000000004a580bb802f0" + "00" * 20
OPUS_HEAD = "4f707573486561640102380180bb0000000000"
AC3_FRAME = "0b7774241e40ebf8"
EAC3_FRAME = "0b77037f3f87c000"
MP3_FRAME = "fffb9464"

PICTURE_HEAD = (
    "0000000000000001 00000000000000000000000000000000 00a0005a 00480000 00480000 00000000 0001"
    + "00" * 32
    + "0018ffff"
)
STEREO_HEAD = "0000000000000001 0000000000000000 0002 0010 00000000 bb800000"
SIX_CHANNEL_HEAD = "0000000000000001 0000000000000000 0006 0010 00000000 bb800000"


def entry_of(track: Mp4Track | LeftOut) -> tuple[bytes, str, dict[bytes, str]]:
    """Kind, fixed fields and boxes of a sample entry, read by the second reader."""
    assert isinstance(track, Mp4Track), track
    (entry,) = sample_entries(init_segment([track])).values()
    fixed = entry.body[: 78 if track.is_video else 28]
    return entry.kind, fixed.hex(), {child.kind: child.body.hex() for child in entry.children}


@pytest.mark.parametrize(
    ("codec", "record", "key_frame", "entry"),
    [
        (VideoCodec.AVC, AVC_RECORD, "", (b"avc1", b"avcC", AVC_RECORD)),  # libx264
        (VideoCodec.HEVC, HEVC_RECORD, "", (b"hvc1", b"hvcC", HEVC_RECORD)),  # libx265
        (VideoCodec.AV1, AV1_RECORD, "", (b"av01", b"av1C", AV1_RECORD)),  # libsvtav1
        (VideoCodec.VP9, VP9_RECORD, VP9_KEY_FRAME, (b"vp09", b"vpcC", VP9_RECORD)),  # libvpx-vp9
        (VideoCodec.VP9, VP9_RECORD[8:], VP9_KEY_FRAME, (b"vp09", b"vpcC", VP9_RECORD)),
    ],
)
def test_a_video_entry_is_that_of_ffmpeg(
    codec: VideoCodec, record: str, key_frame: str, entry: tuple[bytes, bytes, str]
) -> None:
    kind, box_kind, box = entry
    track = video_track(codec, bytes.fromhex(record), bytes.fromhex(key_frame))
    assert entry_of(track) == (kind, PICTURE_HEAD.replace(" ", ""), {box_kind: box})


ES_AAC = "000000000380808025000200048080801740150000000000000000000000" + "0580808005119056e500068080800102"
ES_MP3 = "00000000038080801b000200048080800d6b150000000000000000000000" + "068080800102"
FLAC_BOX = "0000000080000022" + STREAMINFO


@pytest.mark.parametrize(
    ("codec", "record", "frame", "entry"),
    [
        (AudioCodec.AAC, "119056e500", "", (b"mp4a", STEREO_HEAD, b"esds", ES_AAC)),  # aac
        (AudioCodec.MP3, "", MP3_FRAME, (b"mp4a", STEREO_HEAD, b"esds", ES_MP3)),  # libmp3lame
        (AudioCodec.OPUS, OPUS_HEAD, "", (b"Opus", STEREO_HEAD, b"dOps", "000201380000bb80000000")),  # libopus
        (AudioCodec.FLAC, STREAMINFO, "", (b"fLaC", STEREO_HEAD, b"dfLa", FLAC_BOX)),  # flac
        (AudioCodec.FLAC, "664c614300000022" + STREAMINFO, "", (b"fLaC", STEREO_HEAD, b"dfLa", FLAC_BOX)),
        (AudioCodec.AC3, "", AC3_FRAME, (b"ac-3", SIX_CHANNEL_HEAD, b"dac3", "103de0")),  # ac3
        (AudioCodec.EAC3, "", EAC3_FRAME, (b"ec-3", SIX_CHANNEL_HEAD, b"dec3", "0e00200f00")),  # eac3
    ],
)
def test_an_audio_entry_is_that_of_ffmpeg(
    codec: AudioCodec, record: str, frame: str, entry: tuple[bytes, str, bytes, str]
) -> None:
    kind, head, box_kind, box = entry
    track = audio_track(codec, bytes.fromhex(record), bytes.fromhex(frame))
    assert entry_of(track) == (kind, head.replace(" ", ""), {box_kind: box})


def test_opus_without_an_id_header_has_the_channels_of_its_first_packet() -> None:
    mono, stereo = (audio_track(AudioCodec.OPUS, b"", bytes((toc,))) for toc in (0xF8, 0xFC))
    boxes = [entry_of(track)[2][b"dOps"] for track in (mono, stereo)]
    assert boxes == ["0001" + "00000000bb80000000", "0002" + "00000000bb80000000"]


def test_opus_of_six_channels_keeps_its_channel_mapping() -> None:
    head = bytes.fromhex("4f70757348656164 01 06 3801 80bb0000 0000 01 04 02 000401020305")
    track = audio_track(AudioCodec.OPUS, head)
    assert entry_of(track)[2][b"dOps"] == "0006" + "0138" + "0000bb80" + "0000" + "01" + "0402" + "000401020305"


def test_av1_whose_record_has_no_sequence_header_takes_its_size_from_a_key_frame() -> None:
    key_frame = bytes.fromhex("1200" + AV1_RECORD[8:])
    track = video_track(VideoCodec.AV1, bytes.fromhex(AV1_RECORD[:8]), key_frame)
    assert isinstance(track, Mp4Track)
    assert (track.width_px, track.height_px) == (160, 90)


def test_mp3_below_24_khz_is_the_object_of_mpeg_2() -> None:
    track = audio_track(AudioCodec.MP3, b"", bytes.fromhex("fff388c4"))
    assert entry_of(track)[2][b"esds"][34:36] == "69"


def test_sound_above_65535_hz_has_no_rate_in_its_entry() -> None:
    _, head, boxes = entry_of(audio_track(AudioCodec.FLAC, setup_messages.FLAC_96K_5_1))
    assert head == "0000000000000001 0000000000000000 0006 0018 00000000 00000000".replace(" ", "")
    assert boxes[b"dfLa"].startswith("0000000080000022" + "20002000000d2c00255717700b70")


@pytest.mark.parametrize(
    ("track", "left_out"),
    [
        (video_track(VideoCodec.VP8, b""), LeftOut("VP8 video", "no player takes it in MP4")),
        (video_track(VideoCodec.VVC, b"\0"), LeftOut("H.266 VVC video", "no player takes it in MP4")),
        (video_track(VideoCodec.SORENSON_H263, b""), LeftOut("Sorenson H.263 video", "no player takes it in MP4")),
        (video_track(VideoCodec.AVC, b""), LeftOut("H.264 AVC video", "decoder configuration of 0 bytes")),
        (
            video_track(VideoCodec.AVC, bytes(65537)),
            LeftOut("H.264 AVC video", "decoder configuration of 65537 bytes"),
        ),
        (video_track(VideoCodec.AVC, b"\1"), LeftOut("H.264 AVC video", "AVC set-up: record of 1 bytes")),
        (
            video_track(VideoCodec.VP9, bytes.fromhex(VP9_RECORD), bytes.fromhex("860040929c48")),
            LeftOut("VP9 video", "fmp4: no picture size in the decoder configuration or the first frame"),
        ),
        (audio_track(AudioCodec.SPEEX, b""), LeftOut("Speex audio", "no player takes it in MP4")),
        (audio_track(AudioCodec.AAC, b""), LeftOut("AAC audio", "no decoder configuration")),
        (audio_track(AudioCodec.AAC, b"\0\0"), LeftOut("AAC audio", "AAC set-up: object type 0")),
        (audio_track(AudioCodec.FLAC, bytes(65537)), LeftOut("FLAC audio", "decoder configuration of 65537 bytes")),
        (audio_track(AudioCodec.AC3, b"", b"\0\0"), LeftOut("AC-3 audio", "AC-3 frame: sync word 0x0000")),
        (
            audio_track(AudioCodec.EAC3, b"", b""),
            LeftOut("E-AC-3 audio", "E-AC-3 frame: no independent substream in 0 bytes"),
        ),
        (audio_track(AudioCodec.MP3, b"", b"\xff"), LeftOut("MP3 audio", "MP3 frame: 1 bytes")),
        (audio_track(AudioCodec.MP3, b"", b"ID3\3"), LeftOut("MP3 audio", "MP3 frame: head 0x49443303")),
        (audio_track(AudioCodec.OPUS, b""), LeftOut("Opus audio", "fmp4: neither an Opus ID header nor a packet")),
        (
            audio_track(AudioCodec.OPUS, bytes.fromhex("4f70757348656164 01 06 3801 80bb0000 0000 01 04 02")),
            LeftOut("Opus audio", "fmp4: Opus ID header of 21 bytes without its channel mapping"),
        ),
    ],
)
def test_what_mp4_cannot_carry_is_left_out_and_named(track: Mp4Track | LeftOut, left_out: LeftOut) -> None:
    assert track == left_out


def test_an_init_segment_says_milliseconds_and_that_fragments_follow() -> None:
    tracks = [
        video_track(VideoCodec.AV1, bytes.fromhex(AV1_RECORD)),
        audio_track(AudioCodec.AAC, bytes.fromhex("119056e500")),
    ]
    init = init_segment([track for track in tracks if isinstance(track, Mp4Track)])
    ftyp, moov = read_boxes(init)
    assert ftyp.body == b"iso6\0\0\0\0iso6mp41av01"
    assert timescales(init) == {1: 1000, 2: 1000}
    assert [trex.body.hex() for trex in moov.find(b"mvex").children] == [
        "00000000" + "00000001" + "00000001" + "00" * 12,
        "00000000" + "00000002" + "00000001" + "00" * 12,
    ]
    video, audio = moov.all(b"trak")
    assert video.find(b"tkhd").body[-8:].hex() == "00a00000005a0000"
    assert audio.find(b"tkhd").body[-8:].hex() == "0000000000000000"
    assert moov.find(b"mvhd").body[-4:] == b"\0\0\0\3"
