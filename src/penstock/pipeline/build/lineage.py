"""Which tables each table is made from, and by which step of a run; as text and as Mermaid.

Owns the table of it. What a run really reads and writes is compared with it by a test. A table that also rests on its
own earlier rows does not list itself. Imports no Spark.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import PipelineError
from penstock.facts import FACTS
from penstock.pipeline.lake.fact_kinds import RECORDING_KINDS
from penstock.pipeline.lake.tables import TABLES

FILES: Final = ("landed lines in quarantine", "recorded files")
"""What tables are made from that is no table."""
_QUARANTINE, _RECORDED = FILES


@dataclass(frozen=True, slots=True)
class Made:
    """How a table comes about."""

    made_from: tuple[str, ...]
    """Tables, or FILES."""
    steps: tuple[str, ...]
    """The steps of a run that write it, by their names; none: a view, or another job's."""
    how: str = ""
    """In words, where no step of a run makes it."""


def _facts(*kinds: str) -> tuple[str, ...]:
    return tuple(f"bronze.{kind}" for kind in kinds)


_PLAYS: Final = _facts("play_started", "play_first_keyframe", "play_stopped")

LINEAGE: Final[Mapping[str, Made]] = {
    "rollup.view_minutes": Made((*_PLAYS, *_facts("viewer_sample")), ("minutes",)),
    "rollup.view_lags": Made(_facts("viewer_sample"), ("lags",)),
    "silver.viewer_samples": Made(_facts("viewer_sample"), (), "a view"),
    "silver.views": Made((*_PLAYS, *_facts("view_beacon"), "rollup.view_minutes", "rollup.view_lags"), ("views",)),
    "silver.publications": Made(_facts("publish_started", "publish_stopped", "stream_sample"), ("publications",)),
    "silver.connections": Made(
        (*_facts("connection_opened", "connection_closed"), "silver.views", "silver.publications"), ("connections",)
    ),
    "silver.stream_seconds": Made(_facts("stream_sample", "publish_stopped"), ("seconds",)),
    "rollup.stream_episodes": Made(("silver.stream_seconds", "silver.publications"), ("episodes",)),
    "rollup.histogram_hours": Made(("silver.views", "rollup.view_minutes", "rollup.view_lags"), ("histograms",)),
    "silver.recording_segments": Made(_facts(*RECORDING_KINDS), ("recordings",)),
    "silver.gops": Made((_RECORDED,), ("recordings",)),
    "gold.audience": Made(("silver.views", "rollup.view_minutes"), ("audience",)),
    "gold.audience_dimensions": Made(("silver.views", "rollup.view_minutes"), ("audience by dimension",)),
    "gold.view_quality": Made(("silver.views", "rollup.histogram_hours"), ("quality",)),
    "gold.stream_health": Made(("silver.stream_seconds", "silver.publications"), ("health",)),
    "gold.usage": Made(("gold.audience", "gold.stream_health", "silver.views", "silver.publications"), ("usage",)),
    "gold.usage_dimensions": Made(
        ("gold.audience_dimensions", "silver.stream_seconds", "silver.views", "silver.publications"),
        ("usage by dimension",),
    ),
    "gold.incidents": Made(("rollup.stream_episodes", "gold.audience", "silver.publications"), ("incidents",)),
    "gold.recordings": Made(("silver.recording_segments",), ("catalogue",)),
    "gold.archive": Made((_RECORDED,), (), "penstock pipeline archive"),
    "gold.data_quality": Made(
        (
            *_facts(*FACTS),
            _QUARANTINE,
            "silver.views",
            "silver.publications",
            "silver.connections",
            "gold.audience",
            "gold.stream_health",
            "gold.usage",
        ),
        ("checks",),
    ),
}


def steps_of(table: str) -> frozenset[str]:
    """The steps that compute one table; PipelineError if no run does."""
    made = LINEAGE.get(table)
    if made is None or not made.steps:
        known = ", ".join(name for name, each in LINEAGE.items() if each.steps)
        what = "there is no such table" if made is None else f"it is {made.how}"
        raise PipelineError(f"{table} cannot be computed by itself: {what}; what can: {known}")
    return frozenset(made.steps)


def lineage_text() -> str:
    """Each table with what it is made from."""
    lines = []
    for table in TABLES:
        made = LINEAGE[table]
        lines.append(f"{table}  ({made.how})" if made.how else table)
        lines += [f"  {source}" for source in _short(made.made_from)]
    return "\n".join(lines) + "\n"


def lineage_mermaid() -> str:
    """A flowchart in Mermaid, from facts to gold."""
    nodes = dict.fromkeys(node for table, made in LINEAGE.items() for node in (*_short(made.made_from), table))
    lines = ["flowchart LR", *(f'  {_id(node)}["{node}"]' for node in nodes)]
    for table, made in LINEAGE.items():
        lines += [f"  {_id(source)} --> {_id(table)}" for source in _short(made.made_from)]
    return "\n".join(lines) + "\n"


def _short(sources: Iterable[str]) -> list[str]:
    """All kinds of facts as one."""
    listed = list(sources)
    every = _facts(*FACTS)
    return ["bronze.*", *(each for each in listed if each not in every)] if set(every) <= set(listed) else listed


def _id(node: str) -> str:
    return node.replace(".", "_").replace("*", "all").replace(" ", "_")
