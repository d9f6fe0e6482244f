"""Addresses of watch pages and of the player, as ASGI says them, without a server."""

import asyncio
from typing import Any

import pytest

from penstock.config import Config
from penstock.web.asgi import App, Event, Receive, Scope, Send
from penstock.web.watch.site import with_watch


async def nothing_else(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})


@pytest.fixture
def site() -> App:
    return with_watch(Config.model_validate({"rtmp": {"listen": "127.0.0.1:1936"}}), nothing_else)


def asked(site: App, target: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent: list[dict[str, Any]] = []

    async def receive() -> Event:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Event) -> None:
        sent.append(dict(event))

    path, _, query = target.partition("?")
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "path": path, "raw_path": path.encode(), "query_string": query.encode()}

    async def serve() -> None:
        await site({**scope, "method": method, "headers": pairs}, receive, send)

    asyncio.run(serve())
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, sent[1]["body"] if sent[1:] else b""


@pytest.mark.parametrize(
    "path", ["/live/main", "/live/a%20b", "/a%2Fb/c", "/live/a%2Fb", "/live/main.mkv", "http://host/live/main"]
)
def test_every_stream_has_a_page(site: App, path: str) -> None:
    status, headers, body = asked(site, path)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<penstock-player" in body


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/live",
        "/live/",
        "/live/main/",
        "/live/main/more",
        "/live/main.flv",
        "/live/main.mp4",
        "/live/main.m3u8",
        "/live/main.jpg",
        "/live/..",
        "/api/v1",
        "/watch/none.js",
        "/page/main",
        "/metrics/x",
        "/beacon/x",
        "/a%3Fb/c",
    ],
)
def test_other_paths_are_for_the_next_application(site: App, path: str) -> None:
    assert asked(site, path)[0] == 418


def test_a_page_is_the_same_whatever_the_address_has(site: App) -> None:
    plain = asked(site, "/live/main")
    other = asked(site, "/live/%3Cscript%3Ealert(1)%3C%2Fscript%3E?x=%22%3E%3Cb%3E")
    assert plain[2] == other[2]
    assert plain[1]["etag"] == other[1]["etag"]


def test_pages_run_nothing_that_is_written_into_them(site: App) -> None:
    policy = asked(site, "/live/main")[1]["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("query", "ancestors"),
    [
        ("", "'self'"),
        ("?embed=1", "*"),
        ("?token=a&embed=1", "*"),
        ("?embed=0", "'self'"),
        ("?x=embed=1", "'self'"),
    ],
)
def test_the_player_alone_may_be_in_frames_of_other_sites(site: App, query: str, ancestors: str) -> None:
    policy = asked(site, f"/live/main{query}")[1]["content-security-policy"]
    assert policy.endswith(f"frame-ancestors {ancestors}")


def test_other_sites_may_load_the_player(site: App) -> None:
    status, headers, body = asked(site, "/watch/element.js")
    assert (status, headers["access-control-allow-origin"]) == (200, "*")
    assert headers["cross-origin-resource-policy"] == "cross-origin"
    assert b"customElements" in body


def test_who_has_a_page_is_told_so_under_its_policy(site: App) -> None:
    etag = asked(site, "/live/main")[1]["etag"]
    status, headers, body = asked(site, "/live/other?embed=1", if_none_match=etag)
    assert (status, body) == (304, b"")
    assert headers["content-security-policy"].endswith("frame-ancestors *")


def test_the_page_is_told_where_rtmp_is(site: App) -> None:
    status, headers, body = asked(site, "/watch/server.js")
    assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert body == b'export const ports = {"rtmp": 1936, "rtmps": null, "media": null};\n'


def test_where_pages_have_a_port_of_their_own_they_may_have_media_from_the_other() -> None:
    http = {"listen": "127.0.0.1:8088", "web_listen": "127.0.0.1:8089"}
    site = with_watch(Config.model_validate({"rtmp": {"listen": "127.0.0.1:0"}, "http": http}), nothing_else)
    assert asked(site, "/watch/server.js")[2] == b'export const ports = {"rtmp": null, "rtmps": null, "media": 8088};\n'
    assert "connect-src 'self' *:8088;" in asked(site, "/live/main")[1]["content-security-policy"]


def test_pages_are_read_only(site: App) -> None:
    status, headers, _ = asked(site, "/live/main", "POST")
    assert (status, headers["allow"]) == (405, "GET, HEAD")
