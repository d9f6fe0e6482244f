"""What power cuts, other tools and a second writer without a shared lock can do to tables, and that nothing is lost."""

import io
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.errors import LakeBusy
from penstock.pipeline.lake.delta import Change, Pinned, Table
from penstock.pipeline.lake.lake import STAGING, Lake, Wanted
from penstock.pipeline.lake.storage import Storage, StoredFile

SCHEMA = pa.schema({"number": pa.int64(), "date": pa.date32()})
DAY = "2026-11-15"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "lake")


def table_of(storage: Storage) -> Table:
    return Table(storage, "silver.numbers", "silver/numbers", SCHEMA, partition_by=["date"], stats=["number"])


def add(storage: Storage, table: Table, pinned: Pinned, number: int) -> Pinned:
    path, data = f"date={DAY}/{number}.parquet", io.BytesIO()
    pq.write_table(pa.table({"number": [number]}), data)
    storage.put(f"{table.folder}/{path}", data.getvalue())
    return table.commit(pinned, Change([path]))


def with_commits(storage: Storage, count: int) -> Pinned:
    table = table_of(storage)
    pinned = table.pin_or_create()
    for number in range(count):
        pinned = add(storage, table, pinned, number)
    return pinned


def log_of(storage: Storage) -> Path:
    return Path(storage.path_for_arrow("silver/numbers/_delta_log"))


def test_a_checkpoint_that_a_power_cut_has_emptied_is_dropped_by_the_next_writer(storage: Storage) -> None:
    with_commits(storage, 45)
    newest = max(log_of(storage).glob("*.checkpoint.parquet"))
    newest.write_bytes(b"")
    assert len(table_of(storage).pin_or_create().files) == 45


@pytest.mark.parametrize("hint", [b'{"version":60,"size":3}', b"", b"\0\0", b"[]"])
def test_a_hint_at_a_checkpoint_that_is_not_there_keeps_nobody_out(storage: Storage, hint: bytes) -> None:
    with_commits(storage, 22)
    (log_of(storage) / "_last_checkpoint").write_bytes(hint)
    assert len(table_of(storage).pin_or_create().files) == 22


def test_a_pinned_table_stays_at_its_version_whoever_commits_after_it(storage: Storage) -> None:
    table, pinned = table_of(storage), with_commits(storage, 2)
    joined = table.compact(pinned, {"date": DAY}, 1_000_000)
    assert len(pinned.files) == 2
    add(storage, table, joined, 7)
    assert len(joined.files) == 1
    with pytest.raises(LakeBusy):
        add(storage, table, joined, 8)


def test_what_a_writer_on_another_machine_is_staging_stays(storage: Storage) -> None:
    storage.put(f"{STAGING}/another-run/part.parquet", b"half a batch")
    storage.put(f"{STAGING}/killed-run/part.parquet", b"of yesterday")
    two_days_ago = time.time() - 48 * 3600
    os.utime(storage.path_for_arrow(f"{STAGING}/killed-run/part.parquet"), (two_days_ago, two_days_ago))
    storage.is_local = False
    Lake(storage).recover()
    assert [file.path for file in storage.find(STAGING)] == [f"{STAGING}/another-run/part.parquet"]


class Cleaned(Storage):
    """A folder in which somebody else removes what is staged, just before it is looked at."""

    def find(self, folder: str, *, recursive: bool = True) -> list[StoredFile]:
        if folder.startswith(STAGING):
            self.delete_folder(STAGING)
        return super().find(folder, recursive=recursive)


def test_rows_whose_staged_files_another_writer_removed_are_not_committed_as_none(
    tmp_path: Path, spark: SparkSession, lags: pa.Table
) -> None:
    lake = Lake(Cleaned(tmp_path / "lake"))
    rows = spark.createDataFrame(lags.drop_columns(["hour"])).withColumns({"hour_at": F.now(), "hour": F.lit(493_000)})
    pinned = lake.table("rollup.view_lags").pin_or_create()
    with pytest.raises(LakeBusy, match="staged"):
        lake.replace_hours("rollup.view_lags", pinned, rows, [f"{DAY}T08"])


@pytest.fixture
def lags() -> pa.Table:
    """Rows of rollup.view_lags of three hours."""
    hours = [f"{DAY}T{number:02d}" for number in (7, 8, 9)]
    columns = {"boot_key": 1, "view_seq": 1, "bucket": 2, "samples": 3}
    return pa.table({**{name: [value] * 3 for name, value in columns.items()}, "hour": hours})


def _without_statistics(storage: Storage, lake: Lake, rows: pa.Table) -> Pinned:
    """rollup.view_lags with one file of which nobody knows the hours, as other tools may write it."""
    data = io.BytesIO()
    pq.write_table(rows, data, write_statistics=False)
    path = f"date={DAY}/foreign.parquet"
    storage.put(f"rollup/view_lags/{path}", data.getvalue())
    return lake.commit("rollup.view_lags", lake.table("rollup.view_lags").pin_or_create(), Change([path]))


def test_a_file_without_statistics_is_taken_for_every_hour_of_its_day(storage: Storage, lags: pa.Table) -> None:
    lake = Lake(storage)
    pinned = _without_statistics(storage, lake, lags)
    assert len(lake.paths(pinned, Wanted(hours=[f"{DAY}T08"]))) == 1
    assert lake.paths(pinned, Wanted(hours=["2026-11-16T08"])) == []
    assert len(lake.paths(pinned, Wanted(since=f"{DAY}T23"))) == 1
    assert len(lake.paths(pinned, Wanted(seqs=(5, 9)))) == 1
    assert len(lake.paths(pinned, Wanted(reaching="2026-11-17T00"))) == 1


def test_an_hour_of_a_file_without_statistics_is_replaced_and_its_other_hours_stay(
    storage: Storage, lags: pa.Table
) -> None:
    lake = Lake(storage)
    pinned = _without_statistics(storage, lake, lags)
    after = lake._replace("rollup.view_lags", pinned, [], [f"{DAY}T08"])
    rows = lake.rows(after, columns=["hour"])
    assert sorted(rows["hour"].to_pylist()) == [f"{DAY}T07", f"{DAY}T09"]


def test_a_file_that_cannot_be_put_in_place_leaves_nothing_behind(storage: Storage) -> None:
    storage.make_folder("state/taken.json")
    with pytest.raises(OSError, match=r"taken\.json"):
        storage.put("state/taken.json", b"content")
    assert storage.find("state") == []
