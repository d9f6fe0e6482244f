"""Which partitions a run has to compute: from what new facts touched to hours and days, without looking at a row.

Owns the closure: what else changes when an hour changes. It may name a partition too many, never one too few, so that a
run after run gives the same tables as one rebuild.

- Deltas of a view in a later hour rest on its totals before: the later hours of views that began in the same hours.
  So do those of a publication: the next hour in which the same boot told of streams.
- A view's row is made of all its hours: the hour in which it began.
- Who watched may be told by the stop alone, where a start was lost: what is counted by client, in all hours of a view.
- What a player tells of a view may come after its end: the hour in which it began, and no other.
- An open view counts until it was last seen, which may have been hours ago: gold from the hour of facts before.
- What a lost server left open has ended, and has not if that server speaks again: the hour in which it began, and gold
  of all its hours, where it counts as estimated or no longer so.

What a run has begun to compute is computed again if it was killed: silver that it has changed already would not ask for
the rest any more.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from penstock.pipeline.lake.fact_kinds import CONNECTION_KINDS, RECORDING_KINDS, STREAM_KINDS, VIEW_KINDS
from penstock.pipeline.lake.hours import day_of, days_of, hour_of_us, hours_between, us_of_hour
from penstock.pipeline.lake.state import BootSpan, State


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
    """Of rollup.histogram_hours: hours in which it is known only now who watched."""

    @property
    def quality_hours(self) -> frozenset[str]:
        """Of rollup.histogram_hours and gold.view_quality."""
        return self.view_hours | self.named_hours | self.view_starts

    @property
    def gold_days(self) -> frozenset[str]:
        """Of all gold."""
        of_views = self.quality_hours | self.audience_hours
        return days_of(of_views | self.stream_hours | self.fact_hours | self.publication_starts)

    @property
    def partitions(self) -> int:
        """How many partitions of stored tables it names."""
        return sum(len(held) for held in self.as_hours().values())

    def __bool__(self) -> bool:
        return any(self.as_hours().values())

    def as_hours(self) -> dict[str, frozenset[str]]:
        """The hours by name, for a commit."""
        return {name: getattr(self, name) for name in self.__slots__}

    def joined(self, hours: Mapping[str, frozenset[str]]) -> "Plan":
        """With these hours too, as a commit has them."""
        return Plan(**{name: held | hours.get(name, frozenset()) for name, held in self.as_hours().items()})


def lost_boots(boots: Iterable[BootSpan], as_of_us: int, silent_us: int) -> list[BootSpan]:
    """Those that can tell no more: a newer boot has spoken in their place, or they are silent for too long.

    The place is that of a worker of a server: the workers of one server live at the same time.
    """
    known = list(boots)
    newest: dict[tuple[str, int], int] = {}
    for boot in known:
        newest[_place_of(boot)] = max(newest.get(_place_of(boot), 0), boot.first_at_us)
    return [
        boot for boot in known if boot.first_at_us < newest[_place_of(boot)] or boot.last_at_us < as_of_us - silent_us
    ]


def _place_of(boot: BootSpan) -> tuple[str, int]:
    return boot.server_id, 1 if boot.worker is None else boot.worker


def plan_increment(state: State, as_of_us: int, silent_us: int, horizon: str = "") -> Plan:
    """What the pending facts, the servers that were lost meanwhile and a run that was killed make necessary.

    Before the hour `horizon` bronze was given up: rows of sessions that began there stay as they are.
    """
    touched = state.pending
    lost = {boot.boot_id for boot in lost_boots(state.boots.values(), as_of_us, silent_us)}
    spoken = {boot.boot_id: hour_of_us(boot.last_at_us) for key, boot in state.boots.items() if key in state.spoken}

    direct = _hours_of(touched.hours, VIEW_KINDS)
    starts = frozenset(start for held in touched.view_starts.values() for start in held)
    view_hours = direct | _later_hours(state, touched.view_starts)
    views_turned, publications_turned, connections_turned = (
        _turned(state, f"silver.{name}", lost, spoken, horizon) for name in ("views", "publications", "connections")
    )
    audience = {hour for each in view_hours for hour in _since_facts_before(state, each, view_hours)}
    named: set[str] = set()
    if "play_stopped" in touched.hours and any(state.boots[key].has_gaps for key in state.spoken):
        # Where a start was lost, the stop is the first to tell who watched, in all hours of the view.
        named.update(hours_with_views_of(state, starts))

    streams = _hours_of(touched.hours, STREAM_KINDS)
    turned_streams = _joined(publications_turned) & _hours_of(state.fact_hours, STREAM_KINDS)
    publications_open = _open_partitions(state, "silver.publications") if streams else set()
    # What a connection is for is told by what it plays and publishes.
    connections_open = _open_partitions(state, "silver.connections") if direct or streams else set()
    connection_starts = _hours_of(touched.hours, ("connection_opened",)) | connections_open | connections_turned.keys()
    publication_starts = _hours_of(touched.hours, ("publish_started",)) | publications_open | publications_turned.keys()
    closed_starts = _sessions(touched.hours, "connection_closed", touched.session_starts)
    stopped_starts = _sessions(touched.hours, "publish_stopped", touched.session_starts)
    return Plan(
        view_hours=frozenset(view_hours),
        view_starts=_not_before(horizon, starts | views_turned.keys()),
        connection_starts=_not_before(horizon, connection_starts | closed_starts),
        publication_starts=_not_before(horizon, publication_starts | stopped_starts),
        stream_hours=streams | _following(state, streams) | turned_streams,
        recording_hours=_hours_of(touched.hours, RECORDING_KINDS),
        audience_hours=frozenset(audience | named | _joined(views_turned)),
        fact_hours=frozenset(hour for hours in touched.hours.values() for hour in hours),
        named_hours=frozenset(named),
    ).joined(state.planned)


def plan_rebuild(state: State, days: Iterable[str]) -> Plan:
    """Everything of these days."""
    wanted = set(days)

    def hours(*kinds: str) -> frozenset[str]:
        return frozenset(hour for hour in _hours_of(state.fact_hours, kinds) if day_of(hour) in wanted)

    view_hours = hours(*VIEW_KINDS)
    starts = frozenset(
        start for hour in view_hours for start in state.view_starts.get(hour, ()) if day_of(start) in wanted
    )
    span = hours_between(min(view_hours), max(view_hours)) if view_hours else []
    spanned = frozenset(hour for hour in span if day_of(hour) in wanted)
    return Plan(
        view_hours=view_hours,
        view_starts=starts | view_hours,
        connection_starts=hours(*CONNECTION_KINDS),
        publication_starts=hours("publish_started", "publish_stopped"),
        stream_hours=hours(*STREAM_KINDS),
        recording_hours=hours(*RECORDING_KINDS),
        audience_hours=spanned,
        fact_hours=hours(*state.fact_hours),
        named_hours=spanned,
    )


def hours_with_views_of(state: State, starts: Iterable[str]) -> list[str]:
    """The hours of facts about views that began in these hours."""
    wanted = set(starts)
    return sorted(hour for hour, held in state.view_starts.items() if held & wanted)


def last_numbers_before(state: State, hours: Collection[str]) -> list[tuple[int, int, int]]:
    """Of each boot the hours of facts that come before these and are none of them: key, time, last number."""
    found: set[tuple[int, int, int]] = set()
    for boot_key, told in _hours_by_boot(state).items():
        before = {told[place - 1] for hour in hours if (place := bisect_left(told, hour))}
        found.update(
            (boot_key, us_of_hour(hour), state.boot_hours[boot_key, hour].max_seq) for hour in before.difference(hours)
        )
    return sorted(found)


def sampled_before(state: State, hours: Collection[str], how_many: int) -> set[str]:
    """Of each boot that told of streams in these hours, the last hours before in which it did too."""
    found: set[str] = set()
    for told in _hours_by_boot(state, is_about_streams=True).values():
        if not set(hours).isdisjoint(told):
            found.update([hour for hour in told if hour < min(hours)][-how_many:])
    return found


def _hours_by_boot(state: State, *, is_about_streams: bool = False) -> dict[int, list[str]]:
    """Boot to the hours in which it told anything, or anything about streams, in order."""
    found: dict[int, list[str]] = {}
    for (boot_key, hour), told in sorted(state.boot_hours.items()):
        if told.has_streams or not is_about_streams:
            found.setdefault(boot_key, []).append(hour)
    return found


def _hours_of(touched: Mapping[str, frozenset[str]], kinds: Iterable[str]) -> frozenset[str]:
    return frozenset(hour for kind in kinds for hour in touched.get(kind, ()))


def _sessions(touched: Mapping[str, frozenset[str]], kind: str, starts: frozenset[str]) -> frozenset[str]:
    return starts if touched.get(kind) else frozenset()


def _not_before(horizon: str, hours: Iterable[str]) -> frozenset[str]:
    return frozenset(hour for hour in hours if hour >= horizon)


def _later_hours(state: State, touched: Mapping[str, frozenset[str]]) -> set[str]:
    """Hours after a touched one that hold views which began in the same hours as the touched ones."""
    return {
        later
        for hour, starts in touched.items()
        for later, held in state.view_starts.items()
        if later > hour and held & starts
    }


def _since_facts_before(state: State, hour: str, touched: Iterable[str]) -> list[str]:
    """An hour, and those back to the one in which open views were last told of before this run."""
    fresh = set(touched)
    before = [known for known in _hours_of(state.fact_hours, VIEW_KINDS) if known < hour and known not in fresh]
    is_anyone_there = bool(_open_partitions(state, "silver.views"))
    return hours_between(max(before), hour) if before and is_anyone_there else [hour]


def _following(state: State, hours: Iterable[str]) -> set[str]:
    """Of each boot that spoke, the next hour after each of these in which it told of streams."""
    told = _hours_by_boot(state, is_about_streams=True)
    of_spoken = [told[boot_key] for boot_key in state.spoken if boot_key in told]
    return {each for hour in hours for held in of_spoken for each in held[bisect_right(held, hour) :][:1]}


def _open_partitions(state: State, table: str) -> set[str]:
    """Hours in which sessions began that are still open."""
    return {hour for hour, sessions in state.sessions.get(table, {}).items() if sessions.open_boots}


def _turned(state: State, table: str, lost: set[str], spoken: Mapping[str, str], horizon: str) -> dict[str, list[str]]:
    """Hours in which sessions began that end by a boot that is lost now, or that ended so and whose boot spoke again.

    With the hours that those rows may have been there in: of a boot that spoke again up to its last one.
    """
    found = {}
    for start, sessions in state.sessions.get(table, {}).items():
        ending = sessions.open_boots & lost
        again = sessions.lost_boots & spoken.keys()
        if start >= horizon and (ending or again):
            found[start] = hours_between(start, max(start, sessions.last_hour, *(spoken[boot] for boot in again)))
    return found


def _joined(hours: Mapping[str, Iterable[str]]) -> set[str]:
    return {each for held in hours.values() for each in held}
