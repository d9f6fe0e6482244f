"""Payloads made to hurt: each is refused with MalformedAmf before it costs much."""

import tracemalloc

import pytest

from penstock.amf import AmfLimits, AmfValue, read_amf0_leniently, read_amf0_values, read_amf3_value, write_amf0_values
from penstock.errors import MalformedAmf

ARRAY_COLLECTION = "43 666c65782e6d6573736167696e672e696f2e4172726179436f6c6c656374696f6e"


def read(layer: str, data: bytes, limits: AmfLimits) -> list[AmfValue]:
    if layer == "amf0":
        return read_amf0_values(data, limits=limits)
    value, _ = read_amf3_value(data, limits=limits)
    return [value]


def refuse(layer: str, data: bytes, limits: AmfLimits | None = None) -> str:
    """The message of a refusal that took little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(MalformedAmf) as refusal:
            read(layer, data, limits or AmfLimits())
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    return str(refusal.value)


@pytest.mark.parametrize(
    ("layer", "level"),
    [
        ("amf0", "03 000161"),
        ("amf0", "08 00000001 000161"),
        ("amf0", "0A 00000001"),
        ("amf0", "10 000143 000161"),
        ("amf3", "09 03 01"),
        ("amf3", "09 01 03 61"),
        ("amf3", "0A 0B 01 03 61"),
        ("amf3", "0A 13 01 03 61"),
        ("amf3", "10 03 00 01"),
        ("amf3", "11 03 00"),
        ("amf3", "0A 07 " + ARRAY_COLLECTION),
    ],
)
@pytest.mark.parametrize("max_depth", [0, 32, 100])
def test_a_hundred_thousand_levels_are_refused_at_the_limit(layer: str, level: str, max_depth: int) -> None:
    message = refuse(layer, bytes.fromhex(level) * 100_000, AmfLimits(max_depth=max_depth))
    assert message.startswith(f"{layer}: nesting deeper than {max_depth} at offset ")


def test_levels_of_amf0_and_amf3_add_up() -> None:
    data = bytes.fromhex("03 000161") * 31 + bytes.fromhex("11 09 03 01 09 01 01") + bytes.fromhex("000009") * 31
    assert refuse("amf0", data) == "amf3: nesting deeper than 32 at offset 130"
    read_amf0_values(data, limits=AmfLimits(max_depth=33))


def test_a_reference_reaches_as_deep_as_its_value() -> None:
    # Thirty levels, then the same thirty from the third level on.
    tower = bytes.fromhex("0A 00000001") * 30 + b"\x05"
    assert len(read_amf0_values(tower + bytes.fromhex("0A 00000001 0A 00000001 07 0000"))) == 2
    message = refuse("amf0", tower + bytes.fromhex("0A 00000001 0A 00000001 0A 00000001 07 0000"))
    assert message == "amf0: nesting deeper than 32 at offset 169"


def test_references_to_references_reach_as_deep_as_all_of_them() -> None:
    # Entry 0 is one level, entries 1 and 2 are two and three levels by reference only.
    data = bytes.fromhex("0A 00000000 0A 00000001 07 0000 0A 00000001 07 0001")
    assert read_amf0_values(data, limits=AmfLimits(max_depth=3)) == [[], [[]], [[[]]]]
    assert refuse("amf0", data, AmfLimits(max_depth=2)).startswith("amf0: nesting deeper than 2 ")


def test_the_height_of_a_value_is_that_of_its_highest_part_and_no_other() -> None:
    # Entry 0 is three levels high by its first part; entry 3, its second part, is one level high.
    data = bytes.fromhex("0A 00000002 0A 00000001 0A 00000000 0A 00000000")
    low, high = bytes.fromhex("0A 00000001 0A 00000001 07 0003"), bytes.fromhex("0A 00000001 07 0000")
    limits = AmfLimits(max_depth=3)
    assert read_amf0_values(data + low, limits=limits) == [[[[]], []], [[[]]]]
    assert refuse("amf0", data + high, limits) == "amf0: nesting deeper than 3 at offset 28"


@pytest.mark.parametrize(
    ("layer", "head", "item"),
    [
        ("amf0", "", "05"),
        ("amf0", "03", "000161 05"),
        ("amf0", "0A 00004001", "05"),
        ("amf3", "09 82 80 03 01", "01"),
        ("amf3", "0A 0B 01", "03 61 01"),
        ("amf3", "0D 82 80 03 00", "00000000"),
        ("amf3", "0F 82 80 03 00", "00000000 00000000"),
        ("amf3", "10 82 80 03 00 01", "01"),
        ("amf3", "11 81 C0 01 00", "01 01"),
        ("amf3", "0A 90 80 13 01", "03 61"),
    ],
)
def test_the_items_of_a_payload_are_counted(layer: str, head: str, item: str) -> None:
    data = bytes.fromhex(head) + bytes.fromhex(item) * 17_000
    assert refuse(layer, data).startswith(f"{layer}: more than 16384 items at offset ")


def test_as_many_items_as_allowed_are_read() -> None:
    assert read_amf0_values(b"\x05" * 16384) == [None] * 16384


def test_values_of_both_layers_draw_on_one_budget() -> None:
    data = bytes.fromhex("05 11 09 05 01 01 01 05")
    assert read_amf0_values(data, limits=AmfLimits(max_items=6)) == [None, [None, None], None]
    assert refuse("amf0", data, AmfLimits(max_items=5)) == "amf0: more than 5 items at offset 8"


def test_a_pair_of_a_dictionary_is_an_item_beside_its_two_values() -> None:
    data = bytes.fromhex("11 03 00 01 01")
    assert read_amf3_value(data, limits=AmfLimits(max_items=4))[0] == [[None, None]]
    assert refuse("amf3", data, AmfLimits(max_items=3)) == "amf3: more than 3 items at offset 5"


@pytest.mark.parametrize("count", ["FFFFFFFF", "7FFFFFFF", "01000000"])
def test_a_count_takes_no_room_before_its_elements_came(count: str) -> None:
    assert "elements announced" in refuse("amf0", bytes.fromhex("0A" + count) + b"\x05" * 1000)
    assert "wanted" in refuse("amf0", bytes.fromhex("0C" + count) + b"x" * 1000)


def test_ten_laughs_in_each_of_ten_arrays_are_counted_as_they_would_be_walked() -> None:
    # Each array refers ten times to the one before it: a hundred million nulls in five hundred bytes.
    amf0 = bytes.fromhex("0A 0000000A") + b"\x05" * 10
    amf3 = bytes.fromhex("09 15 01") + b"\x01" * 10
    for index in range(8):
        amf0 += bytes.fromhex("0A 0000000A") + (b"\x07" + index.to_bytes(2, "big")) * 10
        amf3 += bytes.fromhex("09 15 01") + bytes((0x09, (index + 1) << 1)) * 10
    assert refuse("amf0", amf0).startswith("amf0: more than 16384 items at offset ")
    assert refuse("amf3", bytes.fromhex("09 13 01") + amf3).startswith("amf3: more than 16384 items at offset ")


def test_a_reference_costs_its_items_once_more() -> None:
    data = bytes.fromhex("0A 00000002 05 05 07 0000")
    assert read_amf0_values(data, limits=AmfLimits(max_items=6)) == [[None, None], [None, None]]
    assert refuse("amf0", data, AmfLimits(max_items=5)) == "amf0: more than 5 items at offset 10"


@pytest.mark.parametrize(
    ("layer", "first", "again"),
    [
        ("amf0", "0A 00000001 0C 00010000" + "61" * 65536, "07 0000"),
        ("amf3", "06 888001" + "61" * 65536, "06 00"),
        ("amf3", "07 888001" + "61" * 65536, "07 02"),
        ("amf3", "0C 888001" + "61" * 65536, "0C 02"),
        ("amf3", "09 03 01 06 888001" + "61" * 65536, "09 02"),
        ("amf3", "0A 03 87FF7F" + "61" * 65535, "0A 01"),
        ("amf3", "0A 13 01 87FF7F" + "61" * 65535 + "01", "0A 01 01"),
        ("amf3", "0D 828001 00" + "61" * 65536, "0D 02"),
    ],
)
def test_the_bytes_that_references_repeat_are_counted(layer: str, first: str, again: str) -> None:
    opening = b"" if layer == "amf0" else bytes.fromhex("09 2B 01")
    limits = AmfLimits(max_items=10**6)
    message = refuse(layer, opening + bytes.fromhex(first) + bytes.fromhex(again) * 20, limits)
    assert message.startswith(f"{layer}: references repeat more than 65536 bytes at offset ")


def test_a_repeated_value_counts_what_it_repeats_itself() -> None:
    # A string of 4 bytes, an array that repeats it twice, and that array again: 4 + 4 + (4 + 4 + its own 4 bytes).
    data = bytes.fromhex("09 07 01 06 09 61626364  09 05 01 06 00 06 00  09 02")
    limits = AmfLimits(max_repeated_bytes=21)
    value, _ = read_amf3_value(data, limits=limits)
    assert value == ["abcd", ["abcd", "abcd"], ["abcd", "abcd"]]
    assert len(write_amf0_values(value)) > 0
    assert "repeat more than 20 bytes" in refuse("amf3", data, AmfLimits(max_repeated_bytes=20))


# An array of 4,000 bytes of text, and as many references to it as fit: 3 bytes stand for 4,008.
MOST_REPEATED = bytes.fromhex("0A 00000011 0A 00000001 02 0FA0") + b"a" * 4000 + bytes.fromhex("07 0001") * 16


def test_writing_what_was_read_costs_its_bytes_and_what_references_may_repeat() -> None:
    values = read_amf0_values(MOST_REPEATED)
    assert 60_000 < len(write_amf0_values(*values)) <= len(MOST_REPEATED) + 64 * 1024
    one_more = b"\x0a\x00\x00\x00\x12" + MOST_REPEATED[5:] + b"\x07\x00\x01"
    assert "references repeat more than 65536 bytes" in refuse("amf0", one_more)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param("11 09 FF7F 01" + "04 00" * 0x1FFF, id="short integers"),
        pytest.param("11 09 FF7F 03 61 01 01" + "04 00" * 0x1FFF, id="short integers under numbers as names"),
        pytest.param("11 0D FF7F 00" + "00000000" * 0x1FFF, id="a vector of integers"),
        pytest.param("11 09 FF7F 01 0A 0B 01 01" + "0A 01 01" * 0x1FFE, id="empty objects"),
        pytest.param("11 11 BF7F 00" + "01 01" * 0xFFF, id="pairs of a dictionary"),
    ],
)
def test_an_amf3_item_takes_16_bytes_more_at_most_when_it_is_written_as_amf0(payload: str) -> None:
    data = bytes.fromhex(payload)
    values, items = read_amf0_leniently(data)
    assert items > 1000
    assert len(write_amf0_values(*values)) <= len(data) + 16 * items
