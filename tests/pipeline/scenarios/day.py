"""A day without trouble: a real server, FFmpeg as publisher and player, and viewers that count for themselves."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from tests.pipeline.scenarios.counting import CountingViewer, ask_for
from tests.pipeline.scenarios.stage import Row, rows
from tests.support.ffmpeg import play_command, publish_command
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import running
from tests.support.raw_clients import RawClients

SAMPLE_S = 1.0
STREAM = "cam"
CONFIG = f"""
[server]
id = "day"
[facts]
viewer_sample_s = {SAMPLE_S}
[apps.empty]
play_wait_s = 1
"""
PUBLISHED_S = 8.0
PLAYED_S = 3.0


@dataclass(frozen=True, slots=True)
class Day:
    """What the clients counted, and where the tables are."""

    data: Path
    viewers: dict[str, CountingViewer]

    def view_of(self, name: str) -> Row:
        """The row of a viewer: in the order in which they asked."""
        of_stream = [row for row in rows(self.data, "silver.views") if row["stream"] == STREAM]
        raw = sorted((row for row in of_stream if row["client"] == "raw"), key=lambda row: row["view_seq"])
        assert len(raw) == len(self.viewers)
        return raw[list(self.viewers).index(name)]


async def _watch(server: PenstockServer, folder: Path) -> dict[str, CountingViewer]:
    """Everybody comes, watches and goes."""
    async with RawClients(server.port) as clients:
        viewers = {"early": await ask_for(clients, STREAM)}
        viewers["early"].waited_for_stream = True
        publisher = running(publish_command(server.url(STREAM), PUBLISHED_S), folder / "publisher.log")
        player_command = play_command(server.url(STREAM), PLAYED_S, folder / "played.flv")
        with publisher as publishing, running(player_command, folder / "player.log") as playing:
            await viewers["early"].until_let_in()
            vain = await ask_for(clients, "nothing", app="empty")
            for name, query in (("alice", "?viewer=alice"), ("again", ""), ("leaver", "")):
                viewers[name] = await ask_for(clients, STREAM + query)
                await viewers[name].until_let_in()
            for viewer in viewers.values():
                await viewer.until_picture()
            # The stream is there, so FFmpeg has been let in too when it has asked; alice has asked by another name.
            await asyncio.to_thread(server.wait_for_play, STREAM, len(viewers))
            await asyncio.sleep(1.5 * SAMPLE_S)
            await viewers["leaver"].leave()
            await vain.client.until_code("NetStream.Play.StreamNotFound")
            for name in ("early", "alice", "again"):
                await viewers[name].until_end()
            assert await asyncio.to_thread(playing.wait_for_exit, 10.0) == 0
            assert await asyncio.to_thread(publishing.wait_for_exit, 10.0) == 0
    return viewers


def live_through_day(folder: Path, data: Path) -> Day:
    """All of it, in a data folder that may have other facts too."""
    folder.mkdir()
    with penstock_server(folder, ("--data", str(data)), CONFIG) as server:
        viewers = asyncio.run(_watch(server, folder))
    return Day(data, viewers)
