"""Streams that are fetched from another server: when, how often, for how long, and what becomes of their viewers."""

from penstock.access.request import Refused
from penstock.protocol.events import DataCleared, ReconnectRequested, StreamEnded
from penstock.rtmp_address import StreamAddress
from penstock.serve.outgoing.words import Failure
from penstock.serve.pulls.pull import FIRST_PAUSE_S
from penstock.serve.settings import AppSettings
from tests.serve.fake_peer import FakePeer, media, video
from tests.serve.pulls.stage import NOT_FOUND, REFUSED, PullStage, all_codes

PLAYING = ["NetStream.Play.Start"]
ENDS = "NetStream.Play.UnpublishNotify"


def pictures(peer: FakePeer) -> list[tuple[int, bytes]]:
    """Time and body of all that a viewer was ever sent."""
    peer.hear()
    return [(time_ms, payload[5:]) for time_ms, payload in media(peer.messages)]


def test_the_first_viewer_has_a_stream_fetched_and_others_get_the_same() -> None:
    stage = PullStage()
    first = stage.viewer()
    assert [each.address for each in stage.sources] == [StreamAddress("origin", 1935, "live", "a")]
    assert all_codes(first) == []
    stage.source.picture(5000, b"p0")
    second = stage.viewer()
    stage.source.picture(5040, b"p1", is_key=False)
    stage.loop.advance(0.1)
    assert pictures(first) == [(5000, b"p0"), (5040, b"p1")]
    assert pictures(second) == [(5000, b"p0"), (5040, b"p1")]
    assert (all_codes(first), all_codes(second), len(stage.sources)) == (PLAYING, PLAYING, 1)


def test_two_viewers_in_two_workers_cause_one_pull() -> None:
    stage = PullStage()
    near, far = stage.viewer(1), stage.viewer(2)
    assert [each.worker for each in stage.sources] == [1]
    stage.source.picture(0, b"p0")
    stage.loop.advance(0.1)
    assert pictures(near) == pictures(far) == [(0, b"p0")]


def test_what_no_rule_covers_is_not_asked_for_anywhere() -> None:
    stage = PullStage(AppSettings(play_wait_s=0.0))
    stage.pulls[1].rules = ()
    assert all_codes(stage.viewer()) == [NOT_FOUND]
    assert stage.sources == []


def test_metadata_comes_along_and_what_the_origin_tells_players_does_not() -> None:
    stage = PullStage()
    viewer = stage.viewer()
    stage.source.data("|RtmpSampleAccess", b"\x02\x00\x11|RtmpSampleAccess\x01\x00")
    stage.source.data("onStatus", b"\x02\x00\x08onStatus\x03\x00\x00\x09")
    assert all_codes(viewer) == []  # it is no sign of a stream
    stage.source.data("onMetaData", b"\x02\x00\x0aonMetaData\x03\x00\x00\x09")
    stage.source.picture(0)
    stage.loop.advance(0.1)
    viewer.hear()
    told = [each.payload for each in viewer.messages if each.type_id == 18]
    assert b"\x02\x00\x0aonMetaData\x03\x00\x00\x09" in told
    assert not any(b"SampleAccess\x01\x00" in each for each in told)
    stage.source.say(DataCleared(1, 0, "onMetaData"))
    assert stage.on.workers[1].stream().log.config.has_metadata is False


def test_a_stream_that_nobody_watches_any_more_is_given_up_after_a_while() -> None:
    stage = PullStage()
    viewer, source = stage.watched()
    viewer.hang_up()
    stage.pass_time(9.0)
    assert source.ended is None
    again = stage.viewer(2)
    stage.pass_time(20.0)
    assert source.ended is None
    again.hang_up()
    stage.pass_time(9.5)
    assert source.ended is None
    stage.pass_time(1.0)
    assert source.ended is not None
    assert "live/a stopped: nobody watches" in stage.heard()
    assert (stage.on.workers[1].broker.streams, len(stage.on.names.names), len(stage.pulls[1])) == ({}, 0, 0)


def test_a_pull_that_nobody_waits_for_any_more_is_given_up_before_it_has_begun() -> None:
    stage = PullStage()
    stage.viewer().hang_up()
    stage.pass_time(10.5)
    assert (stage.source.ended, len(stage.pulls[1]), len(stage.on.names.names)) == ("nobody watches", 0, 0)


def test_who_waits_for_what_the_origin_does_not_have_is_told_so_in_all_workers() -> None:
    stage = PullStage()
    near, far = stage.viewer(1), stage.viewer(2)
    stage.source.refuse()
    stage.loop.settle()
    assert all_codes(near) == all_codes(far) == [NOT_FOUND]
    assert (stage.pulls[1].misses, len(stage.pulls[1])) == (1, 0)


def test_the_origin_is_not_asked_again_for_some_seconds() -> None:
    stage = PullStage()
    stage.viewer()
    stage.source.refuse()
    assert all_codes(stage.viewer(1)) == all_codes(stage.viewer(2)) == [NOT_FOUND]
    assert len(stage.sources) == 1
    stage.pass_time(6.0)
    stage.viewer(2)
    assert [each.worker for each in stage.sources] == [1, 2]


def test_an_origin_that_says_that_it_plays_and_sends_nothing_does_not_have_it() -> None:
    stage = PullStage(AppSettings(play_wait_s=0.0))
    viewer = stage.viewer()
    stage.loop.advance(4.9)
    assert all_codes(viewer) == []
    stage.loop.advance(0.2)
    assert all_codes(viewer) == [NOT_FOUND]
    assert stage.source.ended is not None


def test_an_origin_that_cannot_be_reached_is_tried_again_for_as_long_as_viewers_wait() -> None:
    stage = PullStage(AppSettings(play_wait_s=8.0))
    viewer = stage.viewer()
    for tries in range(1, 4):
        stage.source.lose("no connection: Connection refused")
        assert len(stage.sources) == tries
        stage.loop.advance(FIRST_PAUSE_S * 2.0**tries)
        assert len(stage.sources) == tries + 1
    stage.source.picture(0, b"p0")
    stage.loop.advance(0.1)
    assert pictures(viewer) == [(0, b"p0")]
    assert stage.pulls[1].losses == 3


def test_a_viewer_who_may_not_watch_starts_no_pull() -> None:
    stage = PullStage()
    peer = stage.on.workers[1].peer().with_streams()
    stage.on.workers[1].broker.gatekeeper.ask = (  # type: ignore[method-assign]
        lambda *arguments: arguments[-1](Refused("deny", has_credentials=False))
    )
    assert peer.play("a") == ["NetStream.Play.Failed"]
    assert stage.sources == []


def test_there_are_only_so_many_pulls() -> None:
    stage = PullStage(max_pulls=1)
    stage.viewer(1, "a")
    assert all_codes(stage.viewer(2, "b")) == [NOT_FOUND]
    assert stage.on.workers[2].notes.limits == ["pulls"]
    assert len(stage.sources) == 1


def test_viewers_wait_for_an_origin_that_was_lost_and_go_on_in_one_time() -> None:
    stage = PullStage()
    viewer, source = stage.watched()
    far = stage.viewer(2)
    stage.loop.advance(0.1)
    assert pictures(viewer) == pictures(far) == [(1000, b"p0")]
    source.lose()
    stage.pass_time(3.0)
    assert len(stage.sources) == 2
    # The origin has begun anew, and its time with it.
    stage.source.picture(0, b"p1")
    stage.loop.advance(0.1)
    time_ms, body = pictures(viewer)[-1]
    assert (body, 3800 <= time_ms <= 4400) == (b"p1", True)
    assert pictures(far) == pictures(viewer) == [(1000, b"p0"), (time_ms, b"p1")]
    assert all_codes(viewer) == all_codes(far) == PLAYING


def test_an_origin_that_loses_it_each_time_is_asked_less_and_less_often() -> None:
    stage = PullStage(AppSettings(grace_s=30.0))
    stage.watched()
    stage.pass_time(11.0)
    pauses = []
    for _ in range(6):
        stage.source.lose()
        lost_at, sources = stage.loop.now, len(stage.sources)
        while len(stage.sources) == sources:
            stage.loop.advance(0.25)
        pauses.append(stage.loop.now - lost_at)
        stage.source.picture(0)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0]


def test_an_origin_that_does_not_have_it_yet_is_asked_again_while_its_viewers_wait() -> None:
    stage = PullStage()
    viewer, source = stage.watched()
    source.lose()
    stage.loop.advance(1.1)
    stage.source.refuse(REFUSED)
    stage.loop.advance(2.1)
    assert len(stage.sources) == 3
    stage.source.picture(0, b"p1")
    stage.loop.advance(0.1)
    assert [body for _, body in pictures(viewer)] == [b"p0", b"p1"]


def test_viewers_are_told_the_end_when_the_origin_does_not_come_back_in_time() -> None:
    stage = PullStage(AppSettings(grace_s=4.0))
    viewer, source = stage.watched()
    source.lose()
    stage.pass_time(6.0)
    tries = len(stage.sources)
    assert ENDS in all_codes(viewer)
    stage.pass_time(30.0)
    assert (len(stage.sources), len(stage.pulls[1]), len(stage.on.names.names)) == (tries, 0, 0)


def test_viewers_are_told_the_end_at_once_when_the_stream_ends_at_the_origin() -> None:
    stage = PullStage()
    viewer, source = stage.watched()
    source.say(StreamEnded(1, "NetStream.Play.UnpublishNotify"))
    stage.loop.settle()
    assert ENDS in all_codes(viewer)
    assert (source.ended is not None, len(stage.pulls[1])) == (True, 0)
    # It is asked for again at once: that it has ended is no miss.
    stage.viewer()
    assert len(stage.sources) == 2


def test_a_publisher_who_comes_for_the_name_has_it_and_viewers_go_on() -> None:
    stage = PullStage()
    viewer, source = stage.watched()
    publisher = stage.on.publisher(2)
    publisher.say(video(0, b"k0", is_key=True))
    stage.loop.advance(0.1)
    assert source.ended == "a publisher has taken over"
    assert [body for _, body in pictures(viewer)] == [b"p0", b"k0"]
    assert all_codes(viewer) == PLAYING
    assert len(stage.pulls[1]) == 0
    assert "live/a stopped: replaced by another publisher" in stage.heard(1)


def test_a_publisher_who_comes_while_the_origin_is_asked_has_the_name() -> None:
    stage = PullStage()
    viewer = stage.viewer()
    publisher = stage.on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True))
    assert stage.source.ended == "a publisher has taken over"
    stage.source.picture(0, b"too late")
    assert [body for _, body in pictures(viewer)] == [b"k0"]


def test_what_is_published_here_is_not_fetched() -> None:
    stage = PullStage()
    stage.on.publisher(1)
    stage.viewer(1)
    stage.viewer(2)
    assert stage.sources == []


def test_another_worker_goes_on_when_the_one_that_pulls_is_lost() -> None:
    stage = PullStage()
    stage.watched(1)
    far = stage.viewer(2)
    stage.source.picture(1040, b"p1", is_key=False)
    stage.loop.advance(0.1)
    assert [body for _, body in pictures(far)] == [b"p0", b"p1"]
    stage.on.kill(1)
    assert stage.source.worker == 2
    stage.loop.advance(1.0)
    stage.source.picture(0, b"p2")
    stage.loop.advance(0.1)
    time_ms, body = pictures(far)[-1]
    assert (body, 1900 <= time_ms <= 2400) == (b"p2", True)
    assert all_codes(far) == PLAYING


def test_an_origin_that_asks_to_come_back_elsewhere_is_obeyed_without_a_gap() -> None:
    stage = PullStage()
    viewer, source = stage.watched()
    source.say(ReconnectRequested("rtmp://other:1936/live", ""))
    stage.loop.settle()
    assert stage.source.address == StreamAddress("other", 1936, "live", "a")
    source.picture(1040, b"p1")
    stage.source.picture(1080, b"p2")
    assert source.ended is not None
    stage.source.picture(1120, b"p3")
    stage.loop.advance(0.1)
    assert [body for _, body in pictures(viewer)] == [b"p0", b"p1", b"p2", b"p3"]


def test_an_origin_that_sends_its_clients_elsewhere_before_it_sends_anything_is_obeyed() -> None:
    stage = PullStage()
    viewer, first = stage.viewer(), stage.source
    first.say(ReconnectRequested("rtmp://other/live", ""))
    stage.loop.settle()
    assert (first.ended is not None, stage.source.address.host) == (True, "other")
    stage.source.picture(0, b"p0")
    stage.loop.advance(0.1)
    assert pictures(viewer) == [(0, b"p0")]


def test_a_stream_that_ends_at_an_origin_which_is_left_is_waited_for_where_it_goes_on() -> None:
    stage = PullStage(AppSettings(grace_s=10.0))
    viewer, source = stage.watched()
    source.say(ReconnectRequested(None, ""))
    stage.loop.settle()
    # Its publisher was asked as well, and is quicker.
    source.say(StreamEnded(1, "NetStream.Play.UnpublishNotify"))
    stage.pass_time(2.0)
    assert ENDS not in all_codes(viewer)
    stage.source.picture(0, b"p1")
    stage.loop.advance(0.1)
    assert [body for _, body in pictures(viewer)] == [b"p0", b"p1"]
    assert all_codes(viewer) == PLAYING


def test_a_stream_that_ends_at_an_origin_which_is_left_and_goes_on_nowhere_is_over_in_the_end() -> None:
    stage = PullStage(AppSettings(grace_s=4.0))
    viewer, source = stage.watched()
    source.say(ReconnectRequested(None, ""), StreamEnded(1, "NetStream.Play.UnpublishNotify"))
    stage.pass_time(6.0)
    assert ENDS in all_codes(viewer)
    assert (len(stage.pulls[1]), len(stage.on.names.names)) == (0, 0)


def test_an_origin_that_always_asks_to_come_back_is_obeyed_now_and_then() -> None:
    stage = PullStage()
    stage.watched()
    for _ in range(50):
        stage.source.say(ReconnectRequested(None, ""))
        stage.loop.advance(0.1)
        stage.source.picture(1000)
    assert len(stage.sources) <= 3


def test_where_it_was_sent_is_left_again_when_it_is_no_place() -> None:
    stage = PullStage()
    _, source = stage.watched()
    source.say(ReconnectRequested("rtmp://other/live", ""))
    stage.loop.settle()
    stage.source.lose()
    stage.loop.advance(2.0)
    assert stage.source.address.host == "origin"
    assert source.ended is None


def test_an_error_of_ours_about_one_pull_costs_nothing_else() -> None:
    stage = PullStage()
    other = stage.viewer(1, "b")
    fine = stage.source
    stage.viewer(1, "a")
    stage.source.close(Failure("internal error: ValueError"))
    fine.picture(0, b"p0")
    stage.loop.advance(0.1)
    assert pictures(other) == [(0, b"p0")]


def test_a_worker_that_ends_leaves_no_pull_behind() -> None:
    stage = PullStage()
    stage.watched()
    stage.viewer(1, "b")
    stage.on.workers[1].broker.say_goodbye()
    stage.pulls[1].close()
    assert all(each.ended is not None for each in stage.sources)
    assert len(stage.pulls[1]) == 0


def test_bytes_are_counted_over_all_connections() -> None:
    stage = PullStage()
    _, source = stage.watched()
    source.lose()
    stage.loop.advance(1.1)
    stage.source.picture(0, b"12345")
    assert stage.pulls[1].received_bytes == 7
    stage.pulls[1].close()
    assert stage.pulls[1].received_bytes == 7
