"""What stands in front of every route: hosts, origins, tokens, bodies, and what every answer has."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.web.api.guard import MAX_BODY_BYTES, Guard, GuardSettings, is_own_host
from penstock.web.asgi import Event, Receive, Scope, Send
from tests.web.api.calling import KEYS, TOKENS, Caller

PAGE = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1:8080", True),
        ("192.0.2.7", True),
        ("[::1]:8080", True),
        ("[2001:db8::1]", True),
        ("localhost:8080", True),
        ("LOCALHOST", True),
        ("a.localhost:1", True),
        ("edge.example.org", True),
        ("Edge.Example.Org.:8080", True),
        ("evil.example", False),
        ("evil.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_a_host_is_ours_by_address_or_name(host: str, is_ours: bool) -> None:
    assert is_own_host(host, {"edge.example.org"}) is is_ours


def test_a_page_whose_name_leads_here_is_refused_with_any_token(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    for role in (None, "admin"):
        answer = caller.ask("/api/v1/server", role=role, headers={"host": "evil.example:8080"})
        assert (answer.status_code, answer.headers["content-type"]) == (421, "application/problem+json")
    assert caller.ask("/api", role=None, headers={"host": "evil.example"}).status_code == 421


def test_without_a_token_one_is_asked_for_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    without = caller.ask("/api/v1/streams", role=None, address="192.0.2.1")
    assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")
    assert without.json() == {
        "type": "about:blank",
        "title": "Unauthorized",
        "status": 401,
        "detail": "This needs a token: Authorization: Bearer TOKEN.",
    }
    wrong = caller.ask("/api/v1/streams", role="wrong-token", address="192.0.2.1")
    assert wrong.status_code == 403
    assert "wrong-token" not in wrong.text
    assert caller.ask("/api/v1/streams", role="read", address=None).status_code == 200


def test_wrong_tokens_are_counted_and_others_wait_for_nothing(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    assert caller.ask("/api/v1/streams", role="wrong", address="192.0.2.1").status_code == 403
    assert caller.ask("/api/v1/streams", role=None, address="192.0.2.1").status_code == 401
    assert caller.ask("/api/v1/streams", role="read", address="192.0.2.1").status_code == 200
    assert caller.ask("/api/v1/streams", role="wrong", address="unknown").status_code == 403
    caller.api.reload(GuardSettings(keys=KEYS))
    assert caller.ask("/api/v1/streams", role="wrong", address=None).status_code == 403
    assert caller.board.server_figures().total.limits_hit == {"api tokens": 3}


def test_the_schema_and_its_page_are_for_everybody(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    for path in ("/api", "/api/", "/api/openapi.json", "/api/v1/openapi.json"):
        assert caller.ask(path, role=None, address="192.0.2.1").status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 202),
        (PAGE, 202),
        ("https://dash.example.org", 202),
        ("https://evil.example", 403),
        ("http://127.0.0.1:9999", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_other_origins_change_nothing(tmp_path: Path, origin: str | None, status: int) -> None:
    caller = Caller(tmp_path, GuardSettings(keys=KEYS, cors_origins=("https://dash.example.org",)))
    headers = {} if origin is None else {"origin": origin}
    assert caller.ask("/api/v1/drain", "POST", headers=headers, json={}).status_code == status
    assert len(caller.orders.drained) == (status == 202)


def test_browsers_are_told_of_the_origins_that_the_operator_named_and_no_others(tmp_path: Path) -> None:
    caller = Caller(tmp_path, GuardSettings(keys=KEYS, cors_origins=("https://dash.example.org",)))
    named = caller.ask("/api/v1/server", headers={"origin": "https://dash.example.org"})
    assert named.headers["access-control-allow-origin"] == "https://dash.example.org"
    assert "access-control-allow-credentials" not in named.headers
    other = caller.ask("/api/v1/server", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
    asking = {"origin": "https://dash.example.org", "access-control-request-method": "DELETE"}
    preflight = caller.ask("/api/v1/viewers/x", "OPTIONS", role=None, address="192.0.2.1", headers=asking)
    assert (preflight.status_code, "DELETE" in preflight.headers["access-control-allow-methods"]) == (200, True)
    refused = caller.ask("/api/v1/server", role="wrong", headers={"origin": "https://dash.example.org"})
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, True)


def test_a_body_is_bounded(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    assert caller.ask("/api/v1/config/check", "POST", content=b"#" * MAX_BODY_BYTES).status_code == 200
    assert caller.ask("/api/v1/config/check", "POST", content=b"#" * (MAX_BODY_BYTES + 1)).status_code == 413


def test_every_answer_ends_the_connection_and_is_private(tmp_path: Path) -> None:
    caller = Caller(tmp_path)
    for answer in (caller.ask("/api/v1/server"), caller.ask("/api/v1/nothing"), caller.ask("/api/v1/server", role="x")):
        assert answer.headers["connection"] == "close"
        assert answer.headers["cache-control"] == "private, no-cache"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "set-cookie" not in answer.headers


def test_a_route_that_fails_is_answered_and_its_path_is_not_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    caller = Caller(tmp_path)
    caller.happenings.state.streams = None  # type: ignore[assignment]
    answer = caller.ask("/api/v1/streams/live/secret-name")
    assert (answer.status_code, answer.json()["detail"]) == (500, "See the log.")
    told = capsys.readouterr()
    assert "secret-name" not in told.out + told.err


def websocket(
    settings: GuardSettings, address: str | None = "192.0.2.1", **headers: str
) -> tuple[list[dict[str, Any]], bool]:
    """What a client that wants a WebSocket is told, and whether the application heard of it."""
    sent: list[dict[str, Any]] = []
    heard: list[Scope] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        heard.append(scope)
        await send({"type": "websocket.accept"})

    async def receive() -> Event:
        return {"type": "websocket.connect"}

    async def send(event: Event) -> None:
        sent.append(dict(event))

    told = {"host": "127.0.0.1:8080", **headers}
    scope: Scope = {
        "type": "websocket",
        "path": "/api/v1/events",
        "headers": [(name.encode(), value.encode()) for name, value in told.items()],
        "client": None if address is None else (address, 1),
        "extensions": {"websocket.http.response": {}},
    }
    asyncio.run(Guard(app, settings)(scope, receive, send))
    return sent, bool(heard)


def test_a_websocket_needs_a_token_too_and_may_read_on_this_machine() -> None:
    settings = GuardSettings(keys=KEYS)
    refused, has_begun = websocket(settings)
    assert (refused[0]["type"], refused[0]["status"], has_begun) == ("websocket.http.response.start", 401, False)
    assert websocket(settings, authorization=f"Bearer {TOKENS['read']}") == ([{"type": "websocket.accept"}], True)
    assert websocket(settings, "127.0.0.1") == ([{"type": "websocket.accept"}], True)


@pytest.mark.parametrize(("origin", "has_begun"), [(PAGE, True), ("https://evil.example", False), ("null", False)])
def test_a_websocket_of_another_origin_may_not_even_read(origin: str, has_begun: bool) -> None:
    sent, is_heard = websocket(GuardSettings(keys=KEYS), "127.0.0.1", origin=origin)
    assert is_heard is has_begun
    if not has_begun:
        assert sent[0]["status"] == 403


def test_a_websocket_to_another_host_is_refused() -> None:
    sent, is_heard = websocket(GuardSettings(keys=KEYS), "127.0.0.1", host="evil.example")
    assert (sent[0]["status"], is_heard) == (421, False)
