"""A stream over its publications: what goes on after a reconnect, what is kept without a publisher, and its end."""

import pytest

from penstock.media.frame import Frame
from penstock.relay.readable_log import Flush
from penstock.serve.settings import AppSettings
from tests.relay.support import audio, audio_setup, inter, key, metadata, video_setup
from tests.serve.streams.stream_stage import THE_END, StreamStage, in_step, published


class Times:
    """The times of all messages that were flushed."""

    def __init__(self) -> None:
        self.ms: list[int] = []

    def on_flush(self, flush: Flush, now: float) -> None:
        self.ms += [entry.timestamp_ms for entry in flush.entries]


def times_of(on: StreamStage) -> Times:
    times = Times()
    on.stream.listeners.append(times)
    return times


# Publications.


def test_a_stream_is_live_while_somebody_publishes_it() -> None:
    on = StreamStage()
    assert not on.stream.is_live
    publisher = on.begin()
    assert on.stream.publisher is publisher
    on.stream.lose(on.loop.now)
    assert not on.stream.is_live


def test_a_publisher_that_comes_back_goes_on_by_the_wall_time_that_passed() -> None:
    on = StreamStage()
    times = times_of(on)
    on.begin()
    on.send(key(5000))
    on.stream.lose(on.loop.now)
    on.loop.advance(2.0)
    on.begin()
    on.send(video_setup(0), key(0))
    assert times.ms == [5000, 7000, 7000]


def test_the_wall_time_counts_from_the_last_frame_even_over_a_publisher_that_sent_none() -> None:
    on = StreamStage()
    times = times_of(on)
    on.begin()
    on.send(key(5000))
    on.stream.lose(on.loop.now)
    on.loop.advance(4.0)
    on.begin()
    on.send(video_setup(0))
    on.stream.lose(on.loop.now)
    on.loop.advance(4.0)
    on.begin()
    on.send(key(0))
    assert times.ms == [5000, 13_000]


def test_a_publication_that_keeps_the_clock_is_appended_as_it_came() -> None:
    on = StreamStage()
    times = times_of(on)
    on.begin()
    on.send(inter(5000))
    on.loop.advance(1.0)
    on.begin()
    on.send(inter(6020), inter(6060))
    assert times.ms == [5000, 6020, 6060]


def test_what_a_stream_consists_of_is_for_each_publication_to_say() -> None:
    on = StreamStage()
    on.begin()
    on.send(metadata(), video_setup(), audio_setup(), key(0), audio(0))
    on.begin()
    on.send(audio_setup(body=b"new"), audio(0, b"a1"))
    assert on.watch().heard() == ["metadata", "new", "a1"]


def test_when_the_publisher_last_sent_anything_is_known() -> None:
    on = StreamStage()
    on.loop.advance(1.0)
    on.begin()
    assert on.stream.last_media_at == on.loop.now
    on.loop.advance(2.0)
    on.stream.take_media(8, 0, audio_setup().payload, on.loop.now)
    assert on.stream.last_media_at == on.loop.now


def test_each_change_of_the_codecs_is_told_once() -> None:
    on = StreamStage()
    on.begin()
    avc = bytes.fromhex("17 00 000000 01 42c01e ffe1 0004 6742c01e 01 0002 68ce")
    for payload in (avc, avc):
        on.stream.take_media(9, 0, payload, on.loop.now)
    on.stream.take_media(8, 0, bytes.fromhex("af 00 1210"), on.loop.now)
    on.stream.take_media(8, 0, audio(0).payload, on.loop.now)
    assert len(on.notes.codecs) == 2
    assert on.stream.codecs_text == on.notes.codecs[-1]


def test_colours_that_follow_the_decoder_configuration_do_not_hide_it() -> None:
    on = StreamStage()
    on.begin()
    # The sequence header of an AV1 picture of 320x180, and the colours that FFmpeg sends behind it.
    av1 = bytes.fromhex("90 61763031 81000c00 0a0b000000043cfecc02f80040")
    on.stream.take_media(9, 0, av1, on.loop.now)
    assert on.stream.codecs_text == "AV1 Main 2.0 320x180"
    colours = bytes.fromhex("94 61763031 020009 636f6c6f72496e666f 03 0000 09")
    on.stream.take_media(9, 0, colours, on.loop.now)
    assert on.stream.codecs_text == "AV1 Main 2.0 320x180"


def test_codecs_of_a_publication_that_goes_on_are_known_with_its_first_frame() -> None:
    on = StreamStage()
    avc, aac = bytes.fromhex("17 00 000000 01 42c01e ffe1 0004 6742c01e 01 0002 68ce"), bytes.fromhex("af 00 1210")
    told = []
    for setups in ((avc, aac), (avc, aac), (aac,)):
        on.begin()
        for payload in setups:
            on.stream.take_media(9 if payload is avc else 8, 0, payload, on.loop.now)
        on.stream.take_media(8, 0, audio(0).payload, on.loop.now)
        told.append(on.stream.codecs_text)
    assert told == [on.notes.codecs[1], on.notes.codecs[1], on.notes.codecs[1].partition(", ")[2]]
    assert len(on.notes.codecs) == 3


def test_what_is_taken_is_to_be_flushed() -> None:
    on = StreamStage()
    on.begin()
    on.stream.take_media(8, 0, audio(0).payload, on.loop.now)
    on.stream.take_data(0, metadata().payload, on.loop.now)
    assert on.notes.dirty == 2
    on.stream.is_dirty = True
    on.stream.take_media(8, 0, audio(0).payload, on.loop.now)
    on.stream.take_data(0, metadata().payload, on.loop.now)
    assert on.notes.dirty == 2, "once is enough"


# Without a publisher.


def test_nobody_begins_with_the_pictures_of_a_publisher_that_is_gone() -> None:
    on = published()
    in_step(on)
    on.stream.lose(on.loop.now)
    assert on.stream.log.newest_point is None
    watcher = on.watch()
    on.loop.advance(5.0)
    on.stream.call_waiting(on.loop.now)
    on.loop.settle()
    assert watcher.heard() == []


def test_it_may_come_back_within_the_grace() -> None:
    on = published(AppSettings(grace_s=7.0))
    on.stream.lose(on.loop.now)
    assert on.stream.grace_until == on.loop.now + 7.0
    on.begin()
    assert on.stream.grace_until is None


def test_a_lost_publisher_that_nobody_watches_leaves_no_memory_behind() -> None:
    on = published()
    assert on.budget.used_bytes > 0
    on.stream.lose(on.loop.now)
    assert (on.store.open_buffers, on.budget.used_bytes) == (set(), 0)


def test_what_viewers_have_yet_to_be_sent_is_kept_until_the_last_has_left() -> None:
    on = published()
    one, two = in_step(on), in_step(on)
    for watcher in (one, two):
        watcher.transport.room_bytes = 0
    on.send(inter(80, b"i2"))
    on.stream.lose(on.loop.now)
    one.transport.room_bytes = 10**9
    on.loop.settle()
    assert one.heard() == ["i2"]
    on.leave(one)
    assert on.budget.used_bytes > 0
    on.leave(two)
    assert on.budget.used_bytes == 0


def test_while_it_is_published_leaving_viewers_take_nothing_with_them() -> None:
    on = published()
    on.leave(in_step(on))
    assert on.watch().heard()[-2:] == ["k0", "i1"]


# The end.


def test_at_the_end_viewers_in_step_are_told_in_their_turn() -> None:
    on = published()
    one, two = in_step(on), in_step(on)
    on.stream.end()
    assert (one.heard(), on.loop.queued_turns) == ([], 2)
    on.loop.settle()
    assert one.heard() == two.heard() == [THE_END]


def test_one_that_lags_gets_the_rest_and_then_the_end() -> None:
    on = published()
    watcher = in_step(on)
    watcher.transport.room_bytes = 30
    on.send(inter(80, b"i2" + bytes(100)), audio(90, b"a2"))
    on.stream.end()
    on.loop.settle()
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard() == ["i2", "a2", THE_END]


@pytest.mark.parametrize("frame", [inter(120, bytes(2_000_000)), audio(120, bytes(1_100_000))])
def test_one_that_lags_too_far_gets_the_message_in_hand_and_then_the_end(frame: Frame) -> None:
    on = published()
    watcher = in_step(on)
    watcher.transport.room_bytes = 30
    on.send(inter(80, b"i2" + bytes(100)))
    on.send(frame)
    on.stream.end()
    on.loop.settle()
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard() == ["i2", THE_END]


def test_a_filtered_viewer_gets_the_rest_and_then_the_end() -> None:
    on = published()
    watcher = on.watch(stream_id=3)
    watcher.heard()
    on.stream.append(inter(80, b"i2"), on.loop.now)
    on.stream.flush(on.loop.now)
    on.stream.end()
    on.loop.settle()
    assert watcher.heard() == ["i2", THE_END]


def test_one_that_waits_for_a_place_is_told_the_end() -> None:
    on = StreamStage()
    on.begin()
    on.send(video_setup(), inter(0))
    watcher = on.watch()
    on.stream.end()
    on.loop.settle()
    assert watcher.heard() == [THE_END]


def test_one_that_waited_for_a_stream_of_one_flush_gets_it_and_then_the_end() -> None:
    """A publication that begins and ends within a round of events."""
    on = StreamStage()
    watcher = on.watch()
    on.begin()
    for frame in (video_setup(), key(0, b"k0")):
        on.stream.append(frame, on.loop.now)
    on.stream.flush(on.loop.now)
    on.stream.end()
    on.loop.settle()
    assert watcher.heard() == ["metadata", "avc", "k0", THE_END]


def test_nothing_is_kept_after_the_end() -> None:
    on = published()
    one, two = in_step(on), in_step(on)
    two.transport.room_bytes = 0
    on.send(inter(80, b"i2"))
    on.stream.end()
    on.loop.settle()
    assert one.heard() == ["i2", THE_END]
    assert on.budget.used_bytes > 0, "somebody reads it still"
    two.transport.room_bytes = 10**9
    on.loop.settle()
    assert (on.store.open_buffers, on.budget.used_bytes) == (set(), 0)


def test_a_stream_that_nobody_watches_gives_its_memory_back_at_once() -> None:
    on = published()
    on.stream.end()
    assert (on.store.open_buffers, on.budget.used_bytes) == (set(), 0)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_viewer_that_goes_after_the_end_gives_the_rest_back(is_lost: bool) -> None:
    on = published()
    watcher = in_step(on)
    watcher.transport.room_bytes = 5
    on.send(inter(80, b"i2"))
    on.stream.end()
    on.loop.settle()
    if is_lost:
        watcher.connection.close("lost")
    on.leave(watcher)
    assert (on.store.open_buffers, on.budget.used_bytes) == (set(), 0)
    assert on.budget._logs == set(), "and is asked to make room no more"
