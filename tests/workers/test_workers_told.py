"""What web knows of a server of two workers, with real processes and clients: exact, at once, and after a kill."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from tests.workers.told_server import Told, told_server
from tests.workers.workers_stage import PlacedClients, send_for, wait_for

AT_ONCE_S = 1.0
pytestmark = pytest.mark.alone  # how old what web knows may be is measured


async def _watch(told: Told) -> None:
    clients = PlacedClients(told.workers)
    async with clients:
        broadcast = await clients.publisher_in(1)
        sending = asyncio.create_task(send_for(broadcast, 60))
        here, there = await clients.viewer_in(1), await clients.viewer_in(2)
        views = await asyncio.to_thread(told.wait_for, "views", 2)
        (stream,) = await asyncio.to_thread(told.wait_for, "streams", 1)
        assert sorted(view["worker"] for view in views) == [1, 2]
        assert (stream["worker"], stream["app"], stream["stream"]) == (1, "live", "a")
        started = {event["event_id"] for event in told.events("play_started")}
        assert {view["view_id"] for view in views} == started
        assert stream["publication_id"] == told.events("publish_started")[0]["event_id"]
        await asyncio.to_thread(_is_fresh, told)
        there.transport.abort()
        left_at = time.monotonic()
        await asyncio.to_thread(told.wait_for, "views", 1)
        assert time.monotonic() - left_at < AT_ONCE_S
        await asyncio.to_thread(_survives_a_kill_of_web, told)
        sending.cancel()
        await asyncio.to_thread(_survives_a_kill_of_a_worker, told)
        here.transport.abort()


def _is_fresh(told: Told) -> None:
    """Whenever one looks, each figure is at most two seconds old."""

    def sent(what: str) -> dict[str, int]:
        id_of = {"views": "view_id", "connections": "conn_id"}[what]
        return {each[id_of]: each["sent_bytes"] + each.get("received_bytes", 0) for each in told.now()[what]}

    for what in ("views", "connections"):
        before = sent(what)
        time.sleep(2.1)
        after = sent(what)
        assert [name for name, amount in before.items() if name in after and after[name] <= amount] == []
    (stream,) = told.now()["streams"]
    # How many frames a second come is the matter of this test's own sender, which a busy machine slows down.
    assert [name for name in ("bitrate_bps", "fps", "received_bytes") if stream[name] <= 0] == []


def _survives_a_kill_of_web(told: Told) -> None:
    known = told.now()
    os.kill(known["pid"], signal.SIGKILL)
    wait_for(lambda: told.now()["pid"] != known["pid"] and told.now()["whole"] == [1, 2], "another web process")
    for what, name in (("views", "view_id"), ("streams", "publication_id"), ("connections", "conn_id")):
        assert sorted(each[name] for each in told.now()[what]) == sorted(each[name] for each in known[what])


def _survives_a_kill_of_a_worker(told: Told) -> None:
    (stream,) = told.now()["streams"]
    os.kill(told.workers.pid_of(1), signal.SIGKILL)
    told.wait_for("streams", 0)
    told.wait_for("views", 0)
    (stopped,) = told.wait_for_events("publish_stopped")
    assert (stopped["reason"], stopped["stream"], stopped["worker"]) == ("worker lost", "a", None)
    assert stopped["publication_id"] == stream["publication_id"]


def test_web_knows_what_is_open_in_both_workers_at_once_and_after_kills(tmp_path: Path) -> None:
    with told_server(tmp_path) as told:
        asyncio.run(_watch(told))
        told.wait_for("connections", 0)
        told.workers.wait_for_lines("worker started", 3)
        told.wait_for_events("server_started")
    assert sorted(event["worker"] for event in told.events("server_stopped")) == [1, 2]


async def _stall(told: Told) -> None:
    clients = PlacedClients(told.workers)
    async with clients:
        broadcast = await clients.publisher_in(2)
        await send_for(broadcast, 1.5)
        stalled_at = time.monotonic()
        (begun,) = await asyncio.to_thread(told.wait_for_events, "incident_started")
        assert 2.9 < time.monotonic() - stalled_at < 6.0
        await send_for(broadcast, 1.5)
        (ended,) = await asyncio.to_thread(told.wait_for_events, "incident_ended")
    assert (begun["incident"], begun["app"], begun["stream"], begun["ended_at_us"]) == (
        "ingest_stalled",
        "live",
        "a",
        None,
    )
    assert begun["incident_id"] == ended["incident_id"]
    assert ended["ended_at_us"] - ended["started_at_us"] >= 3_000_000


def test_a_stall_of_a_publisher_is_an_incident_while_it_lasts(tmp_path: Path) -> None:
    with told_server(tmp_path) as told:
        asyncio.run(_stall(told))
