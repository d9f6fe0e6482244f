"""Segments live until the log has dropped them and nobody reads from them, and say which message holds a position."""

import pytest

from penstock.media.frame import FrameKind
from penstock.relay.segment import ENTRY_BYTES, Entry, MemoryStore, Segment
from tests.relay.support import CountingBuffer, CountingStore


def entry(position: int, size: int) -> Entry:
    return Entry(position, size, FrameKind.AUDIO, 0, size - 12, is_key=False, is_setup=False)


@pytest.fixture
def buffer() -> CountingBuffer:
    return CountingStore().create()


@pytest.fixture
def segment(buffer: CountingBuffer) -> Segment:
    """Three messages of 4, 1 and 5 bytes, the first at position 100."""
    made = Segment(buffer, start=100, opened_at=0.0)
    made.append([b"aaaa", b"b"], [entry(100, 4), entry(104, 1)], 5)
    made.append([b"ccccc"], [entry(105, 5)], 5)
    return made


def test_bytes_are_found_by_their_place_in_the_log(segment: Segment) -> None:
    assert segment.end == 110
    assert segment.read(102, 4) == b"aabc"


@pytest.mark.parametrize(
    ("position", "start"), [(100, 100), (103, 100), (104, 104), (105, 105), (109, 105)], ids=lambda value: f"{value}"
)
def test_every_position_belongs_to_one_message(segment: Segment, position: int, start: int) -> None:
    assert segment.entry_at(position).position == start


@pytest.mark.parametrize(
    ("position", "max_bytes", "starts"),
    [
        (100, 1, [100]),
        (100, 4, [100]),
        (100, 5, [100, 104]),
        (100, 9, [100, 104]),
        (100, 1000, [100, 104, 105]),
        (105, 0, [105]),
    ],
)
def test_at_least_one_message_comes_and_no_more_than_fit(
    segment: Segment, position: int, max_bytes: int, starts: list[int]
) -> None:
    assert [found.position for found in segment.entries_from(position, max_bytes)] == starts


def test_of_tiny_messages_no_more_come_than_can_be_looked_at_in_one_go() -> None:
    made = Segment(CountingStore().create(), start=0, opened_at=0.0)
    made.append([bytes(1000)], [entry(position, 1) for position in range(1000)], 1000)
    found = made.entries_from(300, 1000)
    assert [found[0].position, found[-1].position] == [300, 555]
    assert len(made.entries_from(900, 1000)) == 100


def test_the_records_of_messages_count_as_memory(segment: Segment) -> None:
    assert segment.held_bytes == 10 + 3 * ENTRY_BYTES


def test_a_dropped_segment_that_nobody_reads_is_closed(segment: Segment, buffer: CountingBuffer) -> None:
    assert segment.drop()
    assert buffer.is_closed


def test_a_dropped_segment_stays_until_its_last_reader_is_done(segment: Segment, buffer: CountingBuffer) -> None:
    segment.pin()
    segment.pin()
    assert not segment.drop()
    assert not segment.unpin()
    assert segment.read(100, 4) == b"aaaa"
    assert segment.unpin()
    assert buffer.is_closed


def test_a_reader_that_is_done_closes_nothing_that_the_log_needs(segment: Segment, buffer: CountingBuffer) -> None:
    segment.pin()
    assert not segment.unpin()
    assert not buffer.is_closed


def test_plain_memory_keeps_what_was_written_until_it_is_closed() -> None:
    buffer = MemoryStore().create()
    buffer.append([b"ab", b"", b"c"])
    buffer.append([b"d"])
    assert buffer.read(1, 2) == b"bc"
    assert buffer.read(3, 10) == b"d"
    assert buffer.descriptor is None
    buffer.close()
    assert buffer.read(0, 10) == b""
