"""Hooks of a whole server: a real publisher, a real receiver, and programs that are looked for in /proc."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.processes import running
from tests.web.api.api_server import HEADERS, ApiServer, api_server
from tests.web.programs.test_programs import is_running


@contextmanager
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    messages: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hook", messages
        finally:
            server.shutdown()
            thread.join(10)


def until(is_so: Callable[[], bool], within_s: float = 20.0) -> None:
    ends_at = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < ends_at, "it did not come to that"
        time.sleep(0.02)


def web_pid(served: ApiServer) -> int:
    line = [line for line in served.server.log_lines() if line["msg"] == "web started"][-1]
    return int(str(line["pid"]))


def kinds(messages: list[dict[str, Any]]) -> list[str]:
    return [each["type"] for each in messages]


def followed(url: str) -> Generator[tuple[str, dict[str, Any]], None, None]:
    with httpx.stream("GET", f"{url}/api/v1/events", headers=HEADERS, timeout=30, trust_env=False) as answer:
        kind = ""
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


def test_a_publication_is_told_to_all_and_has_its_program_also_after_web_was_killed(tmp_path: Path) -> None:
    with receiver() as (hook, messages):
        config = f"""
[[hooks]]
url = "{hook}"
events = ["publish_*", "incident_*"]
[[hooks]]
exec = ["sh", "-c", "sleep 71.1; sleep 71.1", "{{app}}/{{stream}}"]
while = "publishing"
[[hooks]]
exec = ["sh", "-c", "echo told of $PENSTOCK_EVENT"]
events = ["publish_started"]
"""
        with api_server(tmp_path, (), config) as served:
            events = followed(served.url)
            publish = [sys.executable, "-m", "penstock", "publish", served.server.url("a"), "--test-pattern"]
            first_kinds: list[str] = []
            reader = threading.Thread(
                target=lambda: first_kinds.extend(kind for kind, _ in (next(events), next(events)))
            )
            reader.start()
            time.sleep(0.5)
            with running(publish, tmp_path / "publish.log"):
                reader.join(20)
                assert first_kinds == ["connection_opened", "publish_started"]
                until(lambda: kinds(messages) == ["publish_started"])
                until(lambda: is_running("live/a"))
                until(
                    lambda: any(line.get("output") == "told of publish_started" for line in served.server.log_lines())
                )
                first = web_pid(served)
                os.kill(first, signal.SIGKILL)
                until(lambda: web_pid(served) != first)
                # Whoever ran it is gone, and with it the program: the stream goes on, so there is another.
                until(lambda: is_running("live/a"))
            until(lambda: not is_running("71.1"))
            until(lambda: "publish_stopped" in kinds(messages))
            events.close()
        stopped = next(each for each in messages if each["type"] == "publish_stopped")
        assert (stopped["data"]["app"], stopped["data"]["stream"]) == ("live", "a")


def test_nothing_that_a_hook_started_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    config = '[[hooks]]\nexec = ["sh", "-c", "sleep 72.2; sleep 72.2"]\nwhile = "publishing"\n'
    folder = tmp_path / "penstock.toml"
    folder.write_text(config)
    command = [sys.executable, "-m", "penstock", "serve", "--config", str(folder), "--rtmp", "127.0.0.1:0"]
    command += ["--http", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    log = tmp_path / "log"
    with log.open("wb") as out, subprocess.Popen(command, stderr=out) as server:
        until(lambda: "server started" in log.read_text())
        started = next(
            line for line in map(json.loads, log.read_text().splitlines()) if line["msg"] == "server started"
        )
        publish = [sys.executable, "-m", "penstock", "publish", f"rtmp://{started['rtmp']}/live/a", "--test-pattern"]
        with subprocess.Popen(publish, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as publisher:
            until(lambda: is_running("72.2"))
            server.kill()
            server.wait()
            until(lambda: not is_running("72.2"), 45.0)
            publisher.kill()
