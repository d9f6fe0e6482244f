"""The front door to tags: what an audio or video message holds. See `video_tag` and `audio_tag` for the two readers."""

from penstock.errors import MalformedMedia
from penstock.media.audio_tag import AudioTag, MultichannelConfig, read_audio_tag, read_multichannel_config
from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.color_info import ColorInfo, read_color_info
from penstock.media.packets import PacketKind, TrackPacket
from penstock.media.video_tag import Picture, VideoCommand, VideoTag, read_video_tag

__all__ = [
    "AudioCodec",
    "AudioTag",
    "ColorInfo",
    "MultichannelConfig",
    "PacketKind",
    "Picture",
    "TrackPacket",
    "VideoCodec",
    "VideoCommand",
    "VideoTag",
    "audio_codec_of",
    "read_audio_tag",
    "read_color_info",
    "read_multichannel_config",
    "read_video_tag",
    "video_codec_of",
]


def video_codec_of(payload: bytes) -> VideoCodec | None:
    """Codec that a video message names for its first track; None when it names none that we know."""
    try:
        return read_video_tag(payload).codec
    except MalformedMedia:
        return None


def audio_codec_of(payload: bytes) -> AudioCodec | None:
    """Codec that an audio message names for its first track; None when it names none that we know."""
    try:
        return read_audio_tag(payload).codec
    except MalformedMedia:
        return None
