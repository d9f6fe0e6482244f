"""Servers in a circle: how each is told from the others, and what is refused."""

from tests.serve.fake_peer import codes
from tests.serve.pulls.stage import PullStage
from tests.support.hostile_clients import command


def test_a_server_that_asks_itself_is_refused() -> None:
    stage = PullStage()
    stage.viewer()
    assert stage.source.via == ("here",)
    peer = stage.on.workers[1].peer()
    told = peer.say(b"\x03" + bytes(2 * 1536), command("connect", 1.0, {"app": "live", "penstockVia": "x,here"}))
    assert codes(told) == ["NetConnection.Connect.Rejected"]


def test_a_pull_for_another_server_tells_who_has_asked() -> None:
    stage = PullStage()
    peer = stage.on.workers[1].peer()
    peer.say(b"\x03" + bytes(2 * 1536), command("connect", 1.0, {"app": "live", "penstockVia": "x,y"}))
    peer.say(command("createStream", 2.0, None))
    peer.play("a")
    assert stage.source.via == ("x", "y", "here")


def test_servers_are_told_the_name_of_this_one_and_others_are_not() -> None:
    stage = PullStage()
    answers = []
    for named in ("penstockVia", "somethingElse"):
        peer = stage.on.workers[1].peer()
        peer.say(b"\x03" + bytes(2 * 1536), command("connect", 1.0, {"app": "live", named: "x"}))
        answers.append(any(b"\x00\x0bpenstockVia\x02\x00\x04here" in each.payload for each in peer.messages))
    assert answers == [True, False]


def test_what_is_pulled_has_come_through_its_origin() -> None:
    stage = PullStage()
    stage.watched()
    publisher = stage.on.workers[1].stream().publisher
    assert publisher is not None
    assert publisher.via == ("there",)


def test_a_row_of_too_many_servers_is_a_circle() -> None:
    stage = PullStage()
    via = ",".join(f"s{number}" for number in range(9))
    told = (
        stage.on.workers[1]
        .peer()
        .say(b"\x03" + bytes(2 * 1536), command("connect", 1.0, {"app": "live", "penstockVia": via}))
    )
    assert codes(told) == ["NetConnection.Connect.Rejected"]
