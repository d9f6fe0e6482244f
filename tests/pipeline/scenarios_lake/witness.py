"""What a run would leave behind if it died at one of the points of its commits."""

import json
from collections import Counter
from pathlib import Path

from penstock.pipeline.build.plan import Plan, plan_increment
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE
from tests.pipeline.scenarios_lake.runs import DataFolder

NAME = "seen.jsonl"


def write_down(data: DataFolder, now_us: int, point: str) -> None:
    """Note what the next run would find: how many facts there are, and what it would have to compute."""
    lake = Lake(data.lake.storage)
    plan = plan_increment(lake.read_state(), now_us, data.settings.silent_us)
    facts = sum(bronze_rows(lake).values())
    hours = {name: sorted(held) for name, held in plan.as_hours().items()}
    with (data.folder / NAME).open("a") as notes:
        notes.write(json.dumps([point, facts, hours]) + "\n")


def read_notes(folder: Path) -> list[tuple[str, int, Plan]]:
    """Point, facts and plan, in the order of the run."""
    notes = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    return [
        (point, facts, Plan(**{name: frozenset(held) for name, held in hours.items()})) for point, facts, hours in notes
    ]


def bronze_rows(lake: Lake) -> dict[str, int]:
    """How many facts each kind and day has, by the folder of its files."""
    bronze = lake.pin(BRONZE)
    found = Counter[str]()
    for file in () if bronze is None else bronze.files:
        found[file.path.rpartition("/")[0]] += file.rows
    return dict(found)
