"""Parcels: messages cut out of bytes, with the descriptors that are their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.parcels import MAX_BODY_BYTES, MAX_DESCRIPTORS, Parcel, ParcelReader, write_parcel
from penstock.errors import MalformedInput


def test_a_parcel_is_its_length_its_number_of_descriptors_and_its_body() -> None:
    assert write_parcel(Parcel(b"abc", (7, 8))) == b"\x03\0\0\0\x02\0abc"


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(1, 50))
def test_bodies_are_the_same_however_the_bytes_were_cut(bodies: list[bytes], cut: int) -> None:
    data = b"".join(write_parcel(Parcel(body)) for body in bodies)
    reader = ParcelReader()
    found = []
    for start in range(0, len(data), cut):
        reader.feed(data[start : start + cut])
        while (parcel := reader.next_parcel()) is not None:
            found.append(parcel.body)
    assert found == bodies


def test_descriptors_go_to_the_message_that_they_were_sent_with() -> None:
    reader = ParcelReader()
    reader.feed(write_parcel(Parcel(b"none")) + write_parcel(Parcel(b"two", (0, 0)))[:1], (5, 6))
    reader.feed(write_parcel(Parcel(b"two", (0, 0)))[1:] + write_parcel(Parcel(b"one", (0,))), (7,))
    assert [reader.next_parcel() for _ in range(4)] == [
        Parcel(b"none"),
        Parcel(b"two", (5, 6)),
        Parcel(b"one", (7,)),
        None,
    ]
    assert reader.unclaimed() == ()


def test_a_message_whose_descriptors_were_cut_comes_without_any_and_the_next_has_its_own() -> None:
    reader = ParcelReader()
    reader.feed(write_parcel(Parcel(b"cut", (0, 0)))[:4], (5,), is_cut=True)
    reader.feed(write_parcel(Parcel(b"cut", (0, 0)))[4:] + write_parcel(Parcel(b"whole", (0,))), (6,))
    assert [reader.next_parcel(), reader.next_parcel()] == [Parcel(b"cut"), Parcel(b"whole", (6,))]
    assert reader.unclaimed() == (5,)


def test_descriptors_of_a_message_that_never_became_whole_are_unclaimed_once() -> None:
    reader = ParcelReader()
    reader.feed(write_parcel(Parcel(b"half", (0, 0)))[:7], (5, 6))
    assert reader.next_parcel() is None
    assert reader.unclaimed() == (5, 6)
    assert reader.unclaimed() == ()


def test_another_number_of_descriptors_than_was_told_is_a_defect_and_none_is_lost() -> None:
    reader = ParcelReader()
    reader.feed(write_parcel(Parcel(b"x", (0, 0))), (5,))
    with pytest.raises(MalformedInput, match="link: 1 of 2 descriptors came with a message"):
        reader.next_parcel()
    assert reader.unclaimed() == (5,)


def test_a_length_out_of_bounds_is_a_defect_before_its_bytes_came() -> None:
    reader = ParcelReader()
    reader.feed((MAX_BODY_BYTES + 1).to_bytes(4, "little") + b"\0\0")
    with pytest.raises(MalformedInput, match="link: a message of 67108865 bytes"):
        reader.next_parcel()


def test_more_descriptors_than_the_kernel_takes_are_refused() -> None:
    with pytest.raises(MalformedInput, match="251 descriptors"):
        write_parcel(Parcel(b"", (0,) * (MAX_DESCRIPTORS + 1)))
