"""Two processes that write one table and share no lock: what was told as committed is there, once."""

import multiprocessing
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from penstock.errors import LakeBusy
from penstock.pipeline.lake.delta import Change
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.lake.small_table import DAY, held_by, numbers, put

ROUNDS = 150
"""Of each of the two."""


def write(lake: Path, first: int, start: Barrier, told: "multiprocessing.Queue[Any]") -> None:
    """Add and replace numbers, anew from the newest version where refused. Tells versions and numbers of commits."""
    storage = Storage(lake)
    table, commits, refused = numbers(storage), [], 0
    start.wait(60)
    for number in range(first, first + ROUNDS):
        while True:
            pinned = table.pin_or_create()
            # Every third round a file of either writer gives its numbers to a new one; every twentieth joins all.
            replaced = pinned.files[:1] if number % 3 == 0 else ()
            kept = held_by(storage, pinned, replaced)
            try:
                after = table.commit(pinned, Change([put(storage, [*kept, number])], replaced))
                commits.append((after.version, number))
                break
            except LakeBusy:
                refused += 1
        if number % 20 == 0:
            try:
                table.compact(table.pin_or_create(), {"date": DAY}, 10**9)
                table.vacuum()
            except LakeBusy:
                refused += 1
    told.put((commits, refused))


def test_in_300_rounds_of_two_processes_nothing_is_lost_and_nothing_counts_twice(tmp_path: Path) -> None:
    # A fork would have threads of the wheel in the parent that are not there in the child.
    spawn = multiprocessing.get_context("spawn")
    start, told = spawn.Barrier(2), spawn.Queue()
    writers = [spawn.Process(target=write, args=(tmp_path, first, start, told)) for first in (1_000, 2_000)]
    for writer in writers:
        writer.start()
    outcomes = [told.get(timeout=120) for _ in writers]
    for writer in writers:
        writer.join(60)
    commits = [commit for outcome, _ in outcomes for commit in outcome]
    assert len(commits) == 2 * ROUNDS
    assert max(Counter(version for version, _ in commits).values()) == 1
    storage = Storage(tmp_path)
    assert held_by(storage, numbers(storage).pin()) == sorted(number for _, number in commits)
    assert all(refused > 0 for _, refused in outcomes), "they never met"
