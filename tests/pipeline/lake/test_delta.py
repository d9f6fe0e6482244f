"""One table: what a commit makes true, who is refused, and what a power cut or a vacuum leaves."""

import json
import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from penstock.errors import LakeBusy, LakeError
from penstock.pipeline.lake.delta import KEPT_VERSIONS_H, Change, Pinned, Table
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.lake.small_table import (
    DAY,
    FOLDER,
    HOUR,
    LOG,
    NEXT_HOUR,
    SCHEMA,
    held_by,
    log_entries,
    numbers,
    put,
    replaced,
)

CHECKPOINT = f"{19:020d}.checkpoint.parquet"
"""The first of a table: there is one for each 20 versions."""
LONG_AGO_S = (KEPT_VERSIONS_H + 1) * 3600


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "lake")


def made_of(storage: Storage, *commits: int) -> Table:
    """A table with a commit for each number, all of one hour."""
    table = numbers(storage)
    pinned = table.pin_or_create()
    for number in commits:
        pinned = table.commit(pinned, Change([put(storage, [number])]))
    return table


def pinned_of(table: Table, version: int | None = None) -> Pinned:
    pinned = table.pin(version)
    assert pinned is not None
    return pinned


def age(storage: Storage, folder: str) -> None:
    """Have files look as if they were made before the oldest version that is kept."""
    for file in storage.find(folder):
        path = Path(storage.address(file.path))
        then = path.stat().st_mtime - LONG_AGO_S
        os.utime(path, (then, then))


def tear(storage: Storage, name: str, data: bytes) -> None:
    Path(storage.address(f"{LOG}/{name}")).write_bytes(data)


# Versions.


def test_a_table_that_nobody_has_written_has_no_version(storage: Storage) -> None:
    table = numbers(storage)
    assert table.pin() is None
    assert table.vacuum() == 0
    with pytest.raises(LakeError, match=r"gold\.numbers has no version 3: it was never written"):
        table.pin(3)


def test_a_commit_replaces_files_and_older_versions_stay_as_they_were(storage: Storage) -> None:
    table = numbers(storage)
    first = replaced(storage, table, table.pin_or_create(), [1, 2])
    second = replaced(storage, table, first, [3])
    third = replaced(storage, table, second, [4], NEXT_HOUR)
    assert [held_by(storage, each) for each in (first, second, third, table.pin(), table.pin(1))] == [
        [1, 2],
        [3],
        [3, 4],
        [3, 4],
        [1, 2],
    ]


def test_a_file_tells_its_rows_its_day_and_the_hours_that_it_holds(storage: Storage) -> None:
    table = numbers(storage)
    (file,) = replaced(storage, table, table.pin_or_create(), [1, 2]).files
    assert (file.rows, dict(file.partition)) == (2, {"date": DAY})
    assert (dict(file.least), dict(file.most)) == ({"hour": HOUR}, {"hour": HOUR})
    assert file.bytes == Path(storage.address(f"{FOLDER}/{file.path}")).stat().st_size


def test_a_commit_carries_the_number_of_its_transaction(storage: Storage) -> None:
    table = numbers(storage)
    before = table.pin_or_create()
    after = table.commit(before, Change(transaction=("ingest", 7)))
    assert (before.transaction("ingest"), after.transaction("ingest")) == (None, 7)


def test_columns_that_a_newer_version_knows_are_null_in_older_files(storage: Storage) -> None:
    made_of(storage, 1)
    wider = numbers(storage, SCHEMA.append(pa.field("client", pa.string())))
    assert [field.name for field in wider.pin_or_create().delta.schema().fields][-1] == "client"
    assert pa.table(pinned_of(wider).delta.to_pyarrow_table())["client"].to_pylist() == [None]


def test_statistics_of_times_days_and_nulls_are_what_readers_of_delta_expect(storage: Storage) -> None:
    schema = pa.schema({"at": pa.timestamp("us", tz="UTC"), "day": pa.date32(), "seq": pa.int64(), "gone": pa.string()})
    table = Table(storage, "gold.times", "gold/times", schema, stats=["at", "day", "seq", "gone"])
    pinned = table.pin_or_create()
    at = datetime(2026, 11, 15, 20, 30, 0, 5, tzinfo=UTC)
    rows = {"at": [at, None], "day": [date(2026, 11, 15)] * 2, "seq": [7, 9], "gone": [None, None]}
    pq.write_table(pa.table(rows, schema), storage.path_for_arrow("gold/times/a.parquet"))
    (file,) = table.commit(pinned, Change(["a.parquet"])).files
    assert file.least["at"] == file.most["at"] == round(at.timestamp() * 1_000_000)
    assert (file.least["day"], file.least["seq"], file.most["seq"]) == (date(2026, 11, 15), 7, 9)
    assert file.least["gone"] is None
    found = DeltaTable(storage.uri("gold/times")).to_pyarrow_dataset().to_table()
    assert found.sort_by("seq").to_pylist()[0] == {"at": at, "day": date(2026, 11, 15), "seq": 7, "gone": None}


# Two writers.


def test_the_second_of_two_commits_to_one_version_is_refused_and_changes_nothing(storage: Storage) -> None:
    table = made_of(storage, 1)
    pinned = pinned_of(table)
    replaced(storage, table, pinned, [2])
    with pytest.raises(LakeBusy, match=r"gold\.numbers: another writer has committed first"):
        replaced(storage, numbers(storage), pinned, [3])
    assert held_by(storage, table.pin()) == [2]


def test_two_who_make_a_table_have_the_same_one(storage: Storage) -> None:
    first, second = numbers(storage), numbers(storage)
    assert first.pin_or_create().version == second.pin_or_create().version == 0
    assert first._created().version == 0


def test_a_compaction_beside_a_commit_is_refused(storage: Storage) -> None:
    table = made_of(storage, 1, 2)
    pinned = pinned_of(table)
    replaced(storage, table, pinned, [3])
    with pytest.raises(LakeBusy):
        table.compact(pinned, {"date": DAY}, 10**9)
    assert held_by(storage, table.pin()) == [3]


def test_a_vacuum_that_another_commit_outran_is_refused_before_a_file_goes(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = made_of(storage, 1), numbers(storage)
    stale = pinned_of(table)
    replaced(storage, other, pinned_of(other), [2])
    monkeypatch.setattr(table, "pin", lambda _version=None: stale)
    with pytest.raises(LakeBusy):
        table.vacuum(kept_h=0)
    assert held_by(storage, other.pin()) == [2]


# Compaction.


def test_small_files_of_a_day_become_one_by_hours_and_rows_stay_the_same(storage: Storage) -> None:
    table = numbers(storage)
    pinned = table.pin_or_create()
    for number, hour in enumerate((NEXT_HOUR, HOUR, f"{DAY}T22", "2026-11-16T00")):
        pinned = replaced(storage, table, pinned, [number], hour)
    after = table.compact(pinned, {"date": DAY}, 10**9)
    assert held_by(storage, after) == held_by(storage, pinned) == [0, 1, 2, 3]
    joined, untouched = after.files
    assert (joined.rows, joined.least["hour"], joined.most["hour"]) == (3, HOUR, f"{DAY}T22")
    stored = pq.read_table(storage.address(f"{FOLDER}/{joined.path}"), partitioning=None)
    assert stored["hour"].to_pylist() == [HOUR, NEXT_HOUR, f"{DAY}T22"]
    assert untouched in pinned.files


def test_files_are_joined_only_up_to_a_size_and_large_ones_are_left_alone(storage: Storage) -> None:
    table = made_of(storage, 1, 2, 3, 4)
    before = pinned_of(table)
    size = before.files[0].bytes
    assert table.compact(before, {"date": DAY}, size) == before
    assert [file.rows for file in table.compact(before, {"date": DAY}, 2 * size + 1).files] == [2, 2]


def test_a_joined_file_leaves_out_the_columns_that_all_its_files_leave_out(storage: Storage) -> None:
    table = numbers(storage, SCHEMA.append(pa.field("client", pa.string())))
    pinned = table.pin_or_create()
    pinned = table.commit(pinned, Change([put(storage, [1]), put(storage, [2])]))
    (file,) = table.compact(pinned, {"date": DAY}, 10**9).files
    assert pq.read_schema(storage.address(f"{FOLDER}/{file.path}")).names == ["number", "hour"]


def test_rows_that_were_only_joined_are_told_as_no_change(storage: Storage) -> None:
    table = made_of(storage, 1, 2)
    after = table.compact(pinned_of(table), {"date": DAY}, 10**9)
    entry = storage.read(f"{LOG}/{after.version:020d}.json").splitlines()
    actions = [action.get("add") or action.get("remove") for action in map(json.loads, entry)]
    assert [action["dataChange"] for action in actions if action] == [False, False, False]


# Vacuum and history.


def test_a_vacuum_keeps_what_is_young_and_takes_what_no_kept_version_needs(storage: Storage) -> None:
    table = made_of(storage, 1)
    old = pinned_of(table)
    replaced(storage, table, old, [2])
    put(storage, [99])
    assert table.vacuum() == 0
    assert held_by(storage, old) == [1]
    age(storage, f"{FOLDER}/date={DAY}")
    assert table.vacuum() == 1, "the file of a run that was killed; what a commit has removed counts from then on"
    assert held_by(storage, old) == [1]
    assert table.vacuum(kept_h=0) == 1
    assert held_by(storage, table.pin()) == [2]


def test_log_entries_go_once_they_are_old_and_a_checkpoint_stands_for_them(storage: Storage) -> None:
    table = made_of(storage, *range(25))
    table.vacuum()
    assert f"{0:020d}.json" in log_entries(storage)
    age(storage, LOG)
    table.vacuum()
    names = log_entries(storage)
    assert names[:2] == [CHECKPOINT, f"{19:020d}.json"]
    assert held_by(storage, numbers(storage).pin()) == list(range(25))
    with pytest.raises(LakeError, match=r"gold\.numbers has no version 5: .* replaced for more than 6 hours"):
        table.pin(5)


def test_a_commit_that_makes_a_checkpoint_removes_nothing_of_the_log(storage: Storage) -> None:
    """A power cut may take the checkpoint, which is on the disk only after that."""
    table = made_of(storage, *range(18))
    age(storage, LOG)
    table.commit(pinned_of(table), Change([put(storage, [18])]))
    assert {f"{0:020d}.json", CHECKPOINT} <= set(log_entries(storage))


def test_forgotten_history_leaves_one_version_and_no_byte_of_the_others(storage: Storage) -> None:
    table = numbers(storage)
    pinned = table.pin_or_create()
    for number in range(3):
        pinned = replaced(storage, table, pinned, [number], f"{DAY}T{10 + number}")
    pinned = replaced(storage, table, pinned, [7], f"{DAY}T10")
    gone = pinned_of(table, 1).files[0].path
    table.forget_history()
    assert held_by(storage, table.pin()) == [1, 2, 7]
    names = log_entries(storage)
    assert [name.partition(".")[2] for name in names] == ["checkpoint.parquet", "json", ""]
    assert gone not in {file.path.removeprefix(f"{FOLDER}/") for file in storage.find(FOLDER)}
    assert replaced(storage, table, pinned_of(table), [8], f"{DAY}T10").version > pinned.version


def test_no_byte_of_what_was_rewritten_is_left_once_history_is_forgotten(storage: Storage) -> None:
    table = numbers(storage, SCHEMA.append(pa.field("client", pa.string())))
    pinned = table.pin_or_create()
    for client in ("alice-in-person", "nobody"):
        path = f"date={DAY}/{client}.parquet".replace("alice-in-person", "first")
        storage.make_folder(f"{FOLDER}/date={DAY}")
        rows = pa.table({"number": [1], "hour": [HOUR], "client": [client]})
        pq.write_table(rows, storage.path_for_arrow(f"{FOLDER}/{path}"), compression="none")
        pinned = table.commit(pinned, Change([path], pinned.files))

    def found() -> list[str]:
        return [file.path for file in storage.find("") if b"alice-in-person" in storage.read(file.path)]

    assert found() == [f"{FOLDER}/date={DAY}/first.parquet"]
    table.forget_history()
    assert found() == []


# Power cuts.

Cut = Callable[[bytes], bytes]
CUTS: dict[str, Cut] = {
    "emptied": lambda whole: b"",
    "zeros": lambda whole: b"\0" * len(whole),
    "cut in a line": lambda whole: whole[: len(whole) // 2],
    "cut after a line": lambda whole: whole[: whole.index(b"\n")],
    "a hole in the middle": lambda whole: whole[:50] + b"\0" * 50 + whole[100:],
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("torn", [1, 2, 3])
def test_entries_that_a_power_cut_has_torn_are_dropped_and_the_table_goes_on(
    storage: Storage, cut: Cut, torn: int
) -> None:
    made_of(storage, 1, 2, 3, 4, 5)
    for version in range(5, 5 - torn, -1):
        name = f"{version:020d}.json"
        tear(storage, name, cut(storage.read(f"{LOG}/{name}")))
    table = numbers(storage)
    pinned = table.pin_or_create()
    assert (pinned.version, held_by(storage, pinned)) == (5 - torn, [1, 2, 3, 4, 5][: 5 - torn])
    assert replaced(storage, table, pinned, [9]).version == 6 - torn
    assert held_by(storage, numbers(storage).pin_or_create()) == [9]


def test_whole_entries_on_top_of_a_torn_one_go_with_it(storage: Storage) -> None:
    made_of(storage, 1, 2, 3)
    tear(storage, f"{2:020d}.json", b"")
    assert held_by(storage, numbers(storage).pin_or_create()) == [1]
    assert log_entries(storage) == [f"{0:020d}.json", f"{1:020d}.json"]


def test_entries_on_top_of_a_missing_one_go_too(storage: Storage) -> None:
    made_of(storage, 1, 2, 3)
    storage.delete(f"{LOG}/{2:020d}.json")
    assert held_by(storage, numbers(storage).pin_or_create()) == [1]


def test_a_table_whose_very_first_entry_was_torn_is_made_anew(storage: Storage) -> None:
    made_of(storage)
    tear(storage, f"{0:020d}.json", b"")
    table = numbers(storage)
    assert held_by(storage, replaced(storage, table, table.pin_or_create(), [1])) == [1]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"\0" * 5000], ids=["emptied", "cut", "zeros"])
def test_a_torn_checkpoint_is_dropped_and_the_entries_tell_the_same(storage: Storage, data: bytes) -> None:
    made_of(storage, *range(22))
    tear(storage, CHECKPOINT, data)
    table = numbers(storage)
    assert held_by(storage, table.pin_or_create()) == list(range(22))
    assert CHECKPOINT not in log_entries(storage)


def test_entries_after_a_checkpoint_are_looked_at_and_those_before_are_not(storage: Storage) -> None:
    made_of(storage, *range(22))
    tear(storage, f"{7:020d}.json", b"")
    tear(storage, f"{22:020d}.json", b"")
    assert held_by(storage, numbers(storage).pin_or_create()) == list(range(21))


def test_a_log_that_has_lost_its_beginning_is_left_as_it_is(storage: Storage) -> None:
    made_of(storage, 1, 2)
    storage.delete(f"{LOG}/{0:020d}.json")
    with pytest.raises(LakeError, match="begins with version 1 and has no checkpoint; restore it"):
        numbers(storage).pin_or_create()
    assert len(log_entries(storage)) == 2


def test_a_reader_of_a_torn_log_is_told_so_and_repairs_nothing(storage: Storage) -> None:
    made_of(storage, 1)
    tear(storage, f"{1:020d}.json", b'{"add":')
    with pytest.raises(LakeError, match=r"gold\.numbers cannot be opened"):
        numbers(storage).pin()
    assert len(log_entries(storage)) == 2


class WatchedStorage(Storage):
    """Tells what was on the disk when."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.synced: list[str] = []

    def sync(self, path: str) -> None:
        super().sync(path)
        has_next = self.exists(f"{LOG}/{2:020d}.json")
        self.synced.append(f"{'after' if has_next else 'before'} {path.removeprefix(FOLDER).lstrip('/')}")


def test_files_and_the_entry_before_are_on_the_disk_before_a_commit_and_its_entry_after_it(tmp_path: Path) -> None:
    storage = WatchedStorage(tmp_path)
    table = made_of(storage, 1)
    storage.synced.clear()
    (file,) = replaced(storage, table, pinned_of(table), [2]).files
    assert {entry.removeprefix("before ") for entry in storage.synced if entry.startswith("before")} == {
        file.path,
        f"date={DAY}",
        "",
        f"_delta_log/{1:020d}.json",
        "_delta_log",
    }
    assert storage.synced[-2:] == [f"after _delta_log/{2:020d}.json", "after _delta_log"]


def test_checkpoints_and_what_compaction_and_vacuum_write_are_on_the_disk_too(tmp_path: Path) -> None:
    storage = WatchedStorage(tmp_path)
    table = made_of(storage, *range(17))
    storage.synced.clear()
    (joined,) = table.compact(pinned_of(table), {"date": DAY}, 10**9).files
    table.vacuum(kept_h=0)
    names = {entry.rpartition("/")[2] for entry in storage.synced}
    versions = {f"{version:020d}.json" for version in (18, 19, 20)}
    assert {joined.path.rpartition("/")[2], *versions, CHECKPOINT, "_last_checkpoint"} <= names
