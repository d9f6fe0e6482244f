"""Links that the server makes: what they are for, how long, and what they let in at the API."""

from pathlib import Path
from typing import Any

import pytest

from penstock.access.request import AccessRequest, Action, Allowed, Refused
from penstock.config import Config
from penstock.config_secrets import policy_of
from penstock.web.access.links import Links
from tests.web.api.calling import LINK_SECRET, NOW, Caller
from tests.web.api.test_catalogue import row, write

ONLY_KEYS = Config.model_validate({"access": {"live": {"publish": ["key"], "play": ["key"]}}})


def make(caller: Caller, **order: Any) -> Any:
    answer = caller.ask("/api/v1/links", "POST", json=order)
    assert answer.status_code == 201, answer.text
    return answer.json()


def decide(query: str, action: Action = "play", stream: str = "a b") -> Any:
    policy = policy_of(ONLY_KEYS, {}, LINK_SECRET)
    return policy.decide(AccessRequest(action, "live", stream, "http-flv", "192.0.2.1", stream_query=query), NOW)


def test_a_link_lets_play_the_stream_it_is_for(tmp_path: Path) -> None:
    link = make(Caller(tmp_path), app="live", stream="a b")
    assert link["expires_at"] == "2026-09-21T14:18:20.000Z"
    assert link["paths"]["http-flv"] == f"/live/a%20b.flv?{link['query']}"
    assert sorted(link["paths"]) == ["hls", "http-flv", "http-mp4", "page", "thumbnail", "ws-flv"]
    assert decide(link["query"]) == Allowed("server", None, "a b", NOW + 300)
    assert isinstance(decide(link["query"], "publish"), Refused)
    assert isinstance(decide(link["query"], stream="b"), Refused)


def test_who_may_read_may_make_one_without_a_token_too(tmp_path: Path) -> None:
    for role in ("read", None):
        answer = Caller(tmp_path).ask("/api/v1/links", "POST", role=role, json={"app": "live", "stream": "a"})
        assert answer.status_code == 201
    answer = Caller(tmp_path).ask(
        "/api/v1/links", "POST", role=None, address="192.0.2.1", json={"app": "live", "stream": "a"}
    )
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"app": "live"},
        {"app": "", "stream": "a"},
        {"app": "live", "stream": "a?b"},
        {"app": "live", "stream": "a\nb"},
        {"app": "live", "stream": "a", "for_s": 3601},
        {"app": "live", "stream": "a", "for_s": 0},
        {"app": "live", "stream": "a", "recording": "r1-1"},
        {"recording": "r1-1", "for_s": "300"},
    ],
)
def test_what_is_no_order_for_a_link_is_refused(tmp_path: Path, order: Any) -> None:
    assert Caller(tmp_path).ask("/api/v1/links", "POST", json=order).status_code == 422


def test_a_link_to_a_recording_needs_no_token_and_is_for_that_one_alone(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    write(tmp_path, row("r1"), row("r2"))
    caller.catalogue.look()
    (tmp_path / "r1_1.flv").write_bytes(b"FLV")
    (tmp_path / "r2_1.flv").write_bytes(b"FLV")
    ids = sorted(caller.catalogue.files)
    link = make(caller, recording=ids[0])
    far: dict[str, Any] = {"role": None, "address": "192.0.2.1"}
    path = link["paths"]["file"]
    assert path == f"/api/v1/recordings/{ids[0]}/file?{link['query']}"
    assert caller.ask(path, **far).content == b"FLV"
    assert caller.ask(path, "HEAD", **far).status_code in (200, 405)
    assert caller.ask(path.replace(ids[0], ids[1]), **far).status_code == 401
    assert caller.ask(f"/api/v1/recordings/{ids[0]}?{link['query']}", "DELETE", **far).status_code == 401
    assert caller.ask(f"/api/v1/recordings?{link['query']}", **far).status_code == 401
    assert caller.ask(f"/api/v1/server?{link['query']}", **far).status_code == 401
    caller.time += 300
    assert caller.ask(path, **far).status_code == 401


def test_a_link_to_a_recording_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert Caller(tmp_path).ask("/api/v1/links", "POST", json={"recording": "r1-1"}).status_code == 404


def test_links_of_another_life_count_for_nothing(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    for secret in (b"of another life", b""):
        link = Links(secret, lambda: NOW).for_recording("r1-1", 300)
        answer = caller.ask(link.paths["file"], role=None, address="192.0.2.1")
        assert answer.status_code == 401
    without = Links(b"", lambda: NOW)
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/recordings/r1-1/file",
        "query_string": without.for_recording("r1-1", 300).query.encode(),
    }
    assert not without.admits(scope)
