"""AMF0 (Adobe's AMF 0 specification, 2007): values to bytes and back.

Reads every marker but the two reserved ones (MovieClip, RecordSet), which nobody can write; 0x11 holds one AMF3 value,
after which AMF0 goes on. Refuses with MalformedAmf: a payload that ends too early, an unknown marker, a reference to
nothing or into a loop, and a value past the limits.

What real encoders do, and what is done about it:

- The count of an ECMA array is often wrong: members are read up to the end marker, and the count decides nothing. One
  exception: where the payload ends after exactly the announced number of members (at least one), the outermost array is
  complete without an end marker; some writers leave it out. Fewer or more members, or an object, and it is refused.
- An empty name is the end only when the end marker follows it. Otherwise it is a member with an empty name.
- Any byte but 0 is true.

A reference counts objects, typed objects, ECMA and strict arrays (section 2.9) from 0, in the order in which they
begin, through the whole payload.

Everything that a reader gives within the default limits can be written. Byte arrays exist in AMF3 only and are
written as an AMF3 value behind 0x11. The writer sends no references.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from penstock.amf import amf3, amf3_writer
from penstock.amf.sink import Sink
from penstock.amf.source import Source
from penstock.amf.values import (
    DEFAULT_LIMITS,
    MAX_NAME_BYTES,
    UNDEFINED,
    UNSUPPORTED,
    AmfDate,
    AmfLimits,
    AmfValue,
    AmfXml,
    EcmaArray,
    TypedObject,
)
from penstock.errors import MalformedAmf

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_DOUBLE: Final = struct.Struct(">d")
_DATE: Final = struct.Struct(">dh")
_MAX_LONG_BYTES: Final = 0xFFFFFFFF
_OBJECT_MARKER: Final = 0x03
_ECMA_ARRAY_MARKER: Final = 0x08
_END_MARKER: Final = 0x09
_AMF3_MARKER: Final = 0x11


def read_amf0_values(data: bytes | memoryview, offset: int = 0, limits: AmfLimits = DEFAULT_LIMITS) -> list[AmfValue]:
    """All values from `offset` to the end of the data, under one budget."""
    source = Source("amf0", data, offset, limits)
    values = []
    while source.pos < source.end:
        values.append(_read_value(source))
    return values


def read_amf0_value(
    data: bytes | memoryview, offset: int = 0, limits: AmfLimits = DEFAULT_LIMITS
) -> tuple[AmfValue, int]:
    """The value at `offset`, and the offset of what follows it."""
    source = Source("amf0", data, offset, limits)
    return _read_value(source), source.pos


class LenientValues(NamedTuple):
    """What could be read, and how many values that took, those inside others with them."""

    values: list[AmfValue]
    items: int


def read_amf0_leniently(data: bytes | memoryview, offset: int = 0, limits: AmfLimits = DEFAULT_LIMITS) -> LenientValues:
    """As `read_amf0_values`, but what cannot be decoded costs no more than it must.

    A reference to an enclosing value, or to none, is null. A marker that begins no value ends the reading, since nobody
    can tell where the next one begins: what came before it counts, also the members that an outermost object or ECMA
    array had by then. Data that ends too early and a value past the limits are refused all the same.
    """
    source = Source("amf0", data, offset, limits, is_lenient=True)
    values: list[AmfValue] = []
    try:
        while source.pos < source.end:
            _read_outermost(source, values)
    except MalformedAmf:
        if not source.is_unreadable:
            raise
    return LenientValues(values, limits.max_items - source.items_left)


def _read_outermost(source: Source, values: list[AmfValue]) -> None:
    """The next value, which is among the values before its members are read if it has named ones."""
    marker = source.data[source.pos]
    if marker == _OBJECT_MARKER:
        members: dict[str, AmfValue] = {}
        read_members = _read_object
    elif marker == _ECMA_ARRAY_MARKER:
        members = EcmaArray()
        read_members = _read_ecma_array
    else:
        values.append(_read_value(source))
        return
    source.take(1)
    source.charge_items(1)
    values.append(members)
    read_members(source, members)


def write_amf0_values(*values: AmfValue) -> bytes:
    """The values, one after the other."""
    sink = Sink("amf0")
    for value in values:
        _write_value(sink, value)
    return bytes(sink.out)


def _read_value(source: Source) -> AmfValue:
    marker = source.data[source.take(1)]
    source.charge_items(1)
    return _READERS[marker](source) if marker <= _AMF3_MARKER else _refuse_marker(source)


def _refuse_marker(source: Source) -> NoReturn:
    source.pos -= 1
    raise source.unreadable(f"marker 0x{source.data[source.pos]:02x} begins no value")


def _read_number(source: Source) -> float:
    number: float
    (number,) = _DOUBLE.unpack_from(source.data, source.take(8))
    return number


def _read_boolean(source: Source) -> bool:
    return source.data[source.take(1)] != 0


def _read_string(source: Source) -> str:
    (size_bytes,) = _U16.unpack_from(source.data, source.take(2))
    return source.take_text(size_bytes)


def _read_long_string(source: Source) -> str:
    (size_bytes,) = _U32.unpack_from(source.data, source.take(4))
    return source.take_text(size_bytes)


def _read_object(source: Source, members: dict[str, AmfValue]) -> dict[str, AmfValue]:
    entry = source.open(source.amf0_complexes)
    _read_members(source, members, None)
    source.close(entry, members)
    return members


def _read_ecma_array(source: Source, members: dict[str, AmfValue]) -> dict[str, AmfValue]:
    entry = source.open(source.amf0_complexes)
    (count,) = _U32.unpack_from(source.data, source.take(4))
    _read_members(source, members, count if source.depth == 1 and count > 0 else None)
    source.close(entry, members)
    return members


def _read_typed_object(source: Source) -> TypedObject:
    entry = source.open(source.amf0_complexes)
    typed = TypedObject(_read_string(source), {})
    _read_members(source, typed.members, None)
    source.close(entry, typed)
    return typed


def _read_members(source: Source, members: dict[str, AmfValue], unmarked_count: int | None) -> None:
    """Members up to the end marker, or to the end of the data if just `unmarked_count` of them came before it."""
    data = source.data
    count = 0
    while True:
        if count == unmarked_count and source.pos == source.end:
            return
        name = _read_string(source)
        if not name and source.pos < source.end and data[source.pos] == _END_MARKER:
            source.pos += 1
            return
        members[name] = _read_value(source)
        count += 1


def _read_strict_array(source: Source) -> list[AmfValue]:
    entry = source.open(source.amf0_complexes)
    (count,) = _U32.unpack_from(source.data, source.take(4))
    source.expect(count, 1)
    elements = [_read_value(source) for _ in range(count)]
    source.close(entry, elements)
    return elements


def _read_reference(source: Source) -> AmfValue:
    (index,) = _U16.unpack_from(source.data, source.take(2))
    return source.recall(source.amf0_complexes, index)


def _read_date(source: Source) -> AmfDate:
    return AmfDate(*_DATE.unpack_from(source.data, source.take(10)))


def _read_xml(source: Source) -> AmfXml:
    return AmfXml(_read_long_string(source))


def _read_amf3(source: Source) -> AmfValue:
    source.layer = "amf3"
    value = amf3.read_value(source)
    source.layer = "amf0"
    return value


_READERS: Final[tuple[Callable[[Source], AmfValue], ...]] = (
    _read_number,
    _read_boolean,
    _read_string,
    lambda source: _read_object(source, {}),
    _refuse_marker,  # MovieClip
    lambda _source: None,
    lambda _source: UNDEFINED,
    _read_reference,
    lambda source: _read_ecma_array(source, EcmaArray()),
    _refuse_marker,  # an end marker without the empty name before it
    _read_strict_array,
    _read_date,
    _read_long_string,
    lambda _source: UNSUPPORTED,
    _refuse_marker,  # RecordSet
    _read_xml,
    _read_typed_object,
    _read_amf3,
)


def _write_value(sink: Sink, value: AmfValue) -> None:
    out = sink.out
    if isinstance(value, str):
        _write_string(sink, value)
    elif isinstance(value, bool):  # before int, which it is too
        out += b"\x01\x01" if value else b"\x01\x00"
    elif isinstance(value, float | int):
        out.append(0x00)
        sink.put_double(value)
    elif value is None:
        out.append(0x05)
    elif isinstance(value, EcmaArray):
        out += b"\x08" + _U32.pack(len(value))
        _write_members(sink, value)
    elif isinstance(value, dict):
        out.append(0x03)
        _write_members(sink, value)
    elif isinstance(value, list):
        _write_strict_array(sink, value)
    elif value is UNDEFINED:
        out.append(0x06)
    elif value is UNSUPPORTED:
        out.append(0x0D)
    elif isinstance(value, TypedObject):
        out.append(0x10)
        _write_name(sink, value.class_name)
        _write_members(sink, value.members)
    elif isinstance(value, AmfDate):
        _write_date(sink, value)
    elif isinstance(value, AmfXml):
        out.append(0x0F)
        _write_long_text(sink, sink.encoded(value.text, _MAX_LONG_BYTES))
    elif isinstance(value, bytes):
        out.append(_AMF3_MARKER)
        amf3_writer.write_value(sink, value)
    else:
        raise sink.misuse(f"no marker for a {type(value).__name__}")


def _write_string(sink: Sink, text: str) -> None:
    data = sink.encoded(text, _MAX_LONG_BYTES)
    if len(data) <= 0xFFFF:
        sink.out += b"\x02" + _U16.pack(len(data)) + data
    else:
        sink.out.append(0x0C)
        _write_long_text(sink, data)


def _write_long_text(sink: Sink, data: bytes) -> None:
    sink.out += _U32.pack(len(data))
    sink.out += data


def _write_name(sink: Sink, name: str) -> None:
    data = sink.encoded(name, MAX_NAME_BYTES)
    sink.out += _U16.pack(len(data)) + data


def _write_members(sink: Sink, members: dict[str, AmfValue]) -> None:
    sink.enter()
    for name, member in members.items():
        _write_name(sink, name)
        _write_value(sink, member)
    sink.out += b"\x00\x00\x09"
    sink.leave()


def _write_strict_array(sink: Sink, elements: list[AmfValue]) -> None:
    sink.enter()
    sink.out += b"\x0a" + _U32.pack(len(elements))
    for element in elements:
        _write_value(sink, element)
    sink.leave()


def _write_date(sink: Sink, date: AmfDate) -> None:
    if not -0x8000 <= date.zone_minutes <= 0x7FFF:
        raise sink.misuse(f"time zone of {date.zone_minutes} minutes")
    sink.out.append(0x0B)
    sink.put_double(date.epoch_ms)
    sink.out += date.zone_minutes.to_bytes(2, "big", signed=True)
