"""Hours that are over become one file each, sorted by view, and keep their rows."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.commits import DataFile, Snapshot
from penstock.pipeline.compaction import CLOSED_FOR_US, MAX_FILES, SORTED, compact, due_parts
from penstock.pipeline.hours import HOUR_US, us_of_hour
from penstock.pipeline.lake import Lake
from penstock.pipeline.schemas import bronze_schema
from penstock.pipeline.storage import Storage
from tests.pipeline.landing_place import LIKE_A_GLOB

EIGHT, NINE = "2026-11-15T20", "2026-11-15T21"
TEN_US = us_of_hour("2026-11-15T22")
DUE_AT_US = us_of_hour(NINE) + HOUR_US + CLOSED_FOR_US
SAMPLE, STARTED = "viewer_sample", "play_started"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / LIKE_A_GLOB))


def append(spark: SparkSession, lake: Lake, *told: tuple[str, str, int, int, int]) -> Snapshot:
    """Commit facts: kind, hour, boot, view and number of each. A file has the numbers of its facts as stats."""
    schema = bronze_schema().add("kind", "string").add("hour", "string")
    given = ("kind", "hour", "boot_key", "view_seq", "seq")
    rows: list[dict[str, Any]] = [dict(zip(given, fact, strict=True)) for fact in told]
    full = [
        tuple({"server_id": "s", "boot_id": "b", "landed_at_us": 0, **row}.get(name) for name in schema.names)
        for row in rows
    ]
    stats: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, hour, boot, _, seq in told:
        low, high = stats.setdefault((kind, hour), {"seqs": {}})["seqs"].get(str(boot), (seq, seq))
        stats[kind, hour]["seqs"][str(boot)] = [min(low, seq), max(high, seq)]
    transaction = lake.begin(lake.snapshot(), "bronze", TEN_US)
    transaction.append_bronze(spark.createDataFrame(full, schema), stats)
    return transaction.commit()


def rows_in(lake: Lake, files: Iterable[DataFile]) -> list[tuple[int, int, int]]:
    """Boot, view and number of the facts, in the order of the files."""
    found = []
    for file in files:
        with lake.storage.fs.open_input_file(lake.storage.path_for_arrow(file.path)) as source:
            read = pq.read_table(source, columns=["boot_key", "view_seq", "seq"]).to_pylist()
        found += [(row["boot_key"], row["view_seq"], row["seq"]) for row in read]
    return found


def test_hours_that_are_over_become_one_sorted_file_each_by_one_commit(spark: SparkSession, lake: Lake) -> None:
    append(spark, lake, (SAMPLE, EIGHT, 1, 7, 9), (SAMPLE, EIGHT, 1, 2, 8), (STARTED, NINE, 1, 2, 2))
    before = append(spark, lake, (SAMPLE, EIGHT, 1, 2, 3), (SAMPLE, EIGHT, 0, 9, 4), (SAMPLE, NINE, 1, 2, 10))
    assert compact(spark, lake, before, us_of_hour(NINE)) == before
    after = compact(spark, lake, before, DUE_AT_US)
    assert after == lake.snapshot()
    assert after.number == before.number + 1
    files = {
        (kind, hour): after.files(f"bronze.{kind}", [hour]) for kind in (SAMPLE, STARTED) for hour in (EIGHT, NINE)
    }
    assert {part: rows_in(lake, held) for part, held in files.items()} == {
        (SAMPLE, EIGHT): [(0, 9, 4), (1, 2, 3), (1, 2, 8), (1, 7, 9)],
        (SAMPLE, NINE): [(1, 2, 10)],
        (STARTED, EIGHT): [],
        (STARTED, NINE): [(1, 2, 2)],
    }
    assert [len(held) for held in files.values()] == [1, 1, 0, 1]
    # What is needed to tell whether a fact comes twice is still known.
    assert files[SAMPLE, EIGHT][0].stats == {"seqs": {"0": [4, 4], "1": [3, 9]}, SORTED: True}
    assert compact(spark, lake, after, DUE_AT_US + HOUR_US) == after

    late = append(spark, lake, (SAMPLE, EIGHT, 1, 2, 5))
    assert due_parts(late, DUE_AT_US) == [(SAMPLE, EIGHT)]
    again = compact(spark, lake, late, DUE_AT_US)
    assert rows_in(lake, again.files(f"bronze.{SAMPLE}", [EIGHT])) == [
        (0, 9, 4),
        (1, 2, 3),
        (1, 2, 5),
        (1, 2, 8),
        (1, 7, 9),
    ]
    assert again.files(f"bronze.{SAMPLE}", [NINE]) == after.files(f"bronze.{SAMPLE}", [NINE])


@pytest.mark.parametrize(("files", "is_due"), [(MAX_FILES - 1, False), (MAX_FILES, True)])
def test_an_hour_that_goes_on_is_rewritten_when_it_has_sixty_files(files: int, is_due: bool) -> None:
    held = tuple(DataFile(f"{number}.parquet", 1, 1) for number in range(files))
    snapshot = replace(Snapshot(), tables={f"bronze.{SAMPLE}": {NINE: held}, "silver.views": {NINE: held}})
    assert due_parts(snapshot, us_of_hour(NINE)) == ([(SAMPLE, NINE)] if is_due else [])
