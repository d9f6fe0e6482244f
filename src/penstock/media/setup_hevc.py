"""H.265 set-up: HEVCDecoderConfigurationRecord (ISO 14496-15, section 8.3.3) and its first sequence parameter set
(H.265, sections 7.3.2.2 and 7.3.3).

Profile, tier and level are the record's own; the size and bit depth are the parameter set's, which is read no further.
Damage is `MalformedMedia`.
"""

from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.bits import BitReader, remove_emulation_prevention
from penstock.media.codecs import VideoCodec
from penstock.media.setup_record import VideoSetup, check_size

_LAYER: Final = "HEVC set-up"

# A record has a video, a sequence and a picture parameter set, and some SEI.
MAX_UNITS: Final = 64

_NAL_SPS = 33
_FIXED_BYTES = 23
_GENERAL_PROFILE_BITS = 88
_LEVEL_BITS = 8
_CHROMA_444 = 3

_PROFILES = {
    1: "Main",
    2: "Main 10",
    3: "Main Still Picture",
    4: "Range Extensions",
    5: "High Throughput",
    6: "Multiview Main",
    7: "Scalable Main",
    8: "3D Main",
    9: "Screen Content",
    10: "Scalable Range Extensions",
    11: "High Throughput Screen Content",
}
_SUBSAMPLING = {0: (1, 1), 1: (2, 2), 2: (2, 1), 3: (1, 1)}


def read_hevc_setup(record: bytes) -> VideoSetup:
    """Read a decoder configuration record."""
    if len(record) < _FIXED_BYTES:
        raise MalformedMedia(_LAYER, f"record of {len(record)} bytes")
    # Writers from before the format was final put 0 here.
    if record[0] > 1:
        raise MalformedMedia(_LAYER, f"record version {record[0]}")
    profile_idc = record[1] & 0x1F
    level_idc = record[12]
    average_frame_rate = int.from_bytes(record[19:21], "big")
    width_px, height_px, bit_depth = _read_sps(_find_sps(record))
    return VideoSetup(
        codec=VideoCodec.HEVC,
        profile=_PROFILES.get(profile_idc, f"profile {profile_idc}"),
        level=f"{level_idc // 30}.{level_idc % 30 // 3}",
        tier="High" if record[1] & 0x20 else "Main",
        width_px=width_px,
        height_px=height_px,
        frames_per_second=average_frame_rate / 256 if average_frame_rate else None,
        bit_depth=bit_depth,
        nal_length_size=(record[21] & 0x03) + 1,
    )


def _find_sps(record: bytes) -> bytes:
    at = _FIXED_BYTES
    units = 0
    for _ in range(record[22]):
        if at + 3 > len(record):
            raise MalformedMedia(_LAYER, f"NAL unit array cut short at offset {at} of {len(record)}")
        nal_type = record[at] & 0x3F
        count = int.from_bytes(record[at + 1 : at + 3], "big")
        at += 3
        units += count
        if units > MAX_UNITS and nal_type != _NAL_SPS:
            raise MalformedMedia(_LAYER, f"more than {MAX_UNITS} NAL units before a sequence parameter set")
        for _ in range(count):
            size = int.from_bytes(record[at : at + 2], "big")
            nal = record[at + 2 : at + 2 + size]
            if at + 2 + size > len(record):
                raise MalformedMedia(_LAYER, f"NAL unit of {size} bytes at offset {at} of {len(record)}")
            if nal_type == _NAL_SPS:
                return nal
            at += 2 + size
    raise MalformedMedia(_LAYER, f"no sequence parameter set in {len(record)} bytes")


def _read_sps(nal: bytes) -> tuple[int, int, int]:
    """Width and height after cropping, and bit depth."""
    bits = BitReader(_LAYER, remove_emulation_prevention(nal[2:]))
    bits.skip(4)  # sps_video_parameter_set_id
    max_sub_layers_minus1 = bits.read(3)
    bits.skip(1)  # sps_temporal_id_nesting_flag
    _skip_profile_tier_level(bits, max_sub_layers_minus1)
    bits.read_ue()  # sps_seq_parameter_set_id
    chroma_format_idc = bits.read_ue()
    if chroma_format_idc not in _SUBSAMPLING:
        raise MalformedMedia(_LAYER, f"chroma format {chroma_format_idc}")
    is_separate = chroma_format_idc == _CHROMA_444 and bits.flag()
    width_px, height_px = bits.read_ue(), bits.read_ue()
    if bits.flag():
        left, right, top, bottom = (bits.read_ue() for _ in range(4))
        across, down = (1, 1) if is_separate else _SUBSAMPLING[chroma_format_idc]
        width_px -= (left + right) * across
        height_px -= (top + bottom) * down
    check_size(_LAYER, width_px, height_px)
    bit_depth = bits.read_ue() + 8
    if bit_depth > 16:
        raise MalformedMedia(_LAYER, f"bit depth {bit_depth}")
    return width_px, height_px, bit_depth


def _skip_profile_tier_level(bits: BitReader, max_sub_layers_minus1: int) -> None:
    bits.skip(_GENERAL_PROFILE_BITS + _LEVEL_BITS)
    present = [(bits.flag(), bits.flag()) for _ in range(max_sub_layers_minus1)]
    if max_sub_layers_minus1:
        bits.skip(2 * (8 - max_sub_layers_minus1))
    for has_profile, has_level in present:
        bits.skip(_GENERAL_PROFILE_BITS * has_profile + _LEVEL_BITS * has_level)
