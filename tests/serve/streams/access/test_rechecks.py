"""What was let in ends within two seconds of what let it in: expiry, changed rules, blocks, kicks."""

from penstock.access.policy import Policy
from penstock.control import live
from penstock.control.live import AccessAnswer
from penstock.serve.settings import AppSettings
from penstock.serve.streams.access.gatekeeper import MAX_ASKED_ANEW
from tests.serve.fake_peer import video
from tests.serve.fakes import START
from tests.serve.streams.access.gate_stage import (
    DENIED,
    FAILED,
    KEY,
    OTHER_KEY,
    PLAYED,
    PUBLISHED,
    GateStage,
    app_access,
    heard,
    signed,
)

WITHIN_S = 2.0


def test_a_signed_play_ends_when_its_link_does() -> None:
    on = GateStage(app_access(["open"], ["signed"]))
    on.publisher("a")
    viewer = on.viewer(f"a?{signed('play', 'live/a', START + 10)}")
    heard(viewer)
    on.loop.advance(9.5)
    assert FAILED not in heard(viewer)
    on.loop.advance(0.5 + WITHIN_S)
    assert heard(viewer)[-1] == FAILED
    assert "live/a left: access expired" in on.notes.heard
    assert on.why_closed(viewer) == "access expired"


def test_a_publication_ends_without_grace_when_its_token_does_and_its_viewers_are_told() -> None:
    on = GateStage(app_access(["jwt"]), AppSettings(grace_s=10.0))
    publisher = on.peer().with_streams()
    publisher.publish("a?token=x.y.z")
    on.answer(on.questions[0], expires_at=START + 10, subject="anna")
    viewer = on.viewer("a")
    publisher.say(video(0, b"p0", is_key=True))
    heard(publisher)
    on.loop.advance(10 + WITHIN_S)
    assert heard(publisher) == [DENIED]
    assert on.why_closed(publisher) == "access expired"
    assert "live/a stopped: access expired" in on.notes.heard
    assert not on.broker.streams
    assert heard(viewer)[-1] == "NetStream.Play.Stop"


def test_a_removed_key_ends_what_it_published_and_no_other() -> None:
    on = GateStage(app_access(["key"]))
    studio, other = on.peer().with_streams(), on.peer().with_streams()
    assert studio.publish(f"a?key={KEY}") == other.publish(f"b?key={OTHER_KEY}") == [PUBLISHED]
    on.rule(app_access(["key"], keys={"other": OTHER_KEY}))
    on.loop.advance(WITHIN_S)
    assert heard(studio) == [DENIED]
    assert on.why_closed(studio) == "access revoked"
    assert not on.is_closed(other)
    assert list(on.broker.streams) == ["live/b"]


def test_rules_that_come_later_hold_for_those_who_were_there_before() -> None:
    on = GateStage(app_access(["open"]))
    on.gatekeeper.apply(Policy())
    publisher, viewer = on.publisher("a"), on.viewer("a")
    waiting = on.viewer("to come")
    on.rule(app_access(["open"], ["key"]))
    on.loop.advance(WITHIN_S)
    assert not on.is_closed(publisher)
    assert on.why_closed(viewer) == on.why_closed(waiting) == "access revoked"
    assert heard(waiting)[-1] == FAILED
    assert not on.broker.table.waiting


def test_a_changed_alias_ends_what_goes_on_under_the_old_one() -> None:
    on = GateStage(app_access(["key"], aliases={"studio": "main"}))
    publisher = on.peer().with_streams()
    publisher.publish(KEY)
    on.rule(app_access(["key"], aliases={"studio": "stage"}))
    on.loop.advance(WITHIN_S)
    assert on.why_closed(publisher) == "access revoked"


def test_the_same_rules_once_more_end_nothing() -> None:
    on = GateStage(app_access(["key"], ["open"], aliases={"studio": "main"}))
    publisher = on.peer().with_streams()
    publisher.publish(KEY)
    viewer = on.viewer("main")
    on.rule(app_access(["key"], ["open"], aliases={"studio": "main"}))
    on.loop.advance(10)
    assert not on.is_closed(publisher)
    assert not on.is_closed(viewer)
    assert on.questions == []


def test_web_is_asked_once_whether_what_it_let_in_still_holds() -> None:
    on = GateStage(app_access(["jwt"]))
    publisher = on.peer().with_streams()
    publisher.publish("a?token=x.y.z")
    on.answer(on.questions[0])
    on.rule(app_access(["jwt"]))
    on.loop.advance(3)
    _, question = on.questions
    assert (question.is_held, question.held_rule, question.edition) == (True, "jwt", "e1")
    on.answer(question)
    on.loop.advance(3)
    assert len(on.questions) == 2
    assert not on.is_closed(publisher)
    on.rule(app_access(["jwt"]))
    on.loop.advance(WITHIN_S)
    on.answer(on.questions[2], is_allowed=False)
    on.loop.advance(0.1)
    assert on.why_closed(publisher) == "access revoked"


def test_a_refusal_by_rules_that_have_changed_meanwhile_ends_nothing_and_lets_nobody_in() -> None:
    on = GateStage(app_access(["jwt"]))
    held, new = on.peer().with_streams(), on.peer().with_streams()
    held.publish("a?token=x.y.z")
    on.answer(on.questions[0])
    on.rule(app_access(["jwt"]))
    on.loop.advance(WITHIN_S)
    new.publish("b?token=x.y.z")
    on.rule(app_access(["jwt"], ["key"]))
    for question in on.questions[1:3]:
        on.answer(question, is_allowed=False, rule="the rules are being changed")
    on.loop.advance(WITHIN_S)
    for question in on.questions[3:]:
        on.answer(question)
    assert {each.stream for each in on.questions[3:]} == {"a", "b"}
    assert not on.is_closed(held)
    assert PUBLISHED in heard(new)


def test_who_was_let_in_goes_on_while_web_is_gone_and_it_is_asked_when_it_is_back() -> None:
    on = GateStage(app_access(["open"], ["jwt"]))
    on.publisher("a")
    viewer = on.viewer("a?token=x.y.z")
    on.answer(on.questions[0])
    on.rule(app_access(["open"], ["jwt"]))
    on.loop.advance(20)
    assert not on.is_closed(viewer)
    assert len(on.questions) > 2
    on.answer(on.questions[-1], is_allowed=False)
    on.loop.advance(1)
    assert on.why_closed(viewer) == "access revoked"


def test_of_many_who_were_let_in_web_is_asked_about_some_at_a_time_and_about_none_while_it_is_busy() -> None:
    on = GateStage(app_access(["open"], ["jwt"]))
    peers = [on.peer().with_streams(8) for _ in range(MAX_ASKED_ANEW // 8 + 1)]
    for peer in peers:
        for stream_id in range(1, 9):
            peer.play("a?token=x.y.z", stream_id=stream_id)
            on.answer(on.questions.pop())
    on.gatekeeper.is_web_busy = lambda: True
    on.rule(app_access(["open"], ["jwt"]))
    on.loop.advance(WITHIN_S)
    assert on.questions == []
    on.gatekeeper.is_web_busy = lambda: False
    on.loop.advance(WITHIN_S)
    assert len(on.questions) == MAX_ASKED_ANEW
    for question in on.questions[:]:
        on.gatekeeper.answered(AccessAnswer(question.request, is_allowed=True, has_credentials=True, rule="jwt"))
    on.loop.advance(WITHIN_S)
    assert len(on.questions) == 8 * len(peers)


def test_what_a_callback_answered_holds_though_it_is_not_asked_again() -> None:
    on = GateStage(app_access(["callback"]))
    publisher = on.peer().with_streams()
    publisher.publish("a")
    on.answer(on.questions[0], rule="callback", stream="main", expires_at=START + 10)
    on.rule(app_access(["callback"]))
    on.loop.advance(WITHIN_S)
    on.answer(on.questions[1], rule="callback")
    on.loop.advance(5)
    assert not on.is_closed(publisher)
    on.loop.advance(5)
    assert on.why_closed(publisher) == "access expired"


def test_what_a_callback_lets_in_anew_goes_on_under_the_name_that_it_answers_or_not_at_all() -> None:
    on = GateStage(app_access(["key"], aliases={"studio": "main"}))
    publisher = on.peer().with_streams()
    assert publisher.publish(f"studio?key={KEY}") == [PUBLISHED]
    on.rule(app_access(["callback"]))
    on.loop.advance(WITHIN_S)
    on.answer(on.questions[0], rule="callback", stream="elsewhere")
    on.loop.advance(WITHIN_S)
    assert on.why_closed(publisher) == "access revoked"


def test_a_block_ends_what_goes_on_by_address_and_by_subject() -> None:
    on = GateStage(app_access(["key"]))
    studio, other = on.peer().with_streams(), on.peer().with_streams()
    studio.publish(f"a?key={KEY}")
    other.publish(f"b?key={OTHER_KEY}")
    on.gatekeeper.block(live.Blocks({}, {"studio": START + 60}))
    on.loop.advance(WITHIN_S)
    assert on.why_closed(studio) == "blocked"
    assert not on.is_closed(other)
    idle = on.peer().connected()
    on.gatekeeper.block(live.Blocks({"192.0.2.1": START + 60}, {}))
    on.loop.advance(WITHIN_S)
    assert on.why_closed(other) == on.why_closed(idle) == "blocked"
    assert "live/b stopped: blocked" in on.notes.heard


def test_one_of_two_plays_ends_and_the_connection_stays_for_the_other() -> None:
    on = GateStage(app_access(["open"], ["signed", "key"]))
    on.publisher("a")
    viewer = on.peer().with_streams(2)
    assert PLAYED in viewer.play(f"a?{signed('play', 'live/a', START + 5)}")
    assert PLAYED in viewer.play(f"a?key={KEY}", stream_id=2)
    on.loop.advance(5 + WITHIN_S)
    assert heard(viewer) == [FAILED]
    assert not on.is_closed(viewer)
    assert list(viewer.connection.plays) == [2]


def test_a_connection_is_dismissed_with_all_that_it_does_and_in_time_though_it_reads_nothing() -> None:
    on = GateStage(app_access(["open"]))
    publisher, viewer = on.publisher("a"), on.viewer("a")
    publisher.say(video(0, b"p0", is_key=True))
    viewer.transport.room_bytes = 0
    on.broker.dismiss(viewer.connection, "kicked")
    on.broker.dismiss(publisher.connection, "kicked")
    on.loop.settle()
    assert on.why_closed(viewer) is None
    assert heard(publisher) == [DENIED]
    on.loop.advance(0.6)
    assert on.why_closed(viewer) == on.why_closed(publisher) == "kicked"
    assert {"live/a left: kicked", "live/a stopped: kicked"} <= set(on.notes.heard)
