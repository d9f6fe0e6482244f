"""penstock status: the table, and what it is made of."""

import json
import re
from typing import Any

import pytest

from penstock.cli import main
from penstock.commands.api import status
from penstock.commands.api.client import ApiClient
from penstock.commands.api.status import headline, plain_lines, rows_of, watch
from tests.commands.api.answering import Answer, answering

SERVER: dict[str, Any] = {
    "server_id": "edge-1",
    "state": "ready",
    "complaint": None,
    "started_at": "2026-01-01T00:00:00.000Z",
    "workers": 2,
    "connections": 4,
    "viewers": 3,
    "streams": 2,
}


def stream(name: str, **values: Any) -> dict[str, Any]:
    return {
        "app": "live",
        "stream": name,
        "state": "live",
        "started_at": "2126-01-01T00:00:00.000Z",
        "publisher": {"conn_id": "a-1", "pulled_from": None},
        "video": {"codec": "H.264", "width": 1280, "height": 720},
        "audio": {"codec": "AAC", "sample_rate_hz": 44_100, "channels": 2},
        "bitrate_bps": 2_400_000,
        "fps": 29.97,
        "viewers": 1,
        "is_recording": True,
        "verdict": "healthy",
        "advice": [],
        **values,
    }


WAITING = stream(
    "b",
    state="waiting",
    publisher=None,
    video=None,
    audio=None,
    bitrate_bps=0,
    viewers=2,
    is_recording=False,
    verdict="no data for 4 s",
)


def test_a_stream_that_is_pulled_says_from_where() -> None:
    pulled = stream("a", publisher={"conn_id": "a-p1", "pulled_from": "rtmp://origin:1935/live/a"})
    lines = list(plain_lines({"server": SERVER, "streams": [pulled, stream("c"), WAITING]}))
    assert lines[-1] == "live/a: pulled from rtmp://origin:1935/live/a\n"
    assert sum("pulled" in line for line in lines) == 1


def test_streams_are_rows_with_most_viewers_first() -> None:
    assert rows_of({"server": SERVER, "streams": [stream("a"), WAITING]}) == [
        ("live/b (waiting)", "2", "0 kbit/s", "30.0", "", "", "0:00:00", "", "no data for 4 s"),
        ("live/a", "1", "2.4 Mbit/s", "30.0", "H.264 1280x720", "AAC 44.1 kHz", "0:00:00", "rec", "healthy"),
    ]


def test_the_server_is_one_line() -> None:
    line = headline({"server": SERVER, "streams": []})
    assert re.fullmatch(r"edge-1: ready, up \d+ d \d+:\d\d:\d\d, 2 workers, 4 connections, 3 viewers, 2 streams", line)
    draining = {**SERVER, "state": "draining", "complaint": "draining", "workers": 1}
    assert headline({"server": draining, "streams": []}).startswith("edge-1: draining (draining), up ")
    assert headline({"server": SERVER, "streams": [], "failure": "no answer"}) == "edge-1: no answer"


def session(**values: Any) -> dict[str, Any]:
    return {
        "app": "live",
        "stream": "a",
        "state": "live",
        "attempts": 1,
        "last_error": None,
        "sent_bytes": 2_400_000,
        "lag_ms": 40,
        **values,
    }


def test_each_target_of_a_push_has_a_line() -> None:
    refused = session(state="stopped", attempts=0, last_error="it is sent live/b")
    pushes = [
        {"name": "yt", "address": "rtmps://a.example/live2", "sessions": [session(), refused]},
        {"name": "idle", "address": "rtmp://b.example/{app}/{stream}", "sessions": []},
    ]
    _, _, *lines = plain_lines({"server": SERVER, "streams": [], "pushes": pushes})
    assert lines == [
        "push yt to rtmps://a.example/live2: live/a live, 2.4 MB, 40 ms behind\n",
        "push yt to rtmps://a.example/live2: live/a stopped, 0 tries: it is sent live/b\n",
        "push idle to rtmp://b.example/{app}/{stream}: nothing to send\n",
    ]


def test_without_rich_there_are_columns_and_advice() -> None:
    advised = stream("a", advice=["Set the key frame interval to 2 s."])
    _, head, first, advice = plain_lines({"server": SERVER, "streams": [advised]})
    assert head.split() == ["stream", "viewers", "bitrate", "fps", "video", "audio", "up", "rec", "verdict"]
    assert first.split() == [
        "live/a",
        "1",
        "2.4",
        "Mbit/s",
        "30.0",
        "H.264",
        "1280x720",
        "AAC",
        "44.1",
        "kHz",
        "0:00:00",
        "rec",
        "healthy",
    ]
    assert advice == "live/a: Set the key frame interval to 2 s.\n"


def test_a_name_gives_the_terminal_no_orders() -> None:
    lines = "".join(plain_lines({"server": SERVER, "streams": [stream("\x1b[2Jx" + "y" * 100, advice=["\x07"])]}))
    assert "\x1b" not in lines
    assert "\x07" not in lines
    assert "live/�[2Jx" in lines
    assert max(map(len, lines.splitlines())) < 180


def test_json_has_the_server_and_its_streams(capsys: pytest.CaptureFixture[str]) -> None:
    answers = {
        "GET /api/v1/server": (200, SERVER),
        "GET /api/v1/streams?limit=1000": (200, {"items": [WAITING], "next_cursor": None}),
        "GET /api/v1/pushes?limit=1000": (200, {"items": [], "next_cursor": None}),
    }
    with answering(answers) as server:
        assert main(["status", "--json", "--url", server.url]) == 0
        assert json.loads(capsys.readouterr().out) == {"server": SERVER, "streams": [WAITING], "pushes": []}
        assert main(["status", "--url", server.url]) == 0
        assert "live/b (waiting)" in capsys.readouterr().out


def test_whoever_watches_waits_for_a_server_that_is_away() -> None:
    def pause(_: float) -> None:
        match len(shown):
            case 1:
                answers.clear()
            case 3:
                answers.update(healthy)
            case 4:
                raise KeyboardInterrupt

    healthy: dict[str, Answer] = {
        "GET /api/v1/server": (200, SERVER),
        "GET /api/v1/streams?limit=1000": (200, {"items": [], "next_cursor": None}),
        "GET /api/v1/pushes?limit=1000": (200, {"items": [], "next_cursor": None}),
    }
    answers, shown = dict(healthy), list[dict[str, Any]]()
    with answering(answers) as server, pytest.raises(KeyboardInterrupt):
        watch(ApiClient(server.url, {}), shown.append, pause)
    missing = "the server answers 404: not there"
    assert [each.get("failure") for each in shown] == [None, missing, missing, None]


def test_a_server_that_was_never_there_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    with answering({}) as server:
        url = server.url
    assert main(["status", "--watch", "--url", url]) == 1
    assert capsys.readouterr().err.startswith(f"penstock status: no answer from {url}: ")


def test_rich_draws_the_same() -> None:
    from rich.console import Console

    console = Console(width=200)
    with console.capture() as captured:
        console.print(status._rich({"server": SERVER, "streams": [stream("[bold]a", advice=["Do it."])]}))
    assert all(each in captured.get() for each in ("live/[bold]a", "healthy", "live/[bold]a: Do it.", "edge-1: ready"))


def test_names_and_verdicts_are_whole_on_a_terminal_of_80_columns() -> None:
    from rich.console import Console

    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(status._rich({"server": SERVER, "streams": [stream("main")]}))
    drawn = captured.get()
    assert "live/main " in drawn
    assert "healthy" in drawn
    assert "…" not in drawn


def test_one_of_a_kind_is_no_plural() -> None:
    server = {**SERVER, "workers": 1, "connections": 1, "viewers": 1, "streams": 1}
    assert headline({"server": server, "streams": []}).endswith("1 worker, 1 connection, 1 viewer, 1 stream")
