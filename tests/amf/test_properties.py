from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.amf import (
    UNDEFINED,
    UNSUPPORTED,
    AmfDate,
    AmfLimits,
    AmfValue,
    AmfXml,
    EcmaArray,
    TypedObject,
    read_amf0_value,
    read_amf0_values,
    read_amf3_value,
    write_amf0_values,
    write_amf3_value,
)
from penstock.errors import MalformedAmf
from tests.amf.payloads import AMF0, AMF3
from tests.amf.support import shape

# Text as a reader gives it: UTF-8, or bytes that are none, escaped.
texts = st.binary(max_size=12).map(lambda data: data.decode("utf-8", "surrogateescape")) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=12
)
amf3_names = texts.filter(bool)
scalars: st.SearchStrategy[AmfValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    texts,
    st.binary(max_size=12),
    st.just(UNDEFINED),
    st.builds(AmfXml, texts),
)
zoned_dates = st.builds(AmfDate, st.floats(), st.integers(-0x8000, 0x7FFF))


def values(scalar: st.SearchStrategy[AmfValue], names: st.SearchStrategy[str]) -> st.SearchStrategy[AmfValue]:
    def containers(inner: st.SearchStrategy[AmfValue]) -> st.SearchStrategy[AmfValue]:
        members = st.dictionaries(names, inner, max_size=4)
        return st.one_of(
            members,
            st.lists(inner, max_size=4),
            st.dictionaries(names, inner, min_size=1, max_size=4).map(EcmaArray),
            st.builds(TypedObject, amf3_names, members),
        )

    return st.recursive(scalar, containers, max_leaves=12)


amf0_values = values(st.one_of(scalars, zoned_dates, st.just(UNSUPPORTED)), texts)
amf3_values = values(
    st.one_of(scalars, st.integers(-0x10000000, 0x0FFFFFFF), st.builds(AmfDate, st.floats())), amf3_names
)
hostile_bytes = st.one_of(
    st.binary(max_size=80),
    st.lists(st.integers(0, 0x12) | st.integers(0, 255), max_size=80).map(bytes),
    st.sampled_from([golden.data for golden in AMF0 + AMF3 if len(golden.data) < 1000]).flatmap(
        lambda data: st.tuples(st.integers(0, len(data) - 1), st.binary(max_size=3), st.integers(0, 3)).map(
            lambda edit: data[: edit[0]] + edit[1] + data[edit[0] + edit[2] :]
        )
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(amf0_values, max_size=4))
def test_amf0_values_come_back_as_they_were_written(written: list[AmfValue]) -> None:
    data = write_amf0_values(*written)
    assert shape(read_amf0_values(data)) == shape(written)


@settings(max_examples=150, deadline=None)
@given(amf3_values)
def test_an_amf3_value_comes_back_as_it_was_written(written: AmfValue) -> None:
    data = write_amf3_value(written)
    value, next_offset = read_amf3_value(data)
    assert shape(value) == shape(written)
    assert next_offset == len(data)


@settings(max_examples=100, deadline=None)
@given(st.lists(amf0_values, max_size=4), st.binary(max_size=3))
def test_reading_one_by_one_is_reading_all(written: list[AmfValue], before: bytes) -> None:
    data = before + write_amf0_values(*written)
    offset = len(before)
    for value in written:
        read, offset = read_amf0_value(data, offset)
        assert shape(read) == shape(value)
    assert offset == len(data)


@settings(max_examples=400, deadline=None)
@given(hostile_bytes)
def test_any_bytes_are_amf0_values_that_can_be_written_again_or_malformed(data: bytes) -> None:
    limits = AmfLimits(max_items=200, max_repeated_bytes=1000)
    try:
        read = read_amf0_values(data, limits=limits)
    except MalformedAmf:
        return
    again = write_amf0_values(*read)
    assert len(again) <= 9 * (len(data) + limits.max_items) + limits.max_repeated_bytes
    assert write_amf0_values(*read_amf0_values(again)) == again


@settings(max_examples=400, deadline=None)
@given(hostile_bytes)
def test_any_bytes_are_an_amf3_value_that_can_be_written_again_or_malformed(data: bytes) -> None:
    try:
        read, next_offset = read_amf3_value(data)
    except MalformedAmf:
        return
    assert 0 < next_offset <= len(data)
    again = write_amf0_values(read)
    assert write_amf0_values(*read_amf0_values(again)) == again
