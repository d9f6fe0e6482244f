"""Pushes between real servers: Penstock with two workers to a second Penstock, to nginx-rtmp, and to one that is dead.

The targets are killed and come back, refuse a key, or never answer; the others must not notice, and no key may be found
in any log, answer or fact.
"""

import json
import os
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.nginx_rtmp import nginx_rtmp
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import free_port, run_to_end, running
from tests.web.api.api_server import ApiServer, api_server

DEADLINE_S = 60.0
PUBLISH = [sys.executable, "-m", "penstock", "publish"]
TWO_WORKERS = ("--workers", "2")


def eventually(look: Callable[[], Any]) -> Any:
    give_up_at = time.monotonic() + DEADLINE_S
    while not (found := look()):
        assert time.monotonic() < give_up_at, "waited in vain"
        time.sleep(0.1)
    return found


def sessions(http_port: int) -> dict[str, dict[str, Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/api/v1/pushes", timeout=10) as answer:
        items = json.load(answer)["items"]
    return {each["name"]: session for each in items for session in each["sessions"]}


def in_state(http_port: int, **states: str) -> bool:
    found = sessions(http_port)
    return all(name in found and found[name]["state"] == state for name, state in states.items())


def target(name: str, url: str, key: str | None = None) -> str:
    line = "" if key is None else f'key = "{key}"\n'
    return f'[[push]]\nname = "{name}"\nstreams = ["live/*"]\nurl = "{url}"\n{line}'


def published(server: PenstockServer, name: str) -> list[str]:
    return [str(line["msg"]) for line in server.log_lines() if line["msg"] == f"publish started: live/{name}"]


def test_three_targets_at_once_one_of_them_nginx_and_one_that_never_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("B_KEY", "sesame-b")
    http_port = free_port()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    with (
        nginx_rtmp() as nginx,
        penstock_server(tmp_path / "b") as other,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        config = (
            target("nginx", f"{nginx.url}/{{stream}}")
            + target("b", f"rtmp://127.0.0.1:{other.port}/live", "env:B_KEY")
            + target("silent", f"rtmp://127.0.0.1:{silent.getsockname()[1]}/live/sesame-c")
        )
        options = [*TWO_WORKERS, "--http", f"127.0.0.1:{http_port}"]
        with (
            penstock_server(tmp_path / "a", options, config) as server,
            running([*PUBLISH, server.url("a"), "--test-pattern", "--size", "64x64"], tmp_path / "publish.log"),
        ):
            eventually(lambda: in_state(http_port, nginx="live", b="live"))
            command = ["penstock", "play", f"{nginx.url}/a", "--seconds", "1", "--output", str(tmp_path / "n.flv")]
            with running([sys.executable, "-m", *command], tmp_path / "play.log") as player:
                assert player.wait_for_exit(DEADLINE_S) == 0
            assert (tmp_path / "n.flv").stat().st_size > 1000
            # Ten seconds for its handshake.
            last_error = eventually(lambda: sessions(http_port)["silent"]["last_error"])
            assert last_error == "no handshake in time"
            shown = json.dumps(sessions(http_port))
            assert sessions(http_port)["b"]["lag_ms"] < 3000
            assert published(other, "sesame-b")
        texts = [shown, (tmp_path / "a" / "server.log").read_text()]
        texts += [path.read_text() for path in (tmp_path / "a" / "data").rglob("*.json*")]
        assert any("push_state" in text for text in texts)
        # The log is at level debug, where the messages of connections from outside are shown; those of pushes are not.
        assert not [text for text in texts if "sesame" in text]


def test_a_target_that_is_killed_is_sent_the_stream_again_when_it_is_back(tmp_path: Path) -> None:
    http_port, port = free_port(), free_port()
    config = target("nginx", f"rtmp://127.0.0.1:{port}/live/{{stream}}")
    options = [*TWO_WORKERS, "--http", f"127.0.0.1:{http_port}"]
    with penstock_server(tmp_path, options, config) as server:
        publish = [*PUBLISH, server.url("a"), "--test-pattern", "--size", "64x64"]
        with running(publish, tmp_path / "publish.log"):
            with nginx_rtmp(port=port):
                eventually(lambda: in_state(http_port, nginx="live"))
            eventually(lambda: in_state(http_port, nginx="retrying"))
            sent_bytes = sessions(http_port)["nginx"]["sent_bytes"]
            with nginx_rtmp(port=port):
                eventually(lambda: in_state(http_port, nginx="live"))
                eventually(lambda: sessions(http_port)["nginx"]["sent_bytes"] > sent_bytes)
                assert sessions(http_port)["nginx"]["attempts"] >= 2


def test_a_target_that_refuses_the_key_is_told_in_words_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("B_KEY", "sesame-b")
    http_port = free_port()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    closed = '[access.live]\npublish = ["key"]\nplay = ["open"]\n'
    with penstock_server(tmp_path / "b", config=closed) as other:
        config = target("b", f"rtmp://127.0.0.1:{other.port}/live/{{stream}}?key={{key}}", "env:B_KEY")
        options = ["--http", f"127.0.0.1:{http_port}"]
        with (
            penstock_server(tmp_path / "a", options, config) as server,
            running([*PUBLISH, server.url("a"), "--test-pattern", "--size", "64x64"], tmp_path / "publish.log"),
        ):
            eventually(lambda: in_state(http_port, b="retrying"))
            last_error = sessions(http_port)["b"]["last_error"]
            assert last_error.startswith("it refused publish: ")
        assert "sesame" not in (tmp_path / "a" / "server.log").read_text() + last_error


def test_a_second_stream_to_a_target_for_one_is_refused_in_whichever_worker_it_is(tmp_path: Path) -> None:
    http_port = free_port()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    with penstock_server(tmp_path / "b") as other:
        config = target("one", f"rtmp://127.0.0.1:{other.port}/live/fixed")
        options = [*TWO_WORKERS, "--http", f"127.0.0.1:{http_port}"]
        with penstock_server(tmp_path / "a", options, config) as server:
            pattern = ("--test-pattern", "--size", "64x64")
            with running([*PUBLISH, server.url("first"), *pattern], tmp_path / "first.log"):
                eventually(lambda: in_state(http_port, one="live"))
                with running([*PUBLISH, server.url("second"), *pattern], tmp_path / "second.log"):
                    line = server.wait_for_line("Push refused")
                    assert line["reason"] == "the target takes one stream at a time, and is sent live/first"
            assert len(published(other, "fixed")) == 1


def test_a_push_and_a_publisher_leave_a_server_that_drains_for_the_one_in_its_place(tmp_path: Path) -> None:
    port = free_port()
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    pattern = ("--test-pattern", "--size", "64x64")
    config = target("b", f"rtmp://127.0.0.1:{port}/{{app}}/{{stream}}")
    there = ["--rtmp", f"127.0.0.1:{port}"]
    with api_server(tmp_path / "b", [*TWO_WORKERS, *there]) as old, penstock_server(tmp_path / "a", config=config) as a:
        url = f"rtmp://127.0.0.1:{port}/live/direct"
        with (
            running([*PUBLISH, a.url("pushed"), *pattern], tmp_path / "pushed.log"),
            running([*PUBLISH, url, *pattern], tmp_path / "direct.log"),
        ):
            old.server.wait_for_line("publish started: live/direct")
            old.server.wait_for_line("publish started: live/pushed")
            assert old.ask("POST", "/api/v1/drain", json={"within_s": 50.0}).status_code == 202
            old.server.wait_for_line("draining")
            with penstock_server(tmp_path / "c", there) as new:
                new.wait_for_line("publish started: live/direct")
                new.wait_for_line("publish started: live/pushed")
                # Its last publishers have gone of themselves.
                old.server.wait_for_line("server stopped")


def test_targets_come_by_the_api_and_by_a_reload_while_the_stream_is_live(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    with penstock_server(tmp_path / "b") as other, api_server(tmp_path / "a", TWO_WORKERS) as server:
        there = f"rtmp://127.0.0.1:{other.port}"
        with running([*PUBLISH, server.server.url("a"), "--test-pattern", "--size", "64x64"], tmp_path / "publish.log"):
            server.server.wait_for_line("publish started: live/a")
            order = {"name": "api", "streams": ["live/*"], "url": f"{there}/added", "key": "sesame"}
            assert server.ask("POST", "/api/v1/pushes", json=order).status_code == 201
            other.wait_for_line("publish started: added/sesame")
            file = tmp_path / "a" / "penstock.toml"
            file.write_text(file.read_text() + target("file", f"{there}/reloaded/{{stream}}"))
            assert server.ask("POST", "/api/v1/config/reload").status_code == 200
            other.wait_for_line("publish started: reloaded/a")
            eventually(lambda: states(server) == {"api": ["live"], "file": ["live"]})
            status = [sys.executable, "-m", "penstock", "status", "--url", server.url]
            shown = run_to_end(status, tmp_path / "status.log", DEADLINE_S)
            assert f"push api to {there}/added: live/a live, " in shown
            assert server.ask("DELETE", "/api/v1/pushes/api").status_code == 204
            other.wait_for_line("publish stopped: added/sesame")
            assert [each["name"] for each in listed(server)] == ["file"]
    assert "sesame" not in (tmp_path / "a" / "server.log").read_text() + shown


def states(server: ApiServer) -> dict[str, list[str]]:
    return {each["name"]: [session["state"] for session in each["sessions"]] for each in listed(server)}


def listed(server: ApiServer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = server.get("/pushes")["items"]
    return items


def test_a_publisher_that_comes_back_is_continued_whichever_worker_it_comes_to(tmp_path: Path) -> None:
    http_port = free_port()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    with penstock_server(tmp_path / "b") as other:
        config = target("b", f"rtmp://127.0.0.1:{other.port}/{{app}}/{{stream}}")
        options = [*TWO_WORKERS, "--http", f"127.0.0.1:{http_port}"]
        with penstock_server(tmp_path / "a", options, config) as server:
            publish = [*PUBLISH, server.url("a"), "--test-pattern", "--size", "64x64"]
            for number in range(2):
                with running(publish, tmp_path / f"publish{number}.log") as publisher:
                    server.wait_for_line("publish started: live/a", number + 1)
                    eventually(lambda: grows(http_port, "b"))
                    os.kill(publisher.pid, signal.SIGKILL)
            lost = [line for line in server.log_lines() if line["msg"] == "Push failed"]
            assert [line["reason"] for line in lost] in ([], [BAD_NAME])
        # Where the push went to the other worker, the target has waited for it.
        assert len([line for line in other.log_lines() if line["msg"] == "Stream live/a ended"]) <= 1


BAD_NAME = "it refused publish: NetStream.Publish.BadName (live/a is being published already.)"
"""By a target that takes the old connection for alive."""


def grows(http_port: int, name: str) -> bool:
    """Whether a target is sent more and more just now."""
    sizes = []
    for _ in range(2):
        found = sessions(http_port).get(name)
        if found is None or found["state"] != "live":
            return False
        sizes.append(found["sent_bytes"])
        time.sleep(3)
    return bool(sizes[1] > sizes[0])


def test_no_server_sends_a_stream_to_itself_directly_or_through_another(tmp_path: Path) -> None:
    http_port, here, there = free_port(), free_port(), free_port()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    # Under its own name it would take its own place, again and again; under others there would be ever more of them.
    config = (
        '[defaults]\ntakeover = "replace"\n'
        + target("same", f"rtmp://127.0.0.1:{here}/live/{{stream}}")
        + target("copy", f"rtmp://127.0.0.1:{here}/live/{{stream}}-copy")
        + target("there", f"rtmp://127.0.0.1:{there}/live/{{stream}}")
    )
    back = target("back", f"rtmp://127.0.0.1:{here}/live/{{stream}}-back")
    options = [*TWO_WORKERS, "--http", f"127.0.0.1:{http_port}", "--rtmp", f"127.0.0.1:{here}"]
    with (
        penstock_server(tmp_path / "b", ["--rtmp", f"127.0.0.1:{there}"], back) as other,
        penstock_server(tmp_path / "a", options, config) as server,
        running([*PUBLISH, server.url("a"), "--test-pattern", "--size", "64x64"], tmp_path / "publish.log"),
    ):
        eventually(lambda: in_state(http_port, same="retrying", copy="retrying", there="live"))
        for name in ("same", "copy"):
            assert sessions(http_port)[name]["last_error"].startswith("it refused connect: ")
        assert str(other.wait_for_line("Push failed")["reason"]).startswith("it refused connect: ")
        started = [line["msg"] for line in server.log_lines() if str(line["msg"]).startswith("publish started")]
        assert started == ["publish started: live/a"]


def test_what_is_pulled_from_a_server_is_not_pushed_back_to_it(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    with penstock_server(tmp_path / "b", config='[defaults]\ntakeover = "replace"\n') as origin:
        there = f"rtmp://127.0.0.1:{origin.port}/{{app}}/{{stream}}"
        config = target("back", there) + f'[[pull]]\nstreams = ["live/*"]\nurl = "{there}"\n'
        with (
            penstock_server(tmp_path / "a", TWO_WORKERS, config) as edge,
            running([*PUBLISH, origin.url("a"), "--test-pattern", "--size", "64x64"], tmp_path / "publish.log"),
        ):
            origin.wait_for_line("publish started: live/a")
            play = [sys.executable, "-m", "penstock", "play", edge.url("a"), "--output", str(tmp_path / "a.flv")]
            with running(play, tmp_path / "play.log"):
                assert str(edge.wait_for_line("Push failed")["reason"]).startswith("it refused connect: ")
            assert len(published(origin, "a")) == 1
