"""Codec names and numbers: FLV 10.1 (annex E.4.2.1, E.4.3.1) and the FourCCs of Enhanced RTMP v2.

Owns the two enums and the tables from wire numbers to them. Reads no payloads.
"""

from enum import Enum


class VideoCodec(Enum):
    """Every video codec that a tag can name. The value is its name for people."""

    SORENSON_H263 = "Sorenson H.263"
    SCREEN = "Screen Video"
    VP6 = "VP6"
    VP6_ALPHA = "VP6 with alpha"
    SCREEN_V2 = "Screen Video 2"
    AVC = "H.264 AVC"
    HEVC = "H.265 HEVC"
    VVC = "H.266 VVC"
    AV1 = "AV1"
    VP9 = "VP9"
    VP8 = "VP8"

    @property
    def label(self) -> str:
        """Name for logs, pages and tables."""
        return self.value


class AudioCodec(Enum):
    """Every audio codec that a tag can name. The value is its name for people."""

    PCM_HOST_ORDER = "PCM host order"
    ADPCM = "ADPCM"
    MP3 = "MP3"
    PCM_LE = "PCM little-endian"
    NELLYMOSER = "Nellymoser"
    G711_A_LAW = "G.711 A-law"
    G711_MU_LAW = "G.711 mu-law"
    AAC = "AAC"
    SPEEX = "Speex"
    NATIVE = "device-specific sound"
    OPUS = "Opus"
    FLAC = "FLAC"
    AC3 = "AC-3"
    EAC3 = "E-AC-3"

    @property
    def label(self) -> str:
        """Name for logs, pages and tables."""
        return self.value


VIDEO_CODEC_BY_ID: dict[int, VideoCodec] = {
    2: VideoCodec.SORENSON_H263,
    3: VideoCodec.SCREEN,
    4: VideoCodec.VP6,
    5: VideoCodec.VP6_ALPHA,
    6: VideoCodec.SCREEN_V2,
    7: VideoCodec.AVC,
    # In no specification, but encoders and CDNs used it for years before Enhanced RTMP, with AVC's packet layout.
    12: VideoCodec.HEVC,
}

VIDEO_CODEC_BY_FOURCC: dict[bytes, VideoCodec] = {
    b"avc1": VideoCodec.AVC,
    b"hvc1": VideoCodec.HEVC,
    b"vvc1": VideoCodec.VVC,
    b"av01": VideoCodec.AV1,
    b"vp09": VideoCodec.VP9,
    b"vp08": VideoCodec.VP8,
}

AUDIO_CODEC_BY_FORMAT: dict[int, AudioCodec] = {
    0: AudioCodec.PCM_HOST_ORDER,
    1: AudioCodec.ADPCM,
    2: AudioCodec.MP3,
    3: AudioCodec.PCM_LE,
    4: AudioCodec.NELLYMOSER,
    5: AudioCodec.NELLYMOSER,
    6: AudioCodec.NELLYMOSER,
    7: AudioCodec.G711_A_LAW,
    8: AudioCodec.G711_MU_LAW,
    10: AudioCodec.AAC,
    11: AudioCodec.SPEEX,
    14: AudioCodec.MP3,
    15: AudioCodec.NATIVE,
}

AUDIO_CODEC_BY_FOURCC: dict[bytes, AudioCodec] = {
    b"mp4a": AudioCodec.AAC,
    b"Opus": AudioCodec.OPUS,
    b"fLaC": AudioCodec.FLAC,
    b".mp3": AudioCodec.MP3,
    b"ac-3": AudioCodec.AC3,
    b"ec-3": AudioCodec.EAC3,
}

# Pictures of these codecs may be shown in another order than they are decoded in, so their tags carry an offset.
REORDERED_CODECS = frozenset({VideoCodec.AVC, VideoCodec.HEVC, VideoCodec.VVC})
