"""Files of a package to answers, as ASGI says them, without a server."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest

from penstock.web.asgi import Event, Receive, Scope, Send
from penstock.web.page.static_files import StaticFiles, files_below


@pytest.fixture
def site(tmp_path: Path) -> StaticFiles:
    (tmp_path / "inner").mkdir()
    (tmp_path / "index.html").write_text("<title>x</title>")
    (tmp_path / "inner" / "a.js").write_text("export const a = 1;\n")
    (tmp_path / "notes.txt").write_text("not for everybody")
    (tmp_path / "large.js").write_text("large")

    async def otherwise(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})

    files = files_below(tmp_path, "/page/")
    del files["/page/large.js"]
    return StaticFiles(files, {"/page/large.js": tmp_path / "large.js"}, otherwise)


def asked(
    site: StaticFiles, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[bytes, bytes], bytes | None]:
    sent: list[dict[str, Any]] = []

    async def receive() -> Event:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Event) -> None:
        sent.append(dict(event))

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(site({"type": "http", "path": path, "method": method, "headers": pairs}, receive, send))
    assert [each["more_body"] for each in sent[1:]] == [True] * (len(sent) - 2) + [False] * bool(sent[1:])
    assert all(len(each["body"]) <= 64 * 1024 for each in sent[1:])
    body = b"".join(each["body"] for each in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), body if sent[1:] else None


def test_a_page_comes_with_a_policy_that_allows_nothing_from_elsewhere_and_nothing_inline(site: StaticFiles) -> None:
    status, headers, body = asked(site, "/page/index.html")
    assert (status, body) == (200, b"<title>x</title>")
    assert headers[b"content-type"] == b"text/html; charset=utf-8"
    policy = headers[b"content-security-policy"].decode()
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_files_in_inner_folders_have_their_types(site: StaticFiles) -> None:
    status, headers, _ = asked(site, "/page/inner/a.js")
    assert (status, headers[b"content-type"]) == (200, b"text/javascript; charset=utf-8")
    assert headers[b"x-content-type-options"] == b"nosniff"


def test_who_has_a_file_is_told_so_and_asks_each_time(site: StaticFiles) -> None:
    _, headers, _ = asked(site, "/page/inner/a.js")
    assert headers[b"cache-control"] == b"no-cache"
    status, again, body = asked(site, "/page/inner/a.js", if_none_match=headers[b"etag"].decode())
    assert (status, body) == (304, b"")
    assert again[b"etag"] == headers[b"etag"]
    assert asked(site, "/page/inner/a.js", if_none_match='"other"')[0] == 200


def test_another_text_has_another_etag(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("1")
    before = files_below(tmp_path, "/")["/a.js"].etag
    (tmp_path / "a.js").write_text("2")
    assert files_below(tmp_path, "/")["/a.js"].etag != before


def test_who_takes_gzip_is_sent_less(site: StaticFiles) -> None:
    _, headers, body = asked(site, "/page/inner/a.js", accept_encoding="br, gzip")
    assert headers[b"content-encoding"] == b"gzip"
    assert headers[b"content-length"] == b"%d" % len(body or b"")
    assert gzip.decompress(body or b"") == b"export const a = 1;\n"


def test_a_large_file_is_read_when_it_is_asked_for(site: StaticFiles, tmp_path: Path) -> None:
    (tmp_path / "large.js").write_text("written later")
    assert asked(site, "/page/large.js")[2] == b"written later"


def test_a_file_larger_than_a_client_may_leave_untaken_is_sent_in_pieces(site: StaticFiles, tmp_path: Path) -> None:
    text = "x" * (2 * 1024 * 1024 + 1)
    (tmp_path / "large.js").write_text(text)
    assert asked(site, "/page/large.js")[2] == text.encode()


@pytest.mark.parametrize("path", ["/page/notes.txt", "/page/../page/index.html", "/page/inner", "/page/", "/metrics"])
def test_other_paths_are_for_the_next_application(site: StaticFiles, path: str) -> None:
    assert asked(site, path)[0] == 418


@pytest.mark.parametrize("method", ["POST", "DELETE", "get"])
def test_files_are_read_only(site: StaticFiles, method: str) -> None:
    status, headers, _ = asked(site, "/page/index.html", method)
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD")
