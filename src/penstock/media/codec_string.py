"""Names of codecs for browsers and playlists (RFC 6381, section 3): "avc1.64001f", "mp4a.40.2".

Owns the forms that codecs define for themselves: ISO 14496-15 annex E (H.264, H.265), AV1 in ISOBMFF section 5, VP
Codec ISO Media File Format Binding. Takes decoder configuration records that were read before: what is damaged does not
get here. MP3 has its short name, "mp3"; the form by the RFC would be "mp4a.6b".
"""

from typing import Final

from penstock.media.codecs import AudioCodec, VideoCodec

_PROFILE_SPACES: Final = ("", "A", "B", "C")
_ESCAPED_OBJECT_TYPE: Final = 31
# Encoders that leave the level out mean the lowest.
_LOWEST_VP9_LEVEL: Final = 10

_FIXED: Final = {
    AudioCodec.OPUS: "opus",
    AudioCodec.FLAC: "fLaC",
    AudioCodec.AC3: "ac-3",
    AudioCodec.EAC3: "ec-3",
    AudioCodec.MP3: "mp3",
}


def video_codec_string(codec: VideoCodec, record: bytes) -> str | None:
    """The name by a decoder configuration record; None for a codec that has none in MP4."""
    if codec is VideoCodec.AVC:
        return f"avc1.{record[1:4].hex()}"
    if codec is VideoCodec.HEVC:
        return _hevc_string(record)
    if codec is VideoCodec.AV1:
        return _av1_string(record)
    if codec is VideoCodec.VP9:
        return f"vp09.{record[0]:02d}.{record[1] or _LOWEST_VP9_LEVEL:02d}.{record[2] >> 4:02d}"
    return None


def audio_codec_string(codec: AudioCodec, record: bytes) -> str | None:
    """The name by a decoder configuration record, which only AAC needs; None for a codec that has none in MP4."""
    if codec is AudioCodec.AAC:
        object_type = record[0] >> 3
        if object_type == _ESCAPED_OBJECT_TYPE:
            object_type = 32 + (int.from_bytes(record[:2], "big") >> 5 & 0x3F)
        return f"mp4a.40.{object_type}"
    return _FIXED.get(codec)


def _hevc_string(record: bytes) -> str:
    profile = f"{_PROFILE_SPACES[record[1] >> 6]}{record[1] & 0x1F}"
    # Sent with the flag of profile 0 first, named with it last.
    compatibility = int(f"{int.from_bytes(record[2:6], 'big'):032b}"[::-1], 2)
    tier = "H" if record[1] & 0x20 else "L"
    constraints = [f"{byte:X}" for byte in record[6:12].rstrip(b"\0")]
    return ".".join(("hvc1", profile, f"{compatibility:X}", f"{tier}{record[12]}", *constraints))


def _av1_string(record: bytes) -> str:
    tier = "H" if record[2] & 0x80 else "M"
    depth = 8 if not record[2] & 0x40 else 12 if record[2] & 0x20 else 10
    return f"av01.{record[1] >> 5}.{record[1] & 0x1F:02d}{tier}.{depth:02d}"
