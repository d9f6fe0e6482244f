"""Aggregate messages as literal bytes: type, size, time, stream id, body, back pointer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.aggregate import AggregateReader
from penstock.protocol.message import Message
from penstock.protocol.work import WorkMeter

AUDIO = "08 000003 0003E8 00 000000 AF01AA 0000000E"
VIDEO = "09 000005 0003FC 00 000000 2701000000 00000010"
DATA = "12 000000 00041A 00 000000 0000000B"


def aggregate(payload: bytes, timestamp_ms: int = 5000) -> Message:
    return Message(22, timestamp_ms, 1, payload, 6)


def items_of(message: Message) -> list[Message]:
    reader = AggregateReader(message)
    items = []
    while (item := reader.next_message()) is not None:
        items.append(item)
    assert reader.next_message() is None
    return items


def test_the_first_items_time_is_the_base() -> None:
    assert items_of(aggregate(bytes.fromhex(AUDIO + VIDEO + DATA))) == [
        Message(8, 5000, 1, b"\xaf\x01\xaa", 6),
        Message(9, 5020, 1, b"\x27\x01\x00\x00\x00", 6),
        Message(18, 5050, 1, b"", 6),
    ]


def test_an_item_may_be_older_than_the_first() -> None:
    assert [item.timestamp_ms for item in items_of(aggregate(bytes.fromhex(VIDEO + AUDIO)))] == [5000, 4980]


def test_times_wrap_at_32_bits() -> None:
    payload = bytes.fromhex(AUDIO + VIDEO)
    assert [item.timestamp_ms for item in items_of(aggregate(payload, 0xFFFFFFF8))] == [0xFFFFFFF8, 12]
    payload = bytes.fromhex(VIDEO + AUDIO)
    assert [item.timestamp_ms for item in items_of(aggregate(payload, 4))] == [4, 0xFFFFFFF0]


def test_the_byte_behind_an_items_time_is_its_highest() -> None:
    payload = bytes.fromhex("08 000000 FFFFFF 00 000000 0000000B08 000000 000013 01 000000 0000000B")
    assert [item.timestamp_ms for item in items_of(aggregate(payload))] == [5000, 5020]
    payload = bytes.fromhex("08 000000 FFFFFF FF 000000 0000000B08 000000 000013 00 000000 0000000B")
    assert [item.timestamp_ms for item in items_of(aggregate(payload))] == [5000, 5020]


def test_stream_ids_and_back_pointers_inside_mean_nothing() -> None:
    payload = bytes.fromhex("08 000001 000000 00 000007 AA FFFFFFFF08 000001 000000 00 FFFFFF BB 00000000")
    assert items_of(aggregate(payload)) == [Message(8, 5000, 1, b"\xaa", 6), Message(8, 5000, 1, b"\xbb", 6)]


@pytest.mark.parametrize("type_id", ["08", "09", "0F", "12"])
def test_audio_video_and_data_are_taken(type_id: str) -> None:
    payload = bytes.fromhex(type_id + "000000 000000 00 000000 0000000B")
    assert [item.type_id for item in items_of(aggregate(payload))] == [int(type_id, 16)]


@pytest.mark.parametrize("type_id", ["01", "02", "03", "04", "05", "06", "11", "13", "14", "16", "63", "FF"])
def test_a_part_of_any_other_type_is_skipped_and_counted(type_id: str) -> None:
    reader = AggregateReader(aggregate(bytes.fromhex(type_id + "000001 000000 00 000000 AA 0000000C" + AUDIO)))
    assert reader.next_message() == Message(8, 6000, 1, b"\xaf\x01\xaa", 6)
    assert reader.skipped_parts == 1


def test_each_part_is_a_unit_of_work_and_the_rest_may_be_left() -> None:
    work = WorkMeter()
    reader = AggregateReader(aggregate(bytes.fromhex("14 000000 000000 00 000000 0000000B") * 1000), work)
    assert reader.next_message(600) is None
    assert (work.done, reader.skipped_parts, reader.is_done) == (600, 600, False)
    assert reader.next_message(2000) is None
    assert (work.done, reader.skipped_parts, reader.is_done) == (1001, 1000, True)


def test_an_empty_aggregate_has_no_items() -> None:
    assert items_of(aggregate(b"")) == []


def test_an_item_of_no_bytes_is_an_item() -> None:
    assert items_of(aggregate(bytes.fromhex(DATA + DATA))) == [Message(18, 5000, 1, b"", 6)] * 2
    assert items_of(aggregate(bytes.fromhex(DATA)[:11])) == [Message(18, 5000, 1, b"", 6)]


@pytest.mark.parametrize("kept_bytes", range(18 + 20))
def test_a_torn_last_item_is_dropped(kept_bytes: int) -> None:
    items = items_of(aggregate(bytes.fromhex(AUDIO + VIDEO)[:kept_bytes]))
    # An item is whole without its back pointer: 14 bytes of the first, 18 + 16 with the second.
    whole = (kept_bytes >= 14) + (kept_bytes >= 34)
    assert [item.type_id for item in items] == [8, 9][:whole]


def test_a_length_past_the_end_is_a_torn_item() -> None:
    assert items_of(aggregate(bytes.fromhex("09 FFFFFF 000000 00 000000 2701"))) == []


def test_a_million_items_are_walked_one_at_a_time() -> None:
    reader = AggregateReader(aggregate(bytes.fromhex(DATA) * 1_000_000))
    assert reader.next_message() == reader.next_message() == Message(18, 5000, 1, b"", 6)


tags = st.tuples(st.sampled_from([8, 9, 18]), st.integers(0, 0xFFFFFFFF), st.binary(max_size=20))


@given(st.integers(0, 0xFFFFFFFF), st.lists(tags, max_size=8))
def test_items_come_out_as_they_were_joined(timestamp_ms: int, tags: list[tuple[int, int, bytes]]) -> None:
    payload = b"".join(
        bytes((type_id,))
        + len(body).to_bytes(3, "big")
        + (time & 0xFFFFFF).to_bytes(3, "big")
        + bytes((time >> 24, 0, 0, 0))
        + body
        + (11 + len(body)).to_bytes(4, "big")
        for type_id, time, body in tags
    )
    assert items_of(aggregate(payload, timestamp_ms)) == [
        Message(type_id, (timestamp_ms + time - tags[0][1]) % (1 << 32), 1, body, 6) for type_id, time, body in tags
    ]


@given(st.binary(max_size=100))
def test_any_bytes_give_items_that_fit_into_them(payload: bytes) -> None:
    items = items_of(aggregate(payload))
    assert sum(11 + len(item.payload) for item in items) <= len(payload)
