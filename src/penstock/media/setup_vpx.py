"""VP9 and VP8 set-up: VPCodecConfigurationRecord (VP Codec ISO Media File Format Binding, section 2.2), and the picture
size, which only key frames tell (VP9, section 6.2; VP8, RFC 6386, section 9.1).

Damage is `MalformedMedia`.
"""

from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.bits import BitReader
from penstock.media.codecs import VideoCodec
from penstock.media.setup_record import VideoSetup, check_size

_LAYER: Final = "VP set-up"
_FRAME_LAYER: Final = "VP frame"

# FFmpeg and MediaMTX send the record as it is in an MP4 box, after the version (1) and flags of that box.
_BOX_VERSION_AND_FLAGS = b"\x01\x00\x00\x00"
_RECORD_BYTES = 6

_VP9_SYNC_CODE = 0x498342
_VP8_START_CODE = b"\x9d\x01\x2a"
_VP9_FRAME_MARKER = 2
_VP9_RGB = 7


def vpx_record(record: bytes) -> bytes:
    """The record itself, which may have come in the box that MP4 has around it."""
    # Without the box header these bytes would be profile 1, level 0 at a bit depth of 0.
    return record[4:] if record.startswith(_BOX_VERSION_AND_FLAGS) else record


def read_vpx_setup(codec: VideoCodec, record: bytes) -> VideoSetup:
    """Read a codec configuration record of VP9 or VP8."""
    record = vpx_record(record)
    if len(record) < _RECORD_BYTES:
        raise MalformedMedia(_LAYER, f"record of {len(record)} bytes")
    profile, level, bit_depth = record[0], record[1], record[2] >> 4
    if profile > 3 or bit_depth not in (8, 10, 12):
        raise MalformedMedia(_LAYER, f"profile {profile} with bit depth {bit_depth}")
    return VideoSetup(
        codec=codec,
        profile=f"Profile {profile}",
        level=f"{level // 10}.{level % 10}" if level else None,
        bit_depth=bit_depth,
    )


def read_vpx_frame_size(codec: VideoCodec, frame: bytes) -> tuple[int, int] | None:
    """Width and height that a VP9 or VP8 key frame gives; None for other frames."""
    return _read_vp8_size(frame) if codec is VideoCodec.VP8 else _read_vp9_size(frame)


def _read_vp8_size(frame: bytes) -> tuple[int, int] | None:
    if frame and frame[0] & 0x01:
        return None
    if len(frame) < 10:
        raise MalformedMedia(_FRAME_LAYER, f"VP8 key frame of {len(frame)} bytes")
    if frame[3:6] != _VP8_START_CODE:
        raise MalformedMedia(_FRAME_LAYER, f"VP8 start code {frame[3:6].hex()}")
    # The upper two bits of each are an upscaling hint.
    width_px = int.from_bytes(frame[6:8], "little") & 0x3FFF
    height_px = int.from_bytes(frame[8:10], "little") & 0x3FFF
    check_size(_FRAME_LAYER, width_px, height_px)
    return width_px, height_px


def _read_vp9_size(frame: bytes) -> tuple[int, int] | None:
    bits = BitReader(_FRAME_LAYER, frame[:32])
    marker = bits.read(2)
    if marker != _VP9_FRAME_MARKER:
        raise MalformedMedia(_FRAME_LAYER, f"VP9 frame marker {marker}")
    profile = bits.read(1) | bits.read(1) << 1
    if profile == 3:
        bits.skip(1)  # reserved_zero
    shows_existing_frame = bits.flag()
    if shows_existing_frame or bits.flag():
        return None
    bits.skip(2)  # show_frame, error_resilient_mode
    sync_code = bits.read(24)
    if sync_code != _VP9_SYNC_CODE:
        raise MalformedMedia(_FRAME_LAYER, f"VP9 sync code {sync_code:#08x}")
    _skip_color_config(bits, profile)
    return bits.read(16) + 1, bits.read(16) + 1


def _skip_color_config(bits: BitReader, profile: int) -> None:
    has_subsampling = profile in (1, 3)
    if profile >= 2:
        bits.skip(1)  # ten_or_twelve_bit
    is_rgb = bits.read(3) == _VP9_RGB
    if not is_rgb:
        bits.skip(1)  # color_range
    if has_subsampling:
        bits.skip(1 if is_rgb else 3)  # subsampling, if any, and reserved_zero
