"""Input that no server sends: ingest survives it in bounded memory, and what is good beside it is in bronze.

Each is taken in by a process of its own, which tells how far its memory has grown.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.landing_place import FOLDER, NOON_US, SECOND_US, fact

MIB = 1024 * 1024
BOUND_BYTES = 400 * MIB
"""Beyond what Python and its libraries take at their start, whatever there is to take in."""
DAY_US = 24 * 3600 * SECOND_US
ROOT = Path(__file__).parents[3]
CHILD = """
import json, resource, sys
from pathlib import Path
from penstock.pipeline.ingest.landing import ingest_landed
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.storage import Storage

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

folder, now_us = Path(sys.argv[1]), int(sys.argv[2])
lake, before = Lake(Storage(folder / "lake")), peak()
ingest_landed(lake, Storage(folder / "facts"), now_us)
grown = peak() - before
hours = sorted({hour for hours in lake.read_state().fact_hours.values() for hour in hours})
state_bytes = max(path.stat().st_size for path in (folder / "lake/state").glob("*.parquet"))
print(json.dumps([dict(lake.read_state().counts), grown, hours, state_bytes]))
"""


class Landing:
    """A data folder into whose landing absurd files are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._facts = folder / "facts" / FOLDER
        self._facts.mkdir(parents=True)

    def land(self, name: str, blocks: Iterable[bytes]) -> int:
        """Write a landing file block by block. Its size."""
        path = self._facts / name
        with path.open("wb") as file:
            for block in blocks:
                # Zeros are a hole in the file, which needs no disk.
                _ = file.write(block) if any(block[:1]) else file.seek(len(block), os.SEEK_CUR)
        os.utime(path, (NOON_US / 1e6 + 1, NOON_US / 1e6 + 1))
        return path.stat().st_size

    def ingest(self) -> tuple[dict[str, int], list[str], int]:
        """Take everything in. The counts, the hours that got facts, and the size of the state."""
        command = [sys.executable, "-c", CHILD, str(self._folder), str(NOON_US + 60 * SECOND_US)]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, timeout=120)
        counts, grown, hours, state_bytes = json.loads(done.stdout)
        assert grown < BOUND_BYTES, f"{grown / MIB:.0f} MiB"
        return {name: count for name, count in counts.items() if count}, hours, state_bytes


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)


def line(seq: int, kind: str, at_us: int = NOON_US, **fields: Any) -> bytes:
    return json.dumps(fact(seq, kind, at_us, **fields), separators=(",", ":")).encode() + b"\n"


def numbered(text: bytes, count: int) -> Iterator[bytes]:
    """A line with the number 1, and as many more that have other numbers for it."""
    form = text.replace(b"%", b"%%").replace(b"edge-1-b1-1", b"edge-1-b1-%d").replace(b'"seq":1,', b'"seq":%d,')
    names = text.count(b"-b1-1") + text.count(b'"seq":1,') + text.count(b"cam1")
    form = form.replace(b"cam1", b"cam%d")
    for start in range(1, count + 1, 1000):
        yield b"".join(form % ((seq,) * names) for seq in range(start, min(start + 1000, count + 1)))


def test_a_line_of_a_hundred_megabytes_is_refused_and_its_neighbours_are_taken(landing: Landing) -> None:
    blocks = [line(1, "server_started"), b'{"event_id":"', *[b"x" * MIB] * 100, b'"}\n', line(2, "server_stopped")]
    landing.land("edge-1-b1-1.jsonl", blocks)
    counts, _, _ = landing.ingest()
    assert counts == {"facts": 2, "quarantined": 1, "quarantined_too_long": 1}


def test_a_file_that_would_not_fit_into_memory_is_read_piece_by_piece(landing: Landing) -> None:
    # As after a power cut, by which the middle of a file was never written.
    hole = [bytes(MIB)] * 1024
    size = landing.land("edge-1-b1-1.jsonl", [line(1, "server_started"), *hole, b"\n", line(2, "server_stopped")])
    assert size > 2 * BOUND_BYTES
    counts, _, _ = landing.ingest()
    assert counts == {"facts": 2, "quarantined": 1, "quarantined_too_long": 1}


def test_memory_does_not_grow_with_the_facts_of_a_file(landing: Landing) -> None:
    assert landing.land("edge-1-b1-1.jsonl", numbered(line(1, "server_started"), 600_000)) > 120 * MIB
    counts, _, _ = landing.ingest()
    assert counts == {"facts": 600_000}


def test_nothing_is_kept_of_each_of_many_streams(landing: Landing) -> None:
    landing.land("edge-1-b1-1.jsonl", numbered(line(1, "play_started", stream="cam1"), 200_000))
    counts, _, state_bytes = landing.ingest()
    assert counts == {"facts": 200_000}
    assert state_bytes < 20_000


def test_a_file_of_nothing_but_junk_is_quarantined_piece_by_piece(landing: Landing) -> None:
    landing.land("edge-1-b1-1.jsonl", (b"junk %d\n" % number * 1000 for number in range(300)))
    counts, _, _ = landing.ingest()
    assert counts == {"quarantined": 300_000, "quarantined_malformed": 300_000}


def test_a_clock_that_is_a_day_behind_is_late_and_one_that_is_a_day_ahead_is_refused(landing: Landing) -> None:
    blocks = [line(1, "server_started", NOON_US - DAY_US), line(2, "server_started", NOON_US + DAY_US)]
    landing.land("edge-1-b1-1.jsonl", blocks)
    counts, hours, _ = landing.ingest()
    assert counts == {"facts": 1, "late_facts": 1, "quarantined": 1, "quarantined_ahead_of_time": 1}
    assert hours == ["2026-11-14T12"]


def test_facts_of_more_days_than_files_may_be_open_are_all_taken(landing: Landing) -> None:
    landing.land("edge-1-b1-1.jsonl", (line(day, "server_started", NOON_US - day * DAY_US) for day in range(1, 451)))
    counts, hours, _ = landing.ingest()
    assert (counts["facts"], len(hours)) == (450, 450)
