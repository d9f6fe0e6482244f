"""Twenty publishers with a hundred viewers each: every message is checked at every viewer."""

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live_server import live_server
from tests.support.raw_clients import RawClient, RawClients
from tests.support.raw_media import Broadcast, is_key, is_setup, number_of
from tests.support.raw_rtmp import Corrupted, RawMessage

PUBLISHERS = 20
VIEWERS_EACH = 100
SECONDS = 6
FPS = 8
MIB = 1024 * 1024


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


def test_twenty_publishers_with_a_hundred_viewers_each_lose_and_harm_nothing(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with RawClients(port) as clients:
            broadcasts = []
            for tag in range(PUBLISHERS):
                publisher, stream_id = await clients.publisher(f"s{tag}")
                broadcast = Broadcast(publisher, stream_id, tag, gop=FPS)
                broadcast.send_setup()
                broadcasts.append(broadcast)
            running = [asyncio.create_task(broadcast.run(fps=FPS, size=400)) for broadcast in broadcasts]
            # Viewers come while the streams go on, so that joining is checked two thousand times as well.
            joining = (_join(clients, f"s{tag}", tag, VIEWERS_EACH) for tag in range(PUBLISHERS))
            checkers = [checker for group in await asyncio.gather(*joining) for checker in group]
            await asyncio.sleep(SECONDS)
            memory = server.memory()
            for broadcast in broadcasts:
                broadcast.is_stopped = True
            await asyncio.gather(*running)
            for checker in checkers:
                last = broadcasts[checker.tag].next_number - 1
                await checker.viewer.until(lambda c=checker, last=last: c.last == last, f"message {last}")  # type: ignore[misc]
            assert len(checkers) == PUBLISHERS * VIEWERS_EACH
            assert all(checker.last - (checker.first or 0) >= SECONDS * FPS for checker in checkers)
            assert memory.pss_bytes + memory.memfd_bytes < 160 * MIB

    with live_server(tmp_path) as server:
        asyncio.run(scenario(server.port))
        assert server.heard("viewer_skipped") == []
