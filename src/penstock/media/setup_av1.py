"""AV1 set-up: AV1CodecConfigurationRecord (AV1 in ISOBMFF, section 2.3) and the sequence header OBU in it (AV1,
section 5.5).

The record may come without a sequence header; it then tells profile, level and depth, and no size. Reads the header up
to the picture size. Damage is `MalformedMedia`.
"""

from dataclasses import replace
from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.bits import BitReader, read_leb128
from penstock.media.codecs import VideoCodec
from penstock.media.setup_record import VideoSetup, check_size

_LAYER: Final = "AV1 set-up"

_FIXED_BYTES = 4
_MARKER_AND_VERSION = 0x81
_OBU_SEQUENCE_HEADER = 1
# More units than any encoder puts into a record; the sequence header is the first.
_MAX_UNITS = 16
_LEVEL_UNLIMITED = 31
# Levels from this index on (4.0) have two tiers.
_FIRST_LEVEL_WITH_TIER = 8

_PROFILES = {0: "Main", 1: "High", 2: "Professional"}


def read_av1_setup(record: bytes) -> VideoSetup:
    """Read a codec configuration record."""
    if len(record) < _FIXED_BYTES:
        raise MalformedMedia(_LAYER, f"record of {len(record)} bytes")
    if record[0] != _MARKER_AND_VERSION:
        raise MalformedMedia(_LAYER, f"marker and version {record[0]:#04x}")
    profile_idc, level_idx = record[1] >> 5, record[1] & 0x1F
    is_high_tier, is_high_depth, is_twelve_bit = record[2] & 0x80, record[2] & 0x40, record[2] & 0x20
    high_depth = 12 if is_twelve_bit else 10
    setup = VideoSetup(
        codec=VideoCodec.AV1,
        profile=_PROFILES.get(profile_idc, f"profile {profile_idc}"),
        level=None if level_idx == _LEVEL_UNLIMITED else f"{2 + (level_idx >> 2)}.{level_idx & 3}",
        tier=("High" if is_high_tier else "Main") if level_idx >= _FIRST_LEVEL_WITH_TIER else None,
        bit_depth=high_depth if is_high_depth else 8,
    )
    header = _find_sequence_header(record)
    return setup if header is None else _with_sequence_header(setup, header)


def _find_sequence_header(record: bytes) -> bytes | None:
    at = _FIXED_BYTES
    for _ in range(_MAX_UNITS):
        if at >= len(record):
            return None
        obu_header = record[at]
        at += 2 if obu_header & 0x04 else 1
        size = len(record) - at
        if obu_header & 0x02:
            size, at = read_leb128(_LAYER, record, at, len(record))
        if size > len(record) - at or size < 0:
            raise MalformedMedia(_LAYER, f"OBU of {size} bytes at offset {at} of {len(record)}")
        if obu_header >> 3 & 0x0F == _OBU_SEQUENCE_HEADER:
            return record[at : at + size]
        at += size
    raise MalformedMedia(_LAYER, f"more than {_MAX_UNITS} OBUs before a sequence header")


def _with_sequence_header(setup: VideoSetup, header: bytes) -> VideoSetup:
    bits = BitReader(_LAYER, header)
    bits.skip(4)  # seq_profile, still_picture
    frames_per_second = None
    if bits.flag():
        bits.skip(5)  # seq_level_idx of a reduced still picture
    else:
        frames_per_second = _read_timing_and_operating_points(bits)
    width_bits, height_bits = bits.read(4) + 1, bits.read(4) + 1
    width_px, height_px = bits.read(width_bits) + 1, bits.read(height_bits) + 1
    check_size(_LAYER, width_px, height_px)
    return replace(setup, width_px=width_px, height_px=height_px, frames_per_second=frames_per_second)


def _read_timing_and_operating_points(bits: BitReader) -> float | None:
    """Skip to the picture size; the frame rate on the way, if frames have one distance."""
    frames_per_second = None
    decoder_delay_bits = None
    if bits.flag():
        ticks, time_scale = bits.read(32), bits.read(32)
        if bits.flag():
            # uvlc() is Exp-Golomb but for codes of 32 zeros and more, which no frame distance needs.
            ticks_per_picture = bits.read_ue() + 1
            if ticks and time_scale:
                frames_per_second = time_scale / (ticks * ticks_per_picture)
        if bits.flag():
            decoder_delay_bits = bits.read(5) + 1
            bits.skip(32 + 5 + 5)  # num_units_in_decoding_tick and two more lengths
    has_display_delay = bits.flag()
    for _ in range(bits.read(5) + 1):
        bits.skip(12)  # operating_point_idc
        if bits.read(5) >= _FIRST_LEVEL_WITH_TIER:
            bits.skip(1)  # seq_tier
        if decoder_delay_bits is not None and bits.flag():
            bits.skip(2 * decoder_delay_bits + 1)  # the two buffer delays, low_delay_mode_flag
        if has_display_delay and bits.flag():
            bits.skip(4)  # initial_display_delay_minus_1
    return frames_per_second
