"""A cursor's bytes are whole messages in order, whatever is sent at a time and whenever the log drops its start.

The model below plays the server: several viewers that take random amounts, a publisher that appends and flushes at
random, and limits so small that the log moves on under everybody. What each viewer was sent is read by a reader that
shares no code with the product.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.media.frame import Frame, FrameKind
from penstock.relay.cursor import Cursor
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.readable_log import LogLimits
from tests.relay.support import (
    CountingStore,
    audio,
    encode,
    fill,
    inter,
    key,
    messages_of,
    metadata,
    new_log,
    video_setup,
)
from tests.support.independent_rtmp import OracleMessage

TINY = LogLimits(max_gops=2, max_age_s=1.0, max_bytes=6000, min_segment_bytes=300, max_segment_bytes=1500)


def numbered(make: str, number: int, size: int) -> Frame:
    """A frame that carries its number, so that order and gaps can be seen."""
    body = number.to_bytes(4, "big") + bytes(size)
    return {"key": key, "inter": inter, "audio": audio, "config": video_setup, "metadata": metadata}[make](number, body)


def number_of(message: OracleMessage) -> int:
    head = {8: 2, 9: 5, 18: 13}[message.type_id]
    return int.from_bytes(message.payload[head : head + 4], "big")


def is_setup(message: OracleMessage) -> bool:
    return message.type_id == 18 or (message.type_id == 9 and message.payload[1] == 0)


@dataclass
class ModelViewer:
    """What one viewer was sent: a run of bytes for each time it began anew."""

    log: StreamLog
    cursor: Cursor
    runs: list[bytes] = field(default_factory=list)
    begins_with_video: list[bool] = field(default_factory=list)
    is_seated: bool = False
    queued: bytes = b""
    left_off: int = 0

    def take(self, size: int) -> None:
        """Be sent up to this many bytes, as the server does it."""
        while size > 0:
            if not self.is_seated and not self._sit_down():
                return
            if self.queued:
                self.runs[-1] += self.queued[:size]
                size, self.queued = size - len(self.queued[:size]), self.queued[size:]
                continue
            piece = self.cursor.next_range()
            if piece is None:
                if self.cursor.is_in_step:
                    return
                assert self.cursor.position < self.log.start
                assert not self.cursor.is_inside_message
                self.left_off = self.cursor.position
                self.is_seated = False
                continue
            sent = min(size, piece.size)
            self.runs[-1] += piece.segment.read(piece.position, sent)
            self.cursor.advance(sent)
            size -= sent

    def _sit_down(self) -> bool:
        point = self.log.newest_point
        if point is None or not self.left_off <= point.position <= self.log.head:
            return False
        self.cursor.position = point.position
        frames = point.config.joining_frames(point.timestamp_ms)
        self.queued = b"".join(encode(frame.kind, point.timestamp_ms, frame.payload) for frame in frames)
        self.runs.append(b"")
        self.begins_with_video.append(self.log.has_video)
        self.is_seated = True
        return True


def check_run(sent: bytes, published: list[int], *, is_last: bool, begins_with_video: bool) -> list[int]:
    """A run is set-up, then a key frame, then everything that was published from there on; give its numbers.

    Where no video comes, or none for long, it begins with audio.
    """
    messages, tail_bytes = messages_of(sent)
    assert is_last or tail_bytes == 0, "half a message was left behind by a skip"
    joining = 0
    while joining < len(messages) and is_setup(messages[joining]):
        joining += 1
    media = messages[joining:]
    if not media:
        return []
    assert messages[0].type_id == 18, "metadata comes first"
    assert media[0].type_id == (9 if begins_with_video else 8)
    assert media[0].type_id == 8 or media[0].payload[0] >> 4 == 1, "a run begins with a key frame"
    assert {message.timestamp for message in messages[:joining]} == {media[0].timestamp}
    numbers = [number_of(message) for message in media]
    first = published.index(numbers[0])
    assert numbers == published[first : first + len(numbers)], "nothing is left out, repeated or moved"
    return numbers


operations = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(["key", "inter", "inter", "audio", "config"]), st.integers(0, 900)),
    st.tuples(st.just("append"), st.sampled_from(["key", "inter", "audio"]), st.integers(0, 40)),
    st.tuples(st.just("flush"), st.just(""), st.integers(0, 400)),
    st.tuples(st.just("take"), st.just(""), st.integers(0, 4 * 4000 - 1)),
    st.tuples(st.just("take"), st.just(""), st.integers(0, 4 * 30 - 1)),
)


@given(st.lists(operations, min_size=30, max_size=200), st.integers(2000, 20_000))
def test_every_viewer_is_sent_whole_messages_in_order(script: list[tuple[str, str, int]], budget_bytes: int) -> None:
    store, budget = CountingStore(), LogBudget(budget_bytes)
    log = new_log(TINY, budget, store)
    other = new_log(TINY, budget, store)
    viewers = [ModelViewer(log, Cursor(log)) for _ in range(4)]
    published: list[int] = []
    now = 0.0
    log.append(numbered("metadata", 0, 0), now)
    for number, (operation, make, amount) in enumerate(script, start=1):
        if operation == "append":
            log.append(numbered(make, number, amount), now)
            published.append(number)
        elif operation == "flush":
            now += amount / 1000
            fill(other, [inter(number, bytes(amount))], now)
            log.flush(now)
        else:
            viewers[amount % 4].take(amount // 4)
    log.flush(now)
    for viewer in viewers:
        seen: list[int] = []
        for run, begins_with_video in zip(viewer.runs, viewer.begins_with_video, strict=True):
            is_last = run is viewer.runs[-1]
            seen += check_run(run, published, is_last=is_last, begins_with_video=begins_with_video)
        assert seen == sorted(set(seen)), "nothing is sent twice"
        viewer.cursor.release()
    log.close()
    other.close()
    assert store.open_buffers == set()
    assert budget.used_bytes == 0


def cursor_at_key(log: StreamLog) -> Cursor:
    point = log.newest_point
    assert point is not None
    cursor = Cursor(log)
    cursor.position = point.position
    return cursor


def test_a_new_cursor_is_in_step() -> None:
    log = new_log()
    fill(log, [key(0)])
    cursor = Cursor(log)
    assert cursor.is_in_step
    assert cursor.lag_bytes == 0
    assert cursor.next_range() is None
    fill(log, [inter(40)])
    assert not cursor.is_in_step
    assert cursor.lag_bytes == 22


@pytest.mark.parametrize(("size", "is_whole"), [(1, False), (12, False), (19, False), (20, True)])
def test_progress_is_a_whole_message(size: int, is_whole: bool) -> None:
    log = new_log()
    fill(log, [key(0, b"123")])
    cursor = cursor_at_key(log)
    cursor.next_range()
    assert cursor.advance(size) is is_whole
    assert cursor.is_inside_message is not is_whole


def test_a_send_that_ends_a_message_and_begins_another_is_progress() -> None:
    log = new_log()
    fill(log, [key(0), inter(40)])
    cursor = cursor_at_key(log)
    cursor.next_range()
    assert cursor.advance(25)
    assert cursor.is_inside_message
    cursor.next_range()
    assert cursor.advance(17)
    assert cursor.is_in_step
    assert not cursor.is_inside_message


def test_a_send_of_nothing_is_no_progress_and_holds_nothing() -> None:
    store = CountingStore()
    log = new_log(store=store)
    fill(log, [key(0)])
    cursor = cursor_at_key(log)
    cursor.next_range()
    assert not cursor.advance(0)
    log.close()
    assert store.open_buffers == set()


def test_a_range_grows_with_its_segment() -> None:
    log = new_log()
    fill(log, [key(0)])
    cursor = cursor_at_key(log)
    first = cursor.next_range()
    assert first is not None
    cursor.advance(5)
    fill(log, [inter(40)])
    second = cursor.next_range()
    assert second is not None
    assert second.segment is first.segment
    assert (second.position, second.size) == (first.position + 5, first.size - 5 + 22)


def test_a_reader_inside_a_message_finishes_it_and_only_it_when_the_log_has_moved_on() -> None:
    store = CountingStore()
    log = new_log(TINY, store=store)
    fill(log, [key(0, b"x" * 80), inter(40)])
    cursor = cursor_at_key(log)
    cursor.next_range()
    cursor.advance(10)
    log.drop_everything()
    rest = cursor.next_range()
    assert rest is not None
    assert rest.size == 12 + 5 + 80 - 10
    assert cursor.advance(rest.size)
    assert cursor.next_range() is None
    assert not cursor.is_in_step, "it must skip"
    assert store.open_buffers == set()


def test_between_messages_there_is_no_rest_of_one() -> None:
    log = new_log()
    fill(log, [key(0), inter(40)])
    cursor = cursor_at_key(log)
    assert cursor.rest_of_message() is None
    assert cursor.keep_rest_of_message() is None
    cursor.next_range()
    cursor.advance(20)
    assert cursor.rest_of_message() is None
    assert cursor.position == 20
    assert Cursor(log).rest_of_message() is None, "nor for one in step"


def test_the_rest_of_a_half_sent_message_ends_with_it_whatever_follows() -> None:
    log = new_log()
    fill(log, [key(0), inter(40)])
    cursor = cursor_at_key(log)
    cursor.next_range()
    cursor.advance(13)
    rest = cursor.rest_of_message()
    assert rest is not None
    assert (rest.position, rest.size) == (13, 7)
    assert cursor.rest_of_message() == rest, "asking moves nothing"
    assert cursor.advance(rest.size)
    assert not cursor.is_inside_message


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_rest_that_is_kept_lets_the_reader_go_and_the_memory_when_it_is_sent(is_wanted: bool) -> None:
    store = CountingStore()
    log = new_log(store=store)
    fill(log, [key(0, b"123"), inter(40)])
    cursor = cursor_at_key(log)
    cursor.next_range()
    cursor.advance(18)
    log.drop_everything()
    assert len(store.open_buffers) == 1, "a reader inside a message keeps it"
    kept = cursor.keep_rest_of_message()
    assert kept is not None
    assert cursor.position == 20
    assert cursor.keep_rest_of_message() is None
    cursor.release()
    rest = kept.rest
    assert rest.segment.read(rest.position, rest.size) == b"23"
    kept.advance(1)
    assert (kept.rest.offset, kept.size) == (19, 1)
    assert len(store.open_buffers) == 1, "a byte of it is still owed"
    if is_wanted:
        kept.advance(1)
    kept.release()
    assert store.open_buffers == set()


def test_a_reader_between_messages_is_lost_at_once_when_the_log_has_moved_on() -> None:
    log = new_log(TINY)
    fill(log, [key(0), inter(40)])
    cursor = cursor_at_key(log)
    cursor.next_range()
    cursor.advance(20)
    log.drop_everything()
    assert cursor.next_range() is None
    assert not cursor.is_in_step, "it must skip"


def test_a_reader_of_an_earlier_message_may_be_asked_twice_before_it_sends() -> None:
    log = new_log(TINY)
    fill(log, [key(0)])
    cursor = cursor_at_key(log)
    assert cursor.next_range() == cursor.next_range()
    log.drop_everything()
    assert cursor.next_range() is None
    assert not cursor.is_in_step, "it must skip"


@pytest.mark.parametrize(("sent", "is_owed"), [(0, False), (10, True), (12 + 5 + 80, False)])
def test_in_a_segment_that_the_log_has_dropped_only_the_rest_of_a_message_is_owed(sent: int, is_owed: bool) -> None:
    store = CountingStore()
    log = new_log(TINY, store=store)
    log.append(key(0, b"x" * 80), 0.0)
    log.append(inter(40), 0.0)
    flush = log.flush(0.0)
    assert flush is not None
    flush.segment.pin()
    log.drop_everything()
    cursor = Cursor(log)
    cursor.stand_in(flush.segment, flush.position)
    cursor.advance(sent)
    log.unpin(flush.segment)
    rest = cursor.next_range()
    assert (rest is not None) is is_owed
    if rest is not None:
        assert rest.size == 12 + 5 + 80 - sent
        cursor.advance(rest.size)
    assert store.open_buffers == set()
    assert not cursor.is_in_step, "it must skip"


def test_a_cursor_that_holds_nothing_ignores_an_advance() -> None:
    cursor = Cursor(new_log())
    assert not cursor.advance(10)
    assert cursor.position == 0


def test_the_kinds_of_frames_are_those_of_the_model() -> None:
    assert numbered("key", 1, 0).is_key
    assert not numbered("inter", 1, 0).is_key
    assert numbered("config", 1, 0).is_setup
    assert numbered("metadata", 1, 0).is_setup
    assert numbered("audio", 1, 0).kind is FrameKind.AUDIO
