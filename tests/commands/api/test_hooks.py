"""penstock hooks, against a server of the test."""

import pytest

from penstock.cli import main
from tests.commands.api.answering import answering

LETTER = {
    "id": "msg_1",
    "hook": "https://hooks.example",
    "type": "publish_started",
    "app": "live",
    "stream": "ma\x1bin",
    "accepted_at": "2026-11-17T10:00:00.000Z",
    "dead_at": "2026-11-18T10:00:00.000Z",
    "attempts": 36,
    "reason": "status 500",
}
LIST = "GET /api/v1/hooks/dead-letters?limit=1000"
REPLAY = "POST /api/v1/hooks/dead-letters/replay"


def test_dead_letters_are_listed_without_what_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    gone = LETTER | {"id": "msg_2", "hook": None, "app": None, "stream": None}
    with answering({LIST: (200, {"items": [LETTER, gone], "next_cursor": None})}) as server:
        assert main(["hooks", "dead", "--url", server.url]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        "msg_1\t2026-11-18T10:00:00.000Z\thttps://hooks.example\tpublish_started\tlive/ma?in\t36 attempts: status 500"
    )
    assert second.split("\t")[2:5] == ["(no longer configured)", "publish_started", ""]


@pytest.mark.parametrize(
    ("ids", "body"), [([], {"ids": None}), (["msg_1", "msg_2"], {"ids": ["msg_1", "msg_2"]})], ids=["all", "some"]
)
def test_letters_are_sent_again_all_or_those_that_are_named(
    ids: list[str], body: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering({REPLAY: (202, {"replayed": 2})}) as server:
        assert main(["hooks", "replay", *ids, "--url", server.url]) == 0
    assert server.bodies == [body]
    assert capsys.readouterr().out == "2 messages are sent again\n"


def test_a_refusal_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with answering({REPLAY: (403, {"detail": "This needs the role operate."})}) as server:
        assert main(["hooks", "replay", "--url", server.url]) == 1
    error = capsys.readouterr().err
    assert error.startswith("penstock hooks: the server answers 403: This needs the role operate.")
    assert error.count("\n") == 1
