"""Which partitions a run has to compute: from what new facts touched to hours and days, without looking at a row.

Owns the closure: what else changes when an hour changes. It may name a partition too many, never one too few, so that a
run after run gives the same tables as one rebuild.

- Deltas of a view in a later hour rest on its totals before: the later hours of views that began in the same hours.
  So do those of a publication: the next hour in which the same boot told of streams.
- A view's row is made of all its hours: the hour in which it began.
- Who watched may be told by the stop alone, where a start was lost: what is counted by client, in all hours of a view.
- An open view counts until it was last seen, which may have been hours ago: gold from the hour of facts before.
- What a lost server left open has ended, and has not if that server speaks again: the hour in which it began, and gold
  of all its hours, where it counts as estimated or no longer so.

What a run has begun to compute is computed again if it was killed: silver that it has changed already would not ask for
the rest any more.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.pipeline.commits import SEQS, BootSpan, DataFile, Snapshot
from penstock.pipeline.hours import day_of, days_of, hour_of_us, hours_between, us_of_hour

VIEW_KINDS: Final = ("play_started", "play_first_keyframe", "play_stopped", "viewer_sample")
STREAM_KINDS: Final = ("stream_sample", "publish_stopped")
SESSION_KINDS: Final = ("connection_opened", "connection_closed", "publish_started", "publish_stopped")
CONNECTION_KINDS: Final = ("connection_opened", "connection_closed")
RECORDING_KINDS: Final = ("recording_segment_closed", "recording_gap")
FEW_ROWS: Final = 2_000_000
"""Of facts and sessions together, which are some hundred bytes each."""
_NO_TABLES: Final = ("named_hours", "whole_starts")
"""What of a plan says how partitions are computed, and names none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Partitions to compute, as hours of their tables."""

    view_hours: frozenset[str] = frozenset()
    """Of rollup.view_minutes."""
    view_starts: frozenset[str] = frozenset()
    """Of silver.views."""
    connection_starts: frozenset[str] = frozenset()
    publication_starts: frozenset[str] = frozenset()
    stream_hours: frozenset[str] = frozenset()
    """Of silver.stream_seconds."""
    recording_hours: frozenset[str] = frozenset()
    audience_hours: frozenset[str] = frozenset()
    """Of gold.audience."""
    fact_hours: frozenset[str] = frozenset()
    """Of the checks on facts."""
    named_hours: frozenset[str] = frozenset()
    """In which it is known only now who watched."""
    whole_starts: frozenset[str] = frozenset()
    """Of silver.views and silver.connections: of these hours no row is carried over, all are made from facts."""

    @property
    def sampled_hours(self) -> frozenset[str]:
        """Of lag and round trip in rollup.histogram_hours."""
        return self.view_hours | self.named_hours

    @property
    def quality_hours(self) -> frozenset[str]:
        """Of rollup.histogram_hours and gold.view_quality."""
        return self.sampled_hours | self.view_starts

    @property
    def gold_days(self) -> frozenset[str]:
        """Of all gold."""
        of_views = self.quality_hours | self.audience_hours
        return days_of(of_views | self.stream_hours | self.fact_hours | self.publication_starts)

    @property
    def partitions(self) -> int:
        """How many partitions of stored tables it names."""
        return sum(len(held) for name, held in self.as_hours().items() if name not in _NO_TABLES)

    def __bool__(self) -> bool:
        return any(self.as_hours().values())

    def as_hours(self) -> dict[str, frozenset[str]]:
        """The hours by name, for a commit."""
        return {name: getattr(self, name) for name in self.__slots__}

    def joined(self, hours: Mapping[str, frozenset[str]]) -> "Plan":
        """With these hours too, as a commit has them."""
        return Plan(**{name: held | hours.get(name, frozenset()) for name, held in self.as_hours().items()})


def lost_boots(boots: Iterable[BootSpan], as_of_us: int, silent_us: int) -> list[BootSpan]:
    """Those that can tell no more: a newer boot of the same server has spoken, or they are silent for too long."""
    known = list(boots)
    newest: dict[str, int] = {}
    for boot in known:
        newest[boot.server_id] = max(newest.get(boot.server_id, 0), boot.first_at_us)
    return [
        boot for boot in known if boot.first_at_us < newest[boot.server_id] or boot.last_at_us < as_of_us - silent_us
    ]


def plan_increment(snapshot: Snapshot, as_of_us: int, silent_us: int, horizon: str = "") -> Plan:
    """What the pending facts, the servers that were lost meanwhile and a run that was killed make necessary.

    Before the hour `horizon` bronze was given up: rows of sessions that began there stay as they are.
    """
    touched = snapshot.pending
    lost = {boot.boot_id for boot in lost_boots(snapshot.boots.values(), as_of_us, silent_us)}
    spoken = {
        boot.boot_id: hour_of_us(boot.last_at_us) for key, boot in snapshot.boots.items() if key in snapshot.spoken
    }

    direct = _hours_of(touched.hours, VIEW_KINDS)
    starts = frozenset(start for held in touched.view_starts.values() for start in held)
    view_hours = direct | _later_hours(snapshot, touched.view_starts)
    views_turned, publications_turned, connections_turned = (
        _turned(snapshot, f"silver.{name}", lost, spoken, horizon) for name in ("views", "publications", "connections")
    )
    audience = {hour for each in view_hours for hour in _since_facts_before(snapshot, each, view_hours)}
    named: set[str] = set()
    if "play_stopped" in touched.hours and any(snapshot.boots[key].has_gaps for key in snapshot.spoken):
        # Where a start was lost, the stop is the first to tell who watched, in all hours of the view.
        named.update(hours_with_views_of(snapshot, starts))

    streams = _hours_of(touched.hours, STREAM_KINDS)
    turned_streams = _joined(publications_turned).intersection(snapshot.partitions("silver.stream_seconds"))
    publications_open = _open_partitions(snapshot, "silver.publications") if streams else set()
    # What a connection is for is told by what it plays and publishes.
    connections_open = _open_partitions(snapshot, "silver.connections") if direct or streams else set()
    connection_starts = _hours_of(touched.hours, ("connection_opened",)) | connections_open | connections_turned.keys()
    publication_starts = _hours_of(touched.hours, ("publish_started",)) | publications_open | publications_turned.keys()
    closed_starts = _sessions(touched.hours, "connection_closed", touched.session_starts)
    stopped_starts = _sessions(touched.hours, "publish_stopped", touched.session_starts)
    return Plan(
        view_hours=frozenset(view_hours),
        view_starts=_not_before(horizon, starts | views_turned.keys()),
        connection_starts=_not_before(horizon, connection_starts | closed_starts),
        publication_starts=_not_before(horizon, publication_starts | stopped_starts),
        stream_hours=streams | _following(snapshot, streams) | turned_streams,
        recording_hours=_hours_of(touched.hours, RECORDING_KINDS),
        audience_hours=frozenset(audience | named | _joined(views_turned)),
        fact_hours=frozenset(hour for hours in touched.hours.values() for hour in hours),
        named_hours=frozenset(named),
    ).joined(snapshot.planned)


def plan_rebuild(snapshot: Snapshot, days: Iterable[str]) -> Plan:
    """Everything of these days."""
    wanted = set(days)

    def hours(*kinds: str) -> frozenset[str]:
        held = {hour for kind in kinds for hour in snapshot.partitions(f"bronze.{kind}")}
        return frozenset(hour for hour in held if day_of(hour) in wanted)

    view_hours = hours(*VIEW_KINDS)
    starts = frozenset(
        start for hour in view_hours for start in snapshot.view_starts.get(hour, ()) if day_of(start) in wanted
    )
    span = hours_between(min(view_hours), max(view_hours)) if view_hours else []
    spanned = frozenset(hour for hour in span if day_of(hour) in wanted)
    connected = hours("connection_opened", "connection_closed")
    facts = {table.partition(".")[2] for table in snapshot.tables if table.startswith("bronze.")}
    return Plan(
        view_hours=view_hours,
        view_starts=starts | view_hours,
        connection_starts=connected,
        publication_starts=hours("publish_started", "publish_stopped"),
        stream_hours=hours(*STREAM_KINDS),
        recording_hours=hours(*RECORDING_KINDS),
        audience_hours=spanned,
        fact_hours=hours(*facts),
        named_hours=spanned,
        whole_starts=starts | view_hours | connected,
    )


def is_small(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether a plan makes no rows from facts alone, and what it looks at is little enough for one process to write."""
    hours = plan.fact_hours | plan.sampled_hours | plan.stream_hours
    looked_at = {table: hours for table in snapshot.tables if table.startswith("bronze.")}
    looked_at |= {"silver.views": plan.view_starts, "silver.connections": plan.connection_starts}
    rows = sum(file.rows for table, held in looked_at.items() for file in snapshot.files(table, held))
    return not plan.whole_starts and rows <= FEW_ROWS


def hours_with_views_of(snapshot: Snapshot, starts: Iterable[str]) -> list[str]:
    """The hours of facts about views that began in these hours."""
    wanted = set(starts)
    return sorted(hour for hour, held in snapshot.view_starts.items() if held & wanted)


def starts_in(snapshot: Snapshot, table: str, hours: Iterable[str]) -> list[str]:
    """The partitions of views or publications that have rows which were there in one of these hours."""
    wanted = sorted(hours)
    found = []
    for start in snapshot.partitions(table):
        last = max((file.stats.get("last_hour") or start for file in snapshot.files(table, [start])), default=start)
        place = bisect_left(wanted, start)
        if place < len(wanted) and wanted[place] <= last:
            found.append(start)
    return found


def last_numbers_before(snapshot: Snapshot, hours: Collection[str]) -> list[tuple[int, int, int]]:
    """Of each boot the hours of facts that come before these and are none of them: key, time, last number."""
    highest: dict[int, dict[str, int]] = {}
    for table, partitions in snapshot.tables.items():
        for hour, files in partitions.items() if table.startswith("bronze.") else ():
            for boot, (_, high) in (span for file in files for span in file.stats.get(SEQS, {}).items()):
                held = highest.setdefault(int(boot), {})
                held[hour] = max(held.get(hour, 0), high)
    found: set[tuple[int, int, int]] = set()
    for boot_key, held in highest.items():
        told = sorted(held)
        before = {told[place - 1] for hour in hours if (place := bisect_left(told, hour))}
        found.update((boot_key, us_of_hour(hour), held[hour]) for hour in before.difference(hours))
    return sorted(found)


def _hours_of(touched: Mapping[str, frozenset[str]], kinds: Iterable[str]) -> frozenset[str]:
    return frozenset(hour for kind in kinds for hour in touched.get(kind, ()))


def _sessions(touched: Mapping[str, frozenset[str]], kind: str, starts: frozenset[str]) -> frozenset[str]:
    return starts if touched.get(kind) else frozenset()


def _not_before(horizon: str, hours: Iterable[str]) -> frozenset[str]:
    return frozenset(hour for hour in hours if hour >= horizon)


def _later_hours(snapshot: Snapshot, touched: Mapping[str, frozenset[str]]) -> set[str]:
    """Hours after a touched one that hold views which began in the same hours as the touched ones."""
    return {
        later
        for hour, starts in touched.items()
        for later, held in snapshot.view_starts.items()
        if later > hour and held & starts
    }


def _since_facts_before(snapshot: Snapshot, hour: str, touched: Iterable[str]) -> list[str]:
    """An hour, and those back to the one in which open views were last told of before this run."""
    fresh = set(touched)
    before = [known for known in snapshot.partitions("rollup.view_minutes") if known < hour and known not in fresh]
    is_anyone_there = bool(_open_partitions(snapshot, "silver.views"))
    return hours_between(max(before), hour) if before and is_anyone_there else [hour]


def _following(snapshot: Snapshot, hours: Iterable[str]) -> set[str]:
    """Of each boot that spoke, the next hour after each of these in which it told of streams."""
    found: set[str] = set()
    for boot_key in snapshot.spoken:
        told = sorted(
            {
                hour
                for kind in STREAM_KINDS
                for hour in snapshot.partitions(f"bronze.{kind}")
                if any(file.may_tell_of(boot_key) for file in snapshot.files(f"bronze.{kind}", [hour]))
            }
        )
        found.update(each for hour in hours for each in told[bisect_right(told, hour) :][:1])
    return found


def _open_partitions(snapshot: Snapshot, table: str) -> set[str]:
    """Partitions with rows that are still open."""
    return {hour for hour in snapshot.partitions(table) if _boots_of(snapshot.files(table, [hour]), "open_boots")}


def _turned(
    snapshot: Snapshot, table: str, lost: set[str], spoken: Mapping[str, str], horizon: str
) -> dict[str, list[str]]:
    """Partitions with rows that end by a boot that is lost now, or that ended so and whose boot spoke again.

    With the hours that those rows may have been there in: of a boot that spoke again up to its last one.
    """
    found = {}
    for partition in snapshot.partitions(table):
        files = snapshot.files(table, [partition])
        ending = _boots_of(files, "open_boots") & lost
        again = _boots_of(files, "lost_boots") & spoken.keys()
        if partition >= horizon and (ending or again):
            lasts = [file.stats.get("last_hour") or partition for file in files]
            found[partition] = hours_between(partition, max(partition, *lasts, *(spoken[boot] for boot in again)))
    return found


def _boots_of(files: Iterable[DataFile], name: str) -> set[str]:
    return {boot for file in files for boot in file.stats.get(name, ())}


def _joined(hours: Mapping[str, Iterable[str]]) -> set[str]:
    return {each for held in hours.values() for each in held}
