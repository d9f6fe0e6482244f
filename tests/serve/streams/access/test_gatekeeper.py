"""Who is let in: by rules that a worker decides, and by those for which web is asked."""

import pytest

from penstock.access.adobe import response_to
from penstock.access.keys import adobe_verifier
from penstock.control import live
from penstock.serve.streams.access.gatekeeper import ANSWER_WITHIN_S
from tests.serve.fake_peer import HELLO, FakePeer, codes, media, video
from tests.serve.fakes import START
from tests.serve.streams.access.gate_stage import (
    DENIED,
    FAILED,
    KEY,
    OTHER_KEY,
    PLAYED,
    PUBLISHED,
    SALT,
    GateStage,
    app_access,
    heard,
    signed,
)
from tests.serve.streams.stage import Stage
from tests.support.hostile_clients import command
from tests.support.independent_rtmp import read_amf0_values


def test_without_rules_everybody_may_everything() -> None:
    on = Stage()
    assert on.peer().with_streams().publish("a?key=wrong") == [PUBLISHED]
    assert PLAYED in on.peer().with_streams().play("a")


def test_a_right_key_publishes_and_its_name_is_the_subject() -> None:
    on = GateStage(app_access(["key"]))
    assert on.peer().with_streams().publish(f"a?key={KEY}") == [PUBLISHED]
    assert on.stream("a").auth_subject == "studio"


@pytest.mark.parametrize("name", ["a", "a?key=wrong", f"{KEY}"])
def test_a_publish_without_a_right_key_is_denied_closed_and_counted_and_its_name_told_to_nobody(name: str) -> None:
    on = GateStage(app_access(["key"]))
    peer = on.peer().with_streams()
    assert peer.publish(name) == [DENIED]
    assert on.why_closed(peer) == "access refused"
    assert on.notes.limits == ["access"]
    assert on.notes.details == ["192.0.2.1:1000 may not publish in live: not let in by the rules of the app: key"]
    assert on.notes.heard == []


def test_a_refused_play_fails_and_the_connection_stays_for_another_try() -> None:
    on = GateStage(app_access(["open"], ["key"]))
    on.publisher("a")
    viewer = on.peer().with_streams()
    assert viewer.play("a") == [FAILED]
    assert not on.is_closed(viewer)
    assert not viewer.connection.plays
    assert PLAYED in viewer.play(f"a?key={KEY}")
    assert on.viewer_of(viewer).auth_subject == "studio"
    assert "live/a left" not in " ".join(on.notes.heard)


def test_an_app_that_no_rule_is_for_is_denied() -> None:
    on = GateStage(app_access(["open"]))
    peer = on.peer()
    peer.connected("other").say(command("createStream", 2.0, None))
    assert peer.publish("a") == [DENIED]
    assert on.notes.details == ["192.0.2.1:1000 may not publish in other: no rule for this app"]


def test_a_key_with_an_alias_is_a_stream_key_that_viewers_never_see() -> None:
    on = GateStage(app_access(["key"], aliases={"studio": "main"}))
    publisher = on.peer().with_streams()
    assert publisher.publish(KEY) == [PUBLISHED]
    assert list(on.broker.streams) == ["live/main"]
    viewer = on.peer().with_streams()
    assert PLAYED in viewer.play("main")
    publisher.say(video(0, b"p0", is_key=True))
    assert media(viewer.hear())
    assert KEY.encode() not in bytes(viewer.transport.output)
    assert KEY not in " ".join(on.notes.heard)


def test_the_key_in_the_apps_query_counts_too() -> None:
    on = GateStage(app_access(["key"]))
    peer = on.peer()
    peer.connected(f"live?key={OTHER_KEY}").say(command("createStream", 2.0, None))
    assert peer.publish("a") == [PUBLISHED]
    assert on.stream("a").auth_subject == "other"


def test_refusals_of_one_address_wait_longer_each_time_and_who_is_right_does_not_wait() -> None:
    on = GateStage(app_access(["key"]))
    assert on.peer().with_streams().publish("a") == [DENIED]
    second = on.peer().with_streams()
    assert second.publish("a") == []
    on.loop.advance(0.09)
    assert heard(second) == []
    on.loop.advance(0.02)
    assert heard(second) == [DENIED]
    assert on.peer().with_streams().publish(f"a?key={KEY}") == [PUBLISHED]


# Web is asked.


def test_web_is_asked_for_what_needs_it_and_the_publish_waits_for_the_answer() -> None:
    on = GateStage(app_access(["jwt"]))
    peer = on.peer().with_streams()
    assert peer.publish("a?token=x.y.z") == []
    (question,) = on.questions
    assert (question.action, question.app, question.stream) == ("publish", "live", "a")
    assert (question.stream_query, question.peer_addr, question.is_held) == ("token=x.y.z", "192.0.2.1:1000", False)
    assert not on.broker.streams
    on.answer(question, subject="anna")
    assert heard(peer) == [PUBLISHED]
    assert on.stream("a").auth_subject == "anna"


def test_a_play_is_held_while_it_is_undecided_and_what_is_behind_it_counts_afterwards() -> None:
    on = GateStage(app_access(["open"], ["jwt"]))
    on.publisher("a")
    viewer = on.peer().with_streams()
    viewer.say(
        command("play", 3.0, None, "a?token=x.y.z", stream_id=1),
        command("pause", 4.0, None, True, 0.0, stream_id=1),
    )
    assert viewer.connection.session.is_held
    on.answer(on.questions[0], subject="anna")
    assert heard(viewer)[-1] == "NetStream.Pause.Notify"
    assert on.viewer_of(viewer).is_paused


def test_what_web_refuses_is_refused() -> None:
    on = GateStage(app_access(["open"], ["jwt"]))
    viewer = on.peer().with_streams()
    viewer.play("a?token=x.y.z")
    on.answer(on.questions[0], is_allowed=False, rule="the token has expired")
    assert heard(viewer) == [FAILED]
    assert on.notes.details == ["192.0.2.1:1000 may not play in live: the token has expired"]


def test_a_callback_may_give_another_name() -> None:
    on = GateStage(app_access(["callback"]))
    peer = on.peer().with_streams()
    peer.publish("secret-name")
    on.answer(on.questions[0], stream="main", rule="callback")
    assert heard(peer) == [PUBLISHED]
    assert list(on.broker.streams) == ["live/main"]


def test_a_new_web_process_is_asked_again() -> None:
    on = GateStage(app_access(["jwt"]))
    peer = on.peer().with_streams()
    peer.publish("a?token=x.y.z")
    on.gatekeeper.ask_again()
    first, second = on.questions
    assert first == second
    on.answer(second)
    assert heard(peer) == [PUBLISHED]
    on.answer(first)
    on.gatekeeper.ask_again()
    assert len(on.questions) == 2, "what was answered is asked no more"


def test_without_an_answer_in_time_it_is_refused() -> None:
    on = GateStage(app_access(["jwt"]))
    peer = on.peer().with_streams()
    peer.publish("a?token=x.y.z")
    on.loop.advance(ANSWER_WITHIN_S - 0.1)
    assert heard(peer) == []
    on.loop.advance(0.2)
    assert heard(peer) == [DENIED]
    assert on.notes.details == ["192.0.2.1:1000 may not publish in live: web did not answer in time"]


def test_an_answer_to_one_who_is_gone_changes_nothing() -> None:
    on = GateStage(app_access(["jwt"], ["jwt"]))
    publisher, viewer = on.peer().with_streams(), on.peer().with_streams()
    publisher.publish("a?token=x.y.z")
    viewer.play("a?token=x.y.z")
    publisher.reset()
    viewer.reset()
    for question in on.questions:
        on.answer(question)
    assert not on.broker.streams
    assert not on.broker.table.waiting


# Adobe's challenge.

ENCODER = "FMLE/3.0 (compatible; FMSc/1.0)"


def connects(on: Stage, app: str, flash_version: str = ENCODER) -> tuple[FakePeer, str]:
    """An encoder that connects, and what it is told."""
    peer = on.peer()
    told = peer.say(HELLO, command("connect", 1.0, {"app": app, "flashVer": flash_version}))
    values = [read_amf0_values(each.payload) for each in told if each.type_id == 20]
    status = values[-1][3] if values else None
    return peer, str(status["description"]) if isinstance(status, dict) else ""


def test_an_encoder_proves_its_key_by_the_challenge_in_three_connections() -> None:
    on = GateStage(app_access(["key"], has_adobe=True))
    first, told = connects(on, "live")
    assert told == "[ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : "
    assert on.why_closed(first) == "asked for user and password"
    _, told = connects(on, "live?authmod=adobe&user=studio")
    fields = dict(each.split("=", 1) for each in told.partition("?")[2].split("&"))
    assert fields["salt"] == SALT
    response = response_to(adobe_verifier("studio", SALT, KEY), fields["opaque"], "mine")
    query = f"authmod=adobe&user=studio&challenge=mine&response={response}&opaque={fields['opaque']}"
    peer, told = connects(on, f"live?{query}")
    assert told == "Connection succeeded."
    peer.say(command("createStream", 2.0, None))
    assert peer.publish("a") == [PUBLISHED]
    assert on.stream("a").auth_subject == "studio"
    assert on.notes.limits == []


def test_a_wrong_password_is_refused_slower_each_time_and_counted() -> None:
    on = GateStage(app_access(["key"], has_adobe=True))
    wrong = "live?authmod=adobe&user=studio&challenge=mine&response=bm90aGluZw==&opaque=1.2"
    _, told = connects(on, wrong)
    assert told == "[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=authfailed"
    second, told = connects(on, wrong)
    assert told == ""
    on.loop.advance(0.11)
    assert codes(second.hear()) == ["NetConnection.Connect.Rejected"]
    assert on.why_closed(second) == "access refused"
    assert on.notes.details == ["192.0.2.1:1000 did not prove its key to live"] * 2


def test_players_and_those_with_other_credentials_are_not_challenged() -> None:
    on = GateStage(app_access(["key"], has_adobe=True))
    assert connects(on, "live", "LNX 9,0,124,2")[1] == "Connection succeeded."
    assert connects(on, f"live?key={KEY}")[1] == "Connection succeeded."


# Blocks.


def test_who_comes_from_a_blocked_address_is_rejected_until_the_block_is_over() -> None:
    on = GateStage(app_access(["open"]))
    on.gatekeeper.block(live.Blocks({"192.0.2.1": START + 60}, {}))
    peer, told = connects(on, "live")
    assert told == "Access denied."
    assert on.why_closed(peer) == "blocked"
    on.loop.advance(61)
    assert on.peer().with_streams().publish("a") == [PUBLISHED]


def test_a_blocked_subject_is_refused_whatever_it_proves() -> None:
    on = GateStage(app_access(["key"]))
    on.gatekeeper.block(live.Blocks({}, {"studio": START + 60}))
    assert on.peer().with_streams().publish(f"a?key={KEY}") == [DENIED]
    assert on.peer().with_streams().publish(f"b?key={OTHER_KEY}") == [PUBLISHED]


def test_a_signed_link_lets_in_for_its_action_alone() -> None:
    on = GateStage(app_access(["signed"], ["signed"]))
    link = signed("publish", "live/a", START + 60)
    assert on.peer().with_streams().publish(f"a?{link}") == [PUBLISHED]
    assert on.peer().with_streams().play(f"a?{link}") == [FAILED]
    assert PLAYED in on.peer().with_streams().play(f"a?{signed('play', 'live/a', START + 60)}")
