"""Rows that runs keep, and those that late, lost and last facts change: the tables are those of a rebuild."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.landing_place import PEER, SECOND_US, Place, fact
from tests.pipeline.scenarios_lake.conftest import PowerFailure
from tests.pipeline.scenarios_lake.runs import DataFolder
from tests.pipeline.scenarios_lake.test_silent_boot import Told, minutes, viewer_sample


def stopped(seq: int, after_noon: float, view: int, **fields: Any) -> dict[str, Any]:
    """The end of a view that began at noon."""
    at_us = minutes(after_noon)
    named = {"view_id": f"edge-1-b1-{view}", "conn_id": f"c{view}", "watched_us": at_us - minutes(0), "sent_bytes": seq}
    return fact(seq, "play_stopped", at_us, **{**named, **fields})


HISTOGRAMS = "rollup.histogram_hours"
MEASURED = {"lag_ms": 300, "rtt_us": 40_000}
# The fact of number 3 is lost: it let the third view in. Those of 9 and 10 come late.
FIRST_HOUR = [
    fact(1, "connection_opened", conn_id="c5", peer_addr=PEER["peer_addr"], protocol="rtmp"),
    fact(2, "play_started", conn_id="c2"),
    fact(4, "play_started", conn_id="c4"),
    stopped(5, 10, 2),
    viewer_sample(6, 20, 3, "c3") | MEASURED,
    viewer_sample(7, 20, 4, "c4"),
    fact(8, "connection_closed", minutes(20), conn_id="c5", duration_us=minutes(20) - minutes(0)),
]
SECOND_HOUR = [
    fact(11, "connection_opened", minutes(61), conn_id="c6", peer_addr=PEER["peer_addr"], protocol="rtmp"),
    stopped(12, 63, 3, viewer="eve", client="obs"),
    viewer_sample(13, 64, 4, "c4"),
]
LATE = [
    viewer_sample(9, 5, 2, "c2") | MEASURED,
    fact(10, "play_first_keyframe", minutes(0) + SECOND_US, view_id="edge-1-b1-2", conn_id="c2", startup_us=SECOND_US),
]
NEXT_BOOT = [fact(1, "server_started", minutes(66), boot="b2")]


def by_name(rows: dict[str, list[dict[str, Any]]], table: str, name: str, *columns: str) -> dict[str, tuple[Any, ...]]:
    return {row[name]: tuple(row[column] for column in columns) for row in rows[table]}


def test_each_run_gives_the_tables_of_a_rebuild_whatever_rows_it_keeps(tmp_path: Path, spark: SparkSession) -> None:
    told = Told(tmp_path, spark)
    told.run(*FIRST_HOUR, now_us=minutes(21))

    rows = told.run(*SECOND_HOUR, now_us=minutes(65))
    views = by_name(rows, "silver.views", "conn_id", "is_open", "client", "samples")
    # Nobody told who the third was before it left.
    assert views == {"c2": (False, "vlc", 0), "c3": (False, "obs", 1), "c4": (True, "vlc", 2)}
    assert by_name(rows, "silver.connections", "conn_id", "is_open") == {"c5": (False,), "c6": (True,)}

    rows = told.run(*LATE, now_us=minutes(65.5))
    views = by_name(rows, "silver.views", "conn_id", "startup_us", "samples", "lag_ms_max", "rtt_us")
    assert views["c2"] == (SECOND_US, 1, 300, 40_000)
    assert told.tables_that_a_rebuild_changes(minutes(65.5)) == set()

    rows = told.run(*NEXT_BOOT, now_us=minutes(66.5))
    views = by_name(rows, "silver.views", "conn_id", "end_reason", "is_estimated")
    assert views == {"c2": ("left", False), "c3": ("left", False), "c4": ("server_lost", True)}
    closed = by_name(rows, "silver.connections", "conn_id", "close_reason")
    assert closed == {"c5": ("left",), "c6": ("server_lost",)}
    assert told.tables_that_a_rebuild_changes(minutes(66.5)) == set()


# No fact is lost, so that nothing but its startup is told anew of the hour in which the view began.
WAITING = [
    fact(1, "play_started", conn_id="c1"),
    fact(2, "play_started", conn_id="c2"),
    viewer_sample(3, 20, 1, "c1"),
    viewer_sample(4, 20, 2, "c2"),
]
SHOWN = [
    fact(5, "play_first_keyframe", minutes(61), view_id="edge-1-b1-1", conn_id="c1", startup_us=61 * 60 * SECOND_US),
    viewer_sample(6, 62, 2, "c2"),
]
TOOK_US = minutes(63.6) - minutes(0)
ALSO_SHOWN = [fact(9, "play_first_keyframe", minutes(63.6), view_id="edge-1-b1-2", conn_id="c2", startup_us=TOOK_US)]


def counts_of_all(rows: dict[str, list[dict[str, Any]]], metric: str = "startup_us") -> list[int]:
    return [row["count"] for row in rows[HISTOGRAMS] if (row["metric"], row["dimension"]) == (metric, "all")]


def test_a_startup_that_is_told_hours_later_counts_also_if_a_run_died_before_it_was_counted(
    tmp_path: Path, spark: SparkSession
) -> None:
    told, data = Told(tmp_path, spark), DataFolder(tmp_path, spark)
    told.run(*WAITING, now_us=minutes(21))

    def failpoint(point: str) -> None:
        if point == "silver.views-committed":
            raise PowerFailure

    Place(tmp_path, spark).land("edge-1-b1-5.jsonl", *SHOWN, at_us=minutes(62.5))
    with pytest.raises(PowerFailure):
        data.cycles(minutes(62.5), failpoint).run_cycle()
    assert counts_of_all(told.run(now_us=minutes(62.8))) == [1]
    assert told.tables_that_a_rebuild_changes(minutes(62.8)) == set()

    assert counts_of_all(told.run(*ALSO_SHOWN, now_us=minutes(64))) == [1, 1]
    assert told.tables_that_a_rebuild_changes(minutes(64)) == set()
