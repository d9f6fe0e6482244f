"""The API of a real server of two workers: what is open shows at once, and orders are carried out."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import RunningProgram, running
from tests.web.api.api_server import HEADERS, ApiServer, api_server

GONE_WITHIN_S = 1.0


class Stage:
    """A server, and clients that publish and play."""

    def __init__(self, api: ApiServer, folder: Path, stack: ExitStack) -> None:
        self.api = api
        self._folder = folder
        self._stack = stack
        self._clients = 0

    def publish(self, name: str) -> RunningProgram:
        return self._run("publish", self.api.server.url(name), "--test-pattern", "--size", "64x64")

    def play(self, name: str) -> RunningProgram:
        self._clients += 1
        return self._run("play", self.api.server.url(name), "--output", str(self._folder / f"{self._clients}.flv"))

    def wait_for(self, look: Callable[[], Any], within_s: float = 15.0) -> Any:
        ends_at = time.monotonic() + within_s
        while not (found := look()):
            assert time.monotonic() < ends_at, "it did not happen"
            time.sleep(0.02)
        return found

    def wait_for_stream(self, name: str, is_ready: Callable[[Any], Any] = lambda stream: True) -> Any:
        def look() -> Any:
            found = self.api.get(f"/streams?app=live&stream={name}")["items"]
            return found[0] if found and is_ready(found[0]) else None

        return self.wait_for(look)

    def _run(self, *words: str) -> RunningProgram:
        self._clients += 1
        command = [sys.executable, "-m", "penstock", *words]
        return self._stack.enter_context(running(command, self._folder / f"client{self._clients}.log"))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with (
        api_server(tmp_path, ["--workers", "2", "--record", "live/*"]) as api,
        ExitStack() as stack,
    ):
        yield Stage(api, tmp_path, stack)


def test_a_stream_is_told_with_its_publisher_and_its_viewers_in_all_workers(stage: Stage) -> None:
    stage.publish("a")
    for _ in range(3):
        stage.play("a")
    stream = stage.wait_for_stream(
        "a", lambda each: each["viewers"] == 3 and each["bitrate_bps"] and each["sent_bytes"]
    )
    assert (stream["state"], stream["video"], stream["is_recording"]) == (
        "live",
        {"codec": "H.264 AVC", "width": 64, "height": 64},
        True,
    )
    assert stream["audio"] == {"codec": "AAC", "sample_rate_hz": 48_000, "channels": 2}
    assert stream["viewers_by_protocol"] == {"rtmp": 3}
    connections = stage.api.get("/connections")["items"]
    assert (len(connections), {each["worker"] for each in connections}) == (4, {1, 2})
    assert stream["publisher"]["conn_id"] in {each["conn_id"] for each in connections}
    viewers = stage.api.get("/viewers?limit=2")
    rest = stage.api.get(f"/viewers?limit=2&cursor={viewers['next_cursor']}")
    assert len({each["view_id"] for each in viewers["items"] + rest["items"]}) == 3
    server = stage.api.get("/server")
    assert (server["state"], server["connections"], server["viewers"], server["streams"]) == ("ready", 4, 3, 1)
    metrics = stage.api.ask("GET", "/metrics").text
    assert 'penstock_stream_viewers{app="live",stream="a"} 3.0' in metrics


def test_who_is_kicked_is_gone_within_a_second(stage: Stage) -> None:
    stage.publish("a")
    player = stage.play("a")
    stage.wait_for_stream("a", lambda each: each["viewers"] == 1)
    (viewer,) = stage.api.get("/viewers")["items"]
    asked_at = time.monotonic()
    assert stage.api.ask("DELETE", f"/api/v1/viewers/{viewer['view_id']}").status_code == 204
    assert time.monotonic() - asked_at < GONE_WITHIN_S
    assert stage.api.get("/viewers")["items"] == []
    player.process.wait(10)
    publisher = stage.api.get("/streams/live/a")["publisher"]["conn_id"]
    asked_at = time.monotonic()
    assert stage.api.ask("DELETE", f"/api/v1/connections/{publisher}").status_code == 204
    assert time.monotonic() - asked_at < GONE_WITHIN_S
    assert publisher not in {each["conn_id"] for each in stage.api.get("/connections")["items"]}
    assert stage.api.ask("DELETE", f"/api/v1/connections/{publisher}").status_code == 404


def test_recording_is_switched_and_its_files_are_fetched_and_deleted(stage: Stage) -> None:
    stage.publish("a")
    stage.wait_for_stream("a", lambda each: each["is_recording"] and each["received_bytes"] > 20_000)
    switch = "/api/v1/streams/live/a/recording"
    assert stage.api.ask("PUT", switch, json={"is_recording": False}).json() == {"is_recording": False}
    (recording,) = stage.wait_for(
        lambda: [each for each in stage.api.get("/recordings")["items"] if each["status"] == "closed"]
    )
    assert recording["id"] == f"{recording['recording_id']}-{recording['segment']}"
    file = stage.api.ask("GET", f"/api/v1/recordings/{recording['id']}/file")
    assert (file.status_code, file.content[:3], len(file.content)) == (200, b"FLV", recording["size_bytes"])
    part = stage.api.ask("GET", f"/api/v1/recordings/{recording['id']}/file", headers={**HEADERS, "Range": "bytes=1-2"})
    assert (part.status_code, part.content) == (206, b"LV")
    assert stage.api.ask("PUT", switch, json={"is_recording": True}).json() == {"is_recording": True}
    assert stage.api.ask("DELETE", f"/api/v1/recordings/{recording['id']}").status_code == 204
    assert recording["id"] not in {each["id"] for each in stage.api.get("/recordings")["items"]}
    assert stage.api.ask("GET", f"/api/v1/recordings/{recording['id']}/file").status_code == 404


def test_a_recording_that_was_stopped_stays_so_though_its_worker_is_killed(stage: Stage) -> None:
    stage.publish("a")
    stream = stage.wait_for_stream("a", lambda each: each["is_recording"])
    switch = "/api/v1/streams/live/a/recording"
    assert stage.api.ask("PUT", switch, json={"is_recording": False}).status_code == 200
    started = [line for line in stage.api.server.log_lines() if line["msg"] == "worker started"]
    (pid,) = [line["pid"] for line in started if line["worker"] == stream["worker"]]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    stage.publish("a")
    before = stream["publisher"]["conn_id"]
    back = stage.wait_for_stream("a", lambda each: each["publisher"] and each["publisher"]["conn_id"] != before)
    assert not back["is_recording"]
    assert stage.api.ask("PUT", switch, json={"is_recording": True}).json() == {"is_recording": True}


def test_a_blocked_address_is_put_out_and_kept_out(stage: Stage) -> None:
    stage.publish("a")
    stage.wait_for_stream("a")
    assert stage.api.ask("POST", "/api/v1/blocks", json={"address": "127.0.0.1", "for_s": 60}).status_code == 201
    stage.wait_for(lambda: not stage.api.get("/connections")["items"], within_s=2.0)
    refused = stage.publish("b")
    assert refused.process.wait(15) != 0
    assert stage.api.ask("DELETE", "/api/v1/blocks/address:127.0.0.1").status_code == 204
    stage.publish("c")
    stage.wait_for_stream("c")


def test_a_configuration_is_read_anew_on_demand(stage: Stage, tmp_path: Path) -> None:
    assert stage.api.get("/config")["settings"]["recording.streams"] == {
        "value": ["live/*"],
        "origin": "flag --record",
    }
    assert stage.api.ask("POST", "/api/v1/config/reload").json() == {"is_reloaded": True}
    config = tmp_path / "penstock.toml"
    config.write_text(config.read_text(encoding="utf-8") + "[http]\nhosts = ['edge.example']\n", encoding="utf-8")
    named = {**HEADERS, "Host": "edge.example"}
    assert stage.api.ask("GET", "/api/v1/server", headers=named).status_code == 421
    assert stage.api.ask("POST", "/api/v1/config/reload").status_code == 200
    stage.wait_for(lambda: stage.api.ask("GET", "/api/v1/server", headers=named).status_code == 200, 2.0)
    config.write_text("[rtmp]\nchunk_bytes = 5\n", encoding="utf-8")
    wrong = stage.api.ask("POST", "/api/v1/config/reload")
    assert (wrong.status_code, "rtmp.chunk_bytes" in wrong.json()["detail"]) == (409, True)


def test_a_drained_server_ends_when_it_is_empty(tmp_path: Path) -> None:
    with api_server(tmp_path) as api, ExitStack() as stack:
        stage = Stage(api, tmp_path, stack)
        publisher = stage.publish("a")
        stage.wait_for_stream("a")
        answer = api.ask("POST", "/api/v1/drain", json={"within_s": 60})
        assert answer.status_code == 202
        stage.wait_for(lambda: api.ask("GET", "/readyz").status_code == 503, 2.0)
        assert api.get("/server")["state"] == "draining"
        publisher.stop()
        api.server.program.process.wait(15)
