"""Who may publish under a name that is in use, and answers of the registry that come late."""

import pytest

from penstock.serve.settings import AppSettings
from tests.serve.fake_peer import FakePeer, audio, codes, media, video
from tests.serve.streams.stage import Stage
from tests.support.hostile_clients import USER_CONTROL, command, control
from tests.support.lone_worker import NamesHere

PONG = control(USER_CONTROL, bytes.fromhex("0007 00000000"))
STARTED = ["NetStream.Publish.Start"]
IN_USE = ["NetStream.Publish.BadName"]
PLAYING = ["NetStream.Play.Start"]


def asking(on: Stage, name: str = "a") -> FakePeer:
    """Somebody who wants to publish a name that is in use, and hears nothing yet."""
    peer = on.peer().with_streams()
    assert peer.publish(name) == []
    return peer


# The server decides alone.


def test_a_second_publisher_waits_while_the_first_is_asked_for_a_sign_of_life() -> None:
    on = Stage()
    first = on.publisher()
    first.hear()
    second = asking(on)
    assert [each.payload[:2] for each in first.hear()] == [b"\x00\x06"], "a ping"
    on.loop.advance(0.5)
    assert second.hear() == []
    first.say(audio())
    on.loop.advance(0.1)
    assert codes(second.hear()) == IN_USE
    assert on.notes.heard[-1] == "live/a refused"
    assert not on.is_closed(second), "and may try another name"
    assert second.publish("b") == STARTED


def test_a_sign_of_life_in_the_same_round_of_events_counts() -> None:
    on = Stage()
    first = on.publisher()
    second = asking(on)
    first.say(audio())
    on.loop.advance(0.1)
    assert codes(second.hear()) == IN_USE


def test_a_publisher_is_asked_once_a_second_however_many_want_its_name() -> None:
    on = Stage()
    first = on.publisher()
    first.hear()
    many = [on.peer().with_streams() for _ in range(5)]
    for _ in range(10):
        for peer in many:
            assert peer.publish("a") == []
        first.say(audio())
        on.loop.advance(0.1)
        assert [codes(peer.hear()) for peer in many] == [IN_USE] * 5
    assert [each.payload[:2] for each in first.messages].count(b"\x00\x06") == 1


def test_one_who_asks_just_after_another_does_not_take_a_publisher_for_dead_that_would_answer() -> None:
    on = Stage()
    first = on.publisher()
    asking(on)
    on.loop.advance(0.2)
    first.say(PONG)
    on.loop.advance(0.1)
    first.hear()
    third = asking(on)
    on.loop.advance(1.0)
    assert [each.payload[:2] for each in first.hear()] == [b"\x00\x06"]
    first.say(PONG)
    on.loop.advance(0.1)
    assert codes(third.hear()) == IN_USE


def test_a_first_publisher_that_gives_no_sign_of_life_is_replaced() -> None:
    on = Stage()
    first = on.publisher()
    first.say(video(0, is_key=True))
    viewer = on.viewer()
    viewer.hear()
    second = asking(on)
    on.loop.advance(1.9)
    assert second.hear() == []
    on.loop.advance(0.2)
    assert codes(second.hear()) == STARTED
    assert codes(first.hear()) == ["NetStream.Unpublish.Success"]
    assert on.why_closed(first) == "closed by the server"
    second.say(video(0, b"new", is_key=True))
    heard = viewer.hear()
    assert [payload[5:] for _, payload in media(heard)] == [b"new"]
    assert codes(heard) == [], "viewers are not told that anything ended"
    assert on.notes.heard[-2:] == ["live/a stopped: replaced by another publisher", "live/a published"]


@pytest.mark.parametrize("has_sent", [False, True])
def test_a_first_publisher_that_has_sent_nothing_for_long_is_replaced_at_once(has_sent: bool) -> None:
    on = Stage()
    first = on.publisher()
    if has_sent:
        on.loop.advance(2.0)
        first.say(audio())
    on.loop.advance(2.9)
    on.loop.advance(0.1)
    second = on.peer().with_streams()
    assert second.publish() == STARTED
    assert on.is_closed(first)


def test_where_takeover_is_the_policy_the_second_replaces_the_first_at_once() -> None:
    on = Stage(app=AppSettings(may_replace_publisher=True))
    first = on.publisher()
    first.say(audio())
    second = on.peer().with_streams()
    assert second.publish() == STARTED
    assert on.is_closed(first)
    assert on.stream().publisher is second.connection


@pytest.mark.parametrize("app", [AppSettings(), AppSettings(may_replace_publisher=True)])
def test_nobody_replaces_itself(app: AppSettings) -> None:
    on = Stage(app=app)
    peer = on.peer().with_streams(2)
    assert peer.publish("a", stream_id=1) == STARTED
    assert peer.publish("a", stream_id=2) == IN_USE
    on.loop.advance(5.0)
    assert peer.publish("a", stream_id=2) == IN_USE
    assert list(peer.connection.publications) == [1]


@pytest.mark.parametrize("grace_s", [0.0, 10.0])
def test_when_the_first_goes_the_one_who_waits_may_begin(grace_s: float) -> None:
    on = Stage(app=AppSettings(grace_s=grace_s))
    first = on.publisher()
    second = asking(on)
    first.hang_up()
    on.loop.advance(0.1)
    assert codes(second.hear()) == STARTED
    assert on.stream().publisher is second.connection


def test_of_two_who_wait_one_begins_and_the_other_is_refused() -> None:
    on = Stage()
    on.publisher()
    second, third = asking(on), asking(on)
    on.loop.advance(3.0)
    assert codes(second.hear()) == STARTED
    second.say(audio())
    on.loop.advance(0.1)
    assert codes(third.hear()) == IN_USE
    assert not on.is_closed(second)


def test_one_who_waits_and_goes_leaves_the_name_to_who_comes_next() -> None:
    on = Stage()
    first = on.publisher()
    asking(on).reset()
    on.loop.advance(0.9)
    next_one = asking(on)
    on.loop.advance(1.2)
    assert codes(next_one.hear()) == STARTED
    assert on.is_closed(first), "which has given no sign of life for two seconds"


def test_what_one_who_waits_has_sent_already_is_published_when_it_may_begin() -> None:
    on = Stage()
    first = on.publisher()
    second = on.peer().with_streams()
    second.say(command("publish", 3.0, None, "a", "live", stream_id=1), video(0, b"early", is_key=True))
    first.hang_up()
    on.loop.advance(0.2)
    viewer = on.viewer()
    assert [payload[5:] for _, payload in media(viewer.messages)] == [b"early"]


# The registry answers later.


def undecided(app: AppSettings | None = None) -> tuple[Stage, NamesHere]:
    names = NamesHere(answers_at_once=False)
    return Stage(app=app, names=names), names


def test_a_publish_that_is_granted_later_begins_then() -> None:
    on, names = undecided()
    peer = asking(on)
    peer.say(video(0, b"early", is_key=True))
    assert on.broker.streams == {}
    on.loop.advance(1.0)
    names.answer()
    on.loop.settle()
    assert codes(peer.hear()) == STARTED
    assert on.stream().last_media_at == on.loop.now
    assert on.stream().log.config.video_codec_id == 7.0


def test_a_publish_that_is_refused_later_says_so() -> None:
    on, names = undecided()
    first = asking(on)
    names.answer()
    second = asking(on)
    names.answer()
    first.say(audio())
    on.loop.advance(0.1)
    names.answer()
    on.loop.settle()
    assert codes(second.hear()) == IN_USE
    assert on.stream().publisher is first.connection


def test_a_name_that_is_granted_to_one_who_is_gone_is_given_back() -> None:
    on, names = undecided()
    peer = asking(on)
    peer.reset()
    names.answer()
    assert on.broker.streams == {}
    assert on.notes.heard == []
    assert len(names.names) == 0


def test_a_stream_that_waits_for_its_publisher_goes_on_waiting_if_the_next_one_is_gone_too() -> None:
    on, names = undecided()
    first = asking(on)
    names.answer()
    first.hang_up()
    second = asking(on)
    second.reset()
    names.answer()
    assert on.stream().grace_until is not None
    third = on.peer().with_streams()
    third.publish("a")
    names.answer()
    on.loop.settle()
    assert codes(third.hear()) == STARTED


def test_of_two_who_ask_for_a_name_at_once_the_later_is_refused() -> None:
    on, names = undecided()
    first, second = asking(on), asking(on)
    names.answer()
    first.say(audio())
    on.loop.advance(0.1)
    names.answer()
    on.loop.settle()
    assert codes(second.hear()) == IN_USE
    assert on.stream().publisher is first.connection


def test_a_publish_that_is_granted_while_the_server_ends_is_refused() -> None:
    on, names = undecided()
    peer = asking(on)
    peer.transport.room_bytes = 0
    on.broker.say_goodbye()
    on.loop.run_turns()
    names.answer()
    on.loop.settle()
    assert on.broker.streams == {}
    assert len(names.names) == 0


def published_and_played() -> tuple[Stage, NamesHere, FakePeer]:
    """A stream with a key frame, and somebody who has asked to play it."""
    on, names = undecided()
    publisher = asking(on)
    names.answer()
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer()
    assert codes(viewer.hear()) == []
    return on, names, viewer


def test_a_play_that_is_granted_later_begins_then() -> None:
    on, names, viewer = published_and_played()
    names.answer()
    on.loop.settle()
    heard = viewer.hear()
    assert codes(heard) == PLAYING
    assert [payload[5:] for _, payload in media(heard)] == [b"k0"]


def test_a_pause_right_behind_a_play_is_heard_when_the_play_is_granted() -> None:
    on, names, viewer = published_and_played()
    viewer.say(command("pause", 4.0, None, True, 0.0, stream_id=1))
    assert codes(viewer.hear()) == []
    names.answer()
    on.loop.settle()
    assert codes(viewer.hear()) == [*PLAYING, "NetStream.Pause.Notify"]


def test_a_play_that_is_granted_before_the_stream_is_there_waits_for_it() -> None:
    on, names = undecided()
    viewer = on.viewer()
    names.answer()
    publisher = asking(on)
    names.answer()
    publisher.say(video(0, b"k0", is_key=True))
    assert codes(viewer.hear()) == PLAYING


@pytest.mark.parametrize("leaves", ["closes the stream", "hangs up"])
def test_a_seat_for_a_viewer_that_is_gone_is_given_back(leaves: str) -> None:
    on, names, viewer = published_and_played()
    if leaves == "hangs up":
        viewer.hang_up()
    else:
        viewer.say(command("closeStream", 0.0, None, stream_id=1))
    names.answer()
    on.loop.settle()
    assert on.stream().viewers == set()
    assert names.names.viewers_of(b"live/a") == 0
