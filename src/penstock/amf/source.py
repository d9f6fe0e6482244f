"""The bytes being read, the place in them, and what the reader may still spend.

Shared by the readers of AMF0 and AMF3, because an AMF0 value may hold an AMF3 one: both then draw on one budget. Owns
every bound: no count or length from the wire is believed before its bytes are seen, and a reference costs what a second
copy of its value would have cost, in items, bytes and depth, so that no short payload stands for a huge value.
"""

from typing import NamedTuple

from penstock.amf.values import AmfLimits, AmfValue
from penstock.errors import MalformedAmf, MisuseError


class Complex:
    """A value that can be referred to, from its first byte on: an entry of a reference table.

    The `_before` figures are those of the source when the value was opened; the rest is known once it is closed.
    """

    __slots__ = (
        "deepest_before",
        "height",
        "is_closed",
        "items",
        "items_before",
        "size_bytes",
        "spent_before",
        "value",
    )

    def __init__(self, items_before: int, spent_before: int, deepest_before: int) -> None:
        self.items_before = items_before
        self.spent_before = spent_before
        self.deepest_before = deepest_before
        self.is_closed = False
        self.value: AmfValue = None
        self.items = self.size_bytes = self.height = 0


class SizedText(NamedTuple):
    """A string and the number of bytes that it took on the wire."""

    text: str
    size_bytes: int


class Traits(NamedTuple):
    """The shape of an AMF3 class (AMF 3, section 3.12)."""

    class_name: str
    names: tuple[str, ...]
    is_dynamic: bool
    is_externalizable: bool
    size_bytes: int


class Source:
    """One payload under one budget. The reference tables live as long as it does."""

    __slots__ = (
        "amf0_complexes",
        "amf3_complexes",
        "amf3_strings",
        "amf3_traits",
        "data",
        "deepest",
        "depth",
        "end",
        "is_lenient",
        "is_unreadable",
        "items_left",
        "layer",
        "limits",
        "pos",
        "repeated_bytes",
    )

    def __init__(
        self, layer: str, data: bytes | memoryview, offset: int, limits: AmfLimits, *, is_lenient: bool = False
    ) -> None:
        if offset < 0:
            raise MisuseError(f"{layer}: offset {offset} is negative")
        self.layer = layer
        self.data = data
        self.pos = offset
        self.end = len(data)
        self.limits = limits
        self.is_lenient = is_lenient
        """Whether a reference that stands for nothing is null."""
        self.is_unreadable = False
        """Whether a value came of which nobody can tell where it ends."""
        self.items_left = limits.max_items
        self.repeated_bytes = 0
        self.depth = 0
        self.deepest = 0
        self.amf0_complexes: list[Complex] = []
        self.amf3_complexes: list[Complex] = []
        self.amf3_strings: list[SizedText] = []
        self.amf3_traits: list[Traits] = []
        if offset > self.end:
            raise MalformedAmf(layer, f"data ends at {self.end}, before the value at offset {offset}")

    def malformed(self, detail: str) -> MalformedAmf:
        return MalformedAmf(self.layer, f"{detail} at offset {self.pos}")

    def unreadable(self, detail: str) -> MalformedAmf:
        """The error for a value that nobody can read, nor anything after it."""
        self.is_unreadable = True
        return self.malformed(detail)

    def short(self, size_bytes: int) -> MalformedAmf:
        return self.malformed(f"{size_bytes} bytes wanted of {self.end - self.pos} left")

    def take(self, size_bytes: int) -> int:
        """Step over bytes that are there and give the offset of the first."""
        start = self.pos
        if size_bytes > self.end - start:
            raise self.short(size_bytes)
        self.pos = start + size_bytes
        return start

    def take_text(self, size_bytes: int) -> str:
        start = self.pos
        stop = start + size_bytes
        if stop > self.end:
            raise self.short(size_bytes)
        self.pos = stop
        return str(self.data[start:stop], "utf-8", "surrogateescape")

    def expect(self, count: int, min_size_bytes: int) -> None:
        """Refuse a count of elements that the bytes left cannot hold."""
        if count * min_size_bytes > self.end - self.pos:
            raise self.malformed(f"{count} elements announced with {self.end - self.pos} bytes left")

    def charge_items(self, count: int) -> None:
        self.items_left -= count
        if self.items_left < 0:
            raise self.malformed(f"more than {self.limits.max_items} items")

    def charge_repeated(self, size_bytes: int) -> None:
        self.repeated_bytes += size_bytes
        if self.repeated_bytes > self.limits.max_repeated_bytes:
            raise self.malformed(f"references repeat more than {self.limits.max_repeated_bytes} bytes")

    def reach(self, depth: int) -> None:
        if depth > self.limits.max_depth:
            raise self.malformed(f"nesting deeper than {self.limits.max_depth}")
        self.deepest = max(self.deepest, depth)

    def open(self, table: list[Complex]) -> Complex:
        """Enter a container. It takes its place in the table before its members take theirs."""
        entry = Complex(self.items_left, self.pos + self.repeated_bytes, self.deepest)
        table.append(entry)
        self.depth += 1
        self.deepest = 0
        self.reach(self.depth)
        return entry

    def close(self, entry: Complex, value: AmfValue) -> None:
        entry.value = value
        entry.is_closed = True
        entry.items = entry.items_before - self.items_left
        entry.size_bytes = self.pos + self.repeated_bytes - entry.spent_before
        self.depth -= 1
        entry.height = self.deepest - self.depth
        self.deepest = max(self.deepest, entry.deepest_before)

    def remember(self, table: list[Complex], start: int, value: AmfValue) -> None:
        """Enter a value without members, read from `start` on, in the table."""
        entry = Complex(self.items_left, start + self.repeated_bytes, self.deepest)
        table.append(entry)
        entry.value = value
        entry.is_closed = True
        entry.size_bytes = self.pos - start

    def recall(self, table: list[Complex], index: int) -> AmfValue:
        """What a reference stands for, paid for once more."""
        if self.is_lenient and (index >= len(table) or not table[index].is_closed):
            return None
        if index >= len(table):
            raise self.malformed(f"reference {index} into a table of {len(table)}")
        entry = table[index]
        if not entry.is_closed:
            raise self.malformed(f"reference {index} to a value from within itself")
        self.charge_items(entry.items)
        self.charge_repeated(entry.size_bytes)
        self.reach(self.depth + entry.height)
        return entry.value
