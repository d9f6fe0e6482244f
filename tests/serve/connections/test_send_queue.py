"""The order in which bytes go out on one connection: a half-sent message, what is queued, then the log."""

from collections.abc import Callable

import pytest

from penstock.media.frame import Frame
from penstock.relay.cursor import Cursor, KeptRange
from penstock.serve.connections.send_queue import (
    FILTERED_BATCH_BYTES,
    FILTERED_QUEUE_BYTES,
    MediaSource,
    Piece,
    SendQueue,
    Sent,
)
from penstock.serve.connections.transport import Transport
from tests.relay.support import CountingStore, fill, key, new_log
from tests.serve.fakes import FakeTransport


class FakeSource:
    """A play whose log is one piece of bytes; what the queue asks of it is written down."""

    log_bytes = 0

    def __init__(self, *, half: bytes = b"", log: bytes = b"", batches: list[bytes] | None = None) -> None:
        self.is_shared = batches is None
        self.asked: list[str] = []
        self.queues: Callable[[], None] | None = None
        """Called at the end of the log, which then has something to say by the queue."""
        self._half = half
        self._log = log
        self._batches = batches or []

    def work(self, now: float) -> None:
        raise AssertionError("the connection's matter")

    def finish_message(self, transport: Transport, now: float) -> bool:
        self._half = self._half[transport.send(self._half) :]
        return not self._half

    def leave_step(self) -> None:
        self.asked.append("leave step")

    def send_log(self, transport: Transport, now: float, is_late: Callable[[], bool]) -> Sent:
        self._log = self._log[transport.send(self._log) :]
        if self._log:
            return Sent.BLOCKED
        if self.queues is not None:
            queues, self.queues = self.queues, None
            queues()
            return Sent.QUEUED
        return Sent.ALL

    def take_filtered(self, max_bytes: int, now: float) -> list[Piece] | None:
        assert max_bytes == FILTERED_BATCH_BYTES
        return [self._batches.pop(0)] if self._batches else None


def half_of(frame: Frame, sent: int, store: CountingStore | None = None) -> KeptRange:
    """The rest of a message that is in no log any more."""
    log = new_log(store=store)
    fill(log, [frame])
    cursor = Cursor(log)
    cursor.position = 0
    cursor.next_range()
    cursor.advance(sent)
    kept = cursor.keep_rest_of_message()
    assert kept is not None
    log.close()
    return kept


class Stage:
    """A queue, its transport and its plays."""

    def __init__(self, *plays: FakeSource) -> None:
        self.transport = FakeTransport(1)
        self.plays: dict[int, MediaSource] = dict(enumerate(plays, start=1))
        self.queue = SendQueue(self.transport, self.plays)
        self.looks = 0
        self.late_from = 10**9
        """At which look the turn is over."""

    def send(self, now: float = 100.0) -> Sent:
        return self.queue.send(now, self._is_late)

    def _is_late(self) -> bool:
        self.looks += 1
        return self.looks >= self.late_from

    @property
    def output(self) -> bytes:
        return bytes(self.transport.output)


def test_an_empty_queue_sends_nothing() -> None:
    on = Stage()
    assert on.send() is Sent.ALL
    assert on.transport.sends == []


def test_what_is_queued_goes_out_in_order_and_small_pieces_by_one_call() -> None:
    on = Stage()
    for piece in (b"one", b"", b"two", b"three"):
        on.queue.put(piece)
    assert on.queue.queued_bytes == 11
    assert on.send() is Sent.ALL
    assert (on.output, on.transport.sends) == (b"onetwothree", [11])
    assert (on.queue.queued_bytes, on.queue.sent_bytes) == (0, 11)


def test_large_pieces_are_not_copied_to_be_joined() -> None:
    on = Stage()
    for size in (10_000, 6_384, 1, 16_384, 20_000):
        on.queue.put(bytes(size))
    on.send()
    assert on.transport.sends == [16_384, 1, 16_384, 20_000]


def test_what_is_not_taken_stays_and_goes_on_where_it_was_cut() -> None:
    large = b"l" * 20_000
    on = Stage()
    on.transport.room_bytes = 4
    on.queue.put(b"abcdef")
    on.queue.put(large)
    assert on.send() is Sent.BLOCKED
    assert (on.output, on.queue.queued_bytes, on.queue.sent_bytes) == (b"abcd", 20_002, 4)
    on.queue.put(b"ghi")
    on.transport.room_bytes = 100_000
    assert on.send() is Sent.ALL
    assert on.output == b"abcdef" + large + b"ghi"
    assert on.queue.queued_bytes == 0


def test_a_stall_counts_from_the_first_send_that_was_cut_until_everything_is_out() -> None:
    on = Stage()
    on.transport.room_bytes = 1
    on.queue.put(b"abc")
    on.send(now=100.0)
    assert on.queue.stalled_since == 100.0
    on.transport.room_bytes = 1
    on.send(now=107.0)
    assert on.queue.stalled_since == 100.0, "a little is not everything"
    on.transport.room_bytes = 1
    on.send(now=108.0)
    assert on.queue.stalled_since is None


def test_the_rest_of_a_message_can_be_put_before_everything() -> None:
    on = Stage()
    on.queue.put(b"reply")
    on.queue.put_first(half_of(key(0, b"key frame,"), sent=12 + 5 + 4))
    assert on.queue.queued_bytes == 11
    on.send()
    assert on.output == b"frame,reply"


def test_what_lies_in_a_log_is_sent_from_there_in_its_place_among_the_rest() -> None:
    store = CountingStore()
    on = Stage()
    on.queue.put(b"one,")
    on.queue.put(half_of(key(0, b"two,"), sent=12 + 5, store=store))
    on.queue.put(b"three")
    on.transport.room_bytes = 6
    assert on.send() is Sent.BLOCKED
    assert (on.output, on.queue.queued_bytes) == (b"one,tw", 7)
    assert len(store.open_buffers) == 1
    on.transport.room_bytes = 100
    assert on.send() is Sent.ALL
    assert (on.output, on.queue.queued_bytes, on.queue.sent_bytes) == (b"one,two,three", 0, 13)
    assert store.open_buffers == set()


def test_what_lies_in_a_log_is_given_back_when_the_connection_is_lost_while_it_is_sent() -> None:
    store = CountingStore()
    on = Stage()
    on.queue.put(half_of(key(0), sent=12, store=store))
    on.transport.fault = ConnectionResetError()
    with pytest.raises(ConnectionResetError):
        on.send()
    on.queue.clear()
    assert on.queue.queued_bytes == 0
    assert store.open_buffers == set()


# One viewer of the shared encoding.


def test_a_half_sent_message_comes_before_the_queue_and_the_log_behind_it() -> None:
    on = Stage(FakeSource(half=b"half,", log=b"log"))
    on.queue.put(b"reply,")
    assert on.send() is Sent.ALL
    assert on.output == b"half,reply,log"


def test_nothing_comes_between_the_halves_of_a_message() -> None:
    source = FakeSource(half=b"half,", log=b"log")
    on = Stage(source)
    on.queue.put(b"reply,")
    on.transport.room_bytes = 2
    assert on.send() is Sent.BLOCKED
    assert (on.output, source.asked) == (b"ha", [])


def test_the_log_waits_until_the_queue_is_out() -> None:
    on = Stage(FakeSource(log=b"log"))
    on.queue.put(b"reply,")
    on.transport.room_bytes = 3
    assert on.send() is Sent.BLOCKED
    on.transport.room_bytes = 5
    assert on.send() is Sent.BLOCKED
    assert on.output == b"reply,lo"


@pytest.mark.parametrize(("reply", "asked"), [(b"reply", ["leave step"]), (b"", [])])
def test_a_viewer_in_step_leaves_it_only_for_what_comes_first(reply: bytes, asked: list[str]) -> None:
    source = FakeSource()
    on = Stage(source)
    on.queue.put(reply)
    on.send()
    assert source.asked == asked


def test_what_the_end_of_the_log_queues_is_sent_in_the_same_turn() -> None:
    source = FakeSource(log=b"log,")
    on = Stage(source)
    source.queues = lambda: on.queue.put(b"the end")
    assert on.send() is Sent.ALL
    assert on.output == b"log,the end"


def test_a_turn_that_is_over_leaves_what_was_queued_meanwhile_for_the_next() -> None:
    source = FakeSource(log=b"log,")
    on = Stage(source)
    source.queues = lambda: on.queue.put(b"the end")
    on.late_from = 1
    assert on.send() is Sent.UNFINISHED
    assert on.output == b"log,"


# Viewers with wishes of their own.


def test_several_plays_take_turns_by_batches() -> None:
    on = Stage(FakeSource(batches=[b"a1", b"a2", b"a3"]), FakeSource(batches=[b"b1", b"b2"]))
    assert on.send() is Sent.ALL
    assert on.output == b"a1b1a2b2a3"


def test_a_play_that_is_not_alone_is_never_sent_the_shared_encoding() -> None:
    on = Stage(FakeSource(log=b"log"), FakeSource(batches=[b"b1"]))
    on.send()
    assert on.output == b"b1"


def test_a_batch_of_which_nothing_is_wanted_is_not_the_end() -> None:
    on = Stage(FakeSource(batches=[b"", b"", b"picture"]))
    assert on.send() is Sent.ALL
    assert on.output == b"picture"


def test_plays_of_one_that_does_not_read_fill_the_queue_to_a_bound() -> None:
    batch = bytes(FILTERED_BATCH_BYTES)
    on = Stage(*(FakeSource(batches=[batch] * 20) for _ in range(8)))
    on.transport.room_bytes = 0
    for _ in range(10):
        assert on.send() is Sent.BLOCKED
    assert on.queue.queued_bytes == FILTERED_QUEUE_BYTES


def test_between_two_batches_it_looks_at_the_clock() -> None:
    on = Stage(FakeSource(batches=[b"a", b"b", b"c", b"d"]))
    on.late_from = 3
    assert on.send() is Sent.UNFINISHED
    assert on.output == b"ab"
    on.late_from = 10**9
    assert on.send() is Sent.ALL
    assert on.output == b"abcd"
