"""Links, rules and workers of a real server: who is let in by a link, in every worker, and for how long."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.access.keys import key_line
from tests.support.processes import running
from tests.web.api.api_server import ApiServer, api_server

KEY = "6xygj3cykoilmjp4zqtyw27yfwcid6ro"
RULES = f"""
[access.live]
publish = ["key"]
play = ["key"]
keys = ["{key_line("studio", KEY)}"]

[access.closed]
publish = ["open"]
play = ["deny"]
"""
PENSTOCK = (sys.executable, "-m", "penstock")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("links")
    with api_server(folder, ["--workers", "2"], RULES) as served:
        publish = [*PENSTOCK, "publish", served.server.url(f"a?key={KEY}"), "--test-pattern", "--size", "64x64"]
        with running(publish, folder / "publish.log"):
            until(lambda: served.get("/streams")["items"])
            yield served


def until(look: Callable[[], Any], within_s: float = 15.0) -> Any:
    ends_at = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < ends_at, "it did not happen"
        time.sleep(0.02)
    return found


def link(api: ApiServer, **order: Any) -> str:
    answer = api.ask("POST", "/api/v1/links", json={"app": "live", "stream": "a", **order})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["query"])


def pids_of_workers(api: ApiServer) -> dict[int, int]:
    return {each["worker"]: each["pid"] for each in api.get("/workers")["items"]}


def plays(api: ApiServer, query: str, folder: Path) -> bool:
    """Whether somebody is let in by it, and sees something."""
    play = [*PENSTOCK, "play", api.server.url(f"a?{query}"), "--seconds", "1", "--output", str(folder / "played.flv")]
    with running(play, folder / "play.log") as program:
        return program.process.wait(20) == 0


def test_a_link_lets_play_where_a_key_is_asked_for_and_is_told_as_the_rule(api: ApiServer, tmp_path: Path) -> None:
    query = link(api)
    command = [*PENSTOCK, "play", api.server.url(f"a?{query}"), "--output", str(tmp_path / "a.flv")]
    with running(command, tmp_path / "play.log"):
        viewer = until(lambda: api.get("/viewers")["items"])[0]
        assert (viewer["rule"], viewer["auth_subject"]) == ("server", None)
        let_in = {(each["action"], each["rule"]): each for each in api.get("/access")["let_in"]}
        assert let_in["play", "server"]["count"] == 1
        assert let_in["publish", "key"]["subjects"] == [{"subject": "studio", "count": 1}]
        assert api.ask("DELETE", f"/api/v1/viewers/{viewer['view_id']}").status_code == 204
        assert api.get("/viewers")["items"] == []


def test_a_link_is_for_its_stream_and_does_not_publish(api: ApiServer, tmp_path: Path) -> None:
    assert not plays(api, link(api, stream="b"), tmp_path)
    assert not plays(api, "", tmp_path)
    publish = [*PENSTOCK, "publish", api.server.url(f"c?{link(api, stream='c')}"), "--test-pattern", "--seconds", "1"]
    with running(publish, tmp_path / "publish.log") as program:
        assert program.process.wait(20) != 0


def test_a_link_outlives_restarts_of_web_and_of_workers(api: ApiServer, tmp_path: Path) -> None:
    query = link(api)
    pids = {each["role"]: each["pid"] for each in api.get("/server")["processes"]}
    os.kill(pids["web"], signal.SIGKILL)

    def is_another_web() -> bool:
        try:
            found = {each["role"]: each["pid"] for each in api.get("/server")["processes"]}
        except Exception:
            return False
        return bool(found["web"] != pids["web"])

    until(is_another_web)
    assert plays(api, query, tmp_path)
    before = pids_of_workers(api)
    stream = until(lambda: api.get("/streams")["items"])[0]
    other = next(worker for worker in before if worker != stream["worker"])
    os.kill(before[other], signal.SIGKILL)
    until(
        lambda: (
            {each["worker"]: each["pid"] for each in api.get("/workers")["items"]}.get(other, before[other])
            != before[other]
        )
    )
    # One is here, the other there: connections go to the worker that has fewer.
    assert all(plays(api, query, tmp_path) for _ in range(2))


def test_what_a_link_let_in_ends_with_it(api: ApiServer, tmp_path: Path) -> None:
    command = [*PENSTOCK, "play", api.server.url(f"a?{link(api, for_s=6)}"), "--output", str(tmp_path / "a.flv")]
    with running(command, tmp_path / "play.log") as program:
        until(lambda: api.get("/viewers")["items"])
        program.process.wait(15)
    assert api.get("/viewers")["items"] == []


def test_workers_are_told_one_by_one_and_so_are_processes(api: ApiServer) -> None:
    workers = api.get("/workers")["items"]
    assert [each["worker"] for each in workers] == [1, 2]
    assert sum(each["streams"] for each in workers) >= 1
    for each in workers:
        assert each["state"] == "ready"
        assert 5_000_000 < each["memory_bytes"] < 1_000_000_000
        assert each["started_at"] is not None
    server = api.get("/server")
    assert sorted(each["role"] for each in server["processes"]) == ["supervisor", "web", "worker", "worker"]
    assert server["limits_hit"]["access"] >= 1
    assert server["load"]["cores"] == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("name", "kind"), [("http-flv", b"FLV"), ("thumbnail", b"\xff\xd8")])
def test_a_link_lets_a_player_over_http_in_and_nobody_is_without(api: ApiServer, name: str, kind: bytes) -> None:
    path = api.ask("POST", "/api/v1/links", json={"app": "live", "stream": "a"}).json()["paths"][name]
    for each, status in ((path, 200), (path.partition("?")[0], 401), (path.replace("/a.", "/b."), 403)):
        with httpx.stream("GET", api.url + each, timeout=20, trust_env=False) as answer:
            assert answer.status_code == status, (each, answer.status_code)
            if status == 200:
                assert kind in next(answer.iter_raw(64))
    assert {each["rule"] for each in api.get("/viewers")["items"]} <= {"server"}


def test_the_secret_is_in_no_file_and_no_log(api: ApiServer) -> None:
    """It cannot be looked for by its bytes, but links signed by it can: none is told anywhere but to whoever asked."""
    query = link(api)
    log = api.server.program.log_text()
    assert query.partition("sig=")[2] not in log
    assert "link_secret" not in log
