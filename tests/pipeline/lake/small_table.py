"""A table of numbers by hours, for tests of what a commit is. Imports no Spark: processes of tests start with it."""

import secrets
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from penstock.pipeline.lake.delta import Change, DataFile, Pinned, Table
from penstock.pipeline.lake.storage import Storage

DAY: Final = "2026-11-15"
HOUR: Final = f"{DAY}T20"
NEXT_HOUR: Final = f"{DAY}T21"
FOLDER: Final = "gold/numbers"
LOG: Final = f"{FOLDER}/_delta_log"
SCHEMA: Final = pa.schema({"number": pa.int64(), "hour": pa.string(), "date": pa.date32()})


def numbers(storage: Storage, schema: pa.Schema = SCHEMA) -> Table:
    """The table, as one process has it."""
    return Table(storage, "gold.numbers", FOLDER, schema, partition_by=["date"], stats=["hour"])


def put(storage: Storage, held: Sequence[int], hour: str = HOUR) -> str:
    """A file of an hour that no version has yet. Its path in the table."""
    path = f"date={hour.partition('T')[0]}/{secrets.token_hex(8)}.parquet"
    storage.make_folder(f"{FOLDER}/{path}".rpartition("/")[0])
    rows = pa.table({"number": pa.array(held, pa.int64()), "hour": [hour] * len(held)})
    pq.write_table(rows, storage.path_for_arrow(f"{FOLDER}/{path}"), filesystem=storage.fs)
    return path


def replaced(storage: Storage, table: Table, pinned: Pinned, held: Sequence[int], hour: str = HOUR) -> Pinned:
    """The version in which an hour has these numbers and no others."""
    gone = [file for file in pinned.files if file.least["hour"] == hour]
    return table.commit(pinned, Change([put(storage, held, hour)], gone))


def held_by(storage: Storage, pinned: Pinned | None, files: Sequence[DataFile] | None = None) -> list[int]:
    """The numbers of a version, or of some of its files, in order."""
    live = () if pinned is None else pinned.files
    places = [storage.path_for_arrow(f"{FOLDER}/{file.path}") for file in (live if files is None else files)]
    if not places:
        return []
    rows = ds.dataset(places, schema=SCHEMA, format="parquet", filesystem=storage.fs).to_table()
    return sorted(rows["number"].to_pylist())


def log_entries(storage: Storage) -> list[str]:
    """Names of what the log has."""
    return [file.path.rpartition("/")[2] for file in storage.find(LOG, recursive=False)]
