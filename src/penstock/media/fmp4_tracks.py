"""Tracks of an MP4 by what RTMP says of them: codec, decoder configuration, and a first frame where that tells more.

Owns what MP4 can carry: H.264, H.265, AV1, VP9; AAC, Opus, AC-3, E-AC-3, FLAC, MP3. What it cannot is a `LeftOut` that
says why, as is what lacks what a player needs. All tracks count in milliseconds, since RTMP does: a finer scale would
only spell the same rounded times in larger numbers, and each fragment says anew where it begins.
"""

from dataclasses import dataclass
from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.codec_string import audio_codec_string, video_codec_string
from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.describe import MAX_RECORD_BYTES, read_audio_setup, read_video_setup
from penstock.media.fmp4_boxes import box
from penstock.media.fmp4_entries import (
    AAC_OBJECT_TYPE,
    MP3_LOW_RATE_OBJECT_TYPE,
    MP3_OBJECT_TYPE,
    audio_entry,
    dac3,
    dec3,
    dfla,
    dops,
    esds,
    opus_head_bytes,
    visual_entry,
    vpcc,
)
from penstock.media.setup_ac3 import read_ac3_setup, read_eac3_setup
from penstock.media.setup_mp3 import read_mp3_setup
from penstock.media.setup_opus_flac import flac_streaminfo
from penstock.media.setup_vpx import read_vpx_frame_size, vpx_record

TIMESCALE: Final = 1000
VIDEO_TRACK_ID: Final = 1
AUDIO_TRACK_ID: Final = 2

_MAX_SIDE_PX: Final = 0xFFFF
_AV1_FIXED_BYTES: Final = 4
_MAX_LOW_RATE_HZ: Final = 24000
_CD_BITS: Final = 16
_OPUS_STEREO: Final = 0x04
# Version 1, two channels or one, no pre-skip, 48 kHz, no gain, mapping family 0: what a sender leaves out that may.
_OPUS_HEAD: Final = b"OpusHead\x01%c\x00\x00\x80\xbb\x00\x00\x00\x00\x00"

_NAL_ENTRIES: Final = {VideoCodec.AVC: (b"avc1", b"avcC"), VideoCodec.HEVC: (b"hvc1", b"hvcC")}


@dataclass(frozen=True, slots=True)
class Mp4Track:
    """One track: all that the init segment says of it. Sound has a size of 0."""

    track_id: int
    sample_entry: bytes
    codec_string: str
    width_px: int = 0
    height_px: int = 0
    brand: bytes | None = None

    @property
    def is_video(self) -> bool:
        return self.track_id == VIDEO_TRACK_ID


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A track that is not in the MP4: `what` names it ("VP8 video"), `why` is for people."""

    what: str
    why: str


def video_track(codec: VideoCodec, record: bytes, key_frame: bytes = b"") -> Mp4Track | LeftOut:
    """The track of a video codec. A key frame is needed for VP9, whose record has no picture size."""
    what = f"{codec.label} video"
    if codec not in (*_NAL_ENTRIES, VideoCodec.AV1, VideoCodec.VP9):
        return LeftOut(what, "no player takes it in MP4")
    if not 0 < len(record) <= MAX_RECORD_BYTES:
        return LeftOut(what, f"decoder configuration of {len(record)} bytes")
    try:
        return _video_track(codec, record, key_frame)
    except MalformedMedia as error:
        return LeftOut(what, str(error))


def audio_track(codec: AudioCodec, record: bytes, frame: bytes = b"") -> Mp4Track | LeftOut:
    """The track of an audio codec. A frame is needed for codecs without a record: AC-3, E-AC-3, MP3, some Opus."""
    what = f"{codec.label} audio"
    if len(record) > MAX_RECORD_BYTES:
        return LeftOut(what, f"decoder configuration of {len(record)} bytes")
    codec_string = None if codec is AudioCodec.AAC and not record else audio_codec_string(codec, record)
    if codec_string is None:
        return LeftOut(what, "no decoder configuration" if codec is AudioCodec.AAC else "no player takes it in MP4")
    try:
        return Mp4Track(AUDIO_TRACK_ID, _audio_entry(codec, record, frame), codec_string)
    except MalformedMedia as error:
        return LeftOut(what, str(error))


def _video_track(codec: VideoCodec, record: bytes, key_frame: bytes) -> Mp4Track:
    brand = None
    if codec is VideoCodec.VP9:
        record = vpx_record(record)
    setup = read_video_setup(codec, record)
    width_px, height_px = setup.width_px, setup.height_px
    if codec is VideoCodec.VP9:
        kind, config = b"vp09", vpcc(record)
        width_px, height_px = read_vpx_frame_size(codec, key_frame) or (None, None)
    elif codec is VideoCodec.AV1:
        kind, config, brand = b"av01", box(b"av1C", record), b"av01"
        if width_px is None:
            # The record came without a sequence header; every key frame has one, in the same form.
            setup = read_video_setup(codec, record[:_AV1_FIXED_BYTES] + key_frame)
            width_px, height_px = setup.width_px, setup.height_px
    else:
        kind, config_kind = _NAL_ENTRIES[codec]
        config = box(config_kind, record)
    codec_string = video_codec_string(codec, record)
    if width_px is None or height_px is None or codec_string is None:
        raise MalformedMedia("fmp4", "no picture size in the decoder configuration or the first frame")
    if max(width_px, height_px) > _MAX_SIDE_PX:
        raise MalformedMedia("fmp4", f"picture of {width_px}x{height_px}")
    entry = visual_entry(kind, width_px, height_px, config)
    return Mp4Track(VIDEO_TRACK_ID, entry, codec_string, width_px, height_px, brand)


def _audio_entry(codec: AudioCodec, record: bytes, frame: bytes) -> bytes:
    if codec is AudioCodec.AC3:
        ac3 = read_ac3_setup(frame)
        return audio_entry(b"ac-3", ac3.channels, ac3.sample_rate_hz, _CD_BITS, dac3(ac3))
    if codec is AudioCodec.EAC3:
        eac3 = read_eac3_setup(frame)
        return audio_entry(b"ec-3", eac3.channels, eac3.sample_rate_hz, _CD_BITS, dec3(eac3))
    if codec is AudioCodec.OPUS and not record:
        if not frame:
            raise MalformedMedia("fmp4", "neither an Opus ID header nor a packet")
        record = _OPUS_HEAD % (2 if frame[0] & _OPUS_STEREO else 1)
    if codec is AudioCodec.OPUS and len(record) < opus_head_bytes(record):
        raise MalformedMedia("fmp4", f"Opus ID header of {len(record)} bytes without its channel mapping")
    setup = read_mp3_setup(frame) if codec is AudioCodec.MP3 else read_audio_setup(codec, record)
    # AAC may keep its channels in the frames alone; the field is a hint, and 2 is what such streams have.
    channels, rate_hz = setup.channels or 2, setup.sample_rate_hz or 0
    if codec is AudioCodec.OPUS:
        return audio_entry(b"Opus", channels, rate_hz, _CD_BITS, dops(record))
    if codec is AudioCodec.FLAC:
        return audio_entry(b"fLaC", channels, rate_hz, setup.bit_depth or _CD_BITS, dfla(flac_streaminfo(record)))
    if codec is AudioCodec.MP3:
        object_type = MP3_OBJECT_TYPE if rate_hz > _MAX_LOW_RATE_HZ else MP3_LOW_RATE_OBJECT_TYPE
        return audio_entry(b"mp4a", channels, rate_hz, _CD_BITS, esds(AUDIO_TRACK_ID, object_type, b""))
    return audio_entry(b"mp4a", channels, rate_hz, _CD_BITS, esds(AUDIO_TRACK_ID, AAC_OBJECT_TYPE, record))
