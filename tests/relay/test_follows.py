"""The follower's side: what it reads, what it lets go of, and what it refuses."""

import msgspec
import pytest

from penstock.errors import MalformedInput, MisuseError
from penstock.relay.cursor import Cursor
from penstock.relay.following import Hello, Round, decode_for_follower
from penstock.relay.follows import StreamChanged
from penstock.relay.readable_log import LogLimits
from tests.relay.following_stage import FollowingStage
from tests.relay.support import ENCODERS, audio, audio_setup, inter, key, metadata, video_setup

SMALL = LogLimits(min_segment_bytes=300, max_segment_bytes=300)


def followed_stage(*bodies: bytes, limits: LogLimits = SMALL) -> FollowingStage:
    """A stream that is followed, with a key frame for each body, flushed and told one by one."""
    stage = FollowingStage(limits)
    stage.follow()
    for number, body in enumerate(bodies):
        stage.log.append(key(number * 40, body), number * 0.04)
        stage.flush(number * 0.04)
        stage.deliver_all()
    return stage


def test_a_stream_that_is_not_there_is_told_as_absent() -> None:
    stage = FollowingStage()
    stage.follows.follow(b"live/other", 1)
    stage.deliver_all()
    assert (stage.absent, stage.stream) == ([b"live/other"], None)


def test_a_cursor_reads_what_the_other_process_wrote() -> None:
    stage = followed_stage(b"one", bytes(400), b"three")
    cursor = Cursor(stage.followed)
    cursor.position = 0
    ours = Cursor(stage.log)
    ours.position = 0
    while (piece := ours.next_range()) is not None:
        theirs = cursor.next_range()
        assert theirs is not None
        assert theirs.segment.read(theirs.position, theirs.size) == piece.segment.read(piece.position, piece.size)
        ours.advance(piece.size)
        cursor.advance(piece.size)
    assert cursor.is_in_step


def test_who_waits_hears_of_the_first_place_in_what_has_become_visible() -> None:
    stage = FollowingStage()
    stage.follow()
    for frame in (inter(0), key(40), inter(80)):
        stage.log.append(frame, 0.0)
        stage.flush()
        stage.deliver_all()
    assert [flush.first_point and flush.first_point.timestamp_ms for flush in stage.flushes] == [None, 40, None]


def test_a_place_is_told_with_the_segment_that_it_is_in() -> None:
    stage = FollowingStage(SMALL)
    stage.follow()
    for frame in (key(0, bytes(400)), inter(40, bytes(400)), key(80, bytes(400))):
        stage.log.append(frame, 0.0)
        stage.flush()
    stage.deliver_all()
    assert [flush.first_point and flush.first_point.timestamp_ms for flush in stage.flushes] == [0, None, 80]


def test_joiners_get_the_same_first_messages_here_and_there() -> None:
    stage = FollowingStage()
    stage.follow()
    for frame in (metadata(), video_setup(), audio_setup(), key(0), audio(5)):
        stage.log.append(frame, 0.0)
    stage.flush()
    stage.log.append(video_setup(40, b"another"), 0.0)
    stage.flush()
    stage.deliver_all()
    ours, theirs = stage.log.newest_point, stage.followed.newest_point
    assert ours is not None
    assert theirs == ours
    assert stage.followed.joining_messages(theirs.config, 7) == stage.log.joining_messages(ours.config, 7)
    assert stage.followed.config == stage.log.config != ours.config


def test_a_codec_configuration_travels_once_for_as_long_as_it_is_in_use() -> None:
    stage = followed_stage(b"one", b"two", b"three")
    assert [len(news.configs) for news in stage.news] == [1, 1, 0, 0], "without video, then with it"
    stage.log.append(video_setup(0, b"new"), 0.2)
    stage.flush(0.2)
    stage.deliver_all()
    assert len(stage.followed._configs) == 2


def test_metadata_that_was_taken_back_is_not_given_to_joiners_elsewhere() -> None:
    stage = FollowingStage()
    stage.follow()
    stage.log.append(metadata(), 0.0)
    stage.log.clear_metadata()
    stage.log.append(key(0), 0.0)
    stage.flush()
    stage.deliver_all()
    assert not stage.followed.config.has_metadata


def test_publications_are_told() -> None:
    stage = followed_stage(b"one")
    assert stage.announced is not None
    assert (stage.followed.is_live, stage.followed.publication) == (True, 0)
    stage.announced.lose()
    stage.deliver_all()
    assert not stage.followed.is_live
    stage.log.begin_anew()
    stage.announced.begin_anew()
    stage.deliver_all()
    assert (stage.followed.is_live, stage.followed.publication) == (True, 1)
    assert stage.followed.publication_start == stage.log.head
    assert stage.followed.newest_point is None


def test_what_the_writer_dropped_is_released_when_nobody_reads_it_any_more() -> None:
    stage = followed_stage(bytes(400), bytes(400))
    cursor = Cursor(stage.followed)
    cursor.position = 0
    cursor.next_range()
    cursor.advance(5)
    stage.log.drop_everything()
    stage.deliver_all()
    assert len(stage.memory.opened) == len(stage.memory.written) == 1, "half a message is out of the first"
    cursor.release()
    stage.deliver_all()
    assert not stage.memory.opened
    assert not stage.memory.written


def test_letting_go_spares_the_segment_of_which_more_may_come() -> None:
    stage = followed_stage(bytes(400), bytes(400), b"small")
    stage.log.append(inter(200), 0.2)
    stage.flush(0.2)
    stage.take()
    stage.followed.drop_everything()
    stage.deliver_all()
    assert stage.followed.head == stage.log.head
    assert len(stage.memory.opened) == 1


def test_news_that_were_under_way_to_one_that_left_are_let_go_of() -> None:
    stage = followed_stage(b"one")
    stage.log.append(key(40, bytes(400)), 0.0)
    stage.flush()
    stage.log.append(key(80, bytes(400)), 0.0)
    stage.flush()
    stage.take()
    stage.unfollow()
    stage.deliver_all()
    assert stage.announcer.lent_segments == 0
    assert not stage.memory.opened


def test_news_that_are_applied_when_everybody_has_left_are_let_go_of() -> None:
    stage = followed_stage(b"one")
    log = stage.followed
    stage.log.append(key(40, bytes(400)), 0.1)
    stage.flush(0.1)
    stage.log.append(key(80), 0.2)
    stage.flush(0.2)
    stage.take()
    body, descriptors = stage.to_follower.popleft()
    changes = stage.follows.receive(decode_for_follower(body), descriptors)
    stage.unfollow()
    for changed in changes:
        assert isinstance(changed, StreamChanged)
        assert list(changed.apply()) == []
    stage.deliver_all()
    assert log.start == log.head
    assert stage.announcer.lent_segments == 0
    assert not stage.memory.opened


def test_a_stream_can_be_followed_again() -> None:
    stage = followed_stage(b"one")
    stage.unfollow()
    stage.follow()
    assert stage.followed.head == stage.log.head
    assert stage.followed.newest_point == stage.log.newest_point


def test_a_stream_goes_on_counting_where_it_was() -> None:
    stage = FollowingStage()
    stage.log = type(stage.log)(stage.memory, ENCODERS, SMALL, stage.budget, position=5000)
    stage.log.append(key(0), 0.0)
    stage.flush()
    stage.follow()
    assert (stage.followed.start, stage.followed.publication_start) == (5000, 5000)
    assert stage.followed.newest_point is not None
    assert stage.followed.newest_point.position == 5000


def test_what_is_not_followed_cannot_be_let_go_of() -> None:
    with pytest.raises(MisuseError, match="stream 5 is not followed"):
        FollowingStage().follows.unfollow(5)


def test_another_version_ends_the_link() -> None:
    stage = FollowingStage()
    assert stage.follows.receive(Hello(2)) == []
    with pytest.raises(MalformedInput, match="version 9"):
        stage.follows.receive(Hello(9))


def test_descriptors_that_belong_to_nothing_are_closed_and_end_the_link() -> None:
    stage = followed_stage(b"one")
    (descriptor,) = stage.memory.written
    with pytest.raises(MalformedInput, match="1 descriptors beside a message with 0"):
        stage.follows.receive(Hello(2), [descriptor])
    assert len(stage.memory.opened) == 1


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"position": 0}, "news from 0 on, and the head is at 20"),
        ({"config": 77}, "codec configuration 77 was not told"),
    ],
)
def test_news_that_make_no_sense_are_refused_and_cost_no_descriptor(change: dict[str, int], fault: str) -> None:
    stage = followed_stage(b"one")
    stage.log.cut_back()
    stage.log._segment_target = 1
    stage.log.append(key(40), 0.0)
    stage.flush()
    (parcel,) = stage.announcer.take(1 << 20)
    message = decode_for_follower(parcel.body)
    assert isinstance(message, Round)
    wrong = Round([msgspec.structs.replace(message.news[0], **change)])
    (event,) = stage.follows.receive(wrong, parcel.descriptors)
    with pytest.raises(MalformedInput, match=fault):
        list(event.apply())  # type: ignore[union-attr]
    assert len(stage.memory.opened) == 1


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"segment": 9}, "more of segment 9, which is not the newest"),
        ({"entries": b""}, "nothing to show of segment 1"),
        ({"copied": b"x"}, "1 copied bytes for messages of 20"),
        ({"start": 5, "copied": b"x"}, "segment 1 begins at 5, the head is at 20"),
    ],
)
def test_a_run_that_makes_no_sense_is_refused(change: dict[str, object], fault: str) -> None:
    stage = followed_stage(b"one")
    stage.log.append(key(40), 0.0)
    stage.flush()
    (parcel,) = stage.announcer.take(1 << 20)
    message = decode_for_follower(parcel.body)
    assert isinstance(message, Round)
    run = msgspec.structs.replace(message.news[0].runs[0], **change)
    (event,) = stage.follows.receive(Round([msgspec.structs.replace(message.news[0], runs=[run])]))
    with pytest.raises(MalformedInput, match=fault):
        list(event.apply())  # type: ignore[union-attr]
