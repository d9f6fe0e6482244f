"""What has had its time goes, and nothing else: in what order, at which age, with real files."""

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline.commits import DataFile, Snapshot
from penstock.pipeline.horizon import read_horizon_us
from penstock.pipeline.hours import HOUR_US, hour_of_us, us_of_hour
from penstock.pipeline.lake import Lake
from penstock.pipeline.retention import RetentionSettings, apply_retention, plan_retention
from penstock.pipeline.salts import read_salts, salts_for
from penstock.pipeline.storage import Storage, StoredFile
from penstock.pipeline.sweeping import KEPT_FOR_READERS_US, sweep
from tests.pipeline.landing_place import FOLDER, NOON_US, Place, fact

DAY_US = 24 * HOUR_US
NOW_US = us_of_hour("2026-11-15T12")


def hours_ago(hours: int) -> str:
    return hour_of_us(NOW_US - hours * HOUR_US)


def test_each_table_lets_go_at_its_own_age() -> None:
    def held(*hours: str, masked: bool = False) -> dict[str, tuple[DataFile, ...]]:
        return {hour: (DataFile(f"{hour}.parquet", 1, 1, {"is_masked": masked}),) for hour in hours}

    # An hour is past an age when it has been over for so long: the one before it by an hour is not.
    bronze, kept_bronze = hours_ago(30 * 24 + 1), hours_ago(30 * 24)
    view, kept_view = hours_ago(400 * 24 + 1), hours_ago(400 * 24)
    address, kept_address = hours_ago(7 * 24 + 1), hours_ago(7 * 24)
    snapshot = Snapshot(
        tables={
            "bronze.viewer_sample": held(bronze, kept_bronze, address),
            "bronze.play_started": held(bronze, address, kept_address),
            "bronze.play_stopped": held(address, masked=True),
            "silver.views": held(bronze, view, kept_view),
            "rollup.view_minutes": held(view, kept_view),
            "silver.gops": held(""),
        },
        landed_at_us={"old": NOW_US - 2 * DAY_US, "young": NOW_US - 2 * DAY_US + 1},
    )
    landing = [StoredFile(path, 1, 0) for path in ("old", "young", "never committed")]
    quarantine = [StoredFile("kept", 1, NOW_US - 30 * DAY_US + 1), StoredFile("old", 1, NOW_US - 30 * DAY_US)]
    plan = plan_retention(snapshot, landing, quarantine, RetentionSettings(), NOW_US)
    assert plan.landing == ("old",)
    assert plan.quarantine == ("old",)
    assert plan.dropped == (
        ("bronze.play_started", bronze),
        ("bronze.viewer_sample", bronze),
        ("rollup.view_minutes", view),
        ("silver.views", view),
    )
    assert plan.masked == (("bronze.play_started", address),)


def test_addresses_go_first_then_landing_files_then_facts(tmp_path: Path, spark: SparkSession) -> None:
    place = Place(tmp_path, spark)
    path = place.land("edge-1-b1-1.jsonl", fact(1, "play_started"), fact(2, "limit_hit"), b"junk")
    uncommitted = place.facts / FOLDER.replace("12", "13") / "edge-1-b1-9.jsonl"
    place.carry(NOON_US)
    uncommitted.parent.mkdir()
    uncommitted.write_bytes(b"")
    before = place.rows("play_started", "seq", "viewer_key", "network")

    def keep_house(now_us: int) -> None:
        apply_retention(spark, place.lake, place.landing, RetentionSettings(), now_us)

    salts_for(place.lake.storage, ["2025-09"])
    keep_house(NOON_US + 8 * DAY_US)
    assert place.rows("play_started", "seq", "viewer_key", "network") == before
    assert place.rows("play_started", "peer_addr") == [(None,)]
    assert place.rows("limit_hit", "limit", "detail") == [("connections per address", "somebody has 5")]
    assert (path.exists(), path.parent.exists(), uncommitted.exists()) == (False, False, True)
    assert list(read_salts(place.lake.storage)) == ["2026-11"]
    number = place.lake.snapshot().number
    keep_house(NOON_US + 8 * DAY_US)
    assert place.lake.snapshot().number == number, "nothing was left to do"

    keep_house(NOON_US + 31 * DAY_US)
    assert place.rows("play_started", "seq") == []
    assert read_horizon_us(place.lake.storage) == NOON_US + HOUR_US


def test_files_that_nobody_lists_go_an_hour_after_they_were_seen(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    lake = Lake(storage)
    unlisted = "bronze/kind=play_started/hour=2026-11-15T12/20261115T120000-0a1b2c3d-1-0.parquet"
    others = ["bronze/kind=play_started/_common_metadata", "silver/views/hour=1970-01-01T00/empty.parquet"]
    leftover, staged = "silver/views/.half.1234", "_staging/20261115T120000-0a1b2c3d/1/part.parquet"
    for path in (unlisted, *others, leftover, staged):
        storage.put(path, b"x")
    now_us = storage.find("bronze")[0].modified_at_us
    assert sweep(lake, now_us) == 0
    assert sweep(lake, now_us + KEPT_FOR_READERS_US - 1) == 0
    assert storage.exists(unlisted)
    assert sweep(lake, now_us + KEPT_FOR_READERS_US + HOUR_US) == 1
    assert not storage.exists(unlisted)
    assert sweep(lake, now_us + 2 * DAY_US) == 2
    assert [storage.exists(path) for path in (*others, leftover, staged)] == [True, True, False, False]
