"""A server whose clock was wrong and is set right while somebody watches: no table has times that never were."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.landing_place import NOON_US, PEER, SECOND_US, Place, fact
from tests.pipeline.scenarios_lake.runs import DataFolder

HOUR_US = 3600 * SECOND_US


def opened(seq: int, at_us: int, conn_id: str) -> dict[str, Any]:
    return fact(seq, "connection_opened", at_us, conn_id=conn_id, peer_addr=PEER["peer_addr"], protocol="rtmp")


def facts_around_a_step(wrong_us: int) -> list[dict[str, Any]]:
    """As the server tells them: a view of ten seconds at noon, and the clock set in the midst of it."""
    before, after = NOON_US + wrong_us + 5 * SECOND_US, NOON_US + 5 * SECOND_US
    half: dict[str, Any] = {"watched_us": 5 * SECOND_US, "sent_bytes": 500}
    closed: dict[str, Any] = {"duration_us": 5 * SECOND_US}
    return [
        opened(1, before - 5 * SECOND_US, "c1"),
        fact(2, "play_started", before - 5 * SECOND_US),
        fact(3, "viewer_sample", before, view_id="edge-1-b1-2", **half),
        fact(4, "play_stopped", before, view_id="edge-1-b1-2", **half, reason="clock stepped"),
        fact(5, "connection_closed", before, **closed, reason="clock stepped"),
        fact(6, "clock_stepped", after, wall_us=after, step_us=-wrong_us, offset_us=0),
        opened(7, after, "c1~1"),
        fact(8, "play_started", after, conn_id="c1~1"),
        fact(9, "viewer_sample", after + 5 * SECOND_US, view_id="edge-1-b1-8", conn_id="c1~1", **half),
        fact(10, "play_stopped", after + 5 * SECOND_US, view_id="edge-1-b1-8", conn_id="c1~1", **half),
        fact(11, "connection_closed", after + 5 * SECOND_US, conn_id="c1~1", **closed),
    ]


@pytest.mark.parametrize(
    ("wrong_us", "halves"),
    [
        pytest.param(-3 * HOUR_US, [-3, 0], id="behind"),
        # What was told ahead of its time is refused, and the rest is whole without it.
        pytest.param(3 * HOUR_US, [0], id="ahead"),
    ],
)
def test_what_was_open_when_the_clock_was_set_has_sane_times_and_is_counted_once(
    tmp_path: Path, spark: SparkSession, wrong_us: int, halves: list[int]
) -> None:
    place, data = Place(tmp_path, spark), DataFolder(tmp_path, spark)
    told = facts_around_a_step(wrong_us)
    # Each fact lands alone and is carried alone, as if a cycle had run between any two of them.
    for number, line in enumerate(told, start=1):
        place.land(f"edge-1-b1-{number}.jsonl", line, at_us=NOON_US + 11 * SECOND_US)
        if number in (3, 6, 9, len(told)):
            data.cycles(NOON_US + 12 * SECOND_US).run_cycle()
    views = sorted(data.rows("silver.views"), key=lambda row: row["view_seq"])
    connections = sorted(data.rows("silver.connections"), key=lambda row: row["opened_at"])
    assert [round((row["started_at"].timestamp() * 1e6 - NOON_US) / HOUR_US) for row in views] == halves
    for row in views:
        assert (row["is_open"], row["watched_us"], row["bytes_sent"]) == (False, 5 * SECOND_US, 500)
        assert (row["ended_at"] - row["started_at"]).total_seconds() == 5
    assert [row["close_reason"] for row in connections] == ["clock stepped", "left"][-len(halves) :]
    for row in connections:
        assert (row["closed_at"] - row["opened_at"]).total_seconds() == 5
    assert [reason for reason, _ in place.refusals()] == ["ahead_of_time"] * (5 if wrong_us > 0 else 0)
