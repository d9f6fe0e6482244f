"""The API as commands ask it."""

import pytest

from penstock.commands.api.client import ApiClient, ApiFailure
from penstock.errors import ConfigError
from tests.commands.api.answering import Asked, answering


def test_the_token_comes_from_the_environment() -> None:
    with answering({"GET /api/v1/server": (200, {"a": 1})}) as server:
        assert ApiClient(server.url, {"PENSTOCK_TOKEN": "secret"}).get("/server") == {"a": 1}
        assert ApiClient(server.url + "/", {}).get("/server") == {"a": 1}
    assert [each.authorization for each in server.asked] == ["Bearer secret", None]


def test_a_list_is_read_to_its_end() -> None:
    pages = {
        "GET /api/v1/streams?limit=1000": (200, {"items": [1, 2], "next_cursor": "x/y"}),
        "GET /api/v1/streams?limit=1000&cursor=x%2Fy": (200, {"items": [3], "next_cursor": None}),
    }
    with answering(pages) as server:
        assert list(ApiClient(server.url, {}).items("/streams")) == [1, 2, 3]


def test_an_id_cannot_lead_elsewhere() -> None:
    with answering({"DELETE /api/v1/viewers/..%2F%3Fa": (204, None)}) as server:
        ApiClient(server.url, {}).delete("viewers", "../?a")
    assert [each.path for each in server.asked] == ["/api/v1/viewers/..%2F%3Fa"]


@pytest.mark.parametrize(
    ("status", "answer", "line"),
    [
        (409, {"detail": "not now"}, "the server answers 409: not now"),
        (401, {"detail": "who?"}, "the server answers 401: who? (a token is taken from PENSTOCK_TOKEN)"),
        (500, [], "the server answers 500: Internal Server Error"),
    ],
)
def test_a_refusal_is_one_line(status: int, answer: object, line: str) -> None:
    with answering({"GET /api/v1/server": (status, answer)}) as server, pytest.raises(ApiFailure) as failure:
        ApiClient(server.url, {}).get("/server")
    assert (str(failure.value), failure.value.status) == (line, status)


def test_a_token_does_not_follow_a_redirect() -> None:
    with answering({}) as other, answering({"GET /api/v1/server": (302, other.url)}) as server:
        with pytest.raises(ApiFailure, match="the server answers 302"):
            ApiClient(server.url, {"PENSTOCK_TOKEN": "secret"}).get("/server")
        assert server.asked == [Asked("GET", "/api/v1/server", "Bearer secret")]
        assert other.asked == []


def test_a_token_goes_to_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering({}) as proxy, answering({"GET /api/v1/server": (200, 1)}) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert ApiClient(server.url, {"PENSTOCK_TOKEN": "secret"}).get("/server") == 1
        assert proxy.asked == []


def test_a_server_that_is_not_there_is_told_of() -> None:
    with answering({}) as server:
        url = server.url
    with pytest.raises(ApiFailure, match=f"no answer from {url}: "):
        ApiClient(url, {}).get("/server")


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "file:///etc/passwd", "http://u:p@x"])
def test_an_address_that_is_none_is_wrong_use(url: str) -> None:
    with pytest.raises(ConfigError, match="--url should be an address"):
        ApiClient(url, {})
