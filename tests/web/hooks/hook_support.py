"""Receivers and clocks of tests, and events as the log has them."""

import asyncio
import base64
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import orjson
from standardwebhooks import Webhook

from penstock.web.events.event_log import Event
from penstock.web.hooks.matching import Wanted
from penstock.web.hooks.receivers import TAKEN, Outcome
from penstock.web.hooks.retries import Retries
from penstock.web.hooks.settings import WebhookSettings
from penstock.web.hooks.signatures import Secret

KEY = b"0123456789abcdefghijklmn"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
FAILED = Outcome(is_taken=False, reason="status 500")
FAST = Retries(first_s=0.005, longest_s=0.02)

_numbers = itertools.count(1)


class Posted(NamedTuple):
    url: str
    id: str
    stream: str
    number: int


class FakeClocks:
    def __init__(self) -> None:
        self.ahead_s = 0.0

    def wall(self) -> float:
        return time.time() + self.ahead_s

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


class FakeReceiver:
    """Takes messages, or not, as `judge` says. Each signature is checked."""

    def __init__(self, judge: Callable[[Posted], Outcome] = lambda _: TAKEN) -> None:
        self.judge = judge
        self.attempts: list[Posted] = []
        self.taken: list[Posted] = []
        self.is_hanging: set[str] = set()
        """URLs that do not answer."""

    async def post(self, url: str, headers: dict[str, str], body: bytes, timeout_s: float) -> Outcome:
        # Not by `verify`, which has a clock of its own.
        at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
        assert Webhook(SECRET).sign(headers["webhook-id"], at, body.decode()) == headers["webhook-signature"]
        data = orjson.loads(body)["data"]
        posted = Posted(url, headers["webhook-id"], data.get("stream", ""), data["count"])
        self.attempts.append(posted)
        await asyncio.sleep(timeout_s if url in self.is_hanging else 0)
        outcome = Outcome(False, "no answer") if url in self.is_hanging else self.judge(posted)
        if outcome.is_taken:
            self.taken.append(posted)
        return outcome


def hook(
    key: str = "h", url: str = "http://a/", wanted: Wanted | None = None, timeout_s: float = 1.0
) -> WebhookSettings:
    return WebhookSettings(key, "http://a", url, wanted or Wanted(), Secret(KEY), timeout_s)


def event(count: int, stream: str | None = "main", kind: str = "publish_started") -> Event:
    number = next(_numbers)
    fact = {"event_id": f"s.example-b1-{number}", "kind": kind, "at_us": 1_700_000_000_123_456, "count": count}
    if stream is not None:
        fact |= {"app": "live", "stream": stream}
    return Event(number, kind, None if stream is None else "live", stream, False, orjson.dumps(fact))


async def until(is_so: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not is_so():
            await asyncio.sleep(0.002)
