"""A simulated platform as the landing files of its servers, for demonstrations and tests.

One file per boot and rotation interval, named and dated as the server's writer does it. The last line of a killed
server is torn.
"""

import itertools
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from penstock.pipeline.simulator.facts import FactsOfPlan, KindOfFacts
from penstock.pipeline.simulator.plan import SECOND_US, Ints, Plan, Platform
from penstock.pipeline.simulator.story import make_plan
from penstock.pipeline.simulator.truth import Truth, truth_of

_TORN_LINE: Final = b'{"event_id":"'
# Some readers see modification times in milliseconds only, so files land at whole milliseconds.
_MS_US: Final = 1000

_Line = tuple[int, int, int, int, bytes]
"""Boot, landing time, number, time and bytes of a fact."""


def write_landing(platform: Platform, folder: Path) -> Truth:
    """Write the facts of a platform below the folder, and return what the tables should say of them."""
    plan = make_plan(platform)
    told = FactsOfPlan(plan)
    files = _Files(plan, folder)
    facts = 0
    for hour in told.hours():
        lines = sorted(line for kind in hour.kinds.values() for line in _lines(plan, kind))
        for (boot, landed_us), some in itertools.groupby(lines, key=lambda line: line[:2]):
            files.write(boot, landed_us, list(some))
        facts += len(lines)
    files.close()
    return truth_of(plan, told, facts)


def landed_at_us(plan: Plan, boot: Ints, at_us: Ints) -> Ints:
    """When the file of a fact lands: at the end of its rotation interval, or when its server ends."""
    started_us, until_us = (
        np.array([getattr(each, name) for each in plan.boots]) for name in ("started_us", "told_until_us")
    )
    interval_us = plan.platform.landing_s * SECOND_US
    due_us = started_us[boot] + ((at_us - started_us[boot]) // interval_us + 1) * interval_us
    is_ended = np.array([each.is_killed or each.is_stopped for each in plan.boots])[boot]
    landed_us: Ints = np.where(is_ended, np.minimum(due_us, until_us[boot]), due_us)
    return -(-landed_us // _MS_US) * _MS_US


def _lines(plan: Plan, told: KindOfFacts) -> Iterator[_Line]:
    landed_us = landed_at_us(plan, told.boot, told.table["at_us"].to_numpy())
    for boot, landed, row in zip(told.boot.tolist(), landed_us.tolist(), told.table.to_pylist(), strict=True):
        yield boot, landed, row["seq"], row["at_us"], orjson.dumps(row) + b"\n"


class _Files:
    """The files by boot and landing time."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._paths: dict[tuple[int, int], Path] = {}

    def write(self, boot: int, landed_us: int, lines: list[_Line]) -> None:
        """Start a file, or append to one that began in the hour before."""
        path = self._paths.get((boot, landed_us))
        if path is None:
            _, _, seq, at_us, _ = lines[0]
            path = self._paths[boot, landed_us] = self._path(boot, seq, at_us)
            path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.writelines(line[-1] for line in lines)

    def close(self) -> None:
        """Tear the last lines of killed servers, and set the modification times."""
        newest: dict[int, Path] = {}
        for (boot, _), path in sorted(self._paths.items()):
            newest[boot] = path
        for boot, path in newest.items():
            if self._plan.boots[boot].is_killed:
                with path.open("ab") as file:
                    file.write(_TORN_LINE)
        for (_, landed_us), path in self._paths.items():
            os.utime(path, ns=(landed_us * 1000, landed_us * 1000))

    def _path(self, boot: int, seq: int, at_us: int) -> Path:
        hour = datetime.fromtimestamp(at_us // SECOND_US, UTC)
        told_by = self._plan.boots[boot]
        name = f"{told_by.server_id}-{told_by.boot_id}-{seq}.jsonl"
        return self._folder / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}" / name
