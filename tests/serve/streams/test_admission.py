"""Whether a name may be published or played: decided here at once, or by somebody else much later."""

import pytest

from penstock.serve.settings import AppSettings
from penstock.serve.streams.admission import Answer, Request, Verdict
from tests.serve.fake_peer import FakePeer, audio, codes, media, video
from tests.serve.streams.stage import Stage
from tests.support.hostile_clients import USER_CONTROL, command, control

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
    asking(on).reset()
    on.loop.advance(0.1)
    third = on.peer().with_streams()
    assert third.publish() == STARTED
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
    assert [codes(second.hear()), codes(third.hear())] == [STARTED, IN_USE]
    assert not on.is_closed(second)


def test_one_who_waits_and_goes_is_not_waited_for() -> None:
    on = Stage()
    first = on.publisher()
    asking(on).reset()
    on.loop.advance(0.2)
    assert on.loop.next_timer_at is None
    on.loop.advance(2.8)
    assert on.stream().publisher is first.connection


def test_what_one_who_waits_has_sent_already_is_published_when_it_may_begin() -> None:
    on = Stage()
    first = on.publisher()
    second = on.peer().with_streams()
    second.say(command("publish", 3.0, None, "a", "live", stream_id=1), video(0, b"early", is_key=True))
    first.hang_up()
    on.loop.advance(0.2)
    viewer = on.viewer()
    assert [payload[5:] for _, payload in media(viewer.messages)] == [b"early"]


# Somebody else decides, later.


class LaterAdmission:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Request, Answer]] = []

    def ask_to_publish(self, request: Request, answer: Answer) -> None:
        self.asked.append((request, answer))

    def ask_to_play(self, request: Request, answer: Answer) -> None:
        self.asked.append((request, answer))

    def answer(self, verdict: Verdict, index: int = 0) -> None:
        self.asked.pop(index)[1](verdict)


def undecided(app: AppSettings | None = None) -> tuple[Stage, LaterAdmission]:
    on = Stage(app=app)
    admission = LaterAdmission()
    on.broker.admission = admission
    return on, admission


def test_the_question_names_who_asks_for_what() -> None:
    on, admission = undecided()
    peer = on.peer().with_streams()
    peer.publish("a?token=1")
    ((request, _),) = admission.asked
    assert (request.connection, request.key, request.query) == (peer.connection, "live/a", "token=1")


def test_a_publish_that_is_granted_later_begins_then() -> None:
    on, admission = undecided()
    peer = asking(on)
    peer.say(video(0, b"early", is_key=True))
    assert on.broker.streams == {}
    on.loop.advance(1.0)
    admission.answer(Verdict.ADMIT)
    on.loop.settle()
    assert codes(peer.hear()) == STARTED
    assert on.stream().last_media_at == on.loop.now
    assert on.stream().log.config.video_codec_id == 7.0


def test_a_publish_that_is_refused_later_says_so() -> None:
    on, admission = undecided()
    peer = asking(on)
    on.loop.advance(1.0)
    admission.answer(Verdict.REFUSE)
    on.loop.settle()
    assert codes(peer.hear()) == IN_USE
    assert on.broker.streams == {}


@pytest.mark.parametrize("verdict", list(Verdict))
def test_an_answer_to_a_publisher_that_is_gone_changes_nothing(verdict: Verdict) -> None:
    on, admission = undecided()
    peer = asking(on)
    peer.reset()
    assert on.is_closed(peer)
    admission.answer(verdict)
    assert on.broker.streams == {}
    assert on.notes.heard == []


def test_of_two_who_were_both_granted_a_name_the_later_is_refused() -> None:
    on, admission = undecided()
    first, second = asking(on), asking(on)
    for _ in range(2):
        admission.answer(Verdict.ADMIT)
    on.loop.settle()
    assert [codes(first.hear()), codes(second.hear())] == [STARTED, IN_USE]
    assert on.stream().publisher is first.connection


def test_one_who_may_replace_takes_a_name_that_came_into_use_meanwhile() -> None:
    on, admission = undecided()
    first, second = asking(on), asking(on)
    admission.answer(Verdict.ADMIT)
    admission.answer(Verdict.REPLACE)
    on.loop.settle()
    assert codes(second.hear()) == STARTED
    assert on.stream().publisher is second.connection
    assert on.is_closed(first)


def test_one_who_may_replace_nobody_begins() -> None:
    on, admission = undecided()
    peer = asking(on)
    admission.answer(Verdict.REPLACE)
    on.loop.settle()
    assert codes(peer.hear()) == STARTED


def test_a_publish_that_is_granted_while_the_server_ends_is_refused() -> None:
    on, admission = undecided()
    peer = asking(on)
    peer.transport.room_bytes = 0
    on.broker.say_goodbye()
    on.loop.run_turns()
    admission.answer(Verdict.ADMIT)
    on.loop.settle()
    assert on.broker.streams == {}


def published_and_played() -> tuple[Stage, LaterAdmission, FakePeer]:
    """A stream with a key frame, and somebody who has asked to play it."""
    on, admission = undecided()
    publisher = asking(on)
    admission.answer(Verdict.ADMIT)
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer()
    assert codes(viewer.hear()) == []
    return on, admission, viewer


def test_a_play_that_is_granted_later_begins_then() -> None:
    on, admission, viewer = published_and_played()
    admission.answer(Verdict.ADMIT)
    on.loop.settle()
    heard = viewer.hear()
    assert codes(heard) == PLAYING
    assert [payload[5:] for _, payload in media(heard)] == [b"k0"]


def test_a_play_that_is_refused_later_says_so() -> None:
    _, admission, viewer = published_and_played()
    admission.answer(Verdict.REFUSE)
    assert codes(viewer.hear()) == ["NetStream.Play.Failed"]
    assert viewer.connection.plays == {}
    assert viewer.play() == [], "and may ask again"


def test_a_play_that_is_granted_before_the_stream_is_there_waits_for_it() -> None:
    on, admission = undecided()
    viewer = on.viewer()
    admission.answer(Verdict.ADMIT)
    publisher = asking(on)
    admission.answer(Verdict.ADMIT)
    publisher.say(video(0, b"k0", is_key=True))
    assert codes(viewer.hear()) == PLAYING


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("leaves", ["closes the stream", "hangs up"])
def test_an_answer_to_a_viewer_that_is_gone_changes_nothing(leaves: str, verdict: Verdict) -> None:
    on, admission, viewer = published_and_played()
    if leaves == "hangs up":
        viewer.hang_up()
    else:
        viewer.close_stream()
    viewer.hear()
    admission.answer(verdict)
    on.loop.settle()
    assert viewer.hear() == []
    assert on.stream().viewers == set()


def test_an_answer_to_one_play_means_nothing_for_the_next_on_the_same_message_stream() -> None:
    on, admission, viewer = published_and_played()
    viewer.play("b")
    viewer.hear()
    admission.answer(Verdict.REFUSE, index=0)
    on.loop.settle()
    assert viewer.hear() == []
    admission.answer(Verdict.ADMIT)
    assert on.viewer_of(viewer).key == "live/b"


def test_plays_that_are_undecided_count_toward_those_of_their_connection() -> None:
    on, admission = undecided()
    peer = on.peer().with_streams(9)
    for stream_id in range(1, 10):
        peer.play(stream_id=stream_id)
    assert len(admission.asked) == 8
    assert on.notes.limits == ["plays per connection"]


def test_while_one_play_is_undecided_another_of_its_connection_goes_on() -> None:
    on, admission = undecided()
    publisher = asking(on)
    admission.answer(Verdict.ADMIT)
    publisher.say(video(0, b"k0", is_key=True))
    peer = on.peer().with_streams(2)
    peer.play(stream_id=1)
    admission.answer(Verdict.ADMIT)
    on.loop.settle()
    peer.play("b", stream_id=2)
    peer.hear()
    publisher.say(video(40, b"i1"))
    assert [payload[5:] for _, payload in media(peer.hear())] == [b"i1"]
    admission.answer(Verdict.REFUSE)
    on.loop.settle()
    publisher.say(video(80, b"i2"))
    assert [payload[5:] for _, payload in media(peer.hear())] == [b"i2"]
    assert on.viewer_of(peer, 1).is_in_step
