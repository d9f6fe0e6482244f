"""The feed by itself: what it sends when, to a web process that listens, is away or is slow. No sockets, own clock."""

from typing import Any, cast

from penstock.control.live import LiveConnection, LiveStreamState, LiveView
from penstock.facts import ClockStepped, LimitHit, StreamSample, ViewerSample
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Reactor
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.live_feed import BATCH_S, MAX_FACT_BYTES, MAX_GONE, SAMPLE_S, SLICE_VALUES, LiveFeed
from penstock.serve.telemetry.live_values import LiveValues
from penstock.serve.telemetry.meter import Meters
from tests.serve.fakes import FakeLoop
from tests.serve.telemetry.fed_web import FedWeb
from tests.web.live.live_values import connection, stream, view

FACT = LimitHit("connections", 1, "")
SAMPLE = ViewerSample("v1", "c1", "live", "a", 0, 0, None, 0, None, 0, 0, None, None, None)


class Values:
    """What is open, by name alone."""

    def __init__(self) -> None:
        self.looks = 0
        self.sampled: set[str] = set()
        self.clock_steps = 0

    def connection(self, each: Any) -> LiveConnection:
        self.looks += 1
        return connection(each.id, received_bytes=self.looks)

    def conn_id(self, each: Any) -> str:
        return str(each.id)

    def view_id(self, each: Any) -> str:
        return str(each.name)

    def view(self, each: Any) -> LiveView:
        self.looks += 1
        return view(each.name, sent_bytes=each.sent_bytes)

    def stream(self, each: Any) -> LiveStreamState:
        self.looks += 1
        return stream(each.key.removeprefix("live/"), is_live=each.is_live)

    def is_sampled(self, each: Any) -> bool:
        return each.key in self.sampled

    def codecs_known(self, each: Any) -> None: ...

    def forget(self, each: Any) -> None: ...

    def forget_publication(self, each: Any) -> None: ...

    def rename(self) -> None:
        self.clock_steps += 1


class FakeMeters:
    """Counts how often a meter is read."""

    def __init__(self) -> None:
        self.samples = 0

    def of(self, _stream: Any) -> "FakeMeters":
        return self

    def sample(self, _now: float) -> None:
        self.samples += 1


class Thing:
    """A connection, a viewer or a stream, as far as the feed looks at it."""

    def __init__(self, name: str) -> None:
        self.id = self.name = name
        self.key = f"live/{name}"
        self.app_name = "live"
        self.is_live = True
        self.sent_bytes = 0


class Stage:
    """A feed and what it is about."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.loop = FakeLoop()
        self.web = FedWeb(is_open=is_open)
        self.values = Values()
        self.meters = FakeMeters()
        self.feed = LiveFeed(
            self.web,
            cast("LiveValues", self.values),
            cast("Meters", self.meters),
            cast("Reactor", self.loop),
        )

    def pass_time(self, seconds: float) -> None:
        ends_at = self.loop.now + seconds
        while self.loop.now < ends_at - 1e-9:
            self.feed.second_passed(self.loop.now)
            self.loop.advance(min(1.0, ends_at - self.loop.now))

    def open(self, name: str) -> RtmpConnection:
        opened = cast("RtmpConnection", Thing(name))
        self.feed.connection_opened(opened)
        return opened

    def play(self, name: str) -> Viewer:
        viewer = cast("Viewer", Thing(name))
        self.feed.play_started(viewer)
        return viewer

    def publish(self, name: str) -> LiveStream:
        published = cast("LiveStream", Thing(name))
        self.feed.publish_started(cast("RtmpConnection", None), published, "live")
        return published


def test_beginnings_are_told_together_within_50_ms() -> None:
    stage = Stage()
    stage.open("c1")
    stage.play("v1")
    stage.publish("a")
    stage.feed.on_fact(FACT, b"{1}\n")
    stage.pass_time(BATCH_S - 0.001)
    assert stage.web.told == []
    stage.pass_time(0.002)
    (told,) = stage.web.told
    assert (told.is_reset, told.is_whole, told.facts) == (True, True, [b"{1}"])
    assert [each.conn_id for each in told.connections] == ["c1"]
    assert [each.view_id for each in told.views] == ["v1"]
    assert [each.stream for each in told.streams] == ["a"]


def test_ends_are_told_with_how_it_ended() -> None:
    stage = Stage()
    opened, viewer, published = stage.open("c1"), stage.play("v1"), stage.publish("a")
    stage.pass_time(0.1)
    cast("Any", viewer).sent_bytes = 77
    stage.feed.play_stopped(viewer, "")
    stage.feed.stream_closed(published)
    stage.feed.connection_closed(opened, "")
    stage.pass_time(0.1)
    told = stage.web.told[-1]
    assert ([each.sent_bytes for each in told.views], told.gone_views) == ([77], ["v1"])
    assert (told.gone_connections, told.gone_streams, told.is_reset) == (["c1"], [("live", "a")], False)
    state = stage.web.state
    assert (state.views, state.connections, state.streams) == ({}, {}, {})


def test_what_goes_before_it_was_told_leaves_its_end_alone() -> None:
    stage = Stage()
    stage.feed.connection_closed(stage.open("c1"), "")
    viewer = stage.play("v1")
    cast("Any", viewer).sent_bytes = 5
    stage.feed.play_stopped(viewer, "")
    stage.pass_time(0.1)
    assert (stage.web.state.views, stage.web.state.connections) == ({}, {})


def test_a_stream_that_ends_and_begins_within_a_batch_is_there() -> None:
    stage = Stage()
    stage.feed.stream_closed(stage.publish("a"))
    stage.publish("a")
    stage.pass_time(0.1)
    assert list(stage.web.state.streams) == [("live", "a")]


def test_what_was_never_open_has_no_end() -> None:
    stage = Stage()
    stage.feed.play_stopped(cast("Viewer", Thing("waited in vain")), "")
    stage.feed.stream_closed(cast("LiveStream", Thing("followed")))
    stage.feed.connection_closed(cast("RtmpConnection", Thing("c0")), "")
    stage.pass_time(1.0)
    assert stage.web.told == []


def test_everything_that_is_open_is_told_again_within_two_seconds() -> None:
    stage = Stage()
    stage.open("c1")
    stage.play("v1")
    stage.publish("a")
    stage.pass_time(0.1)
    before = len(stage.web.told)
    stage.pass_time(SAMPLE_S + 2 * BATCH_S)
    again = stage.web.told[before:]
    assert [each.conn_id for told in again for each in told.connections] == ["c1"]
    assert [each.view_id for told in again for each in told.views] == ["v1"]
    assert [each.stream for told in again for each in told.streams] == ["a"]


def test_a_stream_of_which_something_is_new_is_told_again_within_50_ms() -> None:
    stage = Stage()
    published = stage.publish("a")
    stage.pass_time(0.1)
    before = len(stage.web.told)
    stage.feed.stream_changed(published)
    stage.pass_time(BATCH_S + 0.001)
    assert [[each.stream for each in told.streams] for told in stage.web.told[before:]] == [["a"]]


def test_a_stream_is_told_with_its_sample() -> None:
    stage = Stage()
    stage.publish("a")
    stage.pass_time(0.1)
    figures = (None, None, None, None)
    sample = StreamSample("p", "live", "a", 0, 0, 0, 0.0, 0, *figures, 0, 0, 0, 0, 0, 0, None, None)
    stage.feed.on_fact(sample, b"{}\n")
    stage.pass_time(BATCH_S + 0.001)
    assert [each.stream for each in stage.web.told[-1].streams] == ["a"]
    assert stage.web.told[-1].facts == [b"{}"]


def test_the_meter_of_a_publication_that_facts_leave_out_is_read_here() -> None:
    stage = Stage()
    stage.publish("a")
    stage.pass_time(4.0)
    assert stage.meters.samples == 2
    stage.values.sampled.add("live/a")
    stage.pass_time(4.0)
    assert stage.meters.samples == 2


def test_a_crowd_is_told_in_slices() -> None:
    stage = Stage()
    for number in range(5 * SLICE_VALUES):
        stage.open(f"c{number}")
    stage.pass_time(0.2)
    assert [len(told.connections) for told in stage.web.told] == [SLICE_VALUES] * 5
    assert [told.is_reset for told in stage.web.told] == [True] + [False] * 4
    assert [told.is_whole for told in stage.web.told] == [False] * 4 + [True]
    assert len(stage.web.state.connections) == 5 * SLICE_VALUES


def test_ten_thousand_viewers_are_told_again_every_two_seconds() -> None:
    stage = Stage()
    for number in range(10_000):
        stage.play(f"v{number}")
    stage.pass_time(3.0)
    before = len(stage.web.told)
    stage.pass_time(2.0)
    again = {each.view_id for told in stage.web.told[before:] for each in told.views}
    assert len(again) == 10_000
    assert max(len(told.views) for told in stage.web.told) == SLICE_VALUES


def test_a_new_web_process_is_told_everything_that_is_open() -> None:
    stage = Stage()
    stage.open("c1")
    stage.feed.play_stopped(stage.play("v1"), "")
    stage.play("v2")
    stage.publish("a")
    stage.pass_time(0.1)
    stage.web.link()
    stage.pass_time(0.1)
    first = stage.web.told[0]
    assert (first.is_reset, first.is_whole) == (True, True)
    assert (list(stage.web.state.connections), list(stage.web.state.views)) == (["c1"], ["v2"])


def test_facts_are_kept_while_web_is_away_and_samples_are_not() -> None:
    stage = Stage(is_open=False)
    stage.feed.on_fact(FACT, b"{1}\n")
    stage.feed.on_fact(SAMPLE, b"{sample}\n")
    stage.open("c1")
    stage.pass_time(5.0)
    stage.feed.on_fact(FACT, b"{2}\n")
    stage.web.link()
    stage.pass_time(0.1)
    assert stage.web.facts == [b"{1}", b"{2}"]
    assert stage.web.told[0].lost_facts == 0
    assert list(stage.web.state.connections) == ["c1"]


def test_nothing_wakes_the_loop_while_web_is_away_and_nothing_happens() -> None:
    stage = Stage(is_open=False)
    stage.feed.on_fact(FACT, b"{1}\n")
    stage.loop.advance(1.0)
    assert stage.loop.next_timer_at is None


def test_of_too_many_facts_the_oldest_are_lost_and_counted() -> None:
    stage = Stage(is_open=False)
    line = b"x" * 1023 + b"\n"
    for _ in range(MAX_FACT_BYTES // 1024 + 3):
        stage.feed.on_fact(FACT, line)
    stage.web.link()
    stage.pass_time(1.0)
    assert len(stage.web.facts) == MAX_FACT_BYTES // 1024
    assert [told.lost_facts for told in stage.web.told if told.lost_facts] == [3]
    assert max(sum(map(len, told.facts)) for told in stage.web.told) < 256 * 1024


def test_a_slow_web_process_is_told_once_what_changed_twice_and_not_before_it_has_room() -> None:
    stage = Stage()
    opened = stage.open("c1")
    stage.pass_time(0.1)
    stage.web.is_slow = True
    stage.feed.connected(opened)
    stage.open("c2")
    stage.feed.on_fact(SAMPLE, b"{sample}\n")
    stage.feed.on_fact(FACT, b"{1}\n")
    stage.pass_time(5.0)
    assert len(stage.web.told) == 1
    stage.web.is_slow = False
    stage.pass_time(BATCH_S + 0.001)
    told = stage.web.told[1]
    assert (sorted(each.conn_id for each in told.connections), told.facts) == (["c1", "c2"], [b"{1}"])
    assert not told.is_reset


def test_a_web_process_that_missed_too_many_ends_is_told_anew_what_is_open() -> None:
    stage = Stage()
    stage.open("stays")
    gone = [stage.open(f"c{number}") for number in range(MAX_GONE + 1)]
    stage.pass_time(2.0)
    stage.web.is_slow = True
    for each in gone:
        stage.feed.connection_closed(each, "")
    stage.pass_time(1.0)
    stage.web.is_slow = False
    before = len(stage.web.told)
    stage.pass_time(1.0)
    assert stage.web.told[before].is_reset
    assert stage.web.told[before].gone_connections == []
    assert list(stage.web.state.connections) == ["stays"]


def test_when_the_wall_clock_is_set_everything_is_told_under_its_new_names() -> None:
    stage = Stage()
    stage.open("c1")
    stage.pass_time(0.1)
    stage.feed.on_fact(ClockStepped(1, 1, 0), b"{}\n")
    stage.pass_time(0.1)
    assert stage.values.clock_steps == 1
    assert stage.web.told[-1].is_reset


def test_at_the_end_the_rest_is_told_at_once() -> None:
    stage = Stage()
    stage.pass_time(0.1)
    for number in range(2 * SLICE_VALUES):
        stage.open(f"c{number}")
    stage.feed.on_fact(FACT, b"{last}\n")
    stage.feed.tell_rest()
    assert len(stage.web.state.connections) == 2 * SLICE_VALUES
    assert stage.web.facts == [b"{last}"]


def test_a_viewer_is_found_by_the_name_that_web_was_told() -> None:
    stage = Stage()
    viewer = stage.play("v1")
    assert (stage.feed.viewer_of("v1"), stage.feed.viewer_of("v2")) == (viewer, None)
