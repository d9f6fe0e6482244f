"""The test stream of a real server: published under rules, one at a time, and gone when it should be."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.api.api_server import ApiServer, api_server

RULES = """
[access.live]
publish = ["jwt"]
play = ["open"]

[access.closed]
publish = ["deny"]

[auth]
jwt = "env:PATH"
"""
PATH = "/api/v1/test-stream"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    secret = tmp_path_factory.mktemp("secret") / "jwt"
    secret.write_text("s" * 40)
    with api_server(tmp_path_factory.mktemp("test_stream"), [], RULES.replace("env:PATH", f"file:{secret}")) as served:
        yield served


def until(look: Callable[[], Any], within_s: float = 20.0) -> Any:
    ends_at = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < ends_at, "it did not happen"
        time.sleep(0.05)
    return found


def live(api: ApiServer) -> list[Any]:
    return [each for each in api.get("/streams")["items"] if each["state"] == "live"]


def publishers(api: ApiServer) -> dict[int, bytes]:
    """Programs that publish to this server, with all that others on this machine can read of them."""
    found = {}
    address = f"=rtmp://127.0.0.1:{api.server.port}/".encode()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                words = (each / "cmdline").read_bytes()
                environment = (each / "environ").read_bytes()
            except OSError:
                continue
            if address in environment and b"\0publish\0env:PENSTOCK_TEST_STREAM\0" in words:
                found[int(each.name)] = words
    return found


def end(api: ApiServer) -> None:
    assert api.ask("DELETE", PATH).status_code == 204
    assert api.get("/test-stream")["state"] == "ended"
    until(lambda: not live(api))


def test_it_is_published_where_only_tokens_publish_and_is_ended(api: ApiServer) -> None:
    assert api.get("/test-stream")["state"] == "never"
    answer = api.ask("POST", PATH)
    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    (stream,) = until(lambda: live(api))
    assert (stream["app"], stream["stream"], stream["publisher"]["rule"]) == ("live", "test", "server")
    until(lambda: live(api)[0]["bitrate_bps"])
    again = api.ask("POST", PATH, json={"stream": "another"})
    assert (again.status_code, again.json()["detail"]) == (409, "A test stream is running; end it first.")
    (words,) = publishers(api).values()
    assert b"sig=" not in words
    end(api)
    assert publishers(api) == {}
    assert api.ask("DELETE", PATH).status_code == 404
    assert "sig=" not in api.server.program.log_text()


def test_it_ends_by_itself(api: ApiServer) -> None:
    api.ask("POST", PATH, json={"stream": "short", "for_s": 2})
    until(lambda: live(api))
    found = until(lambda: (now := api.get("/test-stream"))["state"] == "ended" and now)
    assert found["words"] == "It ended by itself."
    until(lambda: not live(api))


def test_deny_holds_for_it_too_and_it_says_that_it_failed(api: ApiServer) -> None:
    api.ask("POST", PATH, json={"app": "closed"})
    found = until(lambda: (now := api.get("/test-stream"))["state"] == "ended" and now)
    assert found["words"].startswith("It failed (status 1)")


def test_it_ends_with_the_web_process(api: ApiServer) -> None:
    api.ask("POST", PATH)
    until(lambda: live(api))
    assert len(publishers(api)) == 1
    os.kill(next(each["pid"] for each in api.get("/server")["processes"] if each["role"] == "web"), signal.SIGKILL)
    until(lambda: not publishers(api))


@pytest.mark.parametrize(
    "order",
    [{"app": "../x"}, {"stream": "a b"}, {"stream": ""}, {"for_s": 0}, {"for_s": 3601}, {"url": "rtmp://x/y/z"}],
)
def test_what_is_no_order_is_refused(api: ApiServer, order: dict[str, Any]) -> None:
    until(lambda: _is_there(api))
    assert api.ask("POST", PATH, json=order).status_code == 422


def _is_there(api: ApiServer) -> bool:
    try:
        return api.ask("GET", "/api/v1/server").status_code == 200
    except Exception:
        return False


def test_a_server_that_ends_leaves_none_behind(tmp_path: Path) -> None:
    with api_server(tmp_path) as api:
        api.ask("POST", PATH)
        until(lambda: live(api))
        assert len(publishers(api)) == 1
    assert publishers(api) == {}


def test_behind_a_proxy_there_is_none(tmp_path: Path) -> None:
    with api_server(tmp_path, [], "[rtmp]\nproxy_protocol = true\n") as api:
        refused = api.ask("POST", PATH)
        assert (refused.status_code, "proxy_protocol" in refused.json()["detail"]) == (409, True)
