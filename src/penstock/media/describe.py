"""Streams in words: "H.264 High 4.0 1920x1080, AAC-LC 48 kHz stereo".

Owns the choice of the set-up reader for a codec, what it tells, and the text. A record that is damaged, missing or of a
codec that has none gives the codec's name, so that a log line never fails.
"""

from penstock.errors import MalformedMedia
from penstock.media.audio_tag import read_audio_tag
from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.packets import CodecT, PacketKind, TrackPacket
from penstock.media.setup_aac import read_aac_setup
from penstock.media.setup_av1 import read_av1_setup
from penstock.media.setup_avc import read_avc_setup
from penstock.media.setup_hevc import read_hevc_setup
from penstock.media.setup_opus_flac import read_flac_setup, read_opus_setup
from penstock.media.setup_record import AudioSetup, VideoSetup
from penstock.media.setup_vpx import read_vpx_setup
from penstock.media.video_tag import read_video_tag

# The longest record by rights, one of H.265 with many parameter sets, has some kilobytes. A longer one is not opened.
MAX_RECORD_BYTES = 64 * 1024

# In front of a profile the standard's number is enough.
_SHORT_NAMES = {VideoCodec.AVC: "H.264", VideoCodec.HEVC: "H.265"}
_LAYOUT_NAMES = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}


def read_video_setup(codec: VideoCodec, record: bytes) -> VideoSetup:
    """Read a video decoder configuration record. Codecs whose record we do not read tell their name alone."""
    if codec is VideoCodec.AVC:
        return read_avc_setup(record)
    if codec is VideoCodec.HEVC:
        return read_hevc_setup(record)
    if codec is VideoCodec.AV1:
        return read_av1_setup(record)
    if codec in (VideoCodec.VP9, VideoCodec.VP8):
        return read_vpx_setup(codec, record)
    return VideoSetup(codec)


def read_audio_setup(codec: AudioCodec, record: bytes) -> AudioSetup:
    """Read an audio decoder configuration record. Codecs that have none tell their name alone."""
    if codec is AudioCodec.AAC:
        return read_aac_setup(record)
    if codec is AudioCodec.OPUS:
        return read_opus_setup(record)
    if codec is AudioCodec.FLAC:
        return read_flac_setup(record)
    return AudioSetup(codec)


def describe(video_payload: bytes | None, audio_payload: bytes | None) -> str:
    """A stream in words, by one message of each kind: its set-up message, or any frame of a codec that has none."""
    video = None if video_payload is None else describe_video(video_payload)
    audio = None if audio_payload is None else describe_audio(audio_payload)
    return ", ".join(text for text in (video, audio) if text is not None)


def describe_video(payload: bytes) -> str | None:
    """The first track of a video message in words; None when it names no codec that we know."""
    setup = video_setup_of(payload)
    return None if setup is None else video_text(setup)


def describe_audio(payload: bytes) -> str | None:
    """The first track of an audio message in words; None when it names no codec that we know."""
    setup = audio_setup_of(payload)
    return None if setup is None else audio_text(setup)


def video_setup_of(payload: bytes) -> VideoSetup | None:
    """What is known of the first track of a video message; None when it names no codec that we know."""
    try:
        tag = read_video_tag(payload)
    except MalformedMedia:
        return None
    if not tag.tracks:
        return None
    track = tag.tracks[0]
    if _has_record(track):
        try:
            return read_video_setup(track.codec, payload[track.body_start : track.body_end])
        except MalformedMedia:
            pass
    return VideoSetup(track.codec)


def audio_setup_of(payload: bytes) -> AudioSetup | None:
    """What is known of the first track of an audio message; None when it names no codec that we know."""
    try:
        tag = read_audio_tag(payload)
    except MalformedMedia:
        return None
    if not tag.tracks:
        return None
    track = tag.tracks[0]
    if _has_record(track):
        try:
            return read_audio_setup(track.codec, payload[track.body_start : track.body_end])
        except MalformedMedia:
            pass
    return AudioSetup(track.codec, sample_rate_hz=tag.sample_rate_hz, channels=tag.channels)


def _has_record(track: TrackPacket[CodecT]) -> bool:
    return track.packet_kind is PacketKind.SETUP and track.body_end - track.body_start <= MAX_RECORD_BYTES


def video_text(setup: VideoSetup) -> str:
    """Such as "H.265 Main 10 5.1 High tier 3840x2160"."""
    has_names = setup.profile is not None
    words = [_SHORT_NAMES.get(setup.codec, setup.codec.label) if has_names else setup.codec.label]
    words += [word for word in (setup.profile, setup.level) if word is not None]
    if setup.tier == "High":
        words.append("High tier")
    if setup.width_px is not None and setup.height_px is not None:
        words.append(f"{setup.width_px}x{setup.height_px}")
    return " ".join(words)


def audio_text(setup: AudioSetup) -> str:
    """Such as "AAC-LC 48 kHz stereo"."""
    words = [setup.profile or setup.codec.label]
    if setup.sample_rate_hz is not None:
        words.append(f"{setup.sample_rate_hz / 1000:g} kHz")
    if setup.channels is not None:
        words.append(_LAYOUT_NAMES.get(setup.channels, f"{setup.channels} channels"))
    return " ".join(words)
