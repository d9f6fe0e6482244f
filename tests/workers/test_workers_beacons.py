"""Beacons of players on a real server: from the header of an answer to the files of facts."""

import http.client
import json
from pathlib import Path
from typing import Any

from tests.support.penstock_server import PenstockServer, penstock_server
from tests.workers.test_workers_thumbnails import H264, VIDEO, published
from tests.workers.workers_stage import QUICK, Workers, wait_for

DEADLINE_S = 30.0
OPTIONS = ("--workers", "2", "--http", "127.0.0.1:0")


class Watching:
    """A view over HTTP-FLV."""

    def __init__(self, server: PenstockServer, path: str) -> None:
        self._connection = http.client.HTTPConnection(Workers(server).http, timeout=DEADLINE_S)
        self._connection.request("GET", path)
        self.answer = self._connection.getresponse()
        self.token = self.answer.headers["X-Penstock-View"]
        if self.answer.status == 200:
            assert self.answer.read(3) == b"FLV"

    def leave(self) -> None:
        self.answer.close()
        self._connection.close()


def post(server: PenstockServer, body: str) -> tuple[int, dict[str, str]]:
    """As navigator.sendBeacon does on a page of another site."""
    connection = http.client.HTTPConnection(Workers(server).http, timeout=DEADLINE_S)
    headers = {"Content-Type": "text/plain;charset=UTF-8", "Origin": "https://elsewhere.example"}
    try:
        connection.request("POST", "/beacon", body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, dict(answer.headers)
    finally:
        connection.close()


def tell(server: PenstockServer, token: str, **figures: int) -> int:
    return post(server, json.dumps({"beacons": [{"view": token, **figures}]}))[0]


def watching(server: PenstockServer) -> Watching:
    """A view, once the stream is there."""

    def watch() -> Watching | None:
        found = Watching(server, "/live/cup.flv")
        if found.answer.status == 200:
            return found
        found.leave()
        return None

    return wait_for(watch, "the stream", DEADLINE_S)


def test_what_players_tell_is_in_the_facts_of_their_views(tmp_path: Path) -> None:
    with (
        penstock_server(tmp_path, OPTIONS, QUICK) as server,
        published(server, "cup", *VIDEO, *H264),
    ):
        workers = Workers(server)
        # Dealt out in turn, so that both workers have some.
        views = [watching(server) for _ in range(4)]
        tokens = [view.token for view in views]
        assert len(set(tokens)) == 4
        assert {token[:2] for token in tokens} == {"1.", "2."}
        assert views[0].answer.headers["Access-Control-Expose-Headers"] == "*"
        for number, token in enumerate(tokens):
            assert tell(server, token, startup_ms=100 + number, stalls=number) == 204
        assert tell(server, "1.AAAAAAAAAAAAAAAAAAAAAA", stalls=9) == 204
        status, headers = post(server, "{}")
        assert (status, headers["access-control-allow-origin"]) == (400, "*")
        views[0].leave()
        wait_for(lambda: workers.facts("play_stopped"), "the end of a view")
        assert tell(server, tokens[0], startup_ms=100, played_ms=5000) == 204
        beacons = workers.wait_for_facts("view_beacon", 5)
        played = {fact["event_id"]: fact for fact in workers.facts("play_started")}
        # The workers tell their figures once a second, and they are rendered as often.
        told = wait_for(lambda: _results(workers) if _results(workers)["told"] == 5 else None, "the figures")
        for view in views[1:]:
            view.leave()
    assert told == {"told": 5, "unknown": 1, "limited": 0, "malformed": 1}
    first: list[dict[str, Any]] = [fact for fact in beacons if fact["played_ms"] is None]
    (last,) = (fact for fact in beacons if fact["played_ms"] is not None)
    assert sorted((fact["startup_ms"], fact["stalls"]) for fact in first) == [(100 + each, each) for each in range(4)]
    assert last["played_ms"] == 5000
    assert last["view_id"] == next(fact["view_id"] for fact in first if fact["startup_ms"] == 100)
    assert {fact["view_id"] for fact in beacons} == set(played)
    assert {(fact["app"], fact["stream"], fact["protocol"]) for fact in played.values()} == {
        ("live", "cup", "http-flv")
    }


def _results(workers: Workers) -> dict[str, int]:
    metrics = workers.metrics()
    return {
        result: round(metrics[f'penstock_beacons_total{{result="{result}"}}'])
        for result in ("told", "unknown", "limited", "malformed")
    }


def test_a_view_that_was_not_let_in_has_nothing_to_tell(tmp_path: Path) -> None:
    with penstock_server(tmp_path, OPTIONS, QUICK) as server:
        refused = Watching(server, "/live/nobody.flv")
        assert (refused.answer.status, refused.token) == (404, None)
        refused.leave()


def test_whoever_asks_for_a_playlist_is_told_the_token_of_the_view_that_it_has(tmp_path: Path) -> None:
    with penstock_server(tmp_path, OPTIONS, QUICK) as server, published(server, "cup", *VIDEO, *H264):
        workers = Workers(server)
        # One connection, so that one worker answers; a player with several may have a view in each.
        connection = http.client.HTTPConnection(workers.http, timeout=DEADLINE_S)

        def playlist(agent: str) -> str | None:
            connection.request("GET", "/live/cup.m3u8", headers={"User-Agent": agent})
            answer = connection.getresponse()
            is_there = b"#EXT-X-STREAM-INF" in answer.read()
            return answer.headers["X-Penstock-View"] if is_there else None

        first = wait_for(lambda: playlist("one"), "the playlist", DEADLINE_S)
        again, other = playlist("one"), playlist("other")
        assert first == again
        assert other not in (None, first)
        assert tell(server, first, startup_ms=700, latency_ms=900) == 204
        (beacon,) = workers.wait_for_facts("view_beacon", 1)
        connection.close()
        (played,) = (fact for fact in workers.facts("play_started") if fact["client"] == "one")
        assert (beacon["view_id"], played["protocol"]) == (played["event_id"], "hls")
