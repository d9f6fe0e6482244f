"""Two workers of one server, alive at once: neither is taken for the other's replacement."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.pipeline.landing_place import NOON_US, SECOND_US, Place, fact
from tests.pipeline.scenarios_lake.runs import DataFolder

FIRST, SECOND, REPLACEMENT = "aaaaaaaa0001", "aaaaaaaa0002", "aaaaaaaa0003"


def told(boot: str, worker: int, after_noon_s: int) -> list[dict[str, Any]]:
    """A worker that starts, lets somebody watch and goes on."""
    at_us = NOON_US + after_noon_s * SECOND_US
    view: dict[str, Any] = {"view_id": f"edge-1-{boot}-2", "conn_id": f"c{worker}"}
    return [
        fact(1, "server_started", at_us, boot, worker=worker),
        fact(2, "play_started", at_us, boot, worker=worker, conn_id=f"c{worker}"),
        fact(3, "viewer_sample", at_us + 20 * SECOND_US, boot, worker=worker, **view, watched_us=20 * SECOND_US),
    ]


def test_of_two_workers_only_one_that_is_replaced_is_lost(tmp_path: Path, spark: SparkSession) -> None:
    place, data = Place(tmp_path, spark), DataFolder(tmp_path, spark)

    def views(now_s: int) -> dict[str, str | None]:
        data.cycles(NOON_US + now_s * SECOND_US).run_cycle()
        rows = data.rows("silver.views")
        assert all(row["is_open"] is (row["end_reason"] is None) for row in rows)
        return {row["boot_id"]: row["end_reason"] for row in rows}

    place.land(f"edge-1-{FIRST}-1.jsonl", *told(FIRST, 1, 0), at_us=NOON_US + 40 * SECOND_US)
    place.land(f"edge-1-{SECOND}-1.jsonl", *told(SECOND, 2, 1), at_us=NOON_US + 40 * SECOND_US)
    assert views(40) == {FIRST: None, SECOND: None}
    place.land(f"edge-1-{REPLACEMENT}-1.jsonl", *told(REPLACEMENT, 2, 30), at_us=NOON_US + 60 * SECOND_US)
    assert views(60) == {FIRST: None, SECOND: "server_lost", REPLACEMENT: None}
    assert views(1000) == dict.fromkeys((FIRST, SECOND, REPLACEMENT), "server_lost")
