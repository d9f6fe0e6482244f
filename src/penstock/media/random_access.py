"""Whether a coded picture is a place to start decoding, told from the bitstream alone.

For senders that leave the frame type bits of an enhanced video tag at 0. Looks at unit headers only, at no more than
`MAX_UNITS` of them, and stops at the first one that belongs to a picture.

NAL unit types: H.264 table 7-1, H.265 table 7-1, H.266 table 5. AV1: section 5.3 (OBU headers). VP8: RFC 6386, section
9.1. VP9: section 6.2 (uncompressed header).
"""

from typing import Final, NamedTuple

from penstock.errors import MalformedMedia
from penstock.media.bits import read_leb128
from penstock.media.codecs import VideoCodec

# Parameter sets, access unit delimiters and SEI come before the first slice: a handful in practice.
MAX_UNITS: Final = 64


class _NalLayout(NamedTuple):
    """Where a NAL unit keeps its type, which types are slices, and which slices open a random access picture."""

    type_byte: int
    type_shift: int
    type_mask: int
    picture_types: range
    random_access_types: range


_NAL_LAYOUTS = {
    VideoCodec.AVC: _NalLayout(0, 0, 0x1F, range(1, 6), range(5, 6)),
    VideoCodec.HEVC: _NalLayout(0, 1, 0x3F, range(32), range(16, 22)),
    # IDR and CRA. A gradual refresh (10) shows a whole picture only some frames later.
    VideoCodec.VVC: _NalLayout(1, 3, 0x1F, range(12), range(7, 10)),
}

_OBU_SEQUENCE_HEADER = 1
_OBU_PICTURES = frozenset({3, 6, 7})


def is_random_access(codec: VideoCodec, payload: bytes, start: int, end: int, nal_length_size: int = 4) -> bool | None:
    """Whether `payload[start:end]` begins a decodable run; None when the bytes do not tell."""
    nal_layout = _NAL_LAYOUTS.get(codec)
    if nal_layout is not None:
        return _opens_with_random_access(nal_layout, payload, start, end, nal_length_size)
    if codec is VideoCodec.AV1:
        return _starts_av1_sequence(payload, start, end)
    if start >= end:
        return None
    if codec is VideoCodec.VP8:
        return payload[start] & 0x01 == 0
    if codec is VideoCodec.VP9:
        return _is_vp9_key(payload[start])
    return None


def _opens_with_random_access(layout: _NalLayout, payload: bytes, at: int, end: int, length_size: int) -> bool | None:
    for _ in range(MAX_UNITS):
        unit_at = at + length_size
        type_at = unit_at + layout.type_byte
        if type_at >= end:
            return None
        at = unit_at + int.from_bytes(payload[at:unit_at], "big")
        # A unit too short to have a type is no unit; its neighbour's bytes must not be taken for one.
        if type_at < at:
            nal_type = payload[type_at] >> layout.type_shift & layout.type_mask
            if nal_type in layout.picture_types:
                return nal_type in layout.random_access_types
    return None


def _starts_av1_sequence(payload: bytes, at: int, end: int) -> bool | None:
    for _ in range(MAX_UNITS):
        if at >= end:
            return None
        obu_header = payload[at]
        obu_type = obu_header >> 3 & 0x0F
        if obu_type == _OBU_SEQUENCE_HEADER:
            return True
        if obu_type in _OBU_PICTURES:
            return False
        at += 2 if obu_header & 0x04 else 1
        if not obu_header & 0x02:
            return None
        try:
            size, at = read_leb128("AV1 temporal unit", payload, at, end)
        except MalformedMedia:
            return None
        at += size
    return None


def _is_vp9_key(first_byte: int) -> bool | None:
    # Frame marker 2, two bits of profile (one more, reserved, after profile 3), show_existing_frame, frame type.
    if first_byte >> 6 != 2:
        return None
    is_profile_3 = first_byte >> 4 & 0x03 == 3
    shift = 2 if is_profile_3 else 3
    shows_existing_frame = first_byte >> shift & 1
    return not shows_existing_frame and first_byte >> (shift - 1) & 1 == 0
