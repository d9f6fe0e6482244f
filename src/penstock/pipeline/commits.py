"""The log of commits: which files the tables of the lake consist of.

Owns `lake/_commits/`: one JSON file for each commit, numbered without holes, put in place in one step. A commit adds
files to partitions or gives partitions new files in place of all old ones. A reader takes the newest checkpoint, which
holds the whole state, and the commits after it; files that no commit lists do not exist for it. There is one writer at
a time, held by `lock`.

The state also carries what one run leaves for the next: what new facts touched and the tables do not show yet, whose
facts those are, which batches and landing files were taken, and the span of every boot.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from penstock.errors import LakeError
from penstock.pipeline.storage import Storage

FOLDER: Final = "_commits"
SEQS: Final = "seqs"
"""In the stats of a file of bronze: keys of boots, as text, to the lowest and the highest number of their facts."""
_CHECKPOINT_EVERY: Final = 20
_KEPT_BEFORE_CHECKPOINT: Final = 40
"""Commits kept for readers that looked at the folder just before a checkpoint was made, and for the curious."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a partition. `path` is relative to the lake; `stats` is what its writer wants to know later."""

    path: str
    rows: int
    bytes: int
    stats: Mapping[str, Any] = field(default_factory=dict)

    def may_tell_of(self, boot_key: int) -> bool:
        """Whether a file of bronze has facts of a boot, as far as its stats say."""
        seqs = self.stats.get(SEQS)
        return seqs is None or str(boot_key) in seqs


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

    @property
    def has_gaps(self) -> bool:
        """Whether facts of it are missing; they are numbered from 1."""
        return self.facts < self.max_seq

    def merged(self, other: "BootSpan") -> "BootSpan":
        """Both together."""
        return BootSpan(
            self.boot_key,
            self.server_id,
            self.boot_id,
            min(self.first_at_us, other.first_at_us),
            max(self.last_at_us, other.last_at_us),
            min(self.min_seq, other.min_seq),
            max(self.max_seq, other.max_seq),
            self.facts + other.facts,
            self.is_stopped or other.is_stopped,
        )


@dataclass(frozen=True, slots=True)
class Touched:
    """What new facts bear on. Hours are written as in 2026-11-15T20."""

    hours: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Kind of fact to the hours that got new ones."""
    view_starts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Hour of new facts about views to the hours in which those views began."""
    session_starts: frozenset[str] = frozenset()
    """Hours in which connections and publications began that new facts tell of."""

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> "Touched":
        """As a commit holds it."""
        return cls(
            _frozen(value["hours"]),
            _frozen(value["view_starts"]),
            frozenset(value["session_starts"]),
        )

    def to_json(self) -> dict[str, Any]:
        """The same, for a commit."""
        return {
            "hours": _listed(self.hours),
            "view_starts": _listed(self.view_starts),
            "session_starts": sorted(self.session_starts),
        }

    def joined(self, other: "Touched") -> "Touched":
        """Both together."""
        return Touched(
            _joined(self.hours, other.hours),
            _joined(self.view_starts, other.view_starts),
            self.session_starts | other.session_starts,
        )

    def __bool__(self) -> bool:
        return bool(self.hours)


def _frozen(value: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(held) for name, held in value.items()}


def _listed(sets: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {name: sorted(held) for name, held in sorted(sets.items())}


def _joined(left: Mapping[str, frozenset[str]], right: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {name: left.get(name, frozenset()) | right.get(name, frozenset()) for name in left.keys() | right.keys()}


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit does to one partition: these files join, or stand in place of, those that were there."""

    table: str
    partition: str
    files: tuple[DataFile, ...]
    is_replacing: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """One step of the lake."""

    number: int
    run_id: str
    at_us: int
    stage: str
    """bronze, silver, gold, compaction, retention, erasure or quarantine."""
    software_version: str
    transforms_version: int
    changes: tuple[Change, ...]
    batch: int | None = None
    """The batch of the stream of landing files that this commit holds."""
    landed: tuple[str, ...] = ()
    """The landing files of that batch."""
    removed: tuple[str, ...] = ()
    """Landing files that are gone."""
    touched: Touched = Touched()
    boots: tuple[BootSpan, ...] = ()
    planned: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """What the run that made it is about to compute, as `plan` names it: silver that it has changed asks no more."""
    is_settling: bool = False
    """Whether all tables show everything that was touched or planned before."""
    counts: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """As it is stored."""
        value = asdict(self) | {"touched": self.touched.to_json(), "planned": _listed(self.planned)}
        return json.dumps(value, indent=None, sort_keys=True).encode() + b"\n"

    @classmethod
    def of_json(cls, data: bytes) -> "Commit":
        """The commit that was stored."""
        value = json.loads(data)
        changes = tuple(
            Change(change["table"], change["partition"], _files(change["files"]), change["is_replacing"])
            for change in value.pop("changes")
        )
        boots = tuple(BootSpan(**boot) for boot in value.pop("boots"))
        touched = Touched.of_json(value.pop("touched"))
        planned = _frozen(value.pop("planned", {}))
        landed, removed = (tuple(value.pop(name, ())) for name in ("landed", "removed"))
        return cls(
            changes=changes, boots=boots, touched=touched, planned=planned, landed=landed, removed=removed, **value
        )


def _fields(entry: DataFile | BootSpan) -> dict[str, Any]:
    """What `asdict` gives but for its copies, of which a lake with many files needs many."""
    return {name: getattr(entry, name) for name in entry.__slots__}


def _files(values: Iterable[Mapping[str, Any]]) -> tuple[DataFile, ...]:
    return tuple(DataFile(**value) for value in values)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The lake after a commit. Number 0 is the empty lake."""

    number: int = 0
    tables: Mapping[str, Mapping[str, tuple[DataFile, ...]]] = field(default_factory=dict)
    boots: Mapping[int, BootSpan] = field(default_factory=dict)
    pending: Touched = Touched()
    spoken: frozenset[int] = frozenset()
    """Keys of the boots that the pending facts are of."""
    planned: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """What runs have begun to compute since the tables were last settled."""
    view_starts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of every hour of bronze the hours in which the views of that hour began."""
    last_batch: int | None = None
    landed_at_us: Mapping[str, int] = field(default_factory=dict)
    """When each landing file was committed, as long as it is there."""
    transforms_version: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """Sums of the counts of all commits."""

    def partitions(self, table: str) -> list[str]:
        """Those that the table has, in order."""
        return sorted(self.tables.get(table, {}))

    def files(self, table: str, partitions: Iterable[str] | None = None) -> list[DataFile]:
        """The files of these partitions, or of all."""
        held = self.tables.get(table, {})
        wanted = sorted(held) if partitions is None else sorted(set(partitions) & held.keys())
        return [file for partition in wanted for file in held[partition]]

    def after(self, commit: Commit) -> "Snapshot":
        """The lake with one more commit."""
        tables = {table: dict(partitions) for table, partitions in self.tables.items()}
        for change in commit.changes:
            partitions = tables.setdefault(change.table, {})
            before = () if change.is_replacing else partitions.get(change.partition, ())
            files = (*before, *change.files)
            if files:
                partitions[change.partition] = files
            else:
                partitions.pop(change.partition, None)
        boots = dict(self.boots)
        for boot in commit.boots:
            boots[boot.boot_key] = boots[boot.boot_key].merged(boot) if boot.boot_key in boots else boot
        is_gold, removed = commit.stage == "gold", set(commit.removed)
        return Snapshot(
            commit.number,
            tables,
            boots,
            Touched() if commit.is_settling else self.pending.joined(commit.touched),
            frozenset() if commit.is_settling else self.spoken.union(boot.boot_key for boot in commit.boots),
            {} if commit.is_settling else _joined(self.planned, commit.planned),
            _joined(self.view_starts, commit.touched.view_starts),
            self.last_batch if commit.batch is None else commit.batch,
            {
                **{file: at_us for file, at_us in self.landed_at_us.items() if file not in removed},
                **dict.fromkeys(commit.landed, commit.at_us),
            },
            commit.transforms_version if is_gold else self.transforms_version,
            {
                name: self.counts.get(name, 0) + commit.counts.get(name, 0)
                for name in self.counts.keys() | commit.counts
            },
        )

    def to_json(self) -> bytes:
        """As a checkpoint holds it."""
        value = {
            "number": self.number,
            "tables": {
                table: {partition: [_fields(file) for file in files] for partition, files in partitions.items()}
                for table, partitions in self.tables.items()
            },
            "boots": [_fields(boot) for boot in self.boots.values()],
            "pending": self.pending.to_json(),
            "spoken": sorted(self.spoken),
            "planned": _listed(self.planned),
            "view_starts": _listed(self.view_starts),
            "last_batch": self.last_batch,
            "landed_at_us": dict(self.landed_at_us),
            "transforms_version": self.transforms_version,
            "counts": dict(self.counts),
        }
        return json.dumps(value, sort_keys=True).encode() + b"\n"

    @classmethod
    def of_json(cls, data: bytes) -> "Snapshot":
        """The state of a checkpoint."""
        value = json.loads(data)
        tables = {
            table: {partition: _files(files) for partition, files in partitions.items()}
            for table, partitions in value.pop("tables").items()
        }
        boots = {boot["boot_key"]: BootSpan(**boot) for boot in value.pop("boots")}
        pending = Touched.of_json(value.pop("pending"))
        # An older checkpoint does not say: it may have been any.
        spoken = frozenset(value.pop("spoken", boots if pending else ()))
        planned, starts = _frozen(value.pop("planned", {})), _frozen(value.pop("view_starts"))
        return cls(
            tables=tables,
            boots=boots,
            pending=pending,
            spoken=spoken,
            planned=planned,
            view_starts=starts,
            **value,
        )


class CommitLog:
    """The folder of commits."""

    def __init__(self, lake: Storage) -> None:
        self._lake = lake

    def snapshot(self) -> Snapshot:
        """The newest state."""
        names = [file.path.rpartition("/")[2] for file in self._lake.find(FOLDER, recursive=False)]
        checkpoints = sorted(name for name in names if name.endswith(".checkpoint.json") and name[0] != ".")
        state = Snapshot()
        if checkpoints:
            state = Snapshot.of_json(self._lake.read(f"{FOLDER}/{checkpoints[-1]}"))
        while True:
            path = _path(state.number + 1)
            try:
                data = self._lake.read(path)
            except FileNotFoundError:
                break
            state = state.after(Commit.of_json(data))
        newest = max((int(name[:20]) for name in names if name[:20].isdigit()), default=0)
        if newest > state.number:
            raise LakeError(f"the lake's commit {state.number + 1} is missing, though {newest} is there")
        return state

    def append(self, before: Snapshot, commit: Commit) -> Snapshot:
        """Make a commit that follows this state; the state after it."""
        if commit.number != before.number + 1 or self._lake.exists(_path(commit.number)):
            raise LakeError(f"commit {commit.number} was made by somebody else; is there a second writer?")
        self._lake.put(_path(commit.number), commit.to_json())
        after = before.after(commit)
        if after.number % _CHECKPOINT_EVERY == 0:
            self._lake.put(f"{FOLDER}/{after.number:020d}.checkpoint.json", after.to_json())
            for file in self._lake.find(FOLDER, recursive=False):
                digits = file.path.rpartition("/")[2][:20]
                if digits.isdigit() and int(digits) <= after.number - _KEPT_BEFORE_CHECKPOINT:
                    self._lake.delete(file.path)
        return after


def _path(number: int) -> str:
    return f"{FOLDER}/{number:020d}.json"
