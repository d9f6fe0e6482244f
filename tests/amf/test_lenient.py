"""Reading past what cannot be decoded: literal bytes that the strict reader refuses."""

import pytest

from penstock.amf import UNDEFINED, AmfLimits, AmfValue, EcmaArray, read_amf0_leniently, read_amf0_values
from penstock.errors import MalformedAmf


@pytest.mark.parametrize(
    ("data", "values", "items"),
    [
        pytest.param("", [], 0, id="nothing"),
        pytest.param("02 0001 61  00 3FF0000000000000", ["a", 1.0], 2, id="what the strict reader takes"),
        pytest.param("03 000161 07 0000 000162 05 000009", [{"a": None, "b": None}], 3, id="an object in itself"),
        pytest.param("0A 00000002 07 0000 06", [[None, UNDEFINED]], 3, id="an array in itself"),
        pytest.param("08 00000001 000161 07 0000 000009", [EcmaArray(a=None)], 2, id="an ECMA array in itself"),
        pytest.param("03 000161 03 000162 07 0000 000009 000009", [{"a": {"b": None}}], 3, id="two levels up"),
        pytest.param("07 0005 05", [None, None], 2, id="a reference to nothing"),
        pytest.param("11 09 03 01 09 00", [[None]], 3, id="an AMF3 array in itself"),
        pytest.param("02 0001 61 FF 02 0001 62", ["a"], 2, id="an unknown marker ends the reading"),
        pytest.param("02 0001 61 04 0000", ["a"], 2, id="a MovieClip too"),
        pytest.param("FF", [], 1, id="an unknown marker alone"),
        pytest.param("03 000161 05 000162 FF 000009", [{"a": None}], 3, id="members before the marker count"),
        pytest.param("08 00000009 000161 05 000162 FF", [EcmaArray(a=None)], 3, id="those of an ECMA array"),
        pytest.param(
            "03 000161 05 000162 03 000163 05 000164 FF", [{"a": None}], 5, id="a member that is read half is left out"
        ),
        pytest.param("05 0A 00000002 05 FF", [None], 4, id="an array that is read half is left out"),
        pytest.param("05 11 FF", [None], 2, id="an unknown AMF3 marker"),
        pytest.param("05 11 0A 07 03 43", [None], 3, id="a class that only its own code can read"),
    ],
)
def test_what_can_be_read_is_read(data: str, values: list[AmfValue], items: int) -> None:
    read = read_amf0_leniently(bytes.fromhex(data))
    assert read.values == values
    assert [type(value) for value in read.values] == [type(value) for value in values]
    assert read.items == items


@pytest.mark.parametrize(
    "data",
    ["02 0005 61", "03 000161 05", "0A 00000005 05", "00 3FF0", "03 000161", "05 0C FFFFFFFF 61"],
)
def test_data_that_ends_too_early_is_refused(data: str) -> None:
    with pytest.raises(MalformedAmf):
        read_amf0_leniently(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("data", "limits", "words"),
    [
        ("05" * 5, AmfLimits(max_items=4), "more than 4 items"),
        ("03" + "000161 05" * 4, AmfLimits(max_items=4), "more than 4 items"),
        ("0A 00000001 0A 00000001 0A 00000001", AmfLimits(max_depth=2), "nesting deeper than 2"),
        ("0A 00000001 02 0003 616263 07 0000", AmfLimits(max_repeated_bytes=9), "repeat more than 9 bytes"),
    ],
)
def test_limits_stay_hard(data: str, limits: AmfLimits, words: str) -> None:
    with pytest.raises(MalformedAmf, match=words):
        read_amf0_leniently(bytes.fromhex(data), limits=limits)


def test_it_reads_from_an_offset() -> None:
    assert read_amf0_leniently(bytes.fromhex("FF 02 0001 61"), 1).values == ["a"]


def test_the_strict_reader_refuses_what_is_read_leniently_here() -> None:
    for data in ("03 000161 07 0000 000009", "07 0005", "05 FF"):
        with pytest.raises(MalformedAmf):
            read_amf0_values(bytes.fromhex(data))
