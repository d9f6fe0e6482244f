"""Bits, Exp-Golomb codes and leb128, whole and cut short."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MalformedMedia
from penstock.media.bits import BitReader, read_leb128, remove_emulation_prevention
from tests.media.bit_text import bytes_of


def bits_of(text: str) -> BitReader:
    return BitReader("test", bytes_of(text))


def test_fields_are_read_across_bytes() -> None:
    bits = BitReader("test", bytes.fromhex("a5c3f0"))
    assert [bits.read(width) for width in (1, 3, 9, 0, 11)] == [1, 2, 0b010111000, 0, 0b01111110000]
    assert bits.bits_left == 0


def test_align_goes_to_the_next_whole_byte_and_stays_there() -> None:
    bits = BitReader("test", b"\xff\x01\x02")
    bits.skip(3)
    bits.align()
    assert bits.read(8) == 1
    bits.align()
    assert bits.read(8) == 2


# H.264, table 9-2 and 9-3.
@pytest.mark.parametrize(
    ("code", "unsigned", "signed"),
    [
        ("1", 0, 0),
        ("010", 1, 1),
        ("011", 2, -1),
        ("00100", 3, 2),
        ("00101", 4, -2),
        ("0001001", 8, -4),
        ("0" * 31 + "1" * 32, 2**32 - 2, -(2**31 - 1)),
    ],
)
def test_exp_golomb_codes(code: str, unsigned: int, signed: int) -> None:
    assert bits_of(code).read_ue() == unsigned
    assert bits_of(code).read_se() == signed


def test_what_runs_past_the_end_is_malformed_and_moves_nothing() -> None:
    bits = BitReader("test", b"\xff")
    bits.skip(2)
    with pytest.raises(MalformedMedia, match="test: 7 bits wanted at bit 2 of 8"):
        bits.read(7)
    with pytest.raises(MalformedMedia, match="test: 7 bits to skip at bit 2 of 8"):
        bits.skip(7)
    assert bits.read(6) == 0x3F
    with pytest.raises(MalformedMedia, match="test: Exp-Golomb code too long at bit 32 of 80"):
        BitReader("test", bytes(10)).read_ue()


@given(st.lists(st.integers(0, 2**32 - 2), max_size=20))
@settings(max_examples=50)
def test_exp_golomb_codes_follow_each_other(numbers: list[int]) -> None:
    codes = "".join("0" * ((number + 1).bit_length() - 1) + f"{number + 1:b}" for number in numbers)
    bits = bits_of(codes + "1")
    assert [bits.read_ue() for _ in numbers] == numbers


@pytest.mark.parametrize(
    ("data", "value", "after"),
    [
        ("00", 0, 1),
        ("7f", 127, 1),
        ("8001", 128, 2),
        ("e58e26", 624485, 3),
        ("8000", 0, 2),
        ("ffffffffffffff7f", 2**56 - 1, 8),
    ],
)
def test_leb128_is_little_endian(data: str, value: int, after: int) -> None:
    raw = bytes.fromhex(data)
    assert read_leb128("test", raw, 0, len(raw)) == (value, after)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "test: leb128 cut short at offset 0"),
        ("80", "test: leb128 cut short at offset 1"),
        ("80" * 8 + "00", "test: leb128 of more than 8 bytes before offset 8"),
    ],
)
def test_a_damaged_leb128_says_why(data: str, message: str) -> None:
    raw = bytes.fromhex(data)
    with pytest.raises(MalformedMedia) as caught:
        read_leb128("test", raw, 0, len(raw))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        ("000003", "0000"),
        ("00000300", "000000"),
        ("000003000003", "00000000"),
        ("0000030003", "00000003"),
        ("00000303", "000003"),
        ("0003", "0003"),
    ],
)
def test_emulation_prevention_is_removed_once(escaped: str, plain: str) -> None:
    assert remove_emulation_prevention(bytes.fromhex(escaped)) == bytes.fromhex(plain)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", "test: 1 bits wanted at bit 0 of 0"),
        ("00000000", "test: 9 bits wanted at bit 8 of 8"),
        ("00000001", "test: 8 bits wanted at bit 7 of 8"),
    ],
)
def test_a_code_that_is_cut_short_is_malformed(code: str, message: str) -> None:
    with pytest.raises(MalformedMedia) as caught:
        bits_of(code).read_ue()
    assert str(caught.value) == message


def test_no_more_of_a_parameter_set_is_looked_at_than_one_has() -> None:
    assert remove_emulation_prevention(b"\x00\x00\x03" * 10_000) == b"\x00\x00" * 341 + b"\x00"
