"""Sample entries: what an MP4 track says of its codec (ISO 14496-12, section 8.5.2), one for each codec we carry.

Owns the two heads, of pictures and of sound, and the configuration box of each codec: ISO 14496-15 (avcC, hvcC), AV1 in
ISOBMFF (av1C), VP Codec ISO Media File Format Binding (vpcC), ISO 14496-14 (esds), Opus in ISOBMFF (dOps), FLAC in
ISOBMFF (dfLa), ETSI TS 102 366 annex F (dac3, dec3). Records go in as they came: RTMP has them in the form of MP4.
"""

from struct import pack
from typing import Final

from penstock.media.fmp4_boxes import box, full_box
from penstock.media.setup_ac3 import Ac3Setup, Eac3Setup

_DATA_REFERENCE: Final = bytes(6) + b"\x00\x01"
_SEVENTY_TWO_DPI: Final = 0x00480000
_DEPTH_24: Final = 0x18
_MAX_FIXED_POINT_HZ: Final = 0xFFFF

_ES_TAG: Final = 3
_DECODER_CONFIG_TAG: Final = 4
_DECODER_INFO_TAG: Final = 5
_SL_CONFIG_TAG: Final = 6
_AUDIO_STREAM: Final = 0x15
_PREDEFINED_FOR_FILES: Final = b"\x02"

AAC_OBJECT_TYPE: Final = 0x40
MP3_OBJECT_TYPE: Final = 0x6B
MP3_LOW_RATE_OBJECT_TYPE: Final = 0x69

_OPUS_HEAD_BYTES: Final = 19
_LAST_STREAMINFO_BLOCK: Final = b"\x80\x00\x00\x22"


def visual_entry(kind: bytes, width_px: int, height_px: int, *boxes: bytes) -> bytes:
    """A sample entry of pictures."""
    return box(
        kind,
        _DATA_REFERENCE,
        bytes(16),
        pack(">HHII", width_px & 0xFFFF, height_px & 0xFFFF, _SEVENTY_TWO_DPI, _SEVENTY_TWO_DPI),
        pack(">4xH32xHh", 1, _DEPTH_24, -1),
        *boxes,
    )


def audio_entry(kind: bytes, channels: int, sample_rate_hz: int, sample_bits: int, *boxes: bytes) -> bytes:
    """A sample entry of sound."""
    # The field ends at 65535; beyond, only the codec's own box tells.
    rate_hz = sample_rate_hz if sample_rate_hz <= _MAX_FIXED_POINT_HZ else 0
    return box(kind, _DATA_REFERENCE, bytes(8), pack(">HH4xI", channels, sample_bits, rate_hz << 16), *boxes)


def vpcc(record: bytes) -> bytes:
    """The configuration of VP9 by the six bytes of its record."""
    return full_box(b"vpcC", 1, 0, record[:6], bytes(2))


def esds(track_id: int, object_type: int, decoder_info: bytes) -> bytes:
    """The elementary stream descriptor of AAC or MP3, without bit rates."""
    info = _descriptor(_DECODER_INFO_TAG, decoder_info) if decoder_info else b""
    config = _descriptor(_DECODER_CONFIG_TAG, bytes((object_type, _AUDIO_STREAM)), bytes(11), info)
    sync = _descriptor(_SL_CONFIG_TAG, _PREDEFINED_FOR_FILES)
    return full_box(b"esds", 0, 0, _descriptor(_ES_TAG, track_id.to_bytes(2, "big"), bytes(1), config, sync))


def opus_head_bytes(head: bytes) -> int:
    """How long an ID header is: with a mapping family, it has a table of its channels."""
    has_table = len(head) >= _OPUS_HEAD_BYTES and head[18]
    return _OPUS_HEAD_BYTES + (2 + head[9] if has_table else 0)


def dops(head: bytes) -> bytes:
    """The configuration of Opus by its ID header, whose numbers are little-endian."""
    channels = head[9]
    pre_skip, input_rate_hz = int.from_bytes(head[10:12], "little"), int.from_bytes(head[12:16], "little")
    gain = int.from_bytes(head[16:18], "little")
    family = head[18]
    mapping = head[_OPUS_HEAD_BYTES : opus_head_bytes(head)]
    return box(b"dOps", pack(">BBHIHB", 0, channels, pre_skip, input_rate_hz, gain, family), mapping)


def dfla(streaminfo: bytes) -> bytes:
    """The configuration of FLAC: its STREAMINFO block, as the last one."""
    return full_box(b"dfLa", 0, 0, _LAST_STREAMINFO_BLOCK, streaminfo)


def dac3(setup: Ac3Setup) -> bytes:
    """The configuration of AC-3."""
    fields = setup.rate_code
    for value, width in (
        (setup.bitstream_id, 5),
        (setup.bitstream_mode, 3),
        (setup.channel_mode, 3),
        (setup.has_lfe, 1),
        (setup.bit_rate_code, 5),
        (0, 5),
    ):
        fields = fields << width | value
    return box(b"dac3", fields.to_bytes(3, "big"))


def dec3(setup: Eac3Setup) -> bytes:
    """The configuration of E-AC-3. The bitstream mode is always that of a complete main service."""
    fields = setup.data_rate_kbps & 0x1FFF
    width_bits = 13
    values: list[tuple[int, int]] = [(len(setup.substreams) - 1, 3)]
    for substream in setup.substreams:
        values += [(substream.rate_code, 2), (substream.bitstream_id, 5), (0, 1 + 1 + 3)]
        values += [(substream.channel_mode, 3), (substream.has_lfe, 1), (0, 3), (substream.dependent_substreams, 4)]
        values.append((substream.channel_locations, 9) if substream.dependent_substreams else (0, 1))
    for value, width in values:
        fields = fields << width | value
        width_bits += width
    return box(b"dec3", (fields << (-width_bits % 8)).to_bytes((width_bits + 7) // 8, "big"))


def _descriptor(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    # The long form, which FFmpeg writes too: seven bits a byte, all but the last with a mark.
    marks = bytes(0x80 | size >> shift & 0x7F for shift in (21, 14, 7))
    return bytes((tag,)) + marks + bytes((size & 0x7F,)) + body
