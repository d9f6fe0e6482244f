"""Processes of a server that are killed or stopped: what is lost with each, what goes on, and what is left behind."""

import asyncio
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.support.memory_of import family_of
from tests.support.penstock_server import PenstockServer
from tests.support.processes import running
from tests.support.raw_media import check_start, gaps, numbers
from tests.workers.workers_stage import (
    QUICK,
    PlacedClients,
    Workers,
    logs_in_memory,
    pids_on,
    send_for,
    two_workers,
    until_number,
    wait_for,
)

pytestmark = pytest.mark.alone
"""What is killed is to be back within the grace."""

BACK_S = 5.0
"""A worker is started at once; the rest is the interpreter's own start, on a machine that may be busy."""
DRAIN_S = 30.0


def descriptors_of(pid: int) -> list[str]:
    """What a process has open, each by what it is. Segments of its own logs and files of facts come and go."""
    kinds = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            kinds.append(re.sub(r"\d+", "", os.readlink(entry)))
    return sorted(kind for kind in kinds if "penstock-log" not in kind and "/facts/" not in kind)


def test_a_killed_worker_costs_its_own_connections_and_those_elsewhere_go_on(tmp_path: Path) -> None:
    async def scenario(workers: Workers, clients: PlacedClients) -> None:
        async with clients:
            other = await clients.publisher_in(2, "other", tag=2)
            kept = await clients.viewer_in(2, "other")
            await kept.until_code("NetStream.Play.Start")
            at_rest = descriptors_of(workers.pid_of(2))
            first = await clients.publisher_in(1)
            lost, stays = await clients.viewer_in(1), await clients.viewer_in(2)
            from_lost = await clients.viewer_in(1, "other")
            for viewer in (lost, stays, from_lost):
                await viewer.until_code("NetStream.Play.Start")
            await asyncio.gather(send_for(first, 1.0), send_for(other, 1.0))
            await until_number(stays, first.next_number - 1)
            killed_at, pid = time.monotonic(), workers.pid_of(1)
            os.kill(pid, signal.SIGKILL)
            for client in (first.client, lost, from_lost):
                await client.until_closed()
            await send_for(other, 0.5)
            await asyncio.to_thread(workers.wait_for_lines, "worker started", 3)
            assert time.monotonic() - killed_at < BACK_S
            (line,) = workers.lines("worker lost")
            assert (line["worker"], line["pid"], line["signal"]) == (1, pid, 9)
            assert [each["worker"] for each in workers.lines("worker started")][2:] == [1]
            again = await clients.publisher_in(1)
            again.next_number = first.next_number
            new = await clients.viewer_in(1)
            await new.until_code("NetStream.Play.Start")
            await send_for(again, 1.0)
            await until_number(stays, again.next_number - 1)
            assert gaps(numbers(stays.media())) == 0, "what was sent before the loss was had already"
            times = [message.timestamp_ms for message in stays.media() if message.payload[1]]
            assert all(0 <= later - earlier < 5000 for earlier, later in pairwise(times)), times
            await until_number(new, again.next_number - 1)
            check_start(new.media())
            await until_number(kept, other.next_number - 1, tag=2)
            assert numbers(kept.media(), 2) == list(range(other.next_number))
            again.client.call("deleteStream", 0, None, again.stream_id)
            for viewer in (stays, new):
                await viewer.until_code("NetStream.Play.Stop")
                viewer.transport.abort()
            for _ in range(50):
                if (left := descriptors_of(workers.pid_of(2))) == at_rest:
                    break
                await asyncio.sleep(0.1)
            assert left == at_rest

    with two_workers(tmp_path, QUICK, ["--record", "live/a"]) as workers:
        asyncio.run(scenario(workers, PlacedClients(workers)))
        segments = wait_for(lambda: _settled(workers), "settled recordings")
        assert [(each["segment"], each["status"]) for each in segments] == [(1, "repaired"), (2, "closed")]
        assert len({each["recording_id"] for each in segments}) == 1
        assert segments[0]["last_timestamp_ms"] < segments[1]["first_timestamp_ms"]
        assert segments[0]["keyframes"] >= 2
        assert len({each["boot_id"] for each in workers.facts("server_started")}) == 3


def test_a_recording_of_a_killed_worker_that_nobody_watched_goes_on_in_the_other(tmp_path: Path) -> None:
    async def scenario(workers: Workers, clients: PlacedClients) -> None:
        async with clients:
            first = await clients.publisher_in(1)
            await send_for(first, 1.5)
            os.kill(workers.pid_of(1), signal.SIGKILL)
            await first.client.until_closed()
            again = await clients.publisher_in(2)
            await send_for(again, 1.0)
            again.client.call("deleteStream", 0, None, again.stream_id)
            await asyncio.to_thread(wait_for, lambda: _settled(workers), "settled recordings")

    with two_workers(tmp_path, QUICK, ["--record", "live/a"]) as workers:
        asyncio.run(scenario(workers, PlacedClients(workers)))
        segments = _settled(workers)
        assert segments is not None
        assert [(each["segment"], each["status"]) for each in segments] == [(1, "repaired"), (2, "closed")]
        assert len({each["recording_id"] for each in segments}) == 1
        assert segments[0]["keyframes"] >= 2
        assert [gap["reason"] for gap in segments[1]["gaps"]] == ["the publisher was away"]


def _settled(workers: Workers) -> list[dict[str, Any]] | None:
    segments = workers.manifest()
    return segments if len(segments) == 2 and not [each for each in segments if each["status"] == "open"] else None


def test_viewers_of_a_killed_worker_go_on_when_their_publisher_returns_to_theirs(tmp_path: Path) -> None:
    async def scenario(workers: Workers, clients: PlacedClients) -> None:
        async with clients:
            first = await clients.publisher_in(1)
            viewers = [await clients.viewer_in(2) for _ in range(2)]
            await send_for(first, 0.6)
            for viewer in viewers:
                await until_number(viewer, first.next_number - 1)
            await asyncio.to_thread(workers.kill, 1)
            again = await clients.publisher_in(2)
            again.next_number = first.next_number
            await send_for(again, 0.6)
            for viewer in viewers:
                await until_number(viewer, again.next_number - 1)
                assert gaps(numbers(viewer.media())) == 0

    with two_workers(tmp_path) as workers:
        asyncio.run(scenario(workers, PlacedClients(workers)))


def test_viewers_of_a_killed_worker_are_told_when_nobody_returns_within_the_grace(tmp_path: Path) -> None:
    async def scenario(workers: Workers, clients: PlacedClients) -> None:
        async with clients:
            first = await clients.publisher_in(1)
            viewer = await clients.viewer_in(2)
            await send_for(first, 0.6)
            await until_number(viewer, first.next_number - 1)
            await asyncio.to_thread(workers.kill, 1)
            assert "NetStream.Play.Stop" not in viewer.codes()
            await viewer.until_code("NetStream.Play.Stop", 6.0)

    with two_workers(tmp_path, QUICK.replace("grace_s = 5", "grace_s = 3")) as workers:
        asyncio.run(scenario(workers, PlacedClients(workers)))


def test_a_worker_that_is_stopped_is_replaced_after_ten_seconds(tmp_path: Path) -> None:
    async def scenario(workers: Workers, clients: PlacedClients) -> None:
        async with clients:
            broadcast = await clients.publisher_in(2)
            viewer, stuck = await clients.viewer_in(2), await clients.viewer_in(1)
            await stuck.until_code("NetStream.Play.Start")
            pid = workers.pid_of(1)
            os.kill(pid, signal.SIGSTOP)
            sending = asyncio.create_task(broadcast.run())
            await asyncio.to_thread(workers.wait_for_lines, "worker started", 3)
            (line,) = workers.lines("a process is silent and is killed")
            assert (line["worker"], line["pid"]) == (1, pid)
            await stuck.until_closed()
            fresh = await clients.viewer_in(1)
            await fresh.until(lambda: len(fresh.media()) > 10, "the stream")
            broadcast.is_stopped = True
            await sending
            await until_number(viewer, broadcast.next_number - 1)
            assert gaps(numbers(viewer.media())) == 0, "nobody waits for a worker that is stopped"

    with two_workers(tmp_path) as workers:
        asyncio.run(scenario(workers, PlacedClients(workers)))


def test_a_killed_web_process_is_back_in_a_moment_and_no_stream_notices(tmp_path: Path) -> None:
    async def scenario(workers: Workers, clients: PlacedClients) -> None:
        async with clients:
            broadcast = await clients.publisher_in(1)
            viewers = [await clients.viewer_in(worker) for worker in (1, 2)]
            for viewer in viewers:
                await viewer.until_code("NetStream.Play.Start")
            sending = asyncio.create_task(broadcast.run())
            await asyncio.sleep(0.5)
            await asyncio.to_thread(_kill_web, workers)
            broadcast.is_stopped = True
            await sending
            for viewer in viewers:
                await until_number(viewer, broadcast.next_number - 1)
                assert gaps(numbers(viewer.media())) == 0

    with two_workers(tmp_path, has_http=True) as workers:
        asyncio.run(scenario(workers, PlacedClients(workers)))


def _kill_web(workers: Workers) -> None:
    """Twice: at first the next one is started at once, and requests wait for it. Then there is none for a moment."""
    assert workers.get("/healthz")
    statuses = []
    for kills in (1, 2):
        os.kill(int(workers.wait_for_lines("web started", kills)[-1]["pid"]), signal.SIGKILL)
        killed_at = time.monotonic()
        while (status := _status_of(workers, "/healthz")) != 200 or len(workers.lines("web started")) == kills:
            statuses.append(status)
            assert time.monotonic() - killed_at < BACK_S, statuses
            time.sleep(0.02)
    assert 503 in statuses
    # None: it was with web when that was killed. 200: the next one has answered before it was told of.
    assert set(statuses) <= {200, 503, None}
    assert [line["signal"] for line in workers.lines("web lost")] == [9, 9]


def _status_of(workers: Workers, path: str) -> int | None:
    try:
        workers.get(path)
    except HTTPError as error:
        return error.code
    except OSError:
        return None  # it was with web when that was killed
    return 200


def test_when_the_supervisor_is_killed_streams_go_on_for_a_while_and_nothing_is_left(tmp_path: Path) -> None:
    options = ["--workers", "2", "--log-level", "info", "--http", "none", "--rtmp", "127.0.0.1:0"]
    command = [sys.executable, "-m", "penstock", "serve", "--data", str(tmp_path / "data"), *options]
    with running(command, tmp_path / "server.log") as program:
        program.wait_for_log("server started", DRAIN_S)
        started = PenstockServer(program, 0).wait_for_line("server started")
        workers = Workers(PenstockServer(program, int(str(started["rtmp"]).rpartition(":")[2])))
        pids = family_of(workers.pid)
        asyncio.run(_without_supervisor(workers, PlacedClients(workers)))
        wait_for(lambda: not pids_on(workers.data_dir), "the end of all workers", DRAIN_S + 5)
        assert logs_in_memory(pids) == []
        assert not [line for line in workers.server.log_lines() if line["level"] == "ERROR"]


async def _without_supervisor(workers: Workers, clients: PlacedClients) -> None:
    async with clients:
        broadcast = await clients.publisher_in(1)
        viewers = [await clients.viewer_in(worker) for worker in (1, 2)]
        for viewer in viewers:
            await viewer.until_code("NetStream.Play.Start")
        sending = asyncio.create_task(broadcast.run())
        await asyncio.sleep(0.5)
        os.kill(workers.pid, signal.SIGKILL)
        await asyncio.to_thread(_until, lambda: _is_refused(workers.port), 1.0)
        await asyncio.sleep(2.0)
        broadcast.is_stopped = True
        await sending
        for viewer in viewers:
            await until_number(viewer, broadcast.next_number - 1)
            assert gaps(numbers(viewer.media())) == 0


def _until(is_so: Callable[[], bool], deadline_s: float) -> None:
    give_up_at = time.monotonic() + deadline_s
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def _is_refused(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0
