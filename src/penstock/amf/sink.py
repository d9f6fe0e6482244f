"""The bytes being written, and the depth of the value that they are of.

The other end of `source`, shared by the writers of AMF0 and AMF3. What cannot be written is a mistake of our own
caller: MisuseError, never an error of the interpreter.
"""

import struct
from typing import Final

from penstock.amf.values import DEFAULT_LIMITS
from penstock.errors import MisuseError

_DOUBLE: Final = struct.Struct(">d")


class Sink:
    """One payload on its way out."""

    __slots__ = ("depth", "layer", "out")

    def __init__(self, layer: str) -> None:
        self.layer = layer
        self.out = bytearray()
        self.depth = 0

    def misuse(self, detail: str) -> MisuseError:
        return MisuseError(f"{self.layer}: {detail}")

    def enter(self) -> None:
        """Begin a container. A list that holds itself ends here too."""
        self.depth += 1
        if self.depth > DEFAULT_LIMITS.max_depth:
            raise self.misuse(f"value nested deeper than {DEFAULT_LIMITS.max_depth}")

    def leave(self) -> None:
        self.depth -= 1

    def put_double(self, number: float) -> None:
        try:
            self.out += _DOUBLE.pack(float(number))
        except OverflowError:
            raise self.misuse("integer beyond the range of a double") from None

    def encoded(self, text: str, max_size_bytes: int) -> bytes:
        try:
            data = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise self.misuse(f"text with a lone surrogate at {error.start}") from None
        if len(data) > max_size_bytes:
            raise self.misuse(f"text of {len(data)} bytes where {max_size_bytes} fit")
        return data
