"""Which streams are flushed when: with a round of events, by a timer, or when somebody comes."""

import errno
import math
from collections.abc import Callable

import pytest

from penstock.relay.readable_log import Flush
from penstock.serve.sending.fan_out import Sending
from penstock.serve.settings import AppSettings, FlushPolicy, ServerSettings
from penstock.serve.streams.flusher import Flusher
from penstock.serve.streams.viewer import Viewer
from tests.serve.fake_peer import FakePeer, audio, media, video
from tests.serve.streams.stage import FlushNotes, Stage
from tests.support.hostile_clients import command

EACH_FRAME = AppSettings(flush=FlushPolicy(adapts=False))
ON_A_GRID = AppSettings(flush=FlushPolicy(grid_s=0.1, adapts=False))


class Failing:
    """A listener with a bug."""

    def on_flush(self, flush: Flush, now: float) -> None:
        raise ZeroDivisionError


def published(on: Stage, name: str = "a") -> tuple[FakePeer, FlushNotes]:
    """A publisher, and who hears of its flushes."""
    publisher = on.publisher(name)
    notes = FlushNotes(on.notes)
    on.stream(name).listeners.append(notes)
    return publisher, notes


def watched(app: AppSettings) -> tuple[Stage, FakePeer, FakePeer, FlushNotes]:
    """The same with a viewer in step."""
    on = Stage(app=app)
    publisher, notes = published(on)
    publisher.say(video(0, is_key=True))
    viewer = on.viewer()
    on.loop.advance(1.0)
    assert on.viewer_of(viewer).is_in_step
    viewer.hear()
    notes.flushes.clear()
    return on, publisher, viewer, notes


def heard(viewer: FakePeer) -> list[int]:
    """The times of the media that came."""
    return [timestamp_ms for timestamp_ms, _ in media(viewer.hear())]


def test_what_came_in_one_round_is_sent_at_its_end_by_one_call() -> None:
    on, publisher, viewer, notes = watched(EACH_FRAME)
    on.fan_out.calls.clear()
    publisher.transport.feed(audio(20) + video(40) + audio(43))
    on.loop.run_events()
    assert heard(viewer) == [], "everything that is readable is read first"
    on.loop.settle()
    assert heard(viewer) == [20, 40, 43]
    assert (len(notes.flushes), len(on.fan_out.calls)) == (1, 1)


def test_audio_waits_for_video_and_goes_with_it() -> None:
    on, publisher, viewer, notes = watched(EACH_FRAME)
    publisher.say(audio(20))
    on.loop.advance(0.03)
    publisher.say(audio(43))
    assert heard(viewer) == []
    publisher.say(video(60))
    assert heard(viewer) == [20, 43, 60]
    publisher.say(audio(66))
    on.loop.advance(0.02)
    assert len(notes.flushes) == 1, "and nothing is left of the timer"


def test_audio_waits_no_longer_than_the_setting() -> None:
    on, publisher, viewer, _ = watched(EACH_FRAME)
    publisher.say(audio(20))
    on.loop.advance(0.030)
    publisher.say(audio(43))
    on.loop.advance(0.009)
    assert heard(viewer) == []
    on.loop.advance(0.002)
    assert heard(viewer) == [20, 43]


def test_audio_is_sent_at_once_while_the_server_has_time_to_spare() -> None:
    on, publisher, viewer, _ = watched(AppSettings())
    publisher.say(audio(20))
    assert heard(viewer) == [20]
    on.loop.foreground_share = 0.5
    publisher.say(audio(43))
    assert heard(viewer) == []


def test_audio_waits_as_well_while_other_workers_are_busy() -> None:
    on, publisher, viewer, _ = watched(AppSettings())
    on.flusher.foreground_share_beside = 0.3
    publisher.say(audio(20))
    on.loop.advance(0.017)
    assert heard(viewer) == [], "40 ms * 0.3 / 0.7"
    on.loop.advance(0.001)
    assert heard(viewer) == [20]
    on.loop.foreground_share = 0.1
    publisher.say(audio(43))
    on.loop.advance(0.026)
    assert heard(viewer) == [], "40 ms * 0.4 / 0.6"
    on.loop.advance(0.001)
    assert heard(viewer) == [43]


def test_on_a_grid_everything_is_sent_together() -> None:
    on, publisher, viewer, notes = watched(ON_A_GRID)
    on.loop.advance(0.05)
    for time_ms in (20, 40, 60):
        publisher.say(video(time_ms))
        on.loop.advance(0.01)
    assert heard(viewer) == []
    on.loop.advance(0.03)
    assert heard(viewer) == [20, 40, 60]
    assert len(notes.flushes) == 1


def test_a_stream_that_nobody_watches_is_flushed_less_often() -> None:
    on = Stage(app=EACH_FRAME)
    publisher, notes = published(on)
    for number in range(25):
        publisher.say(video(number * 20, is_key=not number))
        on.loop.advance(0.02)
    assert len(notes.flushes) <= 1
    on.loop.advance(0.5)
    assert sum(len(flush.entries) for flush in notes.flushes) == 25


def test_much_of_a_stream_that_nobody_watches_is_flushed_at_once() -> None:
    on = Stage(app=EACH_FRAME)
    publisher, notes = published(on)
    publisher.say(video(0, bytes(200_000), is_key=True))
    assert notes.flushes == []
    publisher.say(video(20, bytes(100_000)))
    assert [len(flush.entries) for flush in notes.flushes] == [2]


def test_many_tiny_messages_that_nobody_waits_for_are_flushed_at_once() -> None:
    on = Stage(app=EACH_FRAME)
    publisher, notes = published(on)
    publisher.say(video(0, is_key=True))
    publisher.say(b"".join(video(number) for number in range(1, 520)))
    assert 512 <= sum(len(flush.entries) for flush in notes.flushes) <= 520


def test_what_nobody_waited_for_is_flushed_when_somebody_comes() -> None:
    on = Stage(app=EACH_FRAME)
    publisher, notes = published(on)
    publisher.say(video(0, is_key=True))
    assert notes.flushes == []
    viewer = on.viewer()
    assert media(viewer.messages) != []
    on.loop.advance(1.0)
    assert len(notes.flushes) == 1


def test_audio_that_nobody_waited_for_is_due_sooner_when_somebody_comes() -> None:
    on = Stage(app=EACH_FRAME)
    publisher, notes = published(on)
    publisher.say(audio(0))
    viewer = on.viewer()
    on.loop.advance(0.03)
    assert notes.flushes == []
    on.loop.advance(0.02)
    assert heard(viewer) == [0]


def test_a_policy_that_changes_while_something_waits_holds_for_it() -> None:
    on, publisher, viewer, _ = watched(EACH_FRAME)
    on.loop.advance(0.01)
    publisher.say(audio(20))
    on.stream().app = ON_A_GRID
    on.loop.advance(0.05)
    assert heard(viewer) == []
    on.loop.advance(0.05)
    assert heard(viewer) == [20]


def test_a_stream_is_marked_once_however_much_it_takes() -> None:
    on = Stage(app=EACH_FRAME)
    publisher, _ = published(on)
    publisher.transport.feed(audio() * 50)
    on.loop.run_events()
    on.flusher.mark(on.stream())
    assert len(on.flusher._dirty) == 1


def test_a_stream_that_fails_keeps_no_other_from_being_sent() -> None:
    on = Stage(app=EACH_FRAME)
    errors: list[BaseException] = []
    flusher = Flusher(on.loop, on.fan_out, 0.040, errors.append)
    on.broker.stream_dirty = flusher.mark
    on.loop.after_events = flusher.flush_dirty
    publishers = [on.publisher(name) for name in "abc"]
    viewers = []
    for name, publisher in zip("abc", publishers, strict=True):
        publisher.say(video(0, is_key=True))
        viewers.append(on.viewer(name))
        viewers[-1].hear()
    on.stream("b").listeners.append(Failing())
    for publisher in publishers:
        publisher.transport.feed(video(40))
    on.loop.settle()
    assert [heard(viewer) for viewer in viewers] == [[40], [], [40]]
    assert [type(error) for error in errors] == [ZeroDivisionError]


# A round of many streams.


class Crowd(Stage):
    """Three streams, each with two viewers in step."""

    def __init__(self, settings: ServerSettings | None = None) -> None:
        super().__init__(settings or ServerSettings(app=lambda _name: EACH_FRAME))
        self.publishers = {name: self.publisher(name) for name in "abc"}
        for publisher in self.publishers.values():
            publisher.say(video(0, is_key=True))
        self.viewers = {name: [self.viewer(name), self.viewer(name)] for name in "abc"}
        for each in self.all_viewers():
            assert self.viewer_of(each).is_in_step
            each.hear()

    def all_viewers(self) -> list[FakePeer]:
        return [viewer for viewers in self.viewers.values() for viewer in viewers]

    def round(self, body: bytes = b"picture") -> None:
        """A frame of each stream comes in the same round of events."""
        for publisher in self.publishers.values():
            publisher.transport.feed(video(40, body))
        self.loop.settle()


def test_all_streams_of_a_round_are_sent_in_one_step() -> None:
    on = Crowd()
    before = on.fan_out.rounds
    on.round()
    assert on.fan_out.rounds == before + 1
    assert [heard(viewer) for viewer in on.all_viewers()] == [[40]] * 6


@pytest.mark.parametrize("taken", [0, 1, 30])
def test_one_that_takes_less_in_the_middle_of_a_round_falls_behind_alone(taken: int) -> None:
    on = Crowd()
    slow = on.viewers["b"][0]
    slow.transport.room_bytes = taken
    on.round(bytes(100))
    others = [viewer for viewer in on.all_viewers() if viewer is not slow]
    assert [heard(viewer) for viewer in others] == [[40]] * 5
    assert [on.viewer_of(viewer).is_in_step for viewer in others] == [True] * 5
    assert not on.viewer_of(slow).is_in_step
    slow.transport.room_bytes = 10**9
    on.loop.settle()
    assert heard(slow) == [40]
    assert on.viewer_of(slow).is_in_step


def test_connections_that_are_lost_go_when_the_whole_round_is_sent() -> None:
    on = Crowd()
    for lost in (on.viewers["a"][1], on.viewers["b"][0]):
        lost.transport.fault = OSError(errno.EPIPE, "Broken pipe")
    order: list[str] = []
    on.notes.connection_closed = lambda connection, reason: order.append(reason)  # type: ignore[method-assign]
    on.stream("c").finish_flush = tell_first(on.stream("c").finish_flush, order)  # type: ignore[method-assign]
    on.round()
    assert order == ["c is finished", *["connection lost while sending"] * 2]
    assert [heard(viewer) for viewer in on.viewers["c"]] == [[40]] * 2


def tell_first(finish: Callable[[Sending, list[int]], list[Viewer]], order: list[str]) -> Callable[..., list[Viewer]]:
    def finish_and_tell(sending: Sending, sent_to_each: list[int]) -> list[Viewer]:
        order.append("c is finished")
        return finish(sending, sent_to_each)

    return finish_and_tell


def test_who_has_half_a_message_gets_the_rest_though_another_stream_of_the_round_took_the_memory() -> None:
    on = Crowd(ServerSettings(app=lambda _name: EACH_FRAME, max_total_log_bytes=30_000))
    slow = on.viewers["a"][0]
    slow.transport.room_bytes = 50
    on.round(bytes(12_000))
    assert on.stream("a").log.start == on.stream("a").log.head, "it was made to drop what it had just flushed"
    assert slow.transport.room_bytes == 0
    slow.transport.room_bytes = 10**9
    on.loop.settle()
    assert heard(slow) == [40]


def test_a_stream_that_goes_with_a_lost_connection_has_sent_its_part_of_the_round() -> None:
    on = Crowd()
    both = on.publishers["a"]
    both.say(command("createStream", 5.0, None))
    both.play("b", stream_id=2)
    both.transport.fault = OSError(errno.EPIPE, "Broken pipe")
    for name in "bc":
        on.publishers[name].transport.feed(video(40))
    on.loop.settle()
    assert on.is_closed(both)
    assert [heard(viewer) for viewer in on.viewers["b"] + on.viewers["c"]] == [[40]] * 4


# When the loop comes round.


def test_a_stream_that_waits_has_the_loop_come_round_and_one_that_was_sent_does_not() -> None:
    on, publisher, _, _ = watched(EACH_FRAME)
    publisher.say(audio(20))
    assert on.loop.flush_at == pytest.approx(on.loop.now + 0.040)
    publisher.say(video(40))
    assert on.loop.flush_at == math.inf
    assert on.loop.next_timer_at is None, "there is no timer to cancel"


def test_of_several_that_wait_each_is_sent_in_its_time() -> None:
    on = Crowd()
    for name in "abc":
        on.publishers[name].say(audio(20))
        on.loop.advance(0.010)
    on.publishers["a"].say(video(40))
    on.loop.advance(0.0201)
    assert [[heard(viewer) for viewer in on.viewers[name]] for name in "abc"] == [[[20, 40]] * 2, [[20]] * 2, [[]] * 2]
    on.loop.advance(0.010)
    assert [heard(viewer) for viewer in on.viewers["c"]] == [[20]] * 2
    assert on.loop.flush_at == math.inf


def test_of_very_many_that_are_due_at_the_same_time_a_part_is_flushed_in_each_round() -> None:
    on = Stage()
    publishers = [on.publisher(f"s{number}") for number in range(300)]
    for publisher in publishers:
        publisher.say(audio(20))
    flushed: list[int] = []
    on.loop.now += 0.6
    for _ in range(3):
        on.flusher.flush_dirty()
        assert (on.loop.flush_at <= on.loop.now) is (len(flushed) < 2), "the next round begins at once"
        flushed.append(sum(on.stream(f"s{number}").log.unflushed_messages == 0 for number in range(300)))
    assert flushed == [128, 256, 300]


def test_a_stream_that_ended_while_it_waited_is_waited_for_no_more() -> None:
    on, publisher, _, _ = watched(EACH_FRAME)
    publisher.say(audio(20))
    publisher.close_stream()
    on.loop.advance(0.1)
    assert on.loop.flush_at == math.inf
    assert on.flusher._waiting == {}


# Measures.


@pytest.mark.parametrize("app", [EACH_FRAME, ON_A_GRID])
def test_rounds_that_send_are_measured_be_they_caused_by_events_or_by_a_timer(app: AppSettings) -> None:
    on, publisher, _, _ = watched(app)
    before = sum(on.flusher.rounds.counts)
    on.loop.settle()
    on.loop.advance(0.05)
    assert sum(on.flusher.rounds.counts) == before, "a round in which nothing was sent is none"
    publisher.say(video(40))
    on.loop.advance(0.2)
    assert sum(on.flusher.rounds.counts) == before + 1


def test_a_round_takes_from_the_wake_up_to_the_last_send() -> None:
    on, publisher, _, _ = watched(EACH_FRAME)
    before_s = on.flusher.rounds.sum_s
    on.loop.look_costs_s = 0.003
    publisher.transport.feed(video(40))
    on.loop.settle()
    assert on.flusher.rounds.sum_s - before_s >= 0.003


def test_a_stream_that_was_flushed_meanwhile_has_nothing_to_send() -> None:
    on, publisher, viewer, notes = watched(EACH_FRAME)
    publisher.transport.feed(video(40))
    on.loop.run_events()
    on.stream().flush(on.loop.now)
    on.loop.settle()
    assert heard(viewer) == [40]
    assert len(notes.flushes) == 1
