"""Bits out of bytes, for headers that are not made of whole bytes.

Owns fixed-width fields, Exp-Golomb codes (H.264, section 9.1), leb128 (AV1, section 4.10.5) and the removal of
emulation prevention (H.264, section 7.4.1.1). Whatever runs past the end is `MalformedMedia` of the layer that asked.
"""

from penstock.errors import MalformedMedia

# A code of 32 zeros before the one would be a number above 2**32 - 2, which no syntax element reaches.
_MAX_LEADING_ZEROS = 31
_MAX_LEB128_BYTES = 8
# Sequence parameter sets have some 30 bytes, with all their scaling lists some hundreds.
MAX_PARAMETER_SET_BYTES = 1024


class BitReader:
    """Reads `data` from its first bit to its last. `layer` names the record in errors."""

    __slots__ = ("_at_bit", "_bits", "_data", "_layer")

    def __init__(self, layer: str, data: bytes) -> None:
        self._layer = layer
        self._data = data
        self._bits = len(data) * 8
        self._at_bit = 0

    @property
    def bits_left(self) -> int:
        return self._bits - self._at_bit

    def read(self, width: int) -> int:
        """An unsigned number of `width` bits."""
        start = self._at_bit
        end = start + width
        if end > self._bits:
            raise MalformedMedia(self._layer, f"{width} bits wanted at bit {start} of {self._bits}")
        self._at_bit = end
        chunk = int.from_bytes(self._data[start >> 3 : end + 7 >> 3], "big")
        return chunk >> (-end & 7) & ((1 << width) - 1)

    def flag(self) -> bool:
        return self.read(1) == 1

    def skip(self, width: int) -> None:
        if width > self._bits - self._at_bit:
            raise MalformedMedia(self._layer, f"{width} bits to skip at bit {self._at_bit} of {self._bits}")
        self._at_bit += width

    def align(self) -> None:
        """Go to the next whole byte, if not at one."""
        self._at_bit = self._at_bit + 7 & ~7

    def read_ue(self) -> int:
        """An unsigned Exp-Golomb code."""
        # The zeros are counted at once: a record of hundreds of long codes would take milliseconds bit by bit.
        width = min(_MAX_LEADING_ZEROS + 1, self.bits_left)
        zeros = width - self.read(width).bit_length()
        if zeros > _MAX_LEADING_ZEROS:
            raise MalformedMedia(self._layer, f"Exp-Golomb code too long at bit {self._at_bit} of {self._bits}")
        self._at_bit -= width - zeros
        return self.read(zeros + 1) - 1

    def read_se(self) -> int:
        """A signed Exp-Golomb code."""
        code = self.read_ue()
        return (code + 1) // 2 if code & 1 else -(code // 2)


def read_leb128(layer: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    """A little-endian base-128 number at offset `at`, and the offset after it."""
    value = 0
    for index in range(_MAX_LEB128_BYTES):
        if at >= end:
            raise MalformedMedia(layer, f"leb128 cut short at offset {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value, at
    raise MalformedMedia(layer, f"leb128 of more than {_MAX_LEB128_BYTES} bytes before offset {at}")


def remove_emulation_prevention(nal: bytes) -> bytes:
    """The raw bytes of a parameter set: encoders put a 3 after two zeros so that no start code appears inside.

    No more than the first `MAX_PARAMETER_SET_BYTES` are looked at.
    """
    return nal[:MAX_PARAMETER_SET_BYTES].replace(b"\x00\x00\x03", b"\x00\x00")
