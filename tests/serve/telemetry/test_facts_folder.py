"""The folder that facts land in: what is deleted when it is full, and what is not."""

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import logs
from penstock.logs import configure_logs
from penstock.serve.settings import FileModes
from penstock.serve.telemetry.facts_folder import FactsFolder

NOW = 1_763_164_800.0


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    level, stream = logging.root.level, io.StringIO()
    writer = configure_logs("info", "json", stream)
    yield stream
    writer.close()
    assert logs._current.handler is not None
    logging.root.removeHandler(logs._current.handler)
    logs._current.__init__()  # type: ignore[misc]
    logging.root.setLevel(level)


def land(folder: Path, name: str, landed_at: float, size: int = 1000) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (landed_at, landed_at))
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.jsonl"))


def kept_within(folder: Path, max_total_bytes: int | None) -> FactsFolder:
    return FactsFolder(folder, FileModes(), max_total_bytes, wall_clock=lambda: NOW)


def test_the_oldest_files_go_until_a_little_less_than_the_bound_is_left(tmp_path: Path, log: io.StringIO) -> None:
    for number in range(10):
        land(tmp_path, f"date=2025-11-14/hour=23/edge-1-b1-{number}.jsonl", NOW - 100 + number)
    folder = kept_within(tmp_path, 8000)
    folder.tidy_up()
    assert names(tmp_path) == ["edge-1-b1-3.jsonl", *(f"edge-1-b1-{number}.jsonl" for number in range(4, 10))]
    assert (folder.deleted_files, folder.deleted_bytes) == (3, 3000)
    folder.tidy_up()
    logs._current.writer.close()  # type: ignore[union-attr]
    (line,) = (json.loads(line) for line in log.getvalue().splitlines())
    assert (line["level"], line["msg"]) == ("WARNING", "facts deleted: landing is full")
    assert (line["files"], line["bytes"], line["path"]) == (3, 3000, str(tmp_path))


def test_files_from_the_future_go_first_since_their_clock_was_wrong(tmp_path: Path) -> None:
    land(tmp_path, "date=2035-01-01/hour=00/edge-1-b1-1.jsonl", NOW + 10**9)
    land(tmp_path, "date=2025-11-14/hour=23/edge-1-b2-1.jsonl", NOW - 10)
    kept_within(tmp_path, 1500).tidy_up()
    assert names(tmp_path) == ["edge-1-b2-1.jsonl"]


def test_folders_that_become_empty_go_with_their_files(tmp_path: Path) -> None:
    land(tmp_path, "date=2025-11-13/hour=00/edge-1-b1-1.jsonl", NOW - 1000)
    land(tmp_path, "date=2025-11-14/hour=22/edge-1-b1-2.jsonl", NOW - 100)
    land(tmp_path, "date=2025-11-14/hour=23/edge-1-b1-3.jsonl", NOW - 10)
    kept_within(tmp_path, 1500).tidy_up()
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "date=2025-11-14",
        "date=2025-11-14/hour=23",
        "date=2025-11-14/hour=23/edge-1-b1-3.jsonl",
    ]


def test_what_is_being_written_or_is_not_ours_stays(tmp_path: Path) -> None:
    land(tmp_path, "date=2025-11-13/hour=00/.edge-1-b1-1.jsonl", NOW - 1000)
    land(tmp_path, ".shipped/files.json", NOW - 1000)
    land(tmp_path, "date=2025-11-14/hour=23/edge-1-b1-2.jsonl", NOW - 10)
    kept_within(tmp_path, 500).tidy_up()
    assert names(tmp_path) == [".edge-1-b1-1.jsonl"]
    assert (tmp_path / ".shipped" / "files.json").exists()


def test_files_that_the_pipeline_has_removed_do_not_count(tmp_path: Path) -> None:
    folder = kept_within(tmp_path, 2500)
    for number in range(10):
        path = land(tmp_path, f"date=2025-11-14/hour=23/edge-1-b1-{number}.jsonl", NOW - 100 + number)
        folder.count(1000)
        if number < 8:
            path.unlink()
    assert (len(names(tmp_path)), folder.deleted_files) == (2, 0)


def test_without_a_bound_nothing_is_deleted(tmp_path: Path) -> None:
    land(tmp_path, "date=2025-11-14/hour=23/edge-1-b1-1.jsonl", NOW - 10)
    folder = kept_within(tmp_path, None)
    folder.count(10**12)
    folder.tidy_up()
    assert (len(names(tmp_path)), folder.deleted_files) == (1, 0)


def test_a_worker_that_lands_its_share_looks_in_time_for_all(tmp_path: Path) -> None:
    folder = FactsFolder(tmp_path, FileModes(), 10_000, workers=2, wall_clock=lambda: NOW)
    for number in range(12):
        land(tmp_path, f"date=2025-11-14/hour=23/edge-1-b{number % 2}-{number}.jsonl", NOW - 100 + number)
        if number % 2:
            folder.count(1000)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl")) <= 10_000
    assert folder.deleted_files == 3


def test_two_workers_that_look_at_once_delete_the_same_files_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        land(tmp_path, f"date=2025-11-14/hour=23/edge-1-b1-{number:02}.jsonl", NOW - 100 + number)
    one, other = kept_within(tmp_path, 10_000), kept_within(tmp_path, 10_000)
    seen = other._landed()
    one.tidy_up()
    assert (one.deleted_files, len(names(tmp_path))) == (11, 9)
    monkeypatch.setattr(other, "_landed", lambda: seen)
    other.tidy_up()
    assert (other.deleted_files, len(names(tmp_path))) == (0, 9)
