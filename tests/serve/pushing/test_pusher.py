"""Pushes: what a target is sent, what its trouble costs, and who is sent where."""

import pytest

from penstock.protocol.events import ReconnectRequested
from penstock.rtmp_address import StreamAddress
from penstock.serve.pushing.backoff import Backoff
from tests.relay.support import METADATA, audio, inter, key, metadata, video_setup
from tests.serve.pushing.push_stage import FakeTarget, PushStage, target

SET_DATA_FRAME = bytes.fromhex("02 000d 40736574446174614672616d65")


def live_push() -> tuple[PushStage, FakeTarget]:
    """A stream that is sent to a target which has taken it; the key frame was sent."""
    on = PushStage(target())
    on.publish()
    on.on.send(metadata(), video_setup(), key(0, b"k0"))
    (fake,) = on.dialled
    fake.take()
    return on, fake


def test_a_stream_goes_to_the_address_of_its_target() -> None:
    on = PushStage(target(url="rtmp://b:1936/{app}/{stream}?key={key}", key="k-1"))
    on.publish()
    (fake,) = on.dialled
    assert fake.address == StreamAddress("b", 1936, "live", "a?key=k-1")
    assert fake.secrets == ("k-1", "key=k-1")


def test_a_target_is_sent_metadata_and_sequence_headers_first_and_then_from_a_key_frame_on() -> None:
    on, fake = live_push()
    on.on.send(inter(40, b"i1"), audio(50, b"a1"))
    kinds = [(kind, body[: len(SET_DATA_FRAME + METADATA)]) for kind, _, body in fake.sent[:2]]
    assert kinds == [(18, SET_DATA_FRAME + METADATA), (9, video_setup().payload)]
    assert fake.media == [(0, b"k0"), (40, b"i1"), (50, b"a1")]


def test_metadata_that_changes_is_sent_on_as_metadata() -> None:
    on, fake = live_push()
    before = len(fake.sent)
    on.on.send(metadata(40))
    assert fake.sent[before:] == [(18, 40, SET_DATA_FRAME + metadata().payload)]


def test_one_that_takes_the_stream_later_begins_at_the_newest_key_frame() -> None:
    on = PushStage(target())
    on.publish()
    on.on.send(video_setup(), key(0, b"k0"), inter(40, b"i1"), key(80, b"k2"), inter(120, b"i3"))
    on.dialled[0].take()
    assert on.dialled[0].media == [(80, b"k2"), (120, b"i3")]
    assert (on.push.lag_ms, on.push.state.value) == (0, "live")


def test_one_that_does_not_read_is_sent_the_rest_when_it_does() -> None:
    on, fake = live_push()
    fake.room = len(fake.sent)
    on.on.send(inter(40, b"i1"), inter(80, b"i2"))
    assert on.push.lag_ms == 80
    fake.read(1)
    assert fake.media == [(0, b"k0"), (40, b"i1")]
    fake.read()
    assert fake.media == [(0, b"k0"), (40, b"i1"), (80, b"i2")]
    assert (on.push.lag_ms, on.push.skips) == (0, 0)


def test_one_that_is_too_far_behind_goes_on_at_the_newest_key_frame() -> None:
    on, fake = live_push()
    fake.room = len(fake.sent)
    on.on.send(inter(40, b"i1"))
    on.on.stream.log.drop_everything()
    fake.read()
    assert fake.media == [(0, b"k0")], "there is no place to go on at yet"
    on.on.send(inter(80, b"i2"), key(120, b"k3"), inter(160, b"i4"))
    assert fake.media == [(0, b"k0"), (120, b"k3"), (160, b"i4")]
    assert on.push.skips == 1


def test_a_push_holds_no_memory_of_the_log() -> None:
    on, fake = live_push()
    fake.room = len(fake.sent)
    on.on.send(inter(40, bytes(5000)))
    assert not any(segment.is_pinned for segment in on.on.stream.log.segments_from(0))


def test_a_dead_target_is_tried_again_and_again_with_pauses() -> None:
    on = PushStage(target())
    on.publish()
    for tries in range(1, 4):
        on.dialled[-1].fail("no connection: Connection refused")
        assert (on.push.state.value, on.push.attempts) == ("retrying", tries)
        assert on.push.last_error == "no connection: Connection refused"
        on.loop.advance(on.push.retry_in_s + 0.01)
        assert len(on.dialled) == tries + 1
    assert on.push.state.value == "connecting"


def test_after_a_loss_the_target_begins_anew_and_bytes_add_up() -> None:
    on, fake = live_push()
    first_bytes = fake.sent_bytes
    fake.fail("it closed the connection")
    on.loop.advance(2)
    on.on.send(key(80, b"k2"))
    on.dialled[1].take()
    assert on.dialled[1].media == [(80, b"k2")]
    assert on.push.sent_bytes == first_bytes + on.dialled[1].sent_bytes
    assert on.journal.lines == ["live/a to b", "connecting", "live", "retrying", "connecting", "live"]


def test_a_publisher_that_comes_back_is_continued_on_the_same_connection() -> None:
    on, fake = live_push()
    on.on.stream.lose(on.loop.now)
    on.publish()
    on.on.send(video_setup(), key(0, b"k9"))
    assert len(on.dialled) == 1
    assert fake.media[-1][1] == b"k9"
    assert fake.media[-1][0] > 0, "one time over both publications"


def test_the_end_of_the_stream_is_the_end_of_the_push() -> None:
    on, fake = live_push()
    on.pusher.stream_closed(on.on.stream)
    assert (fake.ended, fake.is_hung_up) == ("the stream is over", False)
    assert list(on.pusher.pushes) == []
    on.on.send(inter(40, b"i1"))
    assert fake.media == [(0, b"k0")]
    assert on.journal.lines[-1] == "stopped: the stream is over"


def test_a_stream_that_goes_on_in_another_worker_does_not_end_at_its_targets() -> None:
    on, fake = live_push()
    on.pusher.stream_left(on.on.stream)
    assert (fake.ended, fake.is_hung_up) == ("the stream goes on in another worker", True)
    assert list(on.pusher.pushes) == []


def test_one_that_waits_for_its_next_try_is_not_tried_when_the_stream_is_over() -> None:
    on = PushStage(target())
    on.publish()
    on.dialled[0].fail("no connection")
    on.pusher.stream_closed(on.on.stream)
    on.loop.advance(120)
    assert len(on.dialled) == 1


def test_a_target_that_asks_its_publishers_to_come_back_is_left_at_the_next_key_frame() -> None:
    on, fake = live_push()
    fake.say(ReconnectRequested("rtmp://c/live", "moving"))
    on.on.send(inter(40, b"i1"))
    assert fake.ended is None
    on.on.send(key(80, b"k2"))
    assert fake.ended == "it asks its publishers to come back"
    on.loop.advance(0.01)
    assert on.dialled[1].address == StreamAddress("c", 1935, "live", "a")
    on.dialled[1].take()
    assert (fake.media, on.dialled[1].media) == ([(0, b"k0"), (40, b"i1")], [(80, b"k2")])


def test_a_target_that_sends_its_publishers_elsewhere_before_it_takes_the_stream_is_left_at_once() -> None:
    on = PushStage(target())
    on.publish()
    on.dialled[0].say(ReconnectRequested("rtmp://c/live", "moving"))
    on.loop.advance(0.01)
    assert [each.address.host for each in on.dialled] == ["b", "c"]
    assert on.push.state.value == "connecting"


def test_a_target_that_asks_to_come_back_whenever_it_is_come_to_is_one_that_was_lost() -> None:
    on, fake = live_push()
    for dialled_at_once in (2, 2):
        for _ in range(2):
            fake.say(ReconnectRequested("rtmp://c/live", "moving"))
        fake.fail("it closed the connection")
        on.loop.advance(0.01)
        assert len(on.dialled) == dialled_at_once
        on.loop.advance(2)
        fake = on.dialled[-1]
        fake.take()
    assert [each.address.host for each in on.dialled] == ["b", "c", "c"]


def test_where_it_was_sent_is_tried_once_and_then_its_own_address() -> None:
    on, fake = live_push()
    fake.say(ReconnectRequested("rtmp://c/live", "moving"))
    on.on.send(key(80, b"k2"))
    on.loop.advance(0.01)
    on.dialled[1].fail("no connection: Connection refused")
    on.loop.advance(2)
    assert on.dialled[2].address == fake.address


def test_a_target_for_one_stream_is_asked_for_first() -> None:
    on = PushStage(target("yt", "rtmp://b/live2", "k-1"))
    on.publish()
    assert (on.claims, on.dialled) == (["claim yt for live/a"], [])
    on.answer("yt", None)
    assert on.dialled[0].address == StreamAddress("b", 1935, "live2", "k-1")
    on.pusher.stream_closed(on.on.stream)
    assert on.claims[-1] == "give back yt of live/a"


def test_a_second_stream_is_refused_and_told_until_it_is_over() -> None:
    on = PushStage(target("yt", "rtmp://b/live2", "k-1"))
    on.publish()
    on.answer("yt", "live/z")
    assert on.push.state.value == "stopped"
    assert on.push.last_error == "the target takes one stream at a time, and is sent live/z"
    on.publish()
    assert on.claims == ["claim yt for live/a"]
    on.pusher.stream_closed(on.on.stream)
    assert (on.claims, on.dialled) == (["claim yt for live/a"], [])


def test_an_answer_that_nobody_waits_for_is_given_back() -> None:
    on = PushStage(target("yt", "rtmp://b/live2", "k-1"))
    on.answer("yt", None)
    assert on.claims == ["give back yt of live/a"]


def test_an_answer_to_what_was_given_back_meanwhile_is_not_taken_for_the_next() -> None:
    taken = target("yt", "rtmp://b/live2", "k-1")
    on = PushStage(taken)
    on.publish()
    on.pusher.configure([])
    on.pusher.configure([taken])
    assert on.claims == ["claim yt for live/a", "give back yt of live/a", "claim yt for live/a"]
    on.answer("yt", None)
    assert on.dialled == []
    on.answer("yt", "live/z")
    assert (on.push.state.value, on.dialled) == ("stopped", [])


@pytest.mark.parametrize("held_by", [None, "live/z"])
def test_an_answer_about_a_target_that_takes_many_by_now_changes_nothing(held_by: str | None) -> None:
    on = PushStage(target("yt", "rtmp://b/live2", "k-1"))
    on.publish()
    on.pusher.configure([target("yt")])
    assert len(on.dialled) == 1
    on.answer("yt", held_by)
    assert (len(on.dialled), on.push.state.value) == (1, "connecting")


def test_a_push_tells_which_servers_the_stream_has_come_through() -> None:
    on = PushStage(target())
    publisher = on.on.begin()
    publisher.via = ("x", "y")
    on.pusher.publish_started(publisher, on.on.stream, "live")
    assert on.dialled[0].via == ("x", "y")
    # Its publisher is gone, and it is as it was.
    on.on.stream.lose(on.loop.now)
    on.dialled[0].fail("it closed the connection")
    on.loop.advance(2)
    assert on.dialled[1].via == ("x", "y")


def test_targets_come_and_go_while_a_stream_is_live() -> None:
    one, two = target("one"), target("two")
    on = PushStage(one)
    on.publish()
    on.pusher.configure([one, two])
    assert [push.target.name for push in on.pusher.pushes] == ["one", "two"]
    on.pusher.configure([two])
    assert [push.target.name for push in on.pusher.pushes] == ["two"]
    assert on.dialled[0].ended == "the target was taken out"
    assert on.dialled[1].ended is None, "what is unchanged goes on"


def test_a_target_that_takes_other_streams_is_left_alone() -> None:
    on = PushStage(target())
    on.pusher.configure([])
    on.publish()
    assert list(on.pusher.pushes) == []


@pytest.mark.parametrize(
    ("chance", "pauses"), [(0.0, [0.5, 1, 2, 4, 8, 16, 30, 30]), (1.0, [1, 2, 4, 8, 16, 32, 60, 60])]
)
def test_pauses_double_up_to_a_bound_and_differ_by_chance(chance: float, pauses: list[float]) -> None:
    backoff = Backoff(chance=lambda: chance)
    assert [backoff.failed() for _ in pauses] == pauses
    backoff.succeeded()
    assert backoff.failed() == pauses[0]
