"""Why partitions are computed: states with one reason each, and with several."""

from dataclasses import replace

import pytest

from penstock.pipeline.build.plan import plan_increment
from penstock.pipeline.build.plan_reasons import (
    KILLED_RUN,
    LOST_SERVER,
    NEW_FACTS,
    SPOKE_AGAIN,
    plans_by_reason,
    work_of,
    work_text,
)
from penstock.pipeline.lake.hours import us_of_hour
from penstock.pipeline.lake.state import State
from tests.pipeline.build.test_plan import SILENT_US, H, begun, boot, touched

AS_OF_US = us_of_hour(H(22))
SETTLED = State(
    boots={1: boot("b", H(18), H(22))},
    sessions={"silver.views": {**begun(H(18), open_boots="b", last_hour=H(19)), **begun(H(20), lost_boots="b")}},
    view_starts={H(18): frozenset([H(18)])},
)
NEW = {"pending": touched({"viewer_sample": [H(21)]}, {H(21): [H(21)]})}
LOST = {"boots": {1: boot("b", H(18), H(20))}}
STARTED_ANEW = {"boots": {1: boot("b", H(18), H(22)), 2: boot("b2", H(21), H(22))}}
SPOKEN = {"spoken": frozenset([1])}
KILLED = {"planned": {"stream_hours": frozenset([H(17)])}}


def reasons(state: State) -> dict[str, dict[str, tuple[str, ...]]]:
    """The reasons of each partition of each table."""
    plan = plan_increment(state, AS_OF_US, SILENT_US)
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for work in work_of(plan, plans_by_reason(state, AS_OF_US, SILENT_US)):
        found.setdefault(work.table, {}).update(dict.fromkeys(work.partitions, work.reasons))
    return found


def test_a_lake_that_is_settled_has_nothing_to_compute() -> None:
    assert reasons(SETTLED) == {}


@pytest.mark.parametrize(
    ("change", "table", "expected"),
    [
        (NEW, "silver.views", {H(21): (NEW_FACTS,)}),
        (NEW, "gold.audience", {"2026-11-15": (NEW_FACTS,)}),
        (LOST, "silver.views", {H(18): (LOST_SERVER,)}),
        ({**NEW, **STARTED_ANEW}, "silver.views", {H(18): (LOST_SERVER,), H(21): (NEW_FACTS,)}),
        (SPOKEN, "silver.views", {H(20): (SPOKE_AGAIN,)}),
        (KILLED, "silver.stream_seconds", {H(17): (KILLED_RUN,)}),
        (
            {**NEW, **LOST, **SPOKEN, **KILLED},
            "silver.views",
            {H(18): (LOST_SERVER,), H(20): (SPOKE_AGAIN,), H(21): (NEW_FACTS,)},
        ),
        (
            {**NEW, "planned": {"view_hours": frozenset([H(21)])}},
            "rollup.view_minutes",
            {H(21): (NEW_FACTS, KILLED_RUN)},
        ),
    ],
    ids=[
        "facts",
        "days of gold",
        "lost",
        "started anew",
        "spoke again",
        "killed",
        "all of them",
        "two for one partition",
    ],
)
def test_a_partition_is_told_with_its_reasons(
    change: dict[str, object], table: str, expected: dict[str, tuple[str, ...]]
) -> None:
    assert reasons(replace(SETTLED, **change))[table] == expected  # type: ignore[arg-type]


def test_work_is_a_line_for_each_table_and_reason() -> None:
    state = replace(SETTLED, planned={"stream_hours": frozenset([H(16), H(17)])})
    plan = plan_increment(state, AS_OF_US, SILENT_US)
    lines = work_text(work_of(plan, plans_by_reason(state, AS_OF_US, SILENT_US))).splitlines()
    assert lines[0] == "silver.stream_seconds   2 hours from 2026-11-15T16 to 2026-11-15T17  (killed run)"
    assert lines[2] == "gold.stream_health      2026-11-15  (killed run)"
