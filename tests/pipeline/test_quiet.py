"""Files that are replaced in silence: how long it takes, and what a reader by name notices."""

import gc
import os
import random
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from bench.gold_readers import rows_of

from penstock.pipeline.gold_files import GoldFiles
from penstock.pipeline.layout import gold_path
from penstock.pipeline.quiet import MOST_FOLDERS, Readers
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES
from tests.pipeline.scenarios_lake.gold_reader import Content, GoldReader, content_of, sums

pytestmark = pytest.mark.alone

LONG_S = 60.0
USAGE = TABLES["gold.usage"]
DAYS = [f"2026-11-{day}" for day in range(11, 16)]
VERSIONS = 3
ROUNDS = 24
LOOKS_BETWEEN = 10
QUIET_S, PAUSE_S = 0.2, 0.3
"""A reader pauses for longer than the silence that is kept for it, and both are far longer than it is in between."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a table with a day, and beside it the new file of that day."""
    (tmp_path / "table/date=1").mkdir(parents=True)
    (tmp_path / "table/date=1/part").write_text("old")
    (tmp_path / "new").write_text("new")
    return tmp_path


def replace(readers: Readers, folder: Path) -> float:
    """Put the new file in place. For how long that had to wait."""
    silence = readers.silence([str(folder / "table")])
    silence.replace(str(folder / "new"), str(folder / "table/date=1/part"))
    assert (folder / "table/date=1/part").read_text() == "new"
    return silence.waited_s


@contextmanager
def reader(file: Path, pause_s: float) -> Iterator[None]:
    """Somebody who reads a file again and again."""
    is_over = threading.Event()

    def read_on() -> None:
        while not is_over.wait(pause_s):
            file.read_text()

    thread = threading.Thread(target=read_on)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_what_was_quiet_for_long_enough_is_replaced_at_once(folder: Path) -> None:
    readers = Readers(quiet_s=0.1, patience_s=LONG_S)
    readers.watch(str(folder / "table"))
    time.sleep(0.15)
    assert replace(readers, folder) == 0


def test_what_was_read_a_moment_ago_is_replaced_after_a_silence(folder: Path) -> None:
    readers = Readers(quiet_s=0.3, patience_s=LONG_S)
    readers.watch(str(folder / "table"))
    time.sleep(0.4)
    (folder / "table/date=1/part").read_text()
    assert replace(readers, folder) > 0.2


def test_to_list_a_folder_is_to_read_and_to_put_a_file_into_it_is_not(folder: Path) -> None:
    readers = Readers()
    table, day = str(folder / "table"), str(folder / "table/date=1")
    readers.watch(table)
    for path in (table, day):
        before_s = time.monotonic()
        os.listdir(path)
        readers.look()
        assert readers.silent_s([table]) < time.monotonic() - before_s
    time.sleep(0.02)
    before_s = time.monotonic()
    (folder / "new").replace(folder / "table/date=1/part")
    readers.look()
    is_unseen = readers.silent_s([table]) > time.monotonic() - before_s
    assert is_unseen


def test_readers_of_another_table_are_not_waited_for(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other/part").write_text("read all the time")
    readers = Readers(quiet_s=0.1, patience_s=LONG_S)
    for table in ("table", "other"):
        readers.watch(str(folder / table))
    with reader(folder / "other/part", pause_s=0.01):
        began_s = time.monotonic()
        time.sleep(0.15)
        assert replace(readers, folder) == 0
        assert readers.silent_s([str(folder / "other")]) < time.monotonic() - began_s


def test_a_reader_with_short_pauses_is_met_in_one_when_patience_runs_out(folder: Path) -> None:
    """Half of the silence is enough when half of the patience is gone."""
    readers = Readers(quiet_s=0.4, patience_s=2)
    readers.watch(str(folder / "table"))
    with reader(folder / "table/date=1/part", pause_s=0.2):
        assert 0.3 < replace(readers, folder) < 1.9


def test_a_reader_without_pauses_is_waited_for_until_patience_is_gone(folder: Path) -> None:
    readers = Readers(quiet_s=LONG_S, patience_s=0.5)
    readers.watch(str(folder / "table"))
    with reader(folder / "table/date=1/part", pause_s=0.001):
        assert 0.3 < replace(readers, folder) < 2


def test_a_file_that_was_opened_in_the_last_moment_is_put_back_for_its_reader(folder: Path) -> None:
    found: list[str] = []

    class Unlucky(Readers):
        """Somebody opens the file right after the last look, and once more when it has been put back."""

        def swap(self, one: str, other: str) -> bool:
            if not found:
                found.append(Path(other).read_text())
            is_swapped = super().swap(one, other)
            if len(found) < 3:
                found.append((folder / "new").read_text())
            return is_swapped

    readers = Unlucky(quiet_s=0.1, patience_s=LONG_S)
    readers.watch(str(folder / "table"))
    assert replace(readers, folder) > 0.1
    assert found == ["old", "old", "new"], "the new file was in place, and then aside again"


def test_a_first_file_waits_for_nobody(folder: Path) -> None:
    (folder / "table/date=1/part").unlink()
    readers = Readers(quiet_s=LONG_S, patience_s=LONG_S)
    readers.watch(str(folder / "table"))
    assert replace(readers, folder) == 0


def test_where_files_cannot_be_swapped_they_are_renamed(folder: Path) -> None:
    class Plain(Readers):
        def swap(self, _one: str, _other: str) -> bool:
            return False

    readers = Plain(quiet_s=0.1, patience_s=LONG_S)
    readers.watch(str(folder / "table"))
    assert replace(readers, folder) > 0
    assert not (folder / "new").exists()


def test_where_the_kernel_refuses_files_are_replaced_at_once(folder: Path) -> None:
    readers = Readers(quiet_s=LONG_S, patience_s=LONG_S)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        readers.watch(str(folder / "table"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert replace(readers, folder) == 0


def test_of_many_folders_the_last_ones_and_those_that_are_named_are_watched(folder: Path) -> None:
    for day in range(MOST_FOLDERS):
        (folder / f"table/date=2{day}").mkdir()
    table, part = str(folder / "table"), folder / "table/date=1/part"
    for also, is_seen in (([], False), ([str(part.parent)], True)):
        readers = Readers()
        readers.watch(table, also)
        time.sleep(0.02)
        before_s = time.monotonic()
        part.read_text()
        readers.look()
        silent_s = readers.silent_s([table])
        assert (silent_s < time.monotonic() - before_s) == is_seen


def test_no_descriptor_is_left_behind(folder: Path) -> None:
    def descriptors() -> set[str]:
        links = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return {path.name for path in links if "inotify" in os.readlink(path)}

    gc.collect()
    before = descriptors()
    closed, forgotten = Readers(), Readers()
    closed.watch(str(folder / "table"))
    forgotten.watch(str(folder / "table"))
    assert len(descriptors()) == len(before) + 2
    closed.close()
    del forgotten
    gc.collect()
    assert descriptors() == before
    closed.watch(str(folder / "table"))
    assert closed.look() == []


def test_duckdb_reads_by_name_what_is_replaced_all_the_time(tmp_path: Path) -> None:
    """With the footer of one file and the rows of another, which is longer or shorter, it fails or counts wrongly."""
    storage = Storage(tmp_path)
    versions = {day: [rows_of(place, version) for version in range(VERSIONS)] for place, day in enumerate(DAYS)}
    contents: dict[str, list[Content]] = {}
    with duckdb.connect() as connection:
        for day, files in versions.items():
            contents[day] = []
            for data in files:
                storage.put("any.parquet", data)
                contents[day].append(content_of(connection, str(tmp_path / "any.parquet")))
    publish(storage, {day: files[0] for day, files in versions.items()})
    with GoldReader(tmp_path, PAUSE_S, LOOKS_BETWEEN) as looping:
        for number in range(1, ROUNDS + 1):
            publish(storage, {day: files[number % VERSIONS] for day, files in versions.items()})
            time.sleep(random.uniform(0, PAUSE_S))
    assert looping.failures == []
    assert looping.looks > ROUNDS / 2
    for day, held in contents.items():
        seen = looping.seen[str(tmp_path / gold_path(USAGE, day))]
        assert seen == set(held), day
    assert looping.seen_over["usage"] <= sums(contents.values())


def publish(storage: Storage, files: dict[str, bytes]) -> None:
    """Give each day its file, as a run does."""
    gold = GoldFiles(storage, Readers(QUIET_S))
    known = gold.expect(USAGE, list(files))
    for day, data in files.items():
        gold.stage(USAGE, day, data, known, f"_staging/{day}.parquet")
    assert gold.publish(lambda: None) == len(files)
    gold.readers.close()
