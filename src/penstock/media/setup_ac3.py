"""AC-3 and E-AC-3 set-up: there is none in RTMP, so it is read from the first sync frames (ETSI TS 102 366, sections
4.3.1, 4.3.2 and E.1.2.2).

Tells what the MP4 boxes of both codecs ask for. Reads the head of a frame and no further. Damage is `MalformedMedia`.
"""

from typing import Final, NamedTuple

from penstock.errors import MalformedMedia
from penstock.media.bits import BitReader

_AC3_LAYER: Final = "AC-3 frame"
_EAC3_LAYER: Final = "E-AC-3 frame"

_SYNC_WORD: Final = 0x0B77
_RATES_HZ: Final = (48000, 44100, 32000)
_HALF_RATES_HZ: Final = (24000, 22050, 16000)
_RESERVED_RATE: Final = 3
_CHANNELS_BY_MODE: Final = (2, 1, 2, 3, 3, 4, 4, 5)
_BLOCKS: Final = (1, 2, 3, 6)
_BLOCK_SAMPLES: Final = 256
_MAX_AC3_ID: Final = 10
_MAX_SIZE_CODE: Final = 37
_DEPENDENT: Final = 1
_HEAD_BYTES: Final = 16
# Eight independent substreams with eight dependent ones each.
_MAX_FRAMES: Final = 72


class Ac3Setup(NamedTuple):
    """One AC-3 stream, in the numbers of its own head."""

    rate_code: int
    bitstream_id: int
    bitstream_mode: int
    channel_mode: int
    has_lfe: bool
    bit_rate_code: int

    @property
    def sample_rate_hz(self) -> int:
        return _RATES_HZ[self.rate_code]

    @property
    def channels(self) -> int:
        return _CHANNELS_BY_MODE[self.channel_mode] + self.has_lfe


class Eac3Substream(NamedTuple):
    """One independent substream and what hangs on it. `channel_locations` are those of its dependent substreams."""

    rate_code: int
    bitstream_id: int
    channel_mode: int
    has_lfe: bool
    dependent_substreams: int
    channel_locations: int


class Eac3Setup(NamedTuple):
    """One E-AC-3 stream: its independent substreams, and the rate of all in kbit/s."""

    substreams: tuple[Eac3Substream, ...]
    data_rate_kbps: int
    sample_rate_hz: int

    @property
    def channels(self) -> int:
        first = self.substreams[0]
        return _CHANNELS_BY_MODE[first.channel_mode] + first.has_lfe


def read_ac3_setup(frame: bytes) -> Ac3Setup:
    """Read the head of the first sync frame."""
    bits = BitReader(_AC3_LAYER, frame[:_HEAD_BYTES])
    _read_sync_word(_AC3_LAYER, bits)
    bits.skip(16)  # crc1
    rate_code, size_code = bits.read(2), bits.read(6)
    bitstream_id, bitstream_mode, channel_mode = bits.read(5), bits.read(3), bits.read(3)
    if rate_code == _RESERVED_RATE or size_code > _MAX_SIZE_CODE or bitstream_id > _MAX_AC3_ID:
        raise MalformedMedia(_AC3_LAYER, f"rate {rate_code}, size {size_code}, bitstream id {bitstream_id}")
    if channel_mode & 1 and channel_mode != 1:
        bits.skip(2)  # cmixlev
    if channel_mode & 4:
        bits.skip(2)  # surmixlev
    if channel_mode == 2:
        bits.skip(2)  # dsurmod
    return Ac3Setup(rate_code, bitstream_id, bitstream_mode, channel_mode, bits.flag(), size_code >> 1)


def read_eac3_setup(sample: bytes) -> Eac3Setup:
    """Read the heads of all sync frames of the first sample."""
    substreams: list[Eac3Substream] = []
    bit_rate = 0.0
    sample_rate_hz = 0
    at = 0
    for _ in range(_MAX_FRAMES):
        if at >= len(sample):
            break
        bits = BitReader(_EAC3_LAYER, sample[at : at + _HEAD_BYTES])
        _read_sync_word(_EAC3_LAYER, bits)
        stream_type = bits.read(2)
        substream_id, size_bytes = bits.read(3), (bits.read(11) + 1) * 2
        rate_code = bits.read(2)
        half_rate_code = blocks_code = bits.read(2)
        if rate_code == _RESERVED_RATE:
            if half_rate_code == _RESERVED_RATE:
                raise MalformedMedia(_EAC3_LAYER, f"no rate at offset {at}")
            rate_hz, blocks = _HALF_RATES_HZ[half_rate_code], 6
        else:
            rate_hz, blocks = _RATES_HZ[rate_code], _BLOCKS[blocks_code]
        channel_mode, has_lfe, bitstream_id = bits.read(3), bits.flag(), bits.read(5)
        is_first_again = stream_type != _DEPENDENT and substream_id < len(substreams)
        if is_first_again:
            break  # The next access unit: some senders put more than one into a message.
        if stream_type != _DEPENDENT:
            substreams.append(Eac3Substream(rate_code, bitstream_id, channel_mode, has_lfe, 0, 0))
            sample_rate_hz = sample_rate_hz or rate_hz
        elif substreams:
            parent = substreams[-1]
            substreams[-1] = parent._replace(
                dependent_substreams=parent.dependent_substreams + 1,
                channel_locations=parent.channel_locations | _read_channel_locations(bits, channel_mode),
            )
        bit_rate += 8 * size_bytes * rate_hz / (blocks * _BLOCK_SAMPLES)
        at += size_bytes
    if not substreams:
        raise MalformedMedia(_EAC3_LAYER, f"no independent substream in {len(sample)} bytes")
    return Eac3Setup(tuple(substreams), int(bit_rate / 1000), sample_rate_hz)


def _read_sync_word(layer: str, bits: BitReader) -> None:
    sync_word = bits.read(16)
    if sync_word != _SYNC_WORD:
        raise MalformedMedia(layer, f"sync word {sync_word:#06x}")


def _read_channel_locations(bits: BitReader, channel_mode: int) -> int:
    """The channel map of a dependent substream in the nine bits of the MP4 box (TS 102 366, table F.1)."""
    for _ in range(2 if channel_mode == 0 else 1):
        bits.skip(5)  # dialnorm
        if bits.flag():
            bits.skip(8)  # compr
    if not bits.flag():
        return 0
    channel_map = bits.read(16)
    # Of the map, bit 15 is its first: Lc/Rc is its sixth, and eight locations follow each other there; LFE2 is apart.
    locations = sum(1 << index for index in range(8) if channel_map >> (10 - index) & 1)
    return locations | (channel_map >> 1 & 1) << 8
