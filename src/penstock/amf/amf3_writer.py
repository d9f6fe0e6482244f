"""AMF3 values to bytes (Adobe's AMF 3 specification, 2013): the part of AMF3 that we have a use for.

Sends no references, no vectors and no dictionaries, and each object as a dynamic one with its class written out. An
integer outside 29 bits becomes a double; a date loses its zone; lists and ECMA arrays are arrays, so that an empty ECMA
array reads back as a list. What AMF3 has no way to say is MisuseError: `UNSUPPORTED`, and a member with an empty name.
"""

from typing import Final

from penstock.amf.sink import Sink
from penstock.amf.values import MAX_NAME_BYTES, UNDEFINED, AmfDate, AmfValue, AmfXml, EcmaArray, TypedObject

_MAX_U28: Final = 0x0FFFFFFF


def write_amf3_value(value: AmfValue) -> bytes:
    """The value, marker first."""
    sink = Sink("amf3")
    write_value(sink, value)
    return bytes(sink.out)


def write_value(sink: Sink, value: AmfValue) -> None:
    """Append the value to the sink."""
    out = sink.out
    if value is UNDEFINED:
        out.append(0x00)
    elif value is None:
        out.append(0x01)
    elif isinstance(value, bool):  # before int, which it is too
        out.append(0x03 if value else 0x02)
    elif isinstance(value, int) and -0x10000000 <= value <= _MAX_U28:
        out.append(0x04)
        _write_u29(sink, value & 0x1FFFFFFF)
    elif isinstance(value, float | int):
        out.append(0x05)
        sink.put_double(value)
    elif isinstance(value, str):
        out.append(0x06)
        _write_counted(sink, sink.encoded(value, _MAX_U28))
    elif isinstance(value, AmfDate):
        out += b"\x08\x01"
        sink.put_double(value.epoch_ms)
    elif isinstance(value, EcmaArray):
        out += b"\x09\x01"
        _write_named_members(sink, value)
    elif isinstance(value, list):
        _write_dense_array(sink, value)
    elif isinstance(value, dict):
        out += b"\x0a\x0b\x01"
        _write_named_members(sink, value)
    elif isinstance(value, TypedObject):
        out += b"\x0a\x0b"
        _write_counted(sink, sink.encoded(value.class_name, MAX_NAME_BYTES))
        _write_named_members(sink, value.members)
    elif isinstance(value, AmfXml):
        out.append(0x0B)
        _write_counted(sink, sink.encoded(value.text, _MAX_U28))
    elif isinstance(value, bytes):
        out.append(0x0C)
        _write_counted(sink, value)
    else:
        raise sink.misuse(f"no marker for a {type(value).__name__}")


def _write_u29(sink: Sink, number: int) -> None:
    out = sink.out
    if number < 0x80:
        out.append(number)
    elif number < 0x4000:
        out += bytes((number >> 7 | 0x80, number & 0x7F))
    elif number < 0x200000:
        out += bytes((number >> 14 | 0x80, number >> 7 & 0x7F | 0x80, number & 0x7F))
    else:
        out += bytes((number >> 22 | 0x80, number >> 15 & 0x7F | 0x80, number >> 8 & 0x7F | 0x80, number & 0xFF))


def _write_counted(sink: Sink, data: bytes) -> None:
    if len(data) > _MAX_U28:
        raise sink.misuse(f"{len(data)} bytes where {_MAX_U28} fit")
    _write_u29(sink, len(data) << 1 | 1)
    sink.out += data


def _write_named_members(sink: Sink, members: dict[str, AmfValue]) -> None:
    sink.enter()
    for name, member in members.items():
        if not name:
            raise sink.misuse("member with an empty name")
        _write_counted(sink, sink.encoded(name, MAX_NAME_BYTES))
        write_value(sink, member)
    sink.out.append(0x01)
    sink.leave()


def _write_dense_array(sink: Sink, elements: list[AmfValue]) -> None:
    sink.enter()
    sink.out.append(0x09)
    _write_u29(sink, len(elements) << 1 | 1)
    sink.out.append(0x01)
    for element in elements:
        write_value(sink, element)
    sink.leave()
