"""What players tell of their views, also after their end and to a lake that has never heard of it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from penstock.pipeline.lake.layout import folder_of
from penstock.pipeline.lake.table_columns import VIEW_QUALITY, VIEWS
from tests.pipeline.landing_place import fact
from tests.pipeline.scenarios_lake.runs import DataFolder
from tests.pipeline.scenarios_lake.test_silent_boot import Told, minutes

TABLES = {"silver.views": VIEWS, "gold.view_quality": VIEW_QUALITY}
COLUMNS = ("conn_id", "player_beacons", "player_startup_ms", "player_stalls", "player_latency_ms")


def told_by_player(seq: int, after_noon: float, view: int, **fields: Any) -> dict[str, Any]:
    """What a player tells of a view that began at noon."""
    at_us = minutes(after_noon)
    named: dict[str, Any] = {"view_id": f"edge-1-b1-{view}", "watched_us": at_us - minutes(0)}
    return fact(seq, "view_beacon", at_us, **named, **fields)


def stopped(seq: int, after_noon: float, view: int) -> dict[str, Any]:
    at_us = minutes(after_noon)
    named: dict[str, Any] = {"view_id": f"edge-1-b1-{view}", "conn_id": f"c{view}", "watched_us": at_us - minutes(0)}
    return fact(seq, "play_stopped", at_us, **named)


def test_a_beacon_after_the_end_of_the_hour_and_of_the_view_counts_where_the_view_began(
    tmp_path: Path, spark: SparkSession
) -> None:
    told = Told(tmp_path, spark)
    told.run(
        fact(1, "play_started", conn_id="c1"),
        fact(2, "play_started", conn_id="c2"),
        told_by_player(3, 1, 1, startup_ms=250, stalls=0, latency_ms=400),
        stopped(4, 59.5, 1),
        now_us=minutes(59.6),
    )
    # Nothing but beacons is told in this hour.
    rows = told.run(
        told_by_player(5, 60.2, 1, stalls=4, latency_ms=600),
        told_by_player(6, 60.3, 2, startup_ms=750, stalls=1),
        now_us=minutes(60.5),
    )
    views = sorted(tuple(row[name] for name in COLUMNS) for row in rows["silver.views"])
    assert views == [("c1", 2, 250, 4, 500), ("c2", 1, 750, 1, None)]
    (quality,) = (row for row in rows["gold.view_quality"] if row["dimension"] == "all")
    assert [quality[name] for name in ("player_views", *COLUMNS[2:])] == [2, 500, 5, 500]
    assert told.tables_that_a_rebuild_changes(minutes(60.5)) == set()

    # The view that is open goes on in a later hour: what was told between changes nothing of its audience.
    rows = told.run(stopped(7, 130, 2), now_us=minutes(131))
    assert sorted(tuple(row[name] for name in COLUMNS) for row in rows["silver.views"]) == views
    assert told.tables_that_a_rebuild_changes(minutes(131)) == set()


def forget_players(data: DataFolder) -> None:
    """Have the lake as the version before left it, whose tables had no such columns."""
    for name, columns in TABLES.items():
        table = DeltaTable(data.lake.storage.uri(folder_of(name)))
        rows = pa.table(table.to_pyarrow_table())
        mine = [column.name for column in columns if column.name.startswith("player_")]
        write_deltalake(
            table, rows.drop_columns(mine), mode="overwrite", schema_mode="overwrite", partition_by=["date"]
        )


def test_a_lake_from_before_there_were_beacons_grows_their_columns(tmp_path: Path, spark: SparkSession) -> None:
    told, data = Told(tmp_path, spark), DataFolder(tmp_path, spark)
    told.run(fact(1, "play_started", conn_id="c1"), stopped(2, 5, 1), now_us=minutes(6))
    forget_players(data)
    rows = told.run(
        fact(3, "play_started", minutes(61), conn_id="c3"),
        replace_view(told_by_player(4, 62, 3, stalls=2), minutes(61)),
        now_us=minutes(63),
    )
    found = {row["conn_id"]: row["player_stalls"] for row in rows["silver.views"]}
    assert found == {"c1": None, "c3": 2}
    by_hour = {row["hour_at"].hour: row["player_stalls"] for row in rows["gold.view_quality"] if row["value"] == "all"}
    assert by_hour == {12: None, 13: 2}
    assert told.tables_that_a_rebuild_changes(minutes(63)) == set()


def replace_view(beacon: dict[str, Any], began_us: int) -> dict[str, Any]:
    """The same of a view that began later."""
    return {**beacon, "watched_us": beacon["at_us"] - began_us}
