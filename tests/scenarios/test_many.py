"""Many publishers with many viewers each: every message is checked at every viewer."""

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.live_server import LiveServer, live_server
from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import Broadcast, is_key, is_setup, number_of
from tests.support.raw_rtmp import Corrupted, RawMessage

pytestmark = pytest.mark.alone

MIB = 1024 * 1024


class Load(NamedTuple):
    """How much is sent to how many."""

    publishers: int
    viewers_each: int
    fps: int
    frame_bytes: int
    seconds: float


@pytest.fixture(autouse=True)
def _many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Checker:
    """Follows what one viewer is sent: set-up, a key frame, then every number in turn."""

    def __init__(self, viewer: RawClient, tag: int) -> None:
        self.viewer = viewer
        self.tag = tag
        self.setups = 0
        self.first: int | None = None
        self.last = -1
        viewer.keeps_media = False
        viewer.on_media = self.check

    def check(self, message: RawMessage) -> None:
        payload = message.payload
        if is_setup(payload):
            self.setups += 1
            return
        number = number_of(payload, self.tag)
        if self.first is None:
            if self.setups != 2 or not is_key(payload):
                raise Corrupted(f"began with message {number} after {self.setups} set-up messages")
            self.first = number
        elif number != self.last + 1:
            raise Corrupted(f"message {number} after {self.last}")
        self.last = number


async def _join(clients: RawClients, name: str, tag: int, count: int) -> list[Checker]:
    return [Checker(await clients.viewer(name), tag) for _ in range(count)]


async def _broadcast(server: LiveServer, load: Load) -> None:
    async with RawClients(server.port) as clients:
        broadcasts = []
        for tag in range(load.publishers):
            publisher, stream_id = await clients.publisher(f"s{tag}")
            broadcast = Broadcast(publisher, stream_id, tag, gop=load.fps)
            broadcast.send_setup()
            broadcasts.append(broadcast)
        running = [asyncio.create_task(broadcast.run(fps=load.fps, size=load.frame_bytes)) for broadcast in broadcasts]
        # Viewers come while the streams go on, so that joining is checked as often as there are viewers.
        joining = (_join(clients, f"s{tag}", tag, load.viewers_each) for tag in range(load.publishers))
        checkers = [checker for group in await asyncio.gather(*joining) for checker in group]
        await asyncio.sleep(load.seconds)
        memory = server.memory()
        for broadcast in broadcasts:
            broadcast.is_stopped = True
        await asyncio.gather(*running)
        for checker in checkers:
            last = broadcasts[checker.tag].next_number - 1
            await checker.viewer.until(lambda c=checker, last=last: c.last == last, f"message {last}")  # type: ignore[misc]
        assert len(checkers) == load.publishers * load.viewers_each
        assert all(checker.last - (checker.first or 0) >= load.seconds * load.fps for checker in checkers)
        assert memory.own_bytes + memory.memfd_bytes < 160 * MIB


def test_twenty_publishers_with_a_hundred_viewers_each_lose_and_harm_nothing(tmp_path: Path) -> None:
    with live_server(tmp_path) as server:
        asyncio.run(_broadcast(server, Load(publishers=20, viewers_each=100, fps=8, frame_bytes=400, seconds=6)))
        assert server.heard("viewer_skipped") == []


def test_the_same_holds_where_io_uring_is_forbidden(tmp_path: Path) -> None:
    with live_server(tmp_path, has_ring=False) as server:
        asyncio.run(_broadcast(server, Load(publishers=4, viewers_each=30, fps=8, frame_bytes=400, seconds=2)))
        assert server.heard("viewer_skipped") == []


def test_the_same_holds_where_publishers_are_read_by_frames(tmp_path: Path) -> None:
    with live_server(tmp_path, app={"flush": "frame"}) as server:
        asyncio.run(_broadcast(server, Load(publishers=4, viewers_each=30, fps=30, frame_bytes=9000, seconds=2)))
        assert server.heard("viewer_skipped") == []


def test_the_same_holds_for_so_many_publishers_that_they_come_to_share_a_tick(tmp_path: Path) -> None:
    with live_server(tmp_path) as server:
        # It begins when they have asked for nothing for two seconds: while messages are under way.
        asyncio.run(_broadcast(server, Load(publishers=40, viewers_each=3, fps=15, frame_bytes=2000, seconds=5)))
        assert server.heard("viewer_skipped") == []
