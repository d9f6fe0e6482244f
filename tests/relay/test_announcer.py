"""What the writer tells a follower, how it is bounded, and whose memory it is."""

import pytest

from penstock.errors import MalformedInput
from penstock.relay.announcer import AnnouncedStream, Parcel
from penstock.relay.following import NotHere, Opened, Round, decode_for_follower
from penstock.relay.log import LogBudget
from penstock.relay.readable_log import LogLimits
from penstock.relay.segment import MemoryStore
from tests.relay.following_stage import FollowingStage
from tests.relay.support import audio, inter, key, video_setup

SMALL = LogLimits(min_segment_bytes=300, max_segment_bytes=300)


def announced(stage: FollowingStage) -> AnnouncedStream:
    assert stage.announced is not None
    return stage.announced


def rounds_of(parcels: list[Parcel]) -> list[Round]:
    messages = [decode_for_follower(parcel.body) for parcel in parcels]
    return [message for message in messages if isinstance(message, Round)]


def write(stage: FollowingStage, *bodies: bytes, now: float = 0.0) -> None:
    for body in bodies:
        stage.log.append(inter(0, body), now)
        stage.flush(now)


def test_a_stream_that_is_not_here_is_refused() -> None:
    stage = FollowingStage()
    stage.announcer.refuse(b"live/other", 4)
    (parcel,) = stage.announcer.take(1)
    assert decode_for_follower(parcel.body) == NotHere(b"live/other", 4)
    assert not stage.announcer.has_news


def test_who_follows_is_told_all_that_the_log_holds() -> None:
    stage = FollowingStage(SMALL)
    stage.log.append(video_setup(), 0.0)
    stage.log.append(key(0, bytes(300)), 0.0)
    stage.flush()
    write(stage, bytes(300))
    stage.announcer.follow(b"live/test", 4, stage.log, is_live=True)
    opened, told = stage.announcer.take(1 << 20)
    assert decode_for_follower(opened.body) == Opened(b"live/test", 4, 1, 0)
    ((news,),) = [message.news for message in rounds_of([told])]
    assert [(run.segment, run.start) for run in news.runs] == [(1, 0), (2, 339)]
    assert told.descriptors == (1, 2)


def test_a_round_without_a_change_tells_nothing() -> None:
    stage = FollowingStage()
    write(stage, b"one")
    stage.follow()
    assert not stage.announcer.has_news
    assert stage.announcer.take(1 << 20) == []


def test_one_message_tells_all_flushes_of_a_round() -> None:
    stage = FollowingStage()
    stage.follow()
    write(stage, b"one", b"two")
    (parcel,) = stage.announcer.take(1 << 20)
    ((news,),) = [message.news for message in rounds_of([parcel])]
    assert [len(run.entries) for run in news.runs] == [2 * 17]


def test_what_was_appended_and_not_flushed_is_not_told() -> None:
    stage = FollowingStage()
    stage.follow()
    write(stage, b"one")
    stage.log.append(key(40), 0.0)
    stage.deliver_all()
    assert stage.followed.head == stage.log.head
    assert stage.followed.newest_point is None
    stage.flush()
    stage.deliver_all()
    assert stage.followed.newest_point == stage.log.newest_point


def test_a_full_link_delays_and_loses_nothing_that_the_log_still_has() -> None:
    stage = FollowingStage(SMALL)
    stage.follow()
    for _ in range(5):
        write(stage, bytes(200))
        assert stage.announcer.take(0) == []
    stage.deliver_all()
    assert stage.followed.head == stage.log.head
    assert (stage.announcer.resumes, stage.gaps) == (0, [])


def test_a_follower_that_was_too_slow_goes_on_behind_what_was_dropped_and_that_is_counted() -> None:
    stage = FollowingStage(SMALL)
    write(stage, b"seen")
    stage.follow()
    head = stage.followed.head
    write(stage, bytes(400))
    stage.announcer.take(0)
    stage.log.drop_everything()
    stage.log.append(key(40), 0.0)
    stage.flush()
    stage.deliver_all()
    assert (stage.announcer.resumes, stage.follows.resumes) == (1, 1)
    assert stage.followed.start == stage.followed.newest_point.position > head  # type: ignore[union-attr]
    assert stage.followed.missed_bytes == stage.followed.start - head


def test_what_is_dropped_in_the_round_in_which_it_was_written_is_told_all_the_same() -> None:
    stage = FollowingStage()
    stage.follow()
    write(stage, b"last")
    stage.log.forget_entry_points()
    stage.log.drop_everything()
    announced(stage).lose()
    (parcel,) = stage.announcer.take(1 << 20)
    stage.to_follower.append(parcel)
    stage.deliver_to_follower()
    assert [len(flush.entries) for flush in stage.flushes] == [1]
    assert not stage.followed.is_live


def test_the_end_of_a_stream_comes_behind_its_last_message_though_its_log_is_closed() -> None:
    stage = FollowingStage()
    stage.follow()
    write(stage, b"last")
    announced(stage).end()
    stage.log.close()
    stage.deliver_all()
    assert stage.followed.is_over
    assert stage.followed.head == stage.log.head
    segment = stage.followed.segment_at(0)
    assert segment is not None, "those who lag may have the rest"
    assert stage.budget.used_bytes == segment.held_bytes


def test_a_long_index_is_told_in_parts_and_the_end_with_the_last() -> None:
    stage = FollowingStage(LogLimits(max_messages=1 << 20))
    for _ in range(5000):
        stage.log.append(audio(0), 0.0)
    stage.flush()
    stage.announcer.follow(b"live/test", 1, stage.log, is_live=True).end()
    news = [news for message in rounds_of(stage.announcer.take(1 << 20)) for news in message.news]
    assert [len(one.runs[0].entries) // 17 for one in news] == [4096, 904]
    assert [one.is_over for one in news] == [False, True]


def test_room_is_kept_to_and_the_rest_comes_later() -> None:
    stage = FollowingStage()
    logs = [stage.log, FollowingStage().log]
    for log in logs:
        log.append(key(0), 0.0)
        log.flush(0.0)
        stage.announcer.follow(b"live/test", 1, log, is_live=True)
    first = rounds_of(stage.announcer.take(1))
    assert [news.stream for message in first for news in message.news] == [1]
    second = rounds_of(stage.announcer.take(1))
    assert [news.stream for message in second for news in message.news] == [2]


def test_no_message_has_more_descriptors_than_the_kernel_takes() -> None:
    stage = FollowingStage(LogLimits(min_segment_bytes=1, max_segment_bytes=1, max_messages=1 << 20))
    write(stage, *([b"x"] * 300))
    stage.announcer.follow(b"live/test", 1, stage.log, is_live=True)
    counts = [len(parcel.descriptors) for parcel in stage.announcer.take(1 << 20)]
    assert counts == [0, 192, 108]


def test_a_segment_in_plain_memory_travels_as_bytes() -> None:
    stage = FollowingStage(LogLimits(min_segment_bytes=4 << 20), store=MemoryStore())
    stage.follow()
    write(stage, bytes(100))
    for _ in range(2):
        stage.log.append(inter(0, bytes(800_000)), 0.0)
    stage.flush()
    stage.deliver_all()
    assert [flush.size for flush in stage.flushes] == [806_384, 806_267], "about a megabyte at a time"
    assert stage.flushes[1].data == stage.log._segments[0].read(806_384, 806_267)


# Memory.


def test_what_a_follower_holds_is_charged_to_the_log_until_it_is_released() -> None:
    stage = FollowingStage()
    write(stage, bytes(1000))
    stage.follow()
    used_bytes = stage.budget.used_bytes
    stage.log.close()
    assert stage.budget.used_bytes == stage.budget.returning_bytes == used_bytes > 1000
    stage.deliver_all()
    assert (stage.budget.used_bytes, stage.budget.returning_bytes, stage.announcer.lent_segments) == (0, 0, 0)


def test_a_follower_that_is_gone_holds_nothing() -> None:
    stage = FollowingStage()
    write(stage, bytes(1000))
    stage.follow()
    stage.log.close()
    stage.announcer.close()
    assert stage.budget.used_bytes == 0


def test_memory_that_is_on_its_way_back_does_not_cost_other_streams_theirs() -> None:
    budget = LogBudget(100_000)
    large, other = FollowingStage(SMALL, budget), FollowingStage(SMALL, budget)
    for stage, size in ((large, 3000), (other, 500)):
        stage.follow()
        write(stage, *([bytes(size)] * 20))
        stage.deliver_all()
    write(large, bytes(25_000))
    assert budget.used_bytes > 100_000
    assert budget.returning_bytes > 50_000
    assert other.log.start == 0
    large.deliver_all()
    assert budget.used_bytes < 60_000


def test_what_was_never_sent_is_not_waited_for() -> None:
    stage = FollowingStage()
    stage.follow()
    write(stage, bytes(1000))
    stage.log.drop_everything()
    assert stage.announcer.lent_segments == 1
    stage.announcer.unfollow(announced(stage).number)
    assert (stage.announcer.lent_segments, stage.budget.used_bytes) == (0, 0)


def test_what_the_follower_does_not_have_cannot_be_given_back() -> None:
    stage = FollowingStage()
    with pytest.raises(MalformedInput, match="segment 5 is not lent"):
        stage.announcer.release([5])
    with pytest.raises(MalformedInput, match="stream 5 is not followed"):
        stage.announcer.unfollow(5)
