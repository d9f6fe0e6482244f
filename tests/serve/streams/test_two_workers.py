"""Streams over two workers: published in one, watched in the other, moved from one to the other."""

import io
import json

import pytest

from penstock.logs import configure_logs
from penstock.serve.settings import AppSettings, JoinPolicy
from tests.serve.fake_peer import FakePeer, audio, codes, media, video
from tests.serve.streams.two_workers import TwoWorkers
from tests.support.raw_rtmp import RawMessage

STARTED = ["NetStream.Publish.Start"]
IN_USE = ["NetStream.Publish.BadName"]
PLAYING = ["NetConnection.Connect.Success", "_result", "NetStream.Play.Start"]
ENDS = ("NetStream.Play.UnpublishNotify", "NetStream.Play.Stop", "NetStream.Play.Complete")


def pictures(peer: FakePeer) -> list[bytes]:
    """What a viewer was sent since it was last looked at, without the headers of tags."""
    return [payload[5:] for _, payload in media(peer.hear())]


def all_of(peer: FakePeer) -> list[RawMessage]:
    """Everything that somebody was ever sent."""
    peer.hear()
    return peer.messages


def test_a_viewer_in_another_worker_is_sent_what_one_in_the_same_worker_is() -> None:
    on = TwoWorkers()
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True))
    near, far = on.viewer(1), on.viewer(2)
    assert codes(all_of(far)) == codes(all_of(near)) == PLAYING
    publisher.say(video(40, b"i1"), audio(45), video(80, b"i2" + bytes(5000)))
    assert media(all_of(far)) == media(all_of(near))
    assert [payload[5:][:2] for _, payload in media(all_of(far))] == [b"k0", b"i1", b"nd", b"i2"]


def test_what_another_worker_has_sent_in_one_round_is_one_round_here() -> None:
    on = TwoWorkers()
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True))
    on.viewer(2)
    before = sum(on.workers[2].flusher.rounds.counts)
    publisher.say(video(40, b"i1"))
    publisher.say(video(80, b"i2"))
    assert sum(on.workers[2].flusher.rounds.counts) == before + 2


def test_a_viewer_that_waits_in_another_worker_gets_a_stream_from_its_first_message() -> None:
    on = TwoWorkers()
    viewer = on.viewer(2)
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True), video(40, b"i1"), video(80, b"k2", is_key=True))
    assert pictures(viewer) == [b"k0", b"i1", b"k2"]


def test_one_who_waited_in_another_worker_gets_all_of_a_stream_that_was_over_before_it_could_be_followed() -> None:
    on = TwoWorkers(AppSettings(grace_s=0.0))
    viewer = on.viewer(2)
    on.links[1].is_held_up = True
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True), video(40, b"i1"))
    publisher.close_stream()
    on.links[1].go_on()
    on.loop.settle()
    assert pictures(viewer) == [b"k0", b"i1"]
    assert codes(all_of(viewer))[-1] == "NetStream.Play.Stop"
    on.loop.advance(1.1)
    assert on.workers[1].broker.budget.used_bytes == 0
    assert on.workers[2].broker.streams == {}


def test_one_who_waited_in_another_worker_waits_on_when_a_stream_came_and_went_unseen() -> None:
    on = TwoWorkers(AppSettings(grace_s=0.0, play_wait_s=30.0))
    viewer = on.viewer(2)
    on.links[1].is_held_up = True
    on.publisher(1).close_stream()
    on.loop.advance(1.1)
    on.links[1].go_on()
    on.loop.settle()
    on.publisher(1).say(video(0, b"k0", is_key=True))
    assert pictures(viewer) == [b"k0"]


def test_one_who_joins_late_in_another_worker_begins_at_the_newest_key_frame() -> None:
    on = TwoWorkers()
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True), video(40, b"i1"), video(80, b"k2", is_key=True), video(120, b"i3"))
    on.loop.advance(1.0)
    viewer = on.viewer(2)
    assert [payload[5:] for _, payload in media(all_of(viewer))] == [b"k2", b"i3"]


def test_one_who_wants_the_next_key_frame_is_sent_none_that_came_before_in_another_worker() -> None:
    on = TwoWorkers(AppSettings(join=JoinPolicy.NEXT))
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True), video(40, b"i1"))
    on.loop.advance(1.0)
    viewer = on.viewer(2)
    publisher.say(video(80, b"i2"), video(120, b"k3", is_key=True), video(160, b"i4"))
    assert pictures(viewer) == [b"k3", b"i4"]


def test_the_end_of_a_stream_comes_behind_its_last_frame_in_all_workers() -> None:
    on = TwoWorkers()
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer(2)
    publisher.say(video(40, b"i1"))
    publisher.close_stream()
    assert [payload[5:] for _, payload in media(all_of(viewer))] == [b"k0", b"i1"]
    assert codes(all_of(viewer))[-1] in ENDS
    assert on.workers[2].broker.streams == {}
    assert len(on.names.names) == 0


def test_one_who_lags_at_the_end_gets_the_rest_in_another_worker_too() -> None:
    on = TwoWorkers()
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer(2)
    viewer.transport.room_bytes = 0
    publisher.say(video(40, b"i1" + bytes(50_000)), video(80, b"i2"))
    publisher.close_stream()
    viewer.transport.room_bytes = 10**9
    on.loop.settle()
    assert [payload[5:][:2] for _, payload in media(all_of(viewer))] == [b"k0", b"i1", b"i2"]
    assert codes(all_of(viewer))[-1] in ENDS
    on.loop.advance(1.1)
    assert on.workers[1].store.open_buffers == set()


def test_of_two_publishers_in_two_workers_one_wins() -> None:
    on = TwoWorkers()
    first = on.publisher(1)
    second = on.workers[2].peer().with_streams()
    assert second.publish("a") == []
    first.say(audio())
    on.loop.advance(0.2)
    assert codes(second.hear()) == IN_USE


def test_a_takeover_from_another_worker_goes_on_for_viewers_everywhere() -> None:
    on = TwoWorkers(AppSettings(may_replace_publisher=True))
    first = on.publisher(1)
    first.say(video(0, b"k0", is_key=True), video(40, b"i1"))
    near, far = on.viewer(1), on.viewer(2)
    on.loop.advance(1.0)
    second = on.workers[2].peer().with_streams()
    assert second.publish("a") == STARTED
    assert on.workers[1].is_closed(first)
    on.loop.advance(0.04)
    second.say(video(5000, b"k2", is_key=True), video(5040, b"i3"))
    for viewer in (near, far):
        heard = media(all_of(viewer))
        assert [payload[5:] for _, payload in heard] == [b"k0", b"i1", b"k2", b"i3"]
        assert [time_ms for time_ms, _ in heard] == [0, 40, 1080, 1120]
        assert codes(all_of(viewer)) == PLAYING


def test_a_publisher_that_comes_back_in_another_worker_goes_on_for_viewers_everywhere() -> None:
    on = TwoWorkers()
    first = on.publisher(1)
    first.say(video(0, b"k0", is_key=True))
    near, far = on.viewer(1), on.viewer(2)
    first.reset()
    on.loop.advance(2.0)
    again = on.workers[2].peer().with_streams()
    assert again.publish("a") == STARTED
    again.say(video(0, b"k1", is_key=True))
    for viewer in (near, far):
        assert [payload[5:] for _, payload in media(all_of(viewer))] == [b"k0", b"k1"]
        assert [time_ms for time_ms, _ in media(all_of(viewer))] == [0, 2000]
    assert "live/a" in on.workers[1].broker.streams, "it is followed there now"
    assert on.workers[1].broker.streams["live/a"].epoch is None


def test_and_back_again() -> None:
    on = TwoWorkers()
    viewers = [on.viewer(1), on.viewer(2)]
    for turn, worker in enumerate((1, 2, 1, 2)):
        publisher = on.publisher(worker)
        publisher.say(video(0, b"k%d" % turn, is_key=True), video(40, b"i%d" % turn))
        publisher.reset()
        on.loop.advance(1.0)
    for viewer in viewers:
        heard = [payload[5:] for _, payload in media(all_of(viewer))]
        assert heard == [b"k0", b"i0", b"k1", b"i1", b"k2", b"i2", b"k3", b"i3"]
        at = [time_ms for time_ms, _ in media(all_of(viewer))]
        assert at == sorted(at)


def test_viewers_of_a_killed_worker_s_stream_are_kept_over_the_grace() -> None:
    on = TwoWorkers()
    first = on.publisher(1)
    first.say(video(0, b"k0", is_key=True), video(40, b"i1"))
    viewer = on.viewer(2)
    on.kill(1)
    on.loop.advance(3.0)
    again = on.publisher(2)
    again.say(video(0, b"k2", is_key=True))
    assert [payload[5:] for _, payload in media(all_of(viewer))] == [b"k0", b"i1", b"k2"]
    assert [time_ms for time_ms, _ in media(all_of(viewer))] == [0, 40, 3040]


@pytest.mark.parametrize("is_watched", [True, False])
def test_the_recording_of_a_killed_worker_s_stream_goes_on_where_its_publisher_comes_back(is_watched: bool) -> None:
    on = TwoWorkers()
    first = on.publisher(1)
    epoch = on.workers[1].stream().epoch
    assert epoch is not None
    on.workers[1].broker.registry.recorded("live/a", epoch, "r1")
    first.say(video(0, b"k0", is_key=True))
    if is_watched:
        on.viewer(2)
    on.kill(1)
    on.publisher(2)
    assert [each for each in on.workers[2].notes.heard if "played" not in each] == [
        "live/a goes on in r1",
        "live/a published",
    ]


def test_a_recording_that_was_stopped_stays_so_where_the_publisher_comes_back() -> None:
    on = TwoWorkers()
    on.publisher(1)
    epoch = on.workers[1].stream().epoch
    assert epoch is not None
    on.workers[1].broker.registry.recorded("live/a", epoch, None)
    on.kill(1)
    on.publisher(2)
    assert on.workers[2].notes.heard == ["live/a goes on in None", "live/a published"]


def test_so_does_that_of_a_stream_that_moves_and_one_that_begins_anew_has_none() -> None:
    on = TwoWorkers(AppSettings(may_replace_publisher=True))
    on.publisher(1)
    epoch = on.workers[1].stream().epoch
    assert epoch is not None
    on.workers[1].broker.registry.recorded("live/a", epoch, "r1")
    second = on.publisher(2)
    second.close_stream()
    on.publisher(2)
    assert [each for each in on.workers[2].notes.heard if "stopped" not in each] == [
        "live/a goes on in r1",
        "live/a published",
        "live/a closed",
        "live/a published",
    ]


def test_viewers_of_a_killed_worker_s_stream_are_told_the_end_after_the_grace() -> None:
    on = TwoWorkers()
    first = on.publisher(1)
    first.say(video(0, b"k0", is_key=True))
    viewer = on.viewer(2)
    on.kill(1)
    on.loop.advance(10.1)
    on.names.tick(on.loop.now)
    on.loop.settle()
    assert on.workers[2].broker.streams == {}
    assert viewer.connection.plays == {}


def test_of_a_stream_as_many_watch_as_may_over_both_workers() -> None:
    on = TwoWorkers(AppSettings(max_viewers_per_stream=3))
    on.publisher(1)
    viewers = [on.viewer(worker) for worker in (1, 2, 1, 2)]
    assert [codes(all_of(viewer)) for viewer in viewers] == [PLAYING] * 3 + [[*PLAYING[:2], "NetStream.Play.Failed"]]
    viewers[1].hang_up()
    assert codes(all_of(on.viewer(2))) == PLAYING


def test_the_worker_that_has_a_stream_knows_how_many_watch_it_in_all() -> None:
    on = TwoWorkers()
    on.publisher(1)
    viewers = [on.viewer(worker) for worker in (1, 2, 2)]
    stream = on.workers[1].stream()
    assert stream.all_viewers == 3
    viewers[2].hang_up()
    assert stream.all_viewers == 2
    viewers[1].hang_up()
    assert stream.all_viewers == 1
    assert on.workers[2].broker.streams == {}, "nobody watches it there any more"
    assert stream.viewers_elsewhere == {}


def test_a_stream_that_nobody_watches_any_more_holds_nothing_for_the_other_worker() -> None:
    on = TwoWorkers()
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer(2)
    viewer.hang_up()
    publisher.close_stream()
    on.loop.advance(1.1)
    assert on.workers[1].broker.budget.used_bytes == 0
    assert on.workers[1].store.open_buffers == set()


def test_a_worker_that_is_held_up_misses_what_the_log_does_not_keep_and_goes_on() -> None:
    on = TwoWorkers()
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True))
    near, far = on.viewer(1), on.viewer(2)
    on.links[2].is_held_up = True
    for number in range(1, 40):
        on.loop.advance(1.0)
        publisher.say(video(1000 * number, b"k%d" % number + bytes(100_000), is_key=True))
    assert len(media(all_of(near))) == 40, "the writer and its own viewers are not held up"
    on.links[2].go_on()
    on.loop.settle()
    heard = [payload[5:].rstrip(b"\0") for _, payload in media(all_of(far))]
    assert heard[0] == b"k0"
    assert heard[-1] == b"k39"
    assert len(heard) < 40
    assert on.workers[2].broker.peers.followed.resumes > 0


def test_a_worker_that_skipped_says_so_once_a_second_with_the_count() -> None:
    lines = io.StringIO()
    writer = configure_logs("info", "json", lines)
    on = TwoWorkers()
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True))
    on.viewer(2)
    for start in (1, 40, 80):
        on.links[2].is_held_up = True
        for number in range(start, start + 39):
            on.loop.advance(0.0 if start == 40 else 1.0)
            publisher.say(video(1000 * number, b"k%d" % number + bytes(1_000_000), is_key=True))
        on.links[2].go_on()
        on.loop.settle()
    assert writer.flush(5)
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert on.workers[2].broker.peers.followed.resumes == 3
    assert [(line["msg"], line["level"], line["peer"], line["count"]) for line in told] == [
        ("A worker lagged behind another and skipped", "WARNING", 1, 1),
        ("A worker lagged behind another and skipped", "WARNING", 1, 2),
    ]


@pytest.mark.parametrize("leaves_first", [1, 2])
def test_nothing_is_left_when_all_have_left(leaves_first: int) -> None:
    on = TwoWorkers()
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True), video(40, b"i1"))
    peers = [publisher, on.viewer(2)]
    for peer in peers if leaves_first == 1 else reversed(peers):
        peer.hang_up()
    on.loop.advance(30.0)
    for stage in on.workers.values():
        stage.reaper.start()
    on.loop.advance(15.0)
    for stage in on.workers.values():
        assert stage.broker.streams == {}
        assert stage.broker.budget.used_bytes == 0
        assert stage.store.open_buffers == set()
    assert len(on.names.names) == 0


def numbering(on: TwoWorkers, worker: int) -> tuple[int, ...]:
    told = on.workers[worker].broker.streams["live/a"].log.numbering
    assert told is not None
    return told[:4]


def test_numbers_of_parts_go_on_where_a_publisher_comes_back_in_another_worker() -> None:
    on = TwoWorkers(app=AppSettings(grace_s=10.0))
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True), video(1000, b"k1", is_key=True))
    began_s, segment, part, discontinuity = numbering(on, 1)
    publisher.reset()
    on.publisher(2).say(video(0, b"k0", is_key=True))
    assert numbering(on, 2) == (began_s, segment + 1, part + 1, discontinuity + 1)


def test_numbers_of_a_killed_worker_s_stream_go_on_behind_what_it_may_have_numbered() -> None:
    on = TwoWorkers(app=AppSettings(grace_s=10.0))
    publisher = on.publisher(1)
    publisher.say(video(0, b"k0", is_key=True), video(1000, b"k1", is_key=True))
    on.viewer(2)
    began_s, segment, part, discontinuity = numbering(on, 2)
    on.kill(1)
    on.publisher(2).say(video(0, b"k0", is_key=True))
    assert numbering(on, 2) == (began_s, segment + 2, part + 21, discontinuity + 1)
