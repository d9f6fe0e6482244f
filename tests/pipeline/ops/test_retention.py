"""What has had its time goes, and nothing else: in what order, at which age, with real files."""

import os
import time
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline.ingest.horizon import read_horizon_us
from penstock.pipeline.ingest.salts import read_salts, salts_for
from penstock.pipeline.lake.delta import KEPT_VERSIONS_H
from penstock.pipeline.lake.hours import HOUR_US, us_of_hour
from penstock.pipeline.lake.state import State
from penstock.pipeline.lake.storage import StoredFile
from penstock.pipeline.ops.retention import RetentionSettings, apply_retention, plan_retention
from tests.pipeline.landing_place import FOLDER, NOON_US, Place, fact
from tests.pipeline.reports.rows import commit_files, table_of

DAY_US = 24 * HOUR_US
NOW_US = us_of_hour("2026-11-15T12")


def test_each_table_lets_go_at_its_own_age() -> None:
    # A day goes when its last moment is past the age: of the day on which the age falls some is younger.
    parts = [
        (kind, day)
        for kind in ("viewer_sample", "play_started", "play_stopped")
        for day in ("2026-10-15", "2026-10-16", "2026-11-07", "2026-11-08")
    ]
    plan = plan_retention(
        State(
            landed_at_us={"old": NOW_US - 2 * DAY_US, "young": NOW_US - 2 * DAY_US + 1},
            masked=frozenset(["play_stopped/2026-10-16", "play_stopped/2026-11-07"]),
        ),
        RetentionSettings(),
        NOW_US,
        bronze=parts,
        landing=[StoredFile(path, 1, 0) for path in ("old", "young", "never committed")],
        quarantine=[StoredFile("kept", 1, NOW_US - 30 * DAY_US + 1), StoredFile("old", 1, NOW_US - 30 * DAY_US)],
    )
    assert plan.landing == ("old",)
    assert plan.quarantine == ("old",)
    assert plan.first_days == {"bronze": "2026-10-16", "silver": "2025-10-11", "rollup": "2025-10-11"}
    assert plan.masked == (("play_started", "2026-10-16"), ("play_started", "2026-11-07"))


def test_addresses_go_first_then_landing_files_then_facts(tmp_path: Path, spark: SparkSession) -> None:
    place = Place(tmp_path, spark)
    path = place.land("edge-1-b1-1.jsonl", fact(1, "play_started"), fact(2, "limit_hit"), b"junk")
    uncommitted = place.facts / FOLDER.replace("12", "13") / "edge-1-b1-9.jsonl"
    place.ingest(NOON_US)
    uncommitted.parent.mkdir()
    uncommitted.write_bytes(b"")
    before = place.rows("play_started", "seq", "viewer_key", "network")

    def retain(now_us: int) -> None:
        apply_retention(spark, place.lake, place.landing, RetentionSettings(), now_us)

    def versions() -> list[int]:
        bronze = place.lake.pin("bronze.facts")
        assert bronze is not None
        return [bronze.version, place.lake.read_state().version]

    salts_for(place.lake.storage, ["2025-09"])
    retain(NOON_US + 8 * DAY_US)
    assert place.rows("play_started", "seq", "viewer_key", "network") == before
    assert place.rows("play_started", "peer_addr") == [(None,)]
    assert place.rows("limit_hit", "limit", "detail") == [("connections per address", "somebody has 5")]
    assert (path.exists(), path.parent.exists(), uncommitted.exists()) == (False, False, True)
    assert list(read_salts(place.lake.storage)) == ["2026-11"]
    known = versions()
    retain(NOON_US + 8 * DAY_US)
    assert versions() == known, "nothing was left to do"

    retain(NOON_US + 31 * DAY_US)
    assert place.rows("play_started", "seq") == []
    assert read_horizon_us(place.lake.storage) == us_of_hour("2026-11-16T00")
    assert place.lake.read_state().fact_hours == {}


def test_views_outlive_the_facts_that_they_were_made_of(tmp_path: Path, spark: SparkSession) -> None:
    place = Place(tmp_path, spark)
    rows = {
        ("silver.views", f"{day}T12"): table_of("silver.views", {"view_id": day})
        for day in ("2026-11-15", "2026-11-16")
    }
    commit_files(tmp_path / "lake", rows)

    def views_after(days: int) -> list[str]:
        apply_retention(spark, place.lake, place.landing, RetentionSettings(), NOON_US + days * DAY_US)
        return sorted(place.lake.rows(place.lake.pin("silver.views"))["view_id"].to_pylist())

    assert views_after(31) == ["2026-11-15", "2026-11-16"]
    assert views_after(400) == ["2026-11-15", "2026-11-16"]
    assert views_after(401) == ["2026-11-16"]


def test_files_that_no_version_names_go_when_older_versions_do(tmp_path: Path, spark: SparkSession) -> None:
    place = Place(tmp_path, spark)
    commit_files(tmp_path / "lake", {("silver.views", "2026-11-15T12"): table_of("silver.views", {})})
    folder = tmp_path / "lake/silver/views/date=2026-11-15"
    (live,) = folder.iterdir()
    past, young = folder / "of-a-killed-run.parquet", folder / "being-written.parquet"
    for path in (past, young):
        path.write_bytes(live.read_bytes())
    long_ago = time.time() - (KEPT_VERSIONS_H + 1) * 3600
    for path in (past, live):
        os.utime(path, (long_ago, long_ago))
    apply_retention(spark, place.lake, place.landing, RetentionSettings(), NOW_US)
    assert sorted(folder.iterdir()) == sorted([young, live])
