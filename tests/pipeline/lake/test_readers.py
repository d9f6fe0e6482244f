"""Readers of other people's beside a writer without pauses: no error, and never half a commit."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from penstock.pipeline.lake.delta import Change
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.lake.small_table import DAY, FOLDER, HOUR, NEXT_HOUR, numbers, put

TOTAL = 1_000
"""What the numbers of two hours add up to, whatever version."""
TIMES = 60
"""So often is read, and so often written meanwhile."""


def write(lake: Path, has_begun: Event, has_to_stop: Event) -> None:
    """Replace both hours by every commit; join their files, and remove those that nobody needs, now and then."""
    storage = Storage(lake)
    table = numbers(storage)
    pinned, part = table.pin_or_create(), 0
    while not has_to_stop.is_set():
        part = (part + 7) % TOTAL
        added = [put(storage, [part, -1], HOUR), put(storage, [1], HOUR), put(storage, [TOTAL - part], NEXT_HOUR)]
        pinned = table.commit(pinned, Change(added, pinned.files))
        if pinned.version % 10 == 0:
            pinned = table.compact(pinned, {"date": DAY}, 10**9)
        if pinned.version % 25 == 0:
            table.vacuum()
            pinned = table.pin_or_create()
        has_begun.set()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[str]:
    """A table that is being written, of its own for each test.

    Linux lists some 500 names of a folder by one system call, and only those as of one moment. A longer log, as no lake
    has that is written every few seconds at most, could be listed with a hole while entries are added in no time.
    """
    with writer(tmp_path):
        yield f"{tmp_path}/{FOLDER}"


@contextmanager
def writer(lake: Path) -> Iterator[None]:
    spawn = multiprocessing.get_context("spawn")
    has_begun, has_to_stop = spawn.Event(), spawn.Event()
    process = spawn.Process(target=write, args=(lake, has_begun, has_to_stop))
    process.start()
    try:
        assert has_begun.wait(60)
        yield
        assert process.is_alive(), "the writer failed"
    finally:
        has_to_stop.set()
        process.join(60)


def by_duckdb(table: str) -> tuple[int, int]:
    rows = DeltaTable(table).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("numbers", rows)
        found = connection.execute("select count(*), sum(number) from numbers").fetchone()
    assert found is not None
    return found[0], int(found[1])


def by_polars(table: str) -> tuple[int, int]:
    found = pl.scan_delta(table).select(pl.len(), pl.col("number").sum()).collect()
    return found["len"].item(), found["number"].item()


def by_pyarrow(table: str) -> tuple[int, int]:
    rows = DeltaTable(table).to_pyarrow_table()
    return rows.num_rows, sum(rows["number"].to_pylist())


def by_pandas(table: str) -> tuple[int, int]:
    rows = DeltaTable(table).to_pandas()
    return len(rows), int(rows["number"].sum())


@pytest.mark.parametrize("read", [by_duckdb, by_polars, by_pyarrow, by_pandas])
def test_a_reader_beside_a_writer_never_fails_and_never_sees_half_a_commit(
    table: str, read: Callable[[str], tuple[int, int]]
) -> None:
    first = DeltaTable(table).version()
    seen: list[tuple[int, int]] = []
    while len(seen) < TIMES or DeltaTable(table).version() < first + TIMES:
        seen.append(read(table))
    assert set(seen) == {(4, TOTAL)}


def test_a_reader_that_holds_a_version_has_its_rows_over_many_commits(table: str) -> None:
    rows = DeltaTable(table).to_pyarrow_dataset()
    before = rows.to_table().sort_by("number").to_pylist()
    first = DeltaTable(table).version()
    while DeltaTable(table).version() < first + 30:
        time.sleep(0.1)
    assert rows.to_table().sort_by("number").to_pylist() == before
