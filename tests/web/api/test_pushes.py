"""Pushes through the API: listed with what they are sent, added, taken out, and never with a key."""

from pathlib import Path
from typing import Any

import pytest

from penstock.config import Config
from penstock.control.live import LivePush, Pushes
from tests.web.api.calling import Caller

CONFIG = Config.model_validate(
    {"push": [{"name": "yt", "streams": ["live/*"], "url": "rtmps://a.example/live2", "key": "env:YT_KEY"}]}
)
SESSION = LivePush("yt", "live", "a", "live", 2, "it closed the connection", 1000, 40, 1, 1_700_000_000_000_000)
ORDER: dict[str, Any] = {"name": "b", "streams": ["live/*"], "url": "rtmp://b.example/{app}/{stream}"}
KEYED = {**ORDER, "name": "k", "url": "rtmps://b.example/live2", "key": "hunter2"}


def test_a_target_is_shown_with_what_it_is_sent(tmp_path: Path) -> None:
    caller = Caller(tmp_path, config=CONFIG)
    caller.happenings.pushes.receive(2, [SESSION])
    assert caller.json("/pushes") == {
        "items": [
            {
                "name": "yt",
                "streams": ["live/*"],
                "address": "rtmps://a.example/live2",
                "origin": "configuration",
                "sessions": [
                    {
                        "app": "live",
                        "stream": "a",
                        "state": "live",
                        "started_at": "2023-11-14T22:13:20.000Z",
                        "attempts": 2,
                        "last_error": "it closed the connection",
                        "sent_bytes": 1000,
                        "lag_ms": 40,
                        "skips": 1,
                        "worker": 2,
                    }
                ],
            }
        ],
        "next_cursor": None,
    }
    caller.happenings.pushes.worker_lost(2)
    assert caller.json("/pushes")["items"][0]["sessions"] == []


def test_a_target_is_added_and_taken_out_and_workers_are_told(tmp_path: Path) -> None:
    caller = Caller(tmp_path, config=CONFIG)
    answer = caller.ask("/api/v1/pushes", "POST", json=KEYED)
    assert (answer.status_code, answer.json()["address"]) == (201, "rtmps://b.example/live2")
    assert [each["name"] for each in caller.json("/pushes")["items"]] == ["k", "yt"]
    assert caller.ask("/api/v1/pushes/k", "DELETE").status_code == 204
    assert [len(told.targets) for told in caller.told if isinstance(told, Pushes)] == [1, 0]
    assert (tmp_path / "pushes.json").read_bytes() == b"[]"


def test_a_key_is_shown_to_nobody(tmp_path: Path) -> None:
    caller = Caller(tmp_path, config=CONFIG)
    answer = caller.ask("/api/v1/pushes", "POST", json=KEYED)
    assert "hunter2" not in answer.text + caller.ask("/api/v1/pushes").text


@pytest.mark.parametrize(
    "change",
    [
        {"url": "rtmp://my_relay:65535/live/{stream}"},
        {"url": "rtmp://xn--bcher-kva.example/live/{stream}"},
        {"url": "rtmps://live-api-s.facebook.example:443/rtmp/", "key": "FB-1?s_bl=1"},
    ],
)
def test_targets_are_called_and_spelled_as_platforms_and_networks_do(tmp_path: Path, change: dict[str, Any]) -> None:
    assert Caller(tmp_path).ask("/api/v1/pushes", "POST", json={**ORDER, **change}).status_code == 201


@pytest.mark.parametrize("name", ["yt", "b"])
def test_a_name_is_used_once(tmp_path: Path, name: str) -> None:
    caller = Caller(tmp_path, config=CONFIG)
    caller.ask("/api/v1/pushes", "POST", json=ORDER)
    assert caller.ask("/api/v1/pushes", "POST", json={**ORDER, "name": name}).status_code == 409


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://hunter2.example/a/b"},
        {"url": "rtmp://b.example/hunter2"},
        {"url": "rtmp://b.example/{app}/{stream}", "key": "hunter2"},
        {"key": "two words hunter2"},
        {"name": "a b"},
        {"streams": []},
        {"streams": ["hunter2"]},
        {"key": "env:YT_KEY hunter2"},
    ],
)
def test_what_is_no_target_is_refused_without_repeating_it(tmp_path: Path, change: dict[str, Any]) -> None:
    answer = Caller(tmp_path).ask("/api/v1/pushes", "POST", json={**ORDER, **change})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "hunter2" not in answer.text


def test_those_of_the_configuration_are_taken_out_there(tmp_path: Path) -> None:
    caller = Caller(tmp_path, config=CONFIG)
    answer = caller.ask("/api/v1/pushes/yt", "DELETE")
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "It is in the configuration: take it out there, and reload.",
    )
    assert caller.ask("/api/v1/pushes/nobody", "DELETE").status_code == 404


def test_a_target_that_cannot_be_kept_on_disk_is_sent_to_and_said_to_be_forgotten_at_the_end(tmp_path: Path) -> None:
    caller = Caller(tmp_path, config=CONFIG)
    (tmp_path / "pushes.new").mkdir()
    answer = caller.ask("/api/v1/pushes", "POST", json=ORDER)
    assert answer.status_code == 507
    assert answer.json()["detail"].startswith("It holds now, but is forgotten when the server ends")
    assert [each["name"] for each in caller.json("/pushes")["items"]] == ["b", "yt"]
