"""Real clients count for themselves, and the tables must say the same: server, FFmpeg, viewers, one cycle."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.scenarios.counting import CountingViewer, ask_for
from tests.pipeline.scenarios.stage import Row, facts_of, rows, run_cycle
from tests.support.ffmpeg import play_command, publish_command
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.processes import running
from tests.support.raw_clients import RawClients

SAMPLE_S = 1.0
CONFIG = f"""
[facts]
viewer_sample_s = {SAMPLE_S}
[apps.empty]
play_wait_s = 1
"""
PUBLISHED_S = 8.0
PLAYED_S = 3.0


@dataclass(frozen=True, slots=True)
class Counted:
    """What the clients counted, and where the tables are."""

    data: Path
    viewers: dict[str, CountingViewer]

    def view_of(self, name: str) -> Row:
        """The row of a viewer: in the order in which they asked."""
        of_stream = [row for row in rows(self.data, "silver.views") if row["app"] == "live"]
        raw = sorted((row for row in of_stream if row["client"] == "raw"), key=lambda row: row["view_seq"])
        assert len(raw) == len(self.viewers)
        return raw[list(self.viewers).index(name)]


async def watch(server: PenstockServer, folder: Path) -> dict[str, CountingViewer]:
    """Everybody comes, watches and goes."""
    async with RawClients(server.port) as clients:
        viewers = {"early": await ask_for(clients, "cam")}
        publisher = running(publish_command(server.url("cam"), PUBLISHED_S), folder / "publisher.log")
        player_command = play_command(server.url("cam"), PLAYED_S, folder / "played.flv")
        with publisher as publishing, running(player_command, folder / "player.log") as playing:
            await viewers["early"].until_let_in()
            vain = await ask_for(clients, "nothing", app="empty")
            for name, query in (("alice", "?viewer=alice"), ("again", ""), ("leaver", "")):
                viewers[name] = await ask_for(clients, f"cam{query}")
                await viewers[name].until_let_in()
            for viewer in viewers.values():
                await viewer.until_picture()
            # The stream is there, so FFmpeg has been let in too when it has asked; alice has asked by another name.
            await asyncio.to_thread(server.wait_for_play, "cam", len(viewers))
            await viewers["leaver"].leave()
            await vain.client.until_code("NetStream.Play.StreamNotFound")
            for name in ("early", "alice", "again"):
                await viewers[name].until_end()
            assert await asyncio.to_thread(playing.wait_for_exit, 10.0) == 0
            assert await asyncio.to_thread(publishing.wait_for_exit, 10.0) == 0
    return viewers


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Counted:
    folder = tmp_path_factory.mktemp("against_clients")
    with penstock_server(folder, config=CONFIG) as server:
        viewers = asyncio.run(watch(server, folder))
    run_cycle(spark, folder / "data")
    return Counted(folder / "data", viewers)


VIEWERS = ["early", "alice", "again", "leaver"]


def test_there_are_as_many_viewers_as_came(counted: Counted) -> None:
    audience = [row for row in rows(counted.data, "gold.audience") if row["stream"] == "cam"]
    came = len(counted.viewers) + 1
    assert sum(row["joins"] for row in audience) == came
    assert sum(row["leaves"] for row in audience) == came
    # All were there at one time, so in one minute, whatever minute it was.
    assert max(row["viewers_peak"] for row in audience) == came
    assert not any(row["is_estimated"] for row in audience)


def test_viewers_are_told_apart_by_name_else_by_address_and_client(counted: Counted) -> None:
    keys = {name: counted.view_of(name)["viewer_key"] for name in VIEWERS}
    assert keys["early"] == keys["again"] == keys["leaver"]
    assert len(set(keys.values())) == 2
    audience = [row for row in rows(counted.data, "gold.audience") if row["stream"] == "cam"]
    # Two of ours, and FFmpeg.
    assert max(row["viewers_unique"] for row in audience) == 3


@pytest.mark.parametrize("name", ["early", "alice", "again"])
def test_who_reads_to_the_end_was_sent_what_it_got(counted: Counted, name: str) -> None:
    assert counted.view_of(name)["bytes_sent"] == counted.viewers[name].received_bytes


@pytest.mark.parametrize("name", ["early", "alice", "again"])
def test_a_connection_was_sent_what_came_through_its_socket(counted: Counted, name: str) -> None:
    conn_id = counted.view_of(name)["conn_id"]
    (connection,) = [row for row in rows(counted.data, "silver.connections") if row["conn_id"] == conn_id]
    assert connection["sent_bytes"] == counted.viewers[name].client.received_bytes


def test_who_leaves_early_was_sent_what_it_got_and_what_was_on_its_way(counted: Counted) -> None:
    view = counted.view_of("leaver")
    got = counted.viewers["leaver"].received_bytes
    assert 0 < got <= view["bytes_sent"] < counted.view_of("early")["bytes_sent"]


@pytest.mark.parametrize("name", VIEWERS)
def test_watch_time_is_what_viewers_measured(counted: Counted, name: str) -> None:
    assert counted.view_of(name)["watch_seconds"] == pytest.approx(counted.viewers[name].watched_s, abs=SAMPLE_S)


@pytest.mark.parametrize("name", VIEWERS)
def test_startup_is_what_viewers_measured(counted: Counted, name: str) -> None:
    assert counted.view_of(name)["startup_us"] / 1e6 == pytest.approx(counted.viewers[name].startup_s, abs=0.1)


def test_who_asks_for_a_stream_that_never_comes_is_a_failed_start(counted: Counted) -> None:
    (view,) = [row for row in rows(counted.data, "silver.views") if row["app"] == "empty"]
    assert (view["stream"], view["is_failed_start"], view["bytes_sent"], view["watched_us"]) == ("nothing", True, 0, 0)
    quality = [row for row in rows(counted.data, "gold.view_quality") if row["dimension"] == "all"]
    failed = {app: sum(row["failed_starts"] for row in quality if row["app"] == app) for app in ("live", "empty")}
    assert failed == {"live": 0, "empty": 1}


def test_usage_is_what_the_server_counted(counted: Counted) -> None:
    usage = [row for row in rows(counted.data, "gold.usage") if row["stream"] == "cam"]
    stops = [fact for fact in facts_of(counted.data, "play_stopped") if fact["stream"] == "cam"]
    (publication,) = facts_of(counted.data, "publish_stopped")
    assert sum(row["egress_bytes"] for row in usage) == sum(fact["sent_bytes"] for fact in stops)
    assert sum(row["ingress_bytes"] for row in usage) == publication["received_bytes"]
    # The clock is read once for the fact and once for the view.
    watched_us = sum(fact["watched_us"] for fact in stops)
    assert sum(row["watched_us"] for row in usage) == pytest.approx(watched_us, abs=1000 * len(stops))
    assert not any(row["is_estimated"] for row in usage)
