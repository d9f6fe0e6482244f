import pytest

from penstock.amf import (
    UNDEFINED,
    AmfDate,
    AmfLimits,
    AmfValue,
    AmfXml,
    EcmaArray,
    TypedObject,
    read_amf0_value,
    read_amf0_values,
    write_amf0_values,
)
from penstock.errors import MalformedAmf, MisuseError
from tests.amf.payloads import AMF0, Golden
from tests.amf.support import shape


@pytest.mark.parametrize("golden", AMF0, ids=str)
def test_a_payload_gives_its_values(golden: Golden) -> None:
    assert shape(read_amf0_values(golden.data)) == shape(golden.values)
    assert shape(read_amf0_values(memoryview(golden.data))) == shape(golden.values)


@pytest.mark.parametrize("golden", [golden for golden in AMF0 if golden.is_ours], ids=str)
def test_values_give_their_payload(golden: Golden) -> None:
    assert write_amf0_values(*golden.values) == golden.data


def _may_lack_its_end(golden: Golden) -> bool:
    return isinstance(golden.values[-1], EcmaArray) and len(golden.values[-1]) > 0 and golden.is_ours


@pytest.mark.parametrize("golden", [golden for golden in AMF0 if len(golden.data) < 1000], ids=str)
def test_a_payload_may_only_be_cut_between_its_values(golden: Golden) -> None:
    counts = []
    for size_bytes in range(len(golden.data)):
        try:
            values = read_amf0_values(golden.data[:size_bytes])
        except MalformedAmf:
            continue
        assert shape(values) == shape(golden.values[: len(values)])
        counts.append(len(values))
    assert counts == list(range(len(golden.values) + _may_lack_its_end(golden)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("00 3FF0", "8 bytes wanted of 2 left at offset 1"),
        ("01", "1 bytes wanted of 0 left at offset 1"),
        ("02 0005 6869", "5 bytes wanted of 2 left at offset 3"),
        ("0C FFFFFFFF 6869", "4294967295 bytes wanted of 2 left at offset 5"),
        ("0F FFFFFFFF", "4294967295 bytes wanted of 0 left at offset 5"),
        ("03 000161", "1 bytes wanted of 0 left at offset 4"),
        ("03 0000", "1 bytes wanted of 0 left at offset 3"),
        ("05 04", "marker 0x04 begins no value at offset 1"),
        ("05 0E", "marker 0x0e begins no value at offset 1"),
        ("09", "marker 0x09 begins no value at offset 0"),
        ("12", "marker 0x12 begins no value at offset 0"),
        ("FF", "marker 0xff begins no value at offset 0"),
        ("0A FFFFFFFF 05", "4294967295 elements announced with 1 bytes left at offset 5"),
        ("07 0000", "reference 0 into a table of 0 at offset 3"),
        ("03 000009 07 0001", "reference 1 into a table of 1 at offset 7"),
        ("03 000161 07 0000 000009", "reference 0 to a value from within itself at offset 7"),
        ("0A 00000002 03 000009 07 0000", "reference 0 to a value from within itself at offset 12"),
        ("10 000143 000161 07 0000 000009", "reference 0 to a value from within itself at offset 10"),
        ("08 00000000 000161 07 0000 000009", "reference 0 to a value from within itself at offset 11"),
    ],
)
def test_a_refusal_names_the_numbers_and_the_place(data: str, message: str) -> None:
    with pytest.raises(MalformedAmf) as refusal:
        read_amf0_values(bytes.fromhex(data))
    assert str(refusal.value) == f"amf0: {message}"


def test_a_refusal_inside_an_amf3_value_names_that_layer() -> None:
    with pytest.raises(MalformedAmf, match=r"^amf3: marker 0x12 begins no value at offset 1$"):
        read_amf0_values(b"\x11\x12")


def test_after_an_amf3_value_the_layer_is_amf0_again() -> None:
    with pytest.raises(MalformedAmf, match=r"^amf0: marker 0x12 begins no value at offset 2$"):
        read_amf0_values(b"\x11\x01\x12")


@pytest.mark.parametrize(
    "data",
    [
        "08 00000002 000161 05",  # fewer members than announced
        "08 00000001 000161 05 000162 05",  # more
        "08 00000000 000161 05",  # writers that do not count put 0
        "08 00000001 000161 05 00",  # a name was begun
        "08 00000001 000161 05 0000",  # and again
        "08 00000001 000161 08 00000001 000162 05",  # not the outermost
        "0A 00000001 08 00000001 000161 05",  # nor here
        "03 000161 05",  # an object announces nothing
    ],
)
def test_an_end_marker_may_lack_only_where_the_count_proves_the_array_whole(data: str) -> None:
    assert read_amf0_values(bytes.fromhex("08 00000001 000161 05")) == [EcmaArray({"a": None})]
    with pytest.raises(MalformedAmf):
        read_amf0_values(bytes.fromhex(data))


def test_too_low_a_count_ends_no_array() -> None:
    data = bytes.fromhex("08 00000001 000161 05 000162 06 000009 05")
    assert read_amf0_values(data) == [EcmaArray({"a": None, "b": UNDEFINED}), None]


def test_members_keep_their_order_and_the_last_of_a_name_wins() -> None:
    (value,) = read_amf0_values(bytes.fromhex("03 00017A 0100 000161 0100 00017A 0101 000009"))
    assert value == {"z": True, "a": False}
    assert isinstance(value, dict)
    assert list(value) == ["z", "a"]


def test_a_reference_is_the_same_object_counted_in_the_order_of_beginnings() -> None:
    # 0: strict array, 1: typed object, 2: ECMA array, 3: object
    complexes = bytes.fromhex("0A 00000002 10 000143 000161 08 00000000 000009 000009 03 000009")
    outer, *referred = read_amf0_values(complexes + bytes.fromhex("07 0000 07 0001 07 0002 07 0003"))
    assert isinstance(outer, list)
    typed, plain = outer
    assert isinstance(typed, TypedObject)
    assert [id(value) for value in referred] == [id(outer), id(typed), id(typed.members["a"]), id(plain)]


def test_one_value_is_read_where_it_lies_and_the_next_offset_given() -> None:
    data = b"\xff\x05\x01\x01\xff"
    assert read_amf0_value(data, 1) == (None, 2)
    assert read_amf0_value(data, 2) == (True, 4)
    assert read_amf0_values(b"\x00\x05\x06", 1) == [None, UNDEFINED]


def test_no_bytes_are_no_values_but_one_value_was_asked_for() -> None:
    assert read_amf0_values(b"") == []
    assert read_amf0_values(b"\x05", 1) == []
    with pytest.raises(MalformedAmf, match="1 bytes wanted of 0 left at offset 0"):
        read_amf0_value(b"")


def test_an_offset_past_the_data_is_refused_and_a_negative_one_is_misuse() -> None:
    with pytest.raises(MalformedAmf, match="data ends at 0, before the value at offset 1"):
        read_amf0_values(b"", 1)
    with pytest.raises(MisuseError, match="offset -1 is negative"):
        read_amf0_values(b"\x05", -1)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (1, "00 3FF0000000000000"),
        (True, "01 01"),
        ({"a": 2, "b": [False]}, "03 000161 00 4000000000000000 000162 0A 00000001 0100 000009"),
        ("é" * 32767 + "e", "02 FFFF " + "C3A9" * 32767 + "65"),
        ("é" * 32768, "0C 00010000 " + "C3A9" * 32768),
    ],
)
def test_python_values_take_the_marker_that_fits(value: AmfValue, data: str) -> None:
    assert write_amf0_values(value) == bytes.fromhex(data)


def test_a_name_may_fill_its_sixteen_bits() -> None:
    (value, _) = read_amf0_value(write_amf0_values({"k" * 65535: None}))
    assert value == {"k" * 65535: None}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"k" * 65536: None}, "text of 65536 bytes where 65535 fit"),
        (TypedObject("é" * 32768, {}), "text of 65536 bytes where 65535 fit"),
        ("a\ud800", "text with a lone surrogate at 1"),
        (AmfXml("\ud800"), "text with a lone surrogate at 0"),
        (10**400, "integer beyond the range of a double"),
        (AmfDate(0.0, 32768), "time zone of 32768 minutes"),
    ],
)
def test_what_amf0_cannot_say_is_misuse(value: AmfValue, message: str) -> None:
    with pytest.raises(MisuseError, match=f"^amf0: {message}$"):
        write_amf0_values(value)


def test_a_value_of_another_type_is_misuse() -> None:
    with pytest.raises(MisuseError, match=r"^amf0: no marker for a complex$"):
        write_amf0_values(1j)  # type: ignore[arg-type]


def test_the_writer_stops_at_the_depth_that_the_reader_takes() -> None:
    value: AmfValue = None
    for _ in range(32):
        value = [value]
    assert read_amf0_values(write_amf0_values(value)) == [value]
    with pytest.raises(MisuseError, match="deeper than 32"):
        write_amf0_values([value])


def test_a_value_that_holds_itself_is_misuse() -> None:
    loop: dict[str, AmfValue] = {}
    loop["self"] = loop
    with pytest.raises(MisuseError, match="deeper than 32"):
        write_amf0_values(loop)


def test_depth_is_counted_anew_for_each_value() -> None:
    values = read_amf0_values(bytes.fromhex("03 000161 03 000009 000009") * 40, limits=AmfLimits(max_depth=2))
    assert values == [{"a": {}}] * 40
    assert read_amf0_values(write_amf0_values(*values)) == values
