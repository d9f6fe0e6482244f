"""What decoder set-up records tell: the two values that every record reader gives."""

from dataclasses import dataclass

from penstock.errors import MalformedMedia
from penstock.media.codecs import AudioCodec, VideoCodec

# Above every level of every codec; a picture larger than this is a damaged record.
_MAX_SIDE_PX = 65536


@dataclass(frozen=True, slots=True)
class VideoSetup:
    """Facts of one video track. What its record does not tell is None.

    `profile` and `level` are the codec's own names ("High", "4.0"), `tier` is "Main" or "High" where the codec has
    tiers. The size is what is shown, after cropping. `nal_length_size` is for readers of the frames that follow.
    """

    codec: VideoCodec
    profile: str | None = None
    level: str | None = None
    tier: str | None = None
    width_px: int | None = None
    height_px: int | None = None
    frames_per_second: float | None = None
    bit_depth: int | None = None
    is_interlaced: bool | None = None
    nal_length_size: int | None = None


@dataclass(frozen=True, slots=True)
class AudioSetup:
    """Facts of one audio track, as it sounds after decoding. What its record does not tell is None."""

    codec: AudioCodec
    profile: str | None = None
    sample_rate_hz: int | None = None
    channels: int | None = None
    bit_depth: int | None = None


def check_size(layer: str, width_px: int, height_px: int) -> None:
    """Refuse a picture without area or beyond all levels."""
    if not (0 < width_px <= _MAX_SIDE_PX and 0 < height_px <= _MAX_SIDE_PX):
        raise MalformedMedia(layer, f"picture of {width_px}x{height_px}")
