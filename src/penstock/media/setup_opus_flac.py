"""Opus and FLAC set-up: the Opus ID header (RFC 7845, section 5.1) and FLAC's STREAMINFO (RFC 9639, section 8.2).

Damage is `MalformedMedia`.
"""

from typing import Final

from penstock.errors import MalformedMedia
from penstock.media.bits import BitReader
from penstock.media.codecs import AudioCodec
from penstock.media.setup_record import AudioSetup

_OPUS_LAYER: Final = "Opus set-up"
_FLAC_LAYER: Final = "FLAC set-up"

_OPUS_MAGIC = b"OpusHead"
_OPUS_BYTES = 19
# Opus always decodes at this rate; the rate in the header is that of the recording it was made from.
_OPUS_RATE_HZ = 48000

_FLAC_MAGIC = b"fLaC"
_FLAC_STREAMINFO = 0
_FLAC_STREAMINFO_BYTES = 34
# The marker, then type and size of the block.
_FLAC_HEADER_BYTES = 8


def read_opus_setup(record: bytes) -> AudioSetup:
    """Read an ID header. It may be left out: the channels are then in the multichannel config or in the packets."""
    if not record:
        return AudioSetup(AudioCodec.OPUS, sample_rate_hz=_OPUS_RATE_HZ)
    if len(record) < _OPUS_BYTES or not record.startswith(_OPUS_MAGIC):
        raise MalformedMedia(_OPUS_LAYER, f"no ID header in {len(record)} bytes")
    version, channels = record[8], record[9]
    # Versions that share the upper four bits are compatible by the RFC.
    if version > 15 or channels == 0:
        raise MalformedMedia(_OPUS_LAYER, f"version {version} with {channels} channels")
    return AudioSetup(AudioCodec.OPUS, sample_rate_hz=_OPUS_RATE_HZ, channels=channels)


def flac_streaminfo(record: bytes) -> bytes:
    """The STREAMINFO out of a record, without its header."""
    # FFmpeg 8.1 sends it bare, without the marker and the header that Enhanced RTMP asks for.
    if len(record) == _FLAC_STREAMINFO_BYTES and not record.startswith(_FLAC_MAGIC):
        return record
    if not record.startswith(_FLAC_MAGIC):
        raise MalformedMedia(_FLAC_LAYER, f"no marker in {len(record)} bytes")
    bits = BitReader(_FLAC_LAYER, record[4:])
    bits.skip(1)  # last-block flag
    block_type, size = bits.read(7), bits.read(24)
    if block_type != _FLAC_STREAMINFO or size != _FLAC_STREAMINFO_BYTES:
        raise MalformedMedia(_FLAC_LAYER, f"metadata block of type {block_type} and {size} bytes")
    return record[_FLAC_HEADER_BYTES : _FLAC_HEADER_BYTES + _FLAC_STREAMINFO_BYTES]


def read_flac_setup(record: bytes) -> AudioSetup:
    """Read the marker and the STREAMINFO block with its header."""
    bits = BitReader(_FLAC_LAYER, flac_streaminfo(record))
    bits.skip(16 + 16 + 24 + 24)  # smallest and largest block, smallest and largest frame
    sample_rate_hz, channels, bit_depth = bits.read(20), bits.read(3) + 1, bits.read(5) + 1
    bits.skip(36 + 128)  # sample count, MD5
    if sample_rate_hz == 0:
        raise MalformedMedia(_FLAC_LAYER, "sample rate 0")
    return AudioSetup(AudioCodec.FLAC, sample_rate_hz=sample_rate_hz, channels=channels, bit_depth=bit_depth)
