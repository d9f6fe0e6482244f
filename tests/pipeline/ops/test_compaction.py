"""Files of a day that is over become one for each table and kind of fact, and keep their rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.hours import us_of_hour
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.ops.compaction import (
    CLOSED_DAY_BYTES,
    CLOSED_FOR_US,
    MAX_FILES,
    OPEN_DAY_BYTES,
    compact,
    due_days,
)
from tests.pipeline.landing_place import LIKE_A_GLOB
from tests.pipeline.reports.rows import commit_files

DAY = "2026-11-15"
DUE_AT_US = us_of_hour("2026-11-16T00") + CLOSED_FOR_US
SAMPLES, STARTED = "bronze.viewer_sample", "bronze.play_started"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path / LIKE_A_GLOB))


def append(lake: Lake, table: str, hour: int, *seqs: int) -> None:
    """Add a file with facts of these numbers."""
    commit_files(Path(lake.storage.root), {(table, f"{DAY}T{hour:02d}"): pa.table({"boot_key": seqs, "seq": seqs})})


def pinned(lake: Lake) -> Pinned:
    found = lake.pin(SAMPLES)
    assert found is not None
    return found


def numbers(lake: Lake) -> list[list[int]]:
    """The numbers of the facts in each file."""
    paths = [lake.storage.path_for_arrow(path) for path in lake.paths(pinned(lake))]
    return sorted(sorted(pq.read_table(path, partitioning=None)["seq"].to_pylist()) for path in paths)


def test_a_day_that_is_over_becomes_one_file_for_each_kind_by_one_commit(lake: Lake) -> None:
    for table, hour, seq in ((SAMPLES, 20, 9), (SAMPLES, 20, 3), (SAMPLES, 21, 4), (STARTED, 21, 1), (STARTED, 22, 2)):
        append(lake, table, hour, seq, seq + 100)
    before = pinned(lake)
    assert compact(lake, DUE_AT_US - 1) == 0
    assert compact(lake, DUE_AT_US) == 1
    assert pinned(lake).version == before.version + 1
    assert numbers(lake) == [[1, 2, 101, 102], [3, 4, 9, 103, 104, 109]]
    # By which a fact that comes again is looked for.
    assert [(file.least["seq"], file.most["seq"]) for file in pinned(lake).files] == [(1, 102), (3, 109)]
    assert compact(lake, DUE_AT_US) == 0

    append(lake, SAMPLES, 20, 5)
    assert compact(lake, DUE_AT_US) == 1
    assert numbers(lake) == [[1, 2, 101, 102], [3, 4, 5, 9, 103, 104, 109]]


def test_whoever_has_pinned_a_version_still_reads_its_files_after_they_were_joined(lake: Lake) -> None:
    for seq in (1, 2):
        append(lake, SAMPLES, 20, seq)
    before = pinned(lake)
    compact(lake, DUE_AT_US)
    assert sorted(lake.rows(before)["seq"].to_pylist()) == [1, 2]


def test_a_day_that_goes_on_is_joined_when_it_has_sixty_small_files_of_a_kind(lake: Lake) -> None:
    append(lake, STARTED, 20, 1)
    for seq in range(MAX_FILES - 1):
        append(lake, SAMPLES, 20, seq)
    now_us = us_of_hour(f"{DAY}T20")
    assert due_days(pinned(lake), now_us) == {}
    append(lake, SAMPLES, 20, MAX_FILES)
    assert due_days(pinned(lake), now_us) == {DAY: OPEN_DAY_BYTES}
    assert due_days(pinned(lake), DUE_AT_US) == {DAY: CLOSED_DAY_BYTES}
