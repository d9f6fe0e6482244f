"""A server that is killed under load and started again: what the tables say of a boot that could not say good-bye."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.transforms.boots import SERVER_LOST
from tests.pipeline.scenarios.counting import CountingViewer, ask_for, now
from tests.pipeline.scenarios.stage import Row, facts_of, hidden, rows, run_cycle
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.raw_clients import RawClients
from tests.support.raw_media import Broadcast, numbers
from tests.support.raw_rtmp import DATA, RawMessage
from tests.support.samples import flv_samples

SAMPLE_S = 1.0
FLUSH_S = 1.0
CONFIG = f"""
[facts]
flush_s = {FLUSH_S}
viewer_sample_s = {SAMPLE_S}
"""
RECORD = ("--record", "all")
VIEWERS = 10
WATCHED_S = 4.5
# The last sample may be one interval old, and its line may wait for the next flush. Then there is the machine.
LOST_AT_MOST_S = SAMPLE_S + FLUSH_S + 0.5


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
        boots = sorted(facts_of(self.data, "server_started"), key=lambda fact: fact["at_us"])
        return [row for row in rows(self.data, table) if row["boot_id"] == boots[number - 1]["boot_id"]]

    def cut_off_views(self) -> list[tuple[Row, CountingViewer]]:
        """The rows of the first boot, each with the viewer that it is about."""
        names = {fact["event_id"]: int(fact["viewer"]) for fact in facts_of(self.data, "play_started")}
        return [(row, self.cut_off[names[row["view_id"]]]) for row in self.of_boot(1, "silver.views")]


async def watch_until_killed(server: PenstockServer) -> tuple[float, CountingBroadcast, list[CountingViewer]]:
    async with RawClients(server.port) as clients:
        publisher, stream_id = await clients.publisher("cam")
        broadcast = CountingBroadcast(publisher, stream_id)
        broadcast.send_setup()
        sending = asyncio.create_task(broadcast.run(fps=50, size=4000))
        viewers = [await ask_for(clients, f"cam?viewer={number}") for number in range(VIEWERS)]
        for viewer in viewers:
            await viewer.until_picture()
        await asyncio.sleep(WATCHED_S)
        server.program.process.kill()
        killed_at = now()
        for viewer in viewers:
            await viewer.client.until_closed()
        await sending
    return killed_at, broadcast, viewers


async def watch_to_the_end(server: PenstockServer) -> CountingViewer:
    async with RawClients(server.port) as clients:
        publisher, stream_id = await clients.publisher("cam")
        broadcast = Broadcast(publisher, stream_id)
        broadcast.send_setup()
        viewer = await ask_for(clients, "cam?viewer=0")
        sending = asyncio.create_task(broadcast.run())
        await viewer.until_picture()
        broadcast.is_stopped = True
        await sending
        publisher.call("deleteStream", 9.0, None, stream_id)
        await viewer.until_end()
    return viewer


@pytest.fixture(scope="module")
def night(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Night:
    folder = tmp_path_factory.mktemp("killed_server")
    with suppress(Killed), penstock_server(folder, RECORD, CONFIG) as server:
        killed_at, broadcast, cut_off = asyncio.run(watch_until_killed(server))
        raise Killed
    assert hidden(folder / "data"), "it was killed with facts on their way"
    with penstock_server(folder, RECORD, CONFIG) as server:
        after = asyncio.run(watch_to_the_end(server))
    run_cycle(spark, folder / "data")
    return Night(folder / "data", killed_at, broadcast, cut_off, after)


def test_what_a_crash_left_has_landed(night: Night) -> None:
    assert hidden(night.data) == []


def test_views_of_a_lost_server_end_with_their_last_sample(night: Night) -> None:
    last_told_us: dict[str, int] = {}
    for fact in facts_of(night.data, "viewer_sample"):
        last_told_us[fact["view_id"]] = max(fact["at_us"], last_told_us.get(fact["view_id"], 0))
    views = night.of_boot(1, "silver.views")
    assert len(views) == VIEWERS
    for view in views:
        assert (view["is_open"], view["end_reason"], view["is_estimated"]) == (False, SERVER_LOST, True)
        assert view["ended_at"] == datetime.fromtimestamp(0, UTC) + timedelta(
            microseconds=last_told_us[view["view_id"]]
        )


def test_a_lost_server_sent_at_least_what_viewers_had_got_before_its_last_flush(night: Night) -> None:
    for view, viewer in night.cut_off_views():
        certain = viewer.received_bytes_by(night.killed_at - LOST_AT_MOST_S)
        assert 0 < certain <= view["bytes_sent"] <= viewer.received_bytes


def test_a_lost_server_received_at_least_what_was_sent_before_its_last_flush(night: Night) -> None:
    (publication,) = night.of_boot(1, "silver.publications")
    assert (publication["end_reason"], publication["is_estimated"]) == (SERVER_LOST, True)
    certain = night.broadcast.sent_bytes_by(night.killed_at - LOST_AT_MOST_S)
    assert 0 < certain <= publication["received_bytes"] <= night.broadcast.sent_bytes_by(night.killed_at)


def test_the_boot_after_is_counted_to_the_end(night: Night) -> None:
    (view,) = night.of_boot(2, "silver.views")
    assert (view["is_open"], view["is_estimated"]) == (False, False)
    assert view["bytes_sent"] == night.after.received_bytes


def test_usage_is_the_sum_of_both_and_marked_as_an_estimate(night: Night) -> None:
    usage = rows(night.data, "gold.usage")
    sent = sum(row["bytes_sent"] for row in rows(night.data, "silver.views"))
    received = sum(row["received_bytes"] for row in rows(night.data, "silver.publications"))
    assert sum(row["egress_bytes"] for row in usage) == sent
    assert sum(row["ingress_bytes"] for row in usage) == received
    assert any(row["is_estimated"] for row in usage)


def test_the_recording_that_was_cut_off_is_repaired_and_whole(night: Night) -> None:
    segments = sorted(rows(night.data, "gold.recordings"), key=lambda row: row["started_at"])
    assert [row["status"] for row in segments] == ["repaired", "closed"]
    recorded = [each for each in flv_samples(night.data / "recordings" / segments[0]["path"]) if each.type_id != DATA]
    assert numbers([RawMessage(each.type_id, 0, 0, each.payload) for each in recorded])[0] == 0
    assert segments[0]["duration_ms"] == recorded[-1].timestamp_ms
