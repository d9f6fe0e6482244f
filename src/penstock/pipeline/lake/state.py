"""What one run leaves for the next, and the table that keeps it.

Owns `lake/state`, a Delta table of (entry, key, value) that is one file, written whole by each commit. It says which
landing files were taken, what new facts touched and the tables do not show yet, what a run has begun to compute, and a
little about every boot, so that a plan is made without looking at a row.

A batch of facts is written to bronze by another commit, and the two cannot be one. So the state comes first: it holds
the batch as one that is under way, by the number of this very commit, and the commit to bronze carries that number as
its transaction. A batch whose number bronze has counts; one that bronze has passed never will (decision 0037).
"""

# Long because: what the state has and how it is spelled in rows change together.

import io
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from penstock.errors import LakeBusy, LakeError
from penstock.pipeline.lake.delta import Change, Pinned, Table
from penstock.pipeline.lake.storage import Storage

FOLDER: Final = "state"
INGEST: Final = "ingest"
"""The application whose transactions bronze carries."""
SCHEMA: Final = pa.schema({"entry": pa.string(), "key": pa.string(), "value": pa.string()})

Hours = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class BootSpan:
    """What is known of one boot of a server from all its facts in bronze."""

    boot_key: int
    server_id: str
    boot_id: str
    first_at_us: int
    last_at_us: int
    min_seq: int
    max_seq: int
    facts: int
    is_stopped: bool
    worker: int | None = None
    """Which worker of the server it is a life of; None: of a server that had one."""

    @property
    def has_gaps(self) -> bool:
        """Whether facts of it are missing; they are numbered from 1."""
        return self.facts < self.max_seq

    def merged(self, other: "BootSpan") -> "BootSpan":
        """Both together."""
        return replace(
            self,
            first_at_us=min(self.first_at_us, other.first_at_us),
            last_at_us=max(self.last_at_us, other.last_at_us),
            min_seq=min(self.min_seq, other.min_seq),
            max_seq=max(self.max_seq, other.max_seq),
            facts=self.facts + other.facts,
            is_stopped=self.is_stopped or other.is_stopped,
            worker=other.worker if self.worker is None else self.worker,
        )


@dataclass(frozen=True, slots=True)
class BootHour:
    """What a boot told in one hour: the span of its numbers, and whether some of it was about streams."""

    boot_key: int
    hour: str
    min_seq: int
    max_seq: int
    has_streams: bool

    def merged(self, other: "BootHour") -> "BootHour":
        """Both together."""
        return replace(
            self,
            min_seq=min(self.min_seq, other.min_seq),
            max_seq=max(self.max_seq, other.max_seq),
            has_streams=self.has_streams or other.has_streams,
        )


@dataclass(frozen=True, slots=True)
class Touched:
    """What new facts bear on. Hours are written as in 2026-11-15T20."""

    hours: Hours = field(default_factory=dict)
    """Kind of fact to the hours that got new ones."""
    view_starts: Hours = field(default_factory=dict)
    """Hour of new facts about views to the hours in which those views began."""
    session_starts: frozenset[str] = frozenset()
    """Hours in which connections and publications began that new facts tell of."""

    def joined(self, other: "Touched") -> "Touched":
        """Both together."""
        return Touched(
            joined(self.hours, other.hours),
            joined(self.view_starts, other.view_starts),
            self.session_starts | other.session_starts,
        )

    def __bool__(self) -> bool:
        return bool(self.hours)


@dataclass(frozen=True, slots=True)
class Batch:
    """Facts of some landing files, as far as later runs have to know of them."""

    number: int = 0
    """The version of the state that names it first; bronze has it as its transaction."""
    at_us: int = 0
    landed: tuple[str, ...] = ()
    touched: Touched = Touched()
    boots: tuple[BootSpan, ...] = ()
    boot_hours: tuple[BootHour, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenSessions:
    """Of the sessions that began in one hour: boots of those that are open, and of those that a lost server ended."""

    open_boots: frozenset[str] = frozenset()
    lost_boots: frozenset[str] = frozenset()
    last_hour: str = ""
    """The last hour that one of all of them reaches into."""

    def __bool__(self) -> bool:
        return bool(self.open_boots or self.lost_boots)


@dataclass(frozen=True, slots=True)
class State:
    """What is known after a commit. Version -1 is that of a lake without one."""

    version: int = -1
    boots: Mapping[int, BootSpan] = field(default_factory=dict)
    boot_hours: Mapping[tuple[int, str], BootHour] = field(default_factory=dict)
    fact_hours: Hours = field(default_factory=dict)
    """Of every kind the hours of which bronze has facts."""
    view_starts: Hours = field(default_factory=dict)
    """Of every hour of bronze the hours in which the views of that hour began."""
    pending: Touched = Touched()
    spoken: frozenset[int] = frozenset()
    """Keys of the boots that the pending facts are of."""
    planned: Hours = field(default_factory=dict)
    """What runs have begun to compute since the tables were last settled, as `plan` names it."""
    sessions: Mapping[str, Mapping[str, OpenSessions]] = field(default_factory=dict)
    """Of views, publications and connections, by the hour in which they began, where some are open or were lost."""
    landed_at_us: Mapping[str, int] = field(default_factory=dict)
    """When each landing file was taken, as long as it is there."""
    recordings: Mapping[str, str] = field(default_factory=dict)
    """The recorded files whose GOPs are in silver, and the hour in which each began."""
    masked: frozenset[str] = frozenset()
    """Partitions of bronze, as in play_started/2026-11-15, that have lost their addresses."""
    transforms_version: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """Sums of the counts of all batches."""
    under_way: tuple[Batch, ...] = ()
    """Batches that bronze may have or not."""

    def with_batch(self, batch: Batch) -> "State":
        """With facts that bronze has."""
        boots, boot_hours = dict(self.boots), dict(self.boot_hours)
        for boot in batch.boots:
            known = boots.get(boot.boot_key)
            boots[boot.boot_key] = boot if known is None else known.merged(boot)
        for told in batch.boot_hours:
            before = boot_hours.get((told.boot_key, told.hour))
            boot_hours[told.boot_key, told.hour] = told if before is None else before.merged(told)
        fresh = {f"{kind}/{hour.partition('T')[0]}" for kind, hours in batch.touched.hours.items() for hour in hours}
        return replace(
            self,
            boots=boots,
            boot_hours=boot_hours,
            fact_hours=joined(self.fact_hours, batch.touched.hours),
            view_starts=joined(self.view_starts, batch.touched.view_starts),
            pending=self.pending.joined(batch.touched),
            spoken=self.spoken.union(boot.boot_key for boot in batch.boots),
            landed_at_us={**self.landed_at_us, **dict.fromkeys(batch.landed, batch.at_us)},
            masked=self.masked - fresh,
            counts={
                name: self.counts.get(name, 0) + batch.counts.get(name, 0) for name in {*self.counts, *batch.counts}
            },
        )

    def recovered(self, ingested: int | None) -> "State":
        """With the batch that bronze has last, without those that it has passed; later ones are still under way."""
        passed = -1 if ingested is None else ingested
        state = replace(self, under_way=tuple(batch for batch in self.under_way if batch.number > passed))
        for batch in self.under_way:
            if batch.number == passed:
                state = state.with_batch(batch)
        return state

    def settled(self, sessions: Mapping[str, Mapping[str, OpenSessions]], transforms_version: int) -> "State":
        """After a run whose tables show everything that was pending or planned."""
        tables = {table: dict(hours) for table, hours in self.sessions.items()}
        for table, hours in sessions.items():
            held = tables.setdefault(table, {})
            held.update(hours)
            tables[table] = {hour: each for hour, each in held.items() if each}
        return replace(
            self,
            pending=Touched(),
            spoken=frozenset(),
            planned={},
            sessions=tables,
            transforms_version=transforms_version,
        )

    def without_days_before(self, day: str) -> "State":
        """Without what is about bronze before a day: nothing of it can be computed again."""
        return replace(
            self,
            boot_hours={key: told for key, told in self.boot_hours.items() if told.hour >= day},
            fact_hours=_since(self.fact_hours, day),
            view_starts={hour: starts for hour, starts in self.view_starts.items() if hour >= day},
            masked=frozenset(part for part in self.masked if part.partition("/")[2] >= day),
            sessions={
                table: {hour: each for hour, each in hours.items() if hour >= day}
                for table, hours in self.sessions.items()
            },
        )


class StateTable:
    """Reads and writes the state of one lake."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._table = Table(storage, "state", FOLDER, SCHEMA)

    def read(self, ingested: int | None) -> State:
        """The newest state. `ingested` is the transaction that bronze has, by which it cannot be newer than this."""
        pinned = self._table.pin()
        state = State() if pinned is None else self._state_of(pinned)
        if ingested is not None and ingested > state.version:
            # Its facts would be taken for new ones, and be there twice.
            raise LakeError(
                f"the state, of version {state.version}, is older than bronze, which has facts of version {ingested}:"
                " the folders of a lake are restored from one backup or not at all"
            )
        return state.recovered(ingested)

    def commit(self, state: State) -> State:
        """Put a state in place of the one that it was made from. LakeBusy if another writer was first."""
        pinned = self._table.pin_or_create() if state.version < 0 else self._table.pin(state.version)
        if pinned is None or pinned.version > max(state.version, 0):
            raise LakeBusy("the state: another writer has made it first")
        number = pinned.version + 1
        own = tuple(replace(batch, number=batch.number or number) for batch in state.under_way)
        after = replace(state, version=number, under_way=own)
        data = io.BytesIO()
        pq.write_table(pa.table(_columns(_rows(after)), SCHEMA), data, compression="zstd")
        path = f"{number:020d}-{secrets.token_hex(4)}.parquet"
        self._storage.put(f"{FOLDER}/{path}", data.getvalue())
        self._table.commit(pinned, Change([path], pinned.files, transaction=("state", number)))
        return after

    def recover(self) -> None:
        """Take away what a power cut has torn."""
        self._table.recover()

    def vacuum(self) -> None:
        """Remove the files of older states."""
        self._table.vacuum()

    def _state_of(self, pinned: Pinned) -> State:
        places = [self._storage.path_for_arrow(f"{FOLDER}/{file.path}") for file in pinned.files]
        if not places:
            return State(pinned.version)
        rows = ds.dataset(places, schema=SCHEMA, format="parquet", filesystem=self._storage.fs).to_table()
        return _state(pinned.version, zip(*(rows[name].to_pylist() for name in SCHEMA.names), strict=True))


def joined(left: Hours, right: Hours) -> dict[str, frozenset[str]]:
    """The sets of both, by name."""
    return {name: left.get(name, frozenset()) | right.get(name, frozenset()) for name in left.keys() | right.keys()}


def _since(hours: Hours, day: str) -> dict[str, frozenset[str]]:
    kept = {name: frozenset(hour for hour in held if hour >= day) for name, held in hours.items()}
    return {name: held for name, held in kept.items() if held}


# As rows. Sets are sorted lists, so that equal states are equal bytes.


def _rows(state: State) -> list[tuple[str, str, Any]]:
    rows: list[tuple[str, str, Any]] = [("boot", str(key), asdict(boot)) for key, boot in state.boots.items()]
    hours_of_boots: dict[int, dict[str, Any]] = {}
    for (boot_key, hour), told in state.boot_hours.items():
        hours_of_boots.setdefault(boot_key, {})[hour] = [told.min_seq, told.max_seq, told.has_streams]
    rows += [("boot_hours", str(key), hours) for key, hours in hours_of_boots.items()]
    rows += [("fact_hours", kind, sorted(hours)) for kind, hours in state.fact_hours.items()]
    rows += [("view_starts", hour, sorted(starts)) for hour, starts in state.view_starts.items()]
    rows += [("planned", name, sorted(hours)) for name, hours in state.planned.items() if hours]
    rows += [
        ("sessions", f"{table}/{hour}", [sorted(each.open_boots), sorted(each.lost_boots), each.last_hour])
        for table, hours in state.sessions.items()
        for hour, each in hours.items()
    ]
    rows += [("landed", path, at_us) for path, at_us in state.landed_at_us.items()]
    rows += [("recording", path, hour) for path, hour in state.recordings.items()]
    rows += [("masked", part, True) for part in state.masked]
    rows += [("count", name, count) for name, count in state.counts.items()]
    rows += [("under_way", str(batch.number), _batch_to_json(batch)) for batch in state.under_way]
    rows.append(("pending", "", _touched_to_json(state.pending)))
    rows.append(("spoken", "", sorted(state.spoken)))
    rows.append(("transforms_version", "", state.transforms_version))
    return sorted(rows, key=lambda row: row[:2])


def _columns(rows: list[tuple[str, str, Any]]) -> dict[str, list[str]]:
    values = (json.dumps(value, sort_keys=True) for *_, value in rows)
    return dict(zip(SCHEMA.names, ([row[0] for row in rows], [row[1] for row in rows], list(values)), strict=True))


def _state(version: int, rows: Iterable[tuple[str, str, str]]) -> State:
    held: dict[str, dict[str, Any]] = {}
    for entry, key, value in rows:
        held.setdefault(entry, {})[key] = json.loads(value)

    def entries(name: str) -> dict[str, Any]:
        return held.get(name, {})

    sessions: dict[str, dict[str, OpenSessions]] = {}
    for key, value in entries("sessions").items():
        table, _, hour = key.partition("/")
        open_boots, lost_boots, last_hour = value
        sessions.setdefault(table, {})[hour] = OpenSessions(frozenset(open_boots), frozenset(lost_boots), last_hour)
    return State(
        version=version,
        boots={int(key): BootSpan(**value) for key, value in entries("boot").items()},
        boot_hours={
            (int(key), hour): BootHour(int(key), hour, *told)
            for key, hours in entries("boot_hours").items()
            for hour, told in hours.items()
        },
        fact_hours=_frozen(entries("fact_hours")),
        view_starts=_frozen(entries("view_starts")),
        pending=_touched(entries("pending").get("", {})),
        spoken=frozenset(entries("spoken").get("", ())),
        planned=_frozen(entries("planned")),
        sessions=sessions,
        landed_at_us=entries("landed"),
        recordings=entries("recording"),
        masked=frozenset(entries("masked")),
        transforms_version=entries("transforms_version").get(""),
        counts=entries("count"),
        under_way=tuple(batch_of(value) for _, value in sorted(entries("under_way").items())),
    )


def _frozen(value: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(held) for name, held in value.items()}


def _listed(sets: Hours) -> dict[str, list[str]]:
    return {name: sorted(held) for name, held in sets.items()}


def _touched_to_json(touched: Touched) -> dict[str, Any]:
    return {
        "hours": _listed(touched.hours),
        "view_starts": _listed(touched.view_starts),
        "session_starts": sorted(touched.session_starts),
    }


def _touched(value: Mapping[str, Any]) -> Touched:
    return Touched(
        _frozen(value.get("hours", {})),
        _frozen(value.get("view_starts", {})),
        frozenset(value.get("session_starts", ())),
    )


def _batch_to_json(batch: Batch) -> dict[str, Any]:
    return {**{each.name: getattr(batch, each.name) for each in fields(batch)}} | {
        "touched": _touched_to_json(batch.touched),
        "boots": [asdict(boot) for boot in batch.boots],
        "boot_hours": [asdict(told) for told in batch.boot_hours],
    }


def batch_of(value: Mapping[str, Any]) -> Batch:
    """As JSON has it."""
    return Batch(
        value["number"],
        value["at_us"],
        tuple(value["landed"]),
        _touched(value["touched"]),
        tuple(BootSpan(**boot) for boot in value["boots"]),
        tuple(BootHour(**told) for told in value["boot_hours"]),
        value["counts"],
    )
