import pytest

from penstock.amf import (
    UNSUPPORTED,
    AmfDate,
    AmfLimits,
    AmfValue,
    EcmaArray,
    read_amf0_values,
    read_amf3_value,
    write_amf0_values,
    write_amf3_value,
)
from penstock.errors import MalformedAmf, MisuseError
from tests.amf.payloads import AMF3, Golden
from tests.amf.support import shape


@pytest.mark.parametrize("golden", AMF3, ids=str)
def test_a_payload_gives_its_value(golden: Golden) -> None:
    for data in (golden.data, memoryview(golden.data)):
        value, next_offset = read_amf3_value(data)
        assert shape([value]) == shape(golden.values)
        assert next_offset == len(data)


@pytest.mark.parametrize("golden", AMF3, ids=str)
def test_an_amf0_payload_may_hold_it(golden: Golden) -> None:
    assert shape(read_amf0_values(b"\x05\x11" + golden.data + b"\x05")) == shape([None, *golden.values, None])


@pytest.mark.parametrize("golden", [golden for golden in AMF3 if golden.is_ours], ids=str)
def test_a_value_gives_its_payload(golden: Golden) -> None:
    assert write_amf3_value(golden.values[0]) == golden.data


@pytest.mark.parametrize("golden", AMF3, ids=str)
def test_a_payload_cut_anywhere_is_refused(golden: Golden) -> None:
    for size_bytes in range(len(golden.data)):
        with pytest.raises(MalformedAmf, match=r"^amf3: .* at offset \d+$"):
            read_amf3_value(golden.data[:size_bytes])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("12", "marker 0x12 begins no value at offset 0"),
        ("04 8080", "1 bytes wanted of 0 left at offset 3"),
        ("06 FFFFFFFF 61", "268435455 bytes wanted of 1 left at offset 5"),
        ("0C FFFFFFFF 61", "268435455 bytes wanted of 1 left at offset 5"),
        ("06 00", "string reference 0 into a table of 0 at offset 2"),
        ("08 00", "reference 0 into a table of 0 at offset 2"),
        ("0A 01", "traits reference 0 into a table of 0 at offset 2"),
        ("09 FFFFFFFF 01 01", "268435455 elements announced with 1 bytes left at offset 6"),
        ("0A FFFFFFFB 01 01", "33554431 elements announced with 1 bytes left at offset 6"),
        ("0D FFFFFFFF 00", "1073741820 bytes wanted of 0 left at offset 6"),
        ("0E FFFFFFFF 00", "1073741820 bytes wanted of 0 left at offset 6"),
        ("0F FFFFFFFF 00", "2147483640 bytes wanted of 0 left at offset 6"),
        ("10 FFFFFFFF 00 01 01", "268435455 elements announced with 1 bytes left at offset 7"),
        ("11 FFFFFFFF 00 01", "268435455 elements announced with 1 bytes left at offset 6"),
        ("09 03 01 09 00", "reference 0 to a value from within itself at offset 5"),
        ("0A 0B 01 03 61 0A 00 01", "reference 0 to a value from within itself at offset 7"),
        ("10 03 00 01 10 00", "reference 0 to a value from within itself at offset 6"),
        ("11 03 00 01 11 00", "reference 0 to a value from within itself at offset 6"),
        ("0A 07 05 0A 42 01", "externalizable class \\x0aB at offset 5"),
    ],
)
def test_a_refusal_names_the_numbers_and_the_place(data: str, message: str) -> None:
    with pytest.raises(MalformedAmf) as refusal:
        read_amf3_value(bytes.fromhex(data))
    assert str(refusal.value) == f"amf3: {message}"


def test_a_reference_is_the_same_object() -> None:
    (value, _) = read_amf3_value(bytes.fromhex("09 05 01 0a 0b 01 01 0a 02"))
    assert isinstance(value, list)
    assert value[0] is value[1]


def test_an_object_without_members_may_be_sealed_and_anonymous() -> None:
    assert read_amf3_value(bytes.fromhex("0a 03 01")) == ({}, 3)


def test_a_member_name_is_held_to_what_amf0_can_write() -> None:
    longest = b"\x0a\x0b\x01" + b"\x87\xff\x7f" + b"k" * 65535 + b"\x01\x01"
    value, _ = read_amf3_value(longest)
    assert write_amf0_values(value) == b"\x03\xff\xff" + b"k" * 65535 + b"\x05\x00\x00\x09"
    with pytest.raises(MalformedAmf, match="name of 65536 bytes where 65535 may be"):
        read_amf3_value(b"\x0a\x0b\x01" + b"\x88\x80\x01" + b"k" * 65536 + b"\x01\x01")


def test_a_dictionary_takes_two_levels() -> None:
    data = bytes.fromhex("11 03 00 01 01")
    assert read_amf3_value(data, limits=AmfLimits(max_depth=2)) == ([[None, None]], 5)
    with pytest.raises(MalformedAmf, match="nesting deeper than 1 at offset 3"):
        read_amf3_value(data, limits=AmfLimits(max_depth=1))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (268435456, "05 41B0000000000000"),
        (-268435457, "05 C1B0000001000000"),
        (AmfDate(1.0, -300), "08 01 3FF0000000000000"),
        (EcmaArray(), "09 01 01"),
        ({"a": "b" * 64}, "0A 0B 01 03 61 06 8101 " + "62" * 64 + "01"),
    ],
)
def test_what_amf3_lacks_is_written_as_the_nearest(value: AmfValue, data: str) -> None:
    assert write_amf3_value(value) == bytes.fromhex(data)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (UNSUPPORTED, "no marker for a Unsupported"),
        ({"": None}, "member with an empty name"),
        (EcmaArray({"": None}), "member with an empty name"),
        ({"k" * 65536: None}, "text of 65536 bytes where 65535 fit"),
        (bytes(1 << 28), "268435456 bytes where 268435455 fit"),
        (10**400, "integer beyond the range of a double"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_amf3_cannot_say_is_misuse(value: AmfValue, message: str) -> None:
    with pytest.raises(MisuseError, match=f"^amf3: {message}$"):
        write_amf3_value(value)


def test_a_value_that_holds_itself_is_misuse() -> None:
    loop: list[AmfValue] = []
    loop.append(loop)
    with pytest.raises(MisuseError, match="deeper than 32"):
        write_amf3_value(loop)
