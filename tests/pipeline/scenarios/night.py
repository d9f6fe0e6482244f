"""A night with a crash: a server is killed under load and started again, with clients that count for themselves."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.pipeline.scenarios.counting import CountingViewer, ask_for, now
from tests.pipeline.scenarios.stage import Row, descendants, facts_of, hidden, rows
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.raw_clients import RawClients
from tests.support.raw_media import Broadcast

SAMPLE_S = 4.0
STREAM_SAMPLE_S = 1.0
FLUSH_S = 1.0
STREAM = "night"
CONFIG = f"""
[server]
id = "night"
[facts]
flush_s = {FLUSH_S}
stream_sample_s = {STREAM_SAMPLE_S}
viewer_sample_s = {SAMPLE_S}
"""
VIEWERS = 10
# Long after the last sample of any viewer, and before the next one.
WATCHED_S = 7.5
# The last sample may be one interval old, and its line may wait for the next flush. Then there is the machine.
LOST_AT_MOST_S = STREAM_SAMPLE_S + FLUSH_S + 0.5
LOST_OF_VIEW_AT_MOST_S = SAMPLE_S + FLUSH_S + 0.5


class Killed(Exception):
    """The end of a server that the test has killed."""


class CountingBroadcast(Broadcast):
    """Counts the payload that it sends."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.sent: list[tuple[float, int]] = []

    def _send(self, type_id: int, payload: bytes) -> None:
        super()._send(type_id, payload)
        self.sent.append((now(), len(payload)))

    def sent_bytes_by(self, at: float) -> int:
        return sum(size for sent_at, size in self.sent if sent_at <= at)


@dataclass(frozen=True, slots=True)
class Night:
    """What clients saw of two boots."""

    data: Path
    killed_at: float
    broadcast: CountingBroadcast
    cut_off: list[CountingViewer]
    after: CountingViewer

    def of_boot(self, number: int, table: str) -> list[Row]:
        """The rows of a table that the first or the second boot is told by."""
        boots = [fact for fact in facts_of(self.data, "server_started") if fact["server_id"] == "night"]
        boot_id = sorted(boots, key=lambda fact: fact["at_us"])[number - 1]["boot_id"]
        return [row for row in rows(self.data, table) if row["boot_id"] == boot_id]

    def cut_off_views(self) -> list[tuple[Row, CountingViewer]]:
        """The rows of the first boot, each with the viewer that it is about."""
        names = {fact["event_id"]: fact["viewer"] for fact in facts_of(self.data, "play_started")}
        return [(row, self.cut_off[int(names[row["view_id"]])]) for row in self.of_boot(1, "silver.views")]


def _kill_all_of(server: PenstockServer) -> None:
    """As a power cut does. A supervisor that is killed alone leaves workers that serve on for a while."""
    for pid in (server.program.pid, *descendants(server.program.pid)):
        os.kill(pid, signal.SIGKILL)


async def _watch_until_killed(server: PenstockServer) -> tuple[float, CountingBroadcast, list[CountingViewer]]:
    async with RawClients(server.port) as clients:
        publisher, stream_id = await clients.publisher(STREAM)
        broadcast = CountingBroadcast(publisher, stream_id)
        broadcast.send_setup()
        sending = asyncio.create_task(broadcast.run(fps=50, size=4000))
        viewers = [await ask_for(clients, f"{STREAM}?viewer={number}") for number in range(VIEWERS)]
        for viewer in viewers:
            await viewer.until_picture()
        await asyncio.sleep(WATCHED_S)
        _kill_all_of(server)
        killed_at = now()
        for viewer in viewers:
            await viewer.client.until_closed()
        await sending
    return killed_at, broadcast, viewers


async def _watch_to_the_end(server: PenstockServer) -> CountingViewer:
    async with RawClients(server.port) as clients:
        publisher, stream_id = await clients.publisher(STREAM)
        broadcast = Broadcast(publisher, stream_id)
        broadcast.send_setup()
        viewer = await ask_for(clients, f"{STREAM}?viewer=0")
        sending = asyncio.create_task(broadcast.run())
        await viewer.until_picture()
        broadcast.is_stopped = True
        await sending
        publisher.call("deleteStream", 9.0, None, stream_id)
        await viewer.until_end()
    return viewer


def live_through_night(folder: Path, data: Path) -> Night:
    """All of it, in a data folder that may have other facts too."""
    folder.mkdir()
    options = ("--data", str(data), "--record", "all")
    with suppress(Killed), penstock_server(folder, options, CONFIG) as server:
        killed_at, broadcast, cut_off = asyncio.run(_watch_until_killed(server))
        raise Killed
    assert hidden(data), "it was killed with facts on their way"
    with penstock_server(folder, options, CONFIG) as server:
        after = asyncio.run(_watch_to_the_end(server))
    return Night(data, killed_at, broadcast, cut_off, after)
