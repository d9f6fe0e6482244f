"""Why a plan names its partitions: the same plan, made once for each reason it may have.

Owns the words of the reasons and which tables a part of a plan stands for. A partition may have several reasons. Asks
no Spark and computes nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.pipeline.build.plan import Plan, plan_increment
from penstock.pipeline.lake.hours import days_of
from penstock.pipeline.lake.state import State, Touched

NEW_FACTS: Final = "new facts"
LOST_SERVER: Final = "lost server"
SPOKE_AGAIN: Final = "a server that was taken for lost spoke again"
KILLED_RUN: Final = "killed run"
NEW_TRANSFORMS: Final = "new transforms"

_NEVER_US: Final = 2**62


@dataclass(frozen=True, slots=True)
class Work:
    """Partitions of one table that a run would compute for the same reasons."""

    table: str
    partitions: tuple[str, ...]
    """Hours, or days for gold."""
    reasons: tuple[str, ...]


def plans_by_reason(known: State, as_of_us: int, silent_us: int, horizon: str = "") -> dict[str, Plan]:
    """What each reason alone makes necessary. Together they name what `plan_increment` does."""

    def plan(state: State, silent_us: int = _NEVER_US) -> Plan:
        return plan_increment(state, as_of_us, silent_us, horizon)

    settled = replace(known, pending=Touched(), spoken=frozenset(), planned={})
    # Boots of servers of their own, none of which falls silent, are never lost.
    nobody_lost = {key: replace(boot, server_id=boot.boot_id) for key, boot in known.boots.items()}
    told = replace(settled, boots=nobody_lost, pending=known.pending)
    again = plan(replace(settled, boots=nobody_lost, spoken=known.spoken))
    facts_and_again = plan(replace(told, spoken=known.spoken))
    return {
        NEW_FACTS: plan(told).joined(_without(facts_and_again, again).as_hours()),
        LOST_SERVER: plan(settled, silent_us),
        SPOKE_AGAIN: again,
        KILLED_RUN: Plan().joined(known.planned),
    }


def _without(plan: Plan, other: Plan) -> Plan:
    others = other.as_hours()
    return Plan(**{name: hours - others[name] for name, hours in plan.as_hours().items()})


def work_of(plan: Plan, by_reason: Mapping[str, Plan]) -> list[Work]:
    """The partitions that a plan names, table by table, with the reasons of each."""
    reasons = {reason: dict(_tables(each)) for reason, each in by_reason.items()}
    found = []
    for table, partitions in _tables(plan):
        together: dict[tuple[str, ...], list[str]] = {}
        for partition in sorted(partitions):
            why = tuple(reason for reason, tables in reasons.items() if partition in tables[table])
            together.setdefault(why or (NEW_FACTS,), []).append(partition)
        found += [Work(table, tuple(held), why) for why, held in together.items()]
    return found


def work_text(work: Collection[Work]) -> str:
    """A line for each table and its reasons."""
    width = max((len(each.table) for each in work), default=0)
    return "".join(f"{each.table:<{width}}  {_spans(each.partitions)}  ({', '.join(each.reasons)})\n" for each in work)


def _spans(partitions: tuple[str, ...]) -> str:
    count = len(partitions)
    unit = "hour" if "T" in partitions[0] else "day"
    if count == 1:
        return partitions[0]
    return f"{count} {unit}s from {partitions[0]} to {partitions[-1]}"


def _tables(plan: Plan) -> Iterator[tuple[str, frozenset[str]]]:
    """Stored tables with the partitions that a plan names of each."""
    yield "rollup.view_minutes", plan.view_hours
    yield "rollup.view_lags", plan.view_hours
    yield "silver.views", plan.view_starts
    yield "silver.publications", plan.publication_starts
    yield "silver.connections", plan.connection_starts
    yield "silver.stream_seconds", plan.stream_hours
    yield "rollup.stream_episodes", plan.stream_hours
    yield "silver.recording_segments", plan.recording_hours
    yield "rollup.histogram_hours", plan.quality_hours
    yield "gold.audience", days_of(plan.audience_hours)
    yield "gold.view_quality", days_of(plan.quality_hours)
    yield "gold.stream_health", days_of(plan.stream_hours)
    for name in ("usage", "incidents", "data_quality"):
        yield f"gold.{name}", plan.gold_days
