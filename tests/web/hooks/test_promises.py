"""What a receiver may rely on, held against one that fails half of the time, hangs and is killed, while we are too.

The web process is real, and so is the receiver. The test has the place of the worker that tells what happens.
"""

import json
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson
from standardwebhooks import Webhook

from penstock.control.live import Live
from tests.support.rtmp_driver import LOOPBACK
from tests.web.hooks.hook_support import SECRET
from tests.web.web_process import Web, send_message, web_process

STREAMS = 6
EVENTS = 12


def until(is_so: Callable[[], bool], within_s: float) -> None:
    ends_at = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < ends_at, "it did not come to that"
        time.sleep(0.02)


def tell(web: Web, first: int, last: int) -> None:
    """Events of all streams, numbered within each."""
    for fact in [
        orjson.dumps(
            {
                "event_id": f"s.example-b1-{number}-{stream}",
                "kind": "play_stopped",
                "at_us": 1_700_000_000_000_000 + number,
                "app": "live",
                "stream": f"s{stream}",
                "conn_id": "c1",
                "number": number,
            }
        )
        for number in range(first, last)
        for stream in range(STREAMS)
    ]:
        send_message(web.worker, live(fact))


def live(*facts: bytes) -> Live:
    return Live(
        is_reset=False,
        connections=[],
        views=[],
        streams=[],
        gone_connections=[],
        gone_views=[],
        gone_streams=[],
        facts=list(facts),
    )


@contextmanager
def receiver(port: int, out: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "tests.web.hooks.failing_receiver", str(port), str(out)]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


def taken(out: Path) -> list[dict[str, Any]]:
    if not out.exists():
        return []
    return [json.loads(line) for line in out.read_text().splitlines()]


def distinct(out: Path) -> set[str]:
    return {each["headers"]["webhook-id"] for each in taken(out)}


def hook_for(port: int) -> dict[str, Any]:
    url = f"http://{LOOPBACK}:{port}/hook"
    return {"hooks": [{"url": url, "secret": SECRET, "timeout_s": 0.5, "events": ["play_*"]}]}


def test_every_event_comes_in_order_and_signed_whatever_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "taken.jsonl"
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    hooks = hook_for(port)
    with receiver(port, out) as first:
        with web_process(tmp_path, config=hooks) as web:
            tell(web, 0, EVENTS // 2)
            until(lambda: len(taken(out)) >= STREAMS, 30)
            # What counts is what we have: an event that we are killed with before it is on disk was never promised.
            until(lambda: waiting(tmp_path) + len(distinct(out)) >= STREAMS * EVENTS // 2, 10)
            web.process.kill()
            web.process.wait()
        with web_process(tmp_path, config=hooks) as web:
            before = len(distinct(out))
            tell(web, EVENTS // 2, EVENTS)
            until(lambda: len(distinct(out)) > before + STREAMS, 30)
            first.kill()
            time.sleep(1.0)
            with receiver(port, out):
                until(lambda: len(distinct(out)) == STREAMS * EVENTS, 90)
                until(lambda: waiting(tmp_path) == 0, 10)
    judge(out)


def waiting(data_dir: Path) -> int:
    with closing(sqlite3.connect(f"file:{data_dir}/hooks.sqlite?mode=ro", uri=True)) as database:
        (count,) = database.execute("select count(*) from messages").fetchone()
    return int(count)


def judge(out: Path) -> None:
    """Signatures by the library that receivers use; order within each stream, repeats left out."""
    seen: set[str] = set()
    order: dict[str, list[int]] = {}
    for each in taken(out):
        headers = each["headers"]
        message = json.loads(each["body"])
        assert Webhook(SECRET).verify(each["body"], headers) == message
        assert message["type"] == "play_stopped"
        if headers["webhook-id"] not in seen:
            seen.add(headers["webhook-id"])
            order.setdefault(message["data"]["stream"], []).append(message["data"]["number"])
    assert order == {f"s{stream}": list(range(EVENTS)) for stream in range(STREAMS)}
