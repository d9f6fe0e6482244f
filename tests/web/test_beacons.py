"""What players may post, who hears of it, and what they are answered."""

import asyncio
import json
from typing import Any

import pytest

from penstock.control.live import ViewBeacon
from penstock.web.asgi import Event, Receive, Scope, Send
from penstock.web.beacons import ADDRESS_BURST, ALL_BURST, MAX_BEACONS, MAX_BYTES, Beacons

TOKEN = "1.Zm9vYmFyYmF6cXV4cXV1eA"
FIGURES = {
    "startup_ms": 312,
    "played_ms": 10_000,
    "stalls": 1,
    "stalled_ms": 840,
    "latency_ms": 420,
    "dropped_frames": 3,
}
BEACON = {"view": TOKEN, **FIGURES}


class Stage:
    """Beacons with worker 1 behind them, and a site that answers 418 to everything else."""

    def __init__(self) -> None:
        self.now = 100.0
        self.passed_on: list[ViewBeacon] = []
        self.beacons = Beacons(self._to_worker, lambda: self.now, self._site)

    def _to_worker(self, worker: int, beacon: ViewBeacon) -> bool:
        if worker == 1:
            self.passed_on.append(beacon)
        return worker == 1

    async def _site(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def ask(
        self, body: bytes, *more: bytes, method: str = "POST", path: str = "/beacon", address: str | None = "192.0.2.1"
    ) -> tuple[int, dict[bytes, bytes]]:
        pieces = (body, *more)
        incoming: list[Event] = [
            {"type": "http.request", "body": piece, "more_body": place < len(more)}
            for place, piece in enumerate(pieces)
        ]
        sent: list[Event] = []

        async def receive() -> Event:
            return incoming.pop(0) if incoming else {"type": "http.disconnect"}

        async def send(event: Event) -> None:
            sent.append(event)

        scope: Scope = {"type": "http", "path": path, "method": method, "headers": []}
        scope["client"] = None if address is None else (address, 1)
        asyncio.run(self.beacons(scope, receive, send))
        assert sent[-1].get("more_body", False) is False
        return sent[0]["status"], dict(sent[0]["headers"])

    def post(self, *beacons: dict[str, Any], address: str | None = "192.0.2.1") -> int:
        return self.ask(json.dumps({"beacons": beacons}).encode(), address=address)[0]


def test_a_beacon_goes_to_the_worker_that_its_token_names() -> None:
    on = Stage()
    status, headers = on.ask(json.dumps({"beacons": [BEACON]}).encode())
    assert status == 204
    assert headers[b"access-control-allow-origin"] == b"*"
    assert on.passed_on == [ViewBeacon(TOKEN, **FIGURES)]
    assert on.beacons.counts == {}


def test_what_a_player_does_not_know_it_leaves_out() -> None:
    on = Stage()
    assert on.post({"view": TOKEN, "stalls": None, "colour": "red"}) == 204
    assert on.passed_on == [ViewBeacon(TOKEN)]


def test_a_body_may_come_in_pieces() -> None:
    on = Stage()
    body = json.dumps({"beacons": [BEACON, BEACON]}).encode()
    assert on.ask(body[:5], body[5:90], body[90:])[0] == 204
    assert len(on.passed_on) == 2


def test_a_beacon_for_a_worker_that_is_not_there_is_counted() -> None:
    on = Stage()
    assert on.post({**BEACON, "view": "2" + TOKEN[1:]}) == 204
    assert (on.passed_on, on.beacons.counts) == ([], {"unknown": 1})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"beacons": [{}]}',
        b'{"beacons": [{"view": "1"}]}',
        b'{"beacons": [{"view": "1.Zm9vYmFyYmF6cXV4cXV1eA\\n"}]}',
        b'{"beacons": [{"view": "99999.Zm9vYmFyYmF6cXV4cXV1eA"}]}',
        b'{"beacons": ' + b"[" * 4000,
        b'{"beacons": [], "of a newer player": ' + b"[" * 4000 + b"]" * 4000 + b"}",
        *(
            json.dumps({"beacons": [{**BEACON, name: value}]}).encode()
            for name in FIGURES
            for value in (-1, 1.5, "1", 10**18, 10**40, True)
        ),
        json.dumps({"beacons": [{"view": TOKEN}] * (MAX_BEACONS + 1)}).encode(),
    ],
    ids=lambda body: body[:60].decode(errors="replace"),
)
def test_other_forms_are_refused_as_a_whole(body: bytes) -> None:
    on = Stage()
    assert on.ask(body)[0] == 400
    assert (on.passed_on, on.beacons.counts) == ([], {"malformed": 1})


def test_a_body_that_is_too_large_is_not_read_to_its_end() -> None:
    on = Stage()
    assert on.ask(b" " * MAX_BYTES + b" ", b"more")[0] == 413
    assert on.beacons.counts == {"malformed": 1}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_other_methods_are_told_which_there_are(method: str) -> None:
    status, headers = Stage().ask(b"", method=method)
    assert (status, headers[b"allow"]) == (405, b"POST, OPTIONS")


def test_a_preflight_is_told_that_any_site_may_post() -> None:
    status, headers = Stage().ask(b"", method="OPTIONS")
    assert (status, headers[b"access-control-allow-methods"], headers[b"access-control-allow-headers"]) == (
        *(204, b"POST", b"content-type"),
    )


@pytest.mark.parametrize("path", ["/", "/beacons", "/beacon/", "/metrics"])
def test_everything_else_is_the_sites_matter(path: str) -> None:
    assert Stage().ask(b"", path=path)[0] == 418


@pytest.mark.parametrize("addresses", [("192.0.2.1",), ("2001:db8::1", "2001:db8::2"), (None, "nobody")])
def test_an_address_that_tells_too_much_is_answered_and_not_heard(addresses: tuple[str | None, ...]) -> None:
    on = Stage()
    for each in range(int(ADDRESS_BURST) + 10):
        assert on.post({"view": TOKEN}, address=addresses[each % len(addresses)]) == 204
    assert (len(on.passed_on), on.beacons.counts) == (ADDRESS_BURST, {"limited": 10})
    on.post({"view": TOKEN}, address="192.0.2.77")
    assert len(on.passed_on) == ADDRESS_BURST + 1
    on.now += 1.0
    on.post({"view": TOKEN}, address=addresses[0])
    assert len(on.passed_on) == ADDRESS_BURST + 2


def test_all_addresses_together_have_a_bound() -> None:
    on = Stage()
    batch = [{"view": TOKEN}] * 10
    for _ in range(int(ALL_BURST) // 10 + 5):
        on.post(*batch, address="127.0.0.1")
    assert (len(on.passed_on), on.beacons.counts) == (ALL_BURST, {"limited": 50})
