"""What a run would leave behind if it died at one of the points of its commits."""

import json
from pathlib import Path

from penstock.pipeline.commits import Snapshot
from penstock.pipeline.lake import Lake
from penstock.pipeline.plan import Plan, plan_increment
from tests.pipeline.scenarios_lake.runs import DataFolder

NAME = "seen.jsonl"


def write_down(data: DataFolder, now_us: int, point: str) -> None:
    """Note what the next run would find: how many facts there are, and what it would have to compute."""
    snapshot = Lake(data.lake.storage).snapshot()
    plan = plan_increment(snapshot, now_us, data.settings.silent_us)
    facts = sum(bronze_rows(snapshot).values())
    hours = {name: sorted(held) for name, held in plan.as_hours().items()}
    with (data.folder / NAME).open("a") as notes:
        notes.write(json.dumps([point, facts, hours]) + "\n")


def read_notes(folder: Path) -> list[tuple[str, int, Plan]]:
    """Point, facts and plan, in the order of the run."""
    notes = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    return [
        (point, facts, Plan(**{name: frozenset(held) for name, held in hours.items()})) for point, facts, hours in notes
    ]


def bronze_rows(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """How many facts each kind and hour has."""
    return {
        (table, hour): sum(file.rows for file in snapshot.files(table, [hour]))
        for table in snapshot.tables
        if table.startswith("bronze.")
        for hour in snapshot.partitions(table)
    }
