"""What an AMF value is in Python, and how much of one we are willing to read.

Owns the types that AMF has and Python lacks, the bounds of the readers, and the one way to show foreign text. Knows no
bytes. Numbers, booleans, strings, null and byte arrays are Python's own; an anonymous object is a `dict` and a strict
array a `list`.

Text is decoded as UTF-8 with `surrogateescape`: encoders do send names in other encodings, and those bytes have to come
out again as they went in. Such a string can be compared and written back as AMF; it cannot be logged or put in JSON.
`printable` makes a version that can.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from penstock.errors import MisuseError

# A reader takes four Python frames per level, and the interpreter stops at 1000 of them, the caller's included.
DEPTH_CEILING: Final = 100
MAX_NAME_BYTES: Final = 0xFFFF


class Undefined(Enum):
    """The type of ActionScript's `undefined`, which is not null."""

    UNDEFINED = "undefined"


class Unsupported(Enum):
    """The type of AMF0's marker for a value that its writer could not write."""

    UNSUPPORTED = "unsupported"


UNDEFINED: Final = Undefined.UNDEFINED
UNSUPPORTED: Final = Unsupported.UNSUPPORTED


class EcmaArray(dict[str, "AmfValue"]):
    """An associative array. A dict that is written as an array again, since some players look at the marker."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AmfDate:
    """A moment. The specification tells readers to ignore the zone; it is kept to be written back. AMF3 has none."""

    epoch_ms: float
    zone_minutes: int = 0


@dataclass(frozen=True, slots=True)
class AmfXml:
    """An XML document as text, never parsed."""

    text: str


@dataclass(frozen=True, slots=True)
class TypedObject:
    """An object of a named class."""

    class_name: str
    members: dict[str, "AmfValue"]


AmfValue: TypeAlias = (
    "float | int | bool | str | bytes | dict[str, AmfValue] | EcmaArray | list[AmfValue] | AmfDate | AmfXml"
    " | TypedObject | Undefined | Unsupported | None"
)


@dataclass(frozen=True, slots=True)
class AmfLimits:
    """Bounds of one call of a reader.

    `max_depth` counts containers inside each other. `max_items` counts values; what a reference stands for counts each
    time. `max_repeated_bytes` bounds the text and data that references repeat, so that a value that was read as AMF0 is
    written in no more than its own bytes and this. An item that came as AMF3 may take 16 bytes more, since AMF0 has no
    short numbers and writes each name out.
    """

    max_depth: int = 32
    max_items: int = 16 * 1024
    max_repeated_bytes: int = 64 * 1024

    def __post_init__(self) -> None:
        if not 0 <= self.max_depth <= DEPTH_CEILING:
            raise MisuseError(f"amf: max_depth {self.max_depth} is not within 0 and {DEPTH_CEILING}")


DEFAULT_LIMITS: Final = AmfLimits()


_PARTS_OF_WORDS: Final = frozenset("\u200c\u200d\u3000")
"""The joiners of Persian and emoji, and the space of Japanese: Python calls them unprintable, and names have them."""


def printable(text: str) -> str:
    r"""The text on one line, safe for logs and JSON: what has no glyph is escaped, bytes that are no UTF-8 as \xNN."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _PARTS_OF_WORDS else _escaped(ord(each)) for each in text)


def _escaped(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
