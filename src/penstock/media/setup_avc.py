"""H.264 set-up: AVCDecoderConfigurationRecord (ISO 14496-15, section 5.3.3) and its first sequence parameter set
(H.264, sections 7.3.2.1.1 and E.1.1).

Reads what describes the stream and stops there: no picture parameter sets, nothing after the timing. Damage is
`MalformedMedia`.
"""

from dataclasses import dataclass
from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.bits import BitReader, remove_emulation_prevention
from penstock.media.codecs import VideoCodec
from penstock.media.setup_record import VideoSetup, check_size

_LAYER: Final = "AVC set-up"

_NAL_SPS = 7
_EXTENDED_SAR = 255
_CHROMA_444 = 3
# The largest value of num_ref_frames_in_pic_order_cnt_cycle.
_MAX_ORDER_CYCLE = 255

_PROFILES = {
    44: "CAVLC 4:4:4",
    66: "Baseline",
    77: "Main",
    83: "Scalable Baseline",
    86: "Scalable High",
    88: "Extended",
    100: "High",
    110: "High 10",
    118: "Multiview High",
    122: "High 4:2:2",
    128: "Stereo High",
    244: "High 4:4:4 Predictive",
}
_PROFILES_WITH_CHROMA = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244})
_BASELINE = 66
_PROFILES_WITH_LEVEL_1B_FLAG = frozenset({66, 77, 88})
# Samples of chroma per sample of luma, across and down, by chroma_format_idc. 4:0:0 has no chroma and crops by one.
_SUBSAMPLING = {0: (1, 1), 1: (2, 2), 2: (2, 1), 3: (1, 1)}


@dataclass(frozen=True, slots=True)
class _Chroma:
    format_idc: int
    is_separate: bool
    bit_depth: int


def read_avc_setup(record: bytes) -> VideoSetup:
    """Read a decoder configuration record."""
    if len(record) < 8:
        raise MalformedMedia(_LAYER, f"record of {len(record)} bytes")
    if record[0] != 1:
        raise MalformedMedia(_LAYER, f"record version {record[0]}")
    if record[5] & 0x1F == 0:
        raise MalformedMedia(_LAYER, "record without a sequence parameter set")
    size = int.from_bytes(record[6:8], "big")
    sps = record[8 : 8 + size]
    if len(sps) < size or size < 4:
        raise MalformedMedia(_LAYER, f"sequence parameter set of {size} bytes in a record of {len(record)}")
    if sps[0] & 0x1F != _NAL_SPS:
        raise MalformedMedia(_LAYER, f"NAL unit type {sps[0] & 0x1F} where the sequence parameter set should be")
    return _read_sps(remove_emulation_prevention(sps[1:]), nal_length_size=(record[4] & 0x03) + 1)


def _read_sps(sps: bytes, nal_length_size: int) -> VideoSetup:
    bits = BitReader(_LAYER, sps)
    profile_idc, constraints, level_idc = bits.read(8), bits.read(8), bits.read(8)
    bits.read_ue()  # seq_parameter_set_id
    chroma = _read_chroma(bits) if profile_idc in _PROFILES_WITH_CHROMA else _Chroma(1, False, 8)
    bits.read_ue()  # log2_max_frame_num_minus4
    _skip_picture_order(bits)
    bits.read_ue()  # max_num_ref_frames
    bits.skip(1)  # gaps_in_frame_num_value_allowed_flag
    width_px = (bits.read_ue() + 1) * 16
    map_units_high = bits.read_ue() + 1
    has_frames_only = bits.flag()
    fields = 1 if has_frames_only else 2
    height_px = map_units_high * 16 * fields
    if not has_frames_only:
        bits.skip(1)  # mb_adaptive_frame_field_flag
    bits.skip(1)  # direct_8x8_inference_flag
    if bits.flag():
        left, right, top, bottom = (bits.read_ue() for _ in range(4))
        across, down = (1, 1) if chroma.is_separate else _SUBSAMPLING[chroma.format_idc]
        width_px -= (left + right) * across
        height_px -= (top + bottom) * down * fields
    check_size(_LAYER, width_px, height_px)
    return VideoSetup(
        codec=VideoCodec.AVC,
        profile=_profile_name(profile_idc, constraints),
        level=_level_name(profile_idc, constraints, level_idc),
        width_px=width_px,
        height_px=height_px,
        frames_per_second=_read_frame_rate(bits) if bits.flag() else None,
        bit_depth=chroma.bit_depth,
        is_interlaced=not has_frames_only,
        nal_length_size=nal_length_size,
    )


def _profile_name(profile_idc: int, constraints: int) -> str:
    if profile_idc == _BASELINE and constraints & 0x40:
        return "Constrained Baseline"
    return _PROFILES.get(profile_idc, f"profile {profile_idc}")


def _level_name(profile_idc: int, constraints: int, level_idc: int) -> str:
    is_1b = level_idc == 11 and constraints & 0x10 and profile_idc in _PROFILES_WITH_LEVEL_1B_FLAG
    if is_1b or level_idc == 9:
        return "1b"
    return f"{level_idc // 10}.{level_idc % 10}"


def _read_chroma(bits: BitReader) -> _Chroma:
    format_idc = bits.read_ue()
    if format_idc not in _SUBSAMPLING:
        raise MalformedMedia(_LAYER, f"chroma format {format_idc}")
    is_separate = format_idc == _CHROMA_444 and bits.flag()
    bit_depth = bits.read_ue() + 8
    if bit_depth > 14:
        raise MalformedMedia(_LAYER, f"bit depth {bit_depth}")
    bits.read_ue()  # bit_depth_chroma_minus8
    bits.skip(1)  # qpprime_y_zero_transform_bypass_flag
    if bits.flag():
        for index in range(12 if format_idc == _CHROMA_444 else 8):
            if bits.flag():
                _skip_scaling_list(bits, 16 if index < 6 else 64)
    return _Chroma(format_idc, is_separate, bit_depth)


def _skip_scaling_list(bits: BitReader, size: int) -> None:
    last_scale = 8
    for _ in range(size):
        next_scale = (last_scale + bits.read_se()) % 256
        if next_scale == 0:
            return
        last_scale = next_scale


def _skip_picture_order(bits: BitReader) -> None:
    order_type = bits.read_ue()
    if order_type == 0:
        bits.read_ue()  # log2_max_pic_order_cnt_lsb_minus4
    elif order_type == 1:
        bits.skip(1)  # delta_pic_order_always_zero_flag
        bits.read_se()  # offset_for_non_ref_pic
        bits.read_se()  # offset_for_top_to_bottom_field
        cycle = bits.read_ue()
        if cycle > _MAX_ORDER_CYCLE:
            raise MalformedMedia(_LAYER, f"picture order cycle of {cycle} frames")
        for _ in range(cycle):
            bits.read_se()


def _read_frame_rate(bits: BitReader) -> float | None:
    """The timing in the VUI parameters, if it is there. One tick is one field, also in progressive streams."""
    if bits.flag() and bits.read(8) == _EXTENDED_SAR:
        bits.skip(32)
    if bits.flag():
        bits.skip(1)  # overscan_appropriate_flag
    if bits.flag():
        bits.skip(4)  # video_format, video_full_range_flag
        if bits.flag():
            bits.skip(24)  # colour description
    if bits.flag():
        bits.read_ue()  # chroma_sample_loc_type_top_field
        bits.read_ue()  # chroma_sample_loc_type_bottom_field
    if not bits.flag():
        return None
    ticks, time_scale = bits.read(32), bits.read(32)
    return time_scale / (2 * ticks) if ticks and time_scale else None
