"""Bytes to AMF3 values (Adobe's AMF 3 specification, 2013).

Reads every marker. Refuses with MalformedAmf: a payload that ends too early, an unknown marker, a reference to nothing
or into a loop, an externalizable class whose body only its own code could read, and a value past the limits.

How AMF3's own types come out:

- Integers are `int`, doubles `float`. Vectors are lists; whether a vector is of fixed length and of which class is
  dropped. Both kinds of XML are `AmfXml`, a byte array is `bytes`.
- An array with named members is an `EcmaArray`: the named members in their order, then the dense part under "0", "1"
  and so on. One without is a list.
- An object of a named class is a `TypedObject`, an anonymous one a dict: sealed members first, then dynamic ones.
- A dictionary is a list of [key, value] lists, because its keys may be of any type.
- Flex's ArrayCollection and ObjectProxy are what they wrap.
- Member and class names are held to 65535 bytes, so that whatever was read can be written as AMF0.

The reference tables live as long as the payload: values behind several AMF0 markers 0x11 share them.
"""

import struct
from collections.abc import Callable
from typing import Final

from penstock.amf.source import SizedText, Source, Traits
from penstock.amf.values import (
    DEFAULT_LIMITS,
    MAX_NAME_BYTES,
    UNDEFINED,
    AmfDate,
    AmfLimits,
    AmfValue,
    AmfXml,
    EcmaArray,
    TypedObject,
    printable,
)

_DOUBLE: Final = struct.Struct(">d")
# Each has one AMF3 value as its body.
_TRANSPARENT_CLASSES: Final = frozenset({"flex.messaging.io.ArrayCollection", "flex.messaging.io.ObjectProxy"})


def read_amf3_value(
    data: bytes | memoryview, offset: int = 0, limits: AmfLimits = DEFAULT_LIMITS
) -> tuple[AmfValue, int]:
    """The value at `offset`, and the offset of what follows it."""
    source = Source("amf3", data, offset, limits)
    return read_value(source), source.pos


def read_value(source: Source) -> AmfValue:
    """The value at the source's place."""
    marker = source.data[source.take(1)]
    if marker >= len(_READERS):
        source.pos -= 1
        raise source.unreadable(f"marker 0x{marker:02x} begins no value")
    source.charge_items(1)
    return _READERS[marker](source)


def _read_u29(source: Source) -> int:
    """Seven bits a byte while the high bit is set; the fourth byte gives all its eight (section 1.3.1)."""
    number = 0
    for _ in range(3):
        byte = source.data[source.take(1)]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number
    return number << 8 | source.data[source.take(1)]


def _read_integer(source: Source) -> int:
    number = _read_u29(source)
    return number - 0x20000000 if number & 0x10000000 else number


def _read_double(source: Source) -> float:
    number: float
    (number,) = _DOUBLE.unpack_from(source.data, source.take(8))
    return number


def _read_sized_text(source: Source) -> SizedText:
    header = _read_u29(source)
    if not header & 1:
        index = header >> 1
        if index >= len(source.amf3_strings):
            raise source.malformed(f"string reference {index} into a table of {len(source.amf3_strings)}")
        sized = source.amf3_strings[index]
        source.charge_repeated(sized.size_bytes)
        return sized
    size_bytes = header >> 1
    sized = SizedText(source.take_text(size_bytes), size_bytes)
    if size_bytes:
        source.amf3_strings.append(sized)
    return sized


def _read_string(source: Source) -> str:
    return _read_sized_text(source).text


def _read_name(source: Source) -> str:
    name, size_bytes = _read_sized_text(source)
    if size_bytes > MAX_NAME_BYTES:
        raise source.malformed(f"name of {size_bytes} bytes where {MAX_NAME_BYTES} may be")
    return name


def _leaf(read_body: Callable[[Source, int], AmfValue]) -> Callable[[Source], AmfValue]:
    """The reader of a value without members that may come as a reference; the body is given the rest of the header."""

    def read(source: Source) -> AmfValue:
        start = source.pos
        header = _read_u29(source)
        if not header & 1:
            return source.recall(source.amf3_complexes, header >> 1)
        value = read_body(source, header >> 1)
        source.remember(source.amf3_complexes, start, value)
        return value

    return read


def _container(read_body: Callable[[Source, int], AmfValue]) -> Callable[[Source], AmfValue]:
    """The same for a value with members, which may hold references to others but not to itself."""

    def read(source: Source) -> AmfValue:
        header = _read_u29(source)
        if not header & 1:
            return source.recall(source.amf3_complexes, header >> 1)
        entry = source.open(source.amf3_complexes)
        value = read_body(source, header >> 1)
        source.close(entry, value)
        return value

    return read


@_leaf
def _read_date(source: Source, _header: int) -> AmfDate:
    return AmfDate(_read_double(source))


@_leaf
def _read_xml(source: Source, size_bytes: int) -> AmfXml:
    return AmfXml(source.take_text(size_bytes))


@_leaf
def _read_byte_array(source: Source, size_bytes: int) -> bytes:
    start = source.take(size_bytes)
    return bytes(source.data[start : source.pos])


@_container
def _read_array(source: Source, count: int) -> AmfValue:
    named = EcmaArray()
    _read_named_members(source, named)
    elements = _read_elements(source, count)
    if not named:
        return elements
    named.update((str(index), element) for index, element in enumerate(elements))
    return named


def _read_elements(source: Source, count: int) -> list[AmfValue]:
    source.expect(count, 1)
    return [read_value(source) for _ in range(count)]


def _read_named_members(source: Source, members: dict[str, AmfValue]) -> None:
    while name := _read_name(source):
        members[name] = read_value(source)


@_container
def _read_object(source: Source, header: int) -> AmfValue:
    traits = _read_traits(source, header)
    if traits.is_externalizable:
        if traits.class_name not in _TRANSPARENT_CLASSES:
            raise source.unreadable(f"externalizable class {printable(traits.class_name[:64])}")
        return read_value(source)
    members = {name: read_value(source) for name in traits.names}
    if traits.is_dynamic:
        _read_named_members(source, members)
    return TypedObject(traits.class_name, members) if traits.class_name else members


def _read_traits(source: Source, header: int) -> Traits:
    if not header & 1:
        index = header >> 1
        if index >= len(source.amf3_traits):
            raise source.malformed(f"traits reference {index} into a table of {len(source.amf3_traits)}")
        traits = source.amf3_traits[index]
        source.charge_repeated(traits.size_bytes)
        return traits
    spent_before = source.pos + source.repeated_bytes
    class_name = _read_name(source)
    is_externalizable = bool(header & 2)
    names: tuple[str, ...] = ()
    if not is_externalizable:
        count = header >> 3
        source.expect(count, 1)
        # Names are no values, but they take as much room: a class without instances must not be free.
        source.charge_items(count)
        names = tuple(_read_name(source) for _ in range(count))
    size_bytes = source.pos + source.repeated_bytes - spent_before
    traits = Traits(class_name, names, bool(header & 4), is_externalizable, size_bytes)
    source.amf3_traits.append(traits)
    return traits


def _plain_vector(code: str) -> Callable[[Source], AmfValue]:
    element_bytes = struct.calcsize(f">{code}")

    @_container
    def read(source: Source, count: int) -> list[AmfValue]:
        source.take(1)
        start = source.take(count * element_bytes)
        source.charge_items(count)
        return list(struct.unpack_from(f">{count}{code}", source.data, start))

    return read


@_container
def _read_object_vector(source: Source, count: int) -> list[AmfValue]:
    source.take(1)
    _read_string(source)
    return _read_elements(source, count)


@_container
def _read_dictionary(source: Source, count: int) -> list[AmfValue]:
    source.take(1)
    source.expect(count, 2)
    # The pairs are lists within the list: one level and one item each more than the wire has.
    source.charge_items(count)
    source.depth += 1
    source.reach(source.depth)
    pairs: list[AmfValue] = []
    for _ in range(count):
        key = read_value(source)
        pairs.append([key, read_value(source)])
    source.depth -= 1
    return pairs


_READERS: Final[tuple[Callable[[Source], AmfValue], ...]] = (
    lambda _source: UNDEFINED,
    lambda _source: None,
    lambda _source: False,
    lambda _source: True,
    _read_integer,
    _read_double,
    _read_string,
    _read_xml,
    _read_date,
    _read_array,
    _read_object,
    _read_xml,
    _read_byte_array,
    _plain_vector("i"),
    _plain_vector("I"),
    _plain_vector("d"),
    _read_object_vector,
    _read_dictionary,
)
