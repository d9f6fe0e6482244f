"""AAC set-up: AudioSpecificConfig (ISO 14496-3, sections 1.6.2.1 and 4.4.1).

Tells the object type, spectral band replication and parametric stereo by explicit signalling (both forms), rate and
channels; implicit signalling shows in the frames alone, so such a stream counts as AAC-LC at its core rate. Damage is
`MalformedMedia`.
"""

from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.bits import BitReader
from penstock.media.codecs import AudioCodec
from penstock.media.setup_record import AudioSetup

_LAYER: Final = "AAC set-up"

_RATES_HZ = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)
_EXPLICIT_RATE = 15
_CHANNELS_BY_CONFIG = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 8, 11: 7, 12: 8, 13: 24, 14: 8}

_ESCAPED_OBJECT_TYPE = 31
_AAC_SCALABLE = 6
_SBR = 5
_PS = 29
_OBJECT_TYPES_WITH_GA_CONFIG = frozenset({1, 2, 3, 4, 6, 7, 17, 19, 20, 21, 22, 23})
_SBR_SYNC_EXTENSION = 0x2B7
_PS_SYNC_EXTENSION = 0x548

_PROFILES = {
    1: "AAC Main",
    2: "AAC-LC",
    3: "AAC-SSR",
    4: "AAC-LTP",
    17: "ER AAC-LC",
    23: "AAC-LD",
    39: "AAC-ELD",
    42: "xHE-AAC",
}


def read_aac_setup(record: bytes) -> AudioSetup:
    """Read an AudioSpecificConfig."""
    bits = BitReader(_LAYER, record)
    object_type = _read_object_type(bits)
    sample_rate_hz = _read_rate_hz(bits)
    channel_config = bits.read(4)
    has_sbr, has_ps = object_type in (_SBR, _PS), object_type == _PS
    if has_sbr:
        sample_rate_hz = _read_rate_hz(bits)
        object_type = _read_object_type(bits)

    channels = _CHANNELS_BY_CONFIG.get(channel_config)
    if object_type in _OBJECT_TYPES_WITH_GA_CONFIG:
        listed_channels = _read_ga_config(bits, object_type, channel_config)
        channels = listed_channels if channel_config == 0 else channels
        if not has_sbr:
            extension_rate_hz, has_ps = _read_sync_extension(bits)
            has_sbr = extension_rate_hz is not None
            sample_rate_hz = extension_rate_hz or sample_rate_hz
    if channel_config and channels is None:
        raise MalformedMedia(_LAYER, f"channel configuration {channel_config}")
    return AudioSetup(
        codec=AudioCodec.AAC,
        profile=_profile_name(object_type, has_sbr, has_ps),
        sample_rate_hz=sample_rate_hz,
        # Parametric stereo is sent as one channel and sounds as two.
        channels=2 if has_ps and channels == 1 else channels,
    )


def _profile_name(object_type: int, has_sbr: bool, has_ps: bool) -> str:
    if has_ps:
        return "HE-AACv2"
    if has_sbr:
        return "HE-AAC"
    return _PROFILES.get(object_type, f"AAC object type {object_type}")


def _read_object_type(bits: BitReader) -> int:
    object_type = bits.read(5)
    if object_type == _ESCAPED_OBJECT_TYPE:
        object_type = 32 + bits.read(6)
    if object_type == 0:
        raise MalformedMedia(_LAYER, "object type 0")
    return object_type


def _read_rate_hz(bits: BitReader) -> int:
    index = bits.read(4)
    if index == _EXPLICIT_RATE:
        rate_hz = bits.read(24)
        if rate_hz == 0:
            raise MalformedMedia(_LAYER, "sample rate 0")
        return rate_hz
    if index >= len(_RATES_HZ):
        raise MalformedMedia(_LAYER, f"sample rate index {index}")
    return _RATES_HZ[index]


def _read_ga_config(bits: BitReader, object_type: int, channel_config: int) -> int | None:
    """Skip the general audio configuration; the channels of its program config element, if it has one."""
    bits.skip(1)  # frameLengthFlag
    if bits.flag():
        bits.skip(14)  # coreCoderDelay
    has_extension = bits.flag()
    channels = _read_program_config(bits) if channel_config == 0 else None
    if object_type in (_AAC_SCALABLE, 20):
        bits.skip(3)  # layerNr
    if has_extension:
        if object_type == 22:
            bits.skip(16)  # numOfSubFrame, layer_length
        if object_type in (17, 19, 20, 23):
            bits.skip(3)  # the three resilience flags
        bits.skip(1)  # extensionFlag3
    return channels


def _read_program_config(bits: BitReader) -> int:
    bits.skip(4 + 2 + 4)  # element_instance_tag, object_type, sampling_frequency_index
    front, side, back = bits.read(4), bits.read(4), bits.read(4)
    low_frequency, associated_data, coupling = bits.read(2), bits.read(3), bits.read(4)
    for mixdown_bits in (4, 4, 3):  # mono, stereo, matrix
        if bits.flag():
            bits.skip(mixdown_bits)
    channels = low_frequency
    for _ in range(front + side + back):
        channels += 2 if bits.flag() else 1
        bits.skip(4)  # element_tag_select
    bits.skip(4 * low_frequency + 4 * associated_data + 5 * coupling)
    bits.align()
    bits.skip(8 * bits.read(8))  # comment_field
    return channels


def _read_sync_extension(bits: BitReader) -> tuple[int | None, bool]:
    """Rate by the backward compatible form that old decoders do not see, and whether there is parametric stereo."""
    if bits.bits_left < 16 or bits.read(11) != _SBR_SYNC_EXTENSION or bits.read(5) != _SBR:
        return None, False
    if bits.bits_left < 1 or not bits.flag():
        return None, False
    rate_hz = _read_rate_hz(bits)
    has_ps = bits.bits_left >= 12 and bits.read(11) == _PS_SYNC_EXTENSION and bits.flag()
    return rate_hz, has_ps
