"""A batch of lines into bronze: judged, each fact once, written and committed with everything later steps ask for.

Owns the promise that a fact is in bronze once, whoever sends it how often: facts are told apart by boot and number, in
the batch and against the committed files whose numbers overlap with it. For facts that are new no such file is opened.

Lines come in pieces of bounded size, and a piece is all that is held of them. Beyond it there are counts by boot, kind
and hour, and runs of numbers by boot, whatever streams and viewers there are.

A commit also says what its facts touch: hours, the hours in which their views and sessions began, and boots.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from penstock.pipeline.ingest.fact_lines import Flags, Ints, judged
from penstock.pipeline.ingest.fact_rows import Group, boot_keys, bronze_rows, by_day, survey
from penstock.pipeline.ingest.horizon import read_horizon_us
from penstock.pipeline.ingest.quarantine import QuarantineWriter
from penstock.pipeline.ingest.salts import salts_for
from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.dimensions import NO_DIMENSIONS, Dimensions
from penstock.pipeline.lake.fact_kinds import BEACON, STREAM_KINDS, VIEW_KINDS
from penstock.pipeline.lake.hours import HOUR_US, hour_of_us, hours_between
from penstock.pipeline.lake.lake import Lake, Wanted
from penstock.pipeline.lake.layout import BRONZE
from penstock.pipeline.lake.state import Batch, BootHour, BootSpan, Touched
from penstock.pipeline.lake.storage import StoredFile

_LONGEST_WAIT_US: Final = 48 * HOUR_US
"""Who claims to have waited for longer than that began when it says, and at no time between."""
_MAX_OPEN_FILES: Final = 200


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of some lines."""

    files: int = 0
    facts: int = 0
    duplicates: int = 0
    quarantined: int = 0
    late: int = 0
    """Facts that landed more than an hour after they were told."""

    def plus(self, other: "IngestResult") -> "IngestResult":
        """Both together."""
        return IngestResult(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(slots=True)
class Piece:
    """Lines of some files, in their order."""

    lines: list[bytes] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    """How many of the lines are of each file."""

    def add(self, file: StoredFile, lines: Sequence[bytes]) -> None:
        """Go on with these lines of a file."""
        self.lines += lines
        self.files.append(file)
        self.counts.append(len(lines))


def ingest_batch(
    lake: Lake,
    pieces: Iterable[Piece],
    landed: Sequence[str],
    now_us: int,
    dimensions: Dimensions = NO_DIMENSIONS,
) -> IngestResult:
    """Bring lines into bronze by one commit, by which these landing files count as taken."""
    bronze = lake.table(BRONZE).pin_or_create()
    state, oldest_us = lake.read_state(bronze), read_horizon_us(lake.storage)
    groups: list[Group] = []
    told, refused = 0, Counter[str]()
    unique = _Unique(lake, bronze, state.boots)
    quarantine = QuarantineWriter(lake.storage, now_us)
    with closing(_FactFiles(lake)) as files:
        for piece in pieces:
            file_of = np.repeat(np.arange(len(piece.files)), piece.counts)
            landed_at_us = np.array([file.modified_at_us for file in piece.files], np.int64)[file_of]
            facts, broken = judged(piece.lines, landed_at_us, oldest_us)
            for place, refusal in broken:
                quarantine.add(piece.files[file_of[place]], refusal, piece.lines[place])
                refused[refusal] += 1
            told += sum(table.num_rows for table in facts.values())
            for kind, (table, keys) in unique.among(facts).items():
                rows = bronze_rows(kind, table, keys, lambda months: salts_for(lake.storage, months), dimensions)
                groups += survey(kind, rows)
                files.write(kind, rows)
    quarantine.finish()
    count = sum(group.facts for group in groups)
    result = IngestResult(
        files=len(landed),
        facts=count,
        duplicates=told - count,
        quarantined=refused.total(),
        late=sum(group.late for group in groups),
    )
    batch = Batch(
        at_us=now_us,
        landed=tuple(sorted(landed)),
        touched=_touched(groups),
        boots=tuple(_boots(groups)),
        boot_hours=tuple(_boot_hours(groups)),
        counts={
            "facts": result.facts,
            "duplicates": result.duplicates,
            "quarantined": result.quarantined,
            "late_facts": result.late,
            **{f"quarantined_{refusal}": number for refusal, number in refused.items()},
        },
    )
    lake.ingest(bronze, state, batch, files.paths)
    return result


class _FactFiles:
    """Files of bronze that no version has yet: one for each kind and day, with a row group for each piece."""

    def __init__(self, lake: Lake) -> None:
        self.paths: list[str] = []
        self._lake = lake
        self._open: dict[tuple[str, str], pq.ParquetWriter] = {}

    def write(self, kind: str, rows: pa.Table) -> None:
        """Add rows of a kind."""
        for day, of_day in by_day(rows):
            if (kind, day) not in self._open:
                if len(self._open) >= _MAX_OPEN_FILES:
                    self.close()
                path, self._open[kind, day] = self._lake.new_facts(kind, day, rows.schema)
                self.paths.append(path)
            self._open[kind, day].write_table(of_day)

    def close(self) -> None:
        """Finish the files."""
        for writer in self._open.values():
            writer.close()
        self._open.clear()


# Each fact once.


class _Unique:
    """Tells facts that are new from those that bronze or the batch has already; of two the first is kept."""

    def __init__(self, lake: Lake, bronze: Pinned, boots: Mapping[int, BootSpan]) -> None:
        self._lake = lake
        self._bronze = bronze
        self._boots = boots
        self._runs: dict[int, tuple[Ints, Ints]] = {}
        """Numbers of the batch by boot: the first and last ones of each run without a gap. Few, as a rule."""

    def among(self, facts: Mapping[str, pa.Table]) -> dict[str, tuple[pa.Table, Ints]]:
        """The new facts of a piece by kind, and the keys of their boots."""
        if not facts:
            return {}
        keys = {kind: boot_keys(table) for kind, table in facts.items()}
        is_new = self._is_new(
            np.concatenate(list(keys.values())), np.concatenate([table["seq"].to_numpy() for table in facts.values()])
        )
        if is_new.all():
            return {kind: (table, keys[kind]) for kind, table in facts.items()}
        ends = np.cumsum([table.num_rows for table in facts.values()])
        chosen = dict(zip(facts, np.split(is_new, ends[:-1]), strict=True))
        kept = {kind: (facts[kind].filter(pa.array(mask)), keys[kind][mask]) for kind, mask in chosen.items()}
        return {kind: each for kind, each in kept.items() if each[0].num_rows}

    def _is_new(self, keys: Ints, seqs: Ints) -> Flags:
        is_new = np.zeros(len(keys), np.bool_)
        for key in np.unique(keys).tolist():
            places = np.flatnonzero(keys == key)
            numbers, first = np.unique(seqs[places], return_index=True)
            is_known = self._is_in_batch(key, numbers) | self._is_committed(key, numbers)
            is_new[places[first[~is_known]]] = True
            self._add(key, numbers)
        return is_new

    def _is_in_batch(self, key: int, numbers: Ints) -> Flags:
        if key not in self._runs:
            return np.zeros(len(numbers), np.bool_)
        firsts, lasts = self._runs[key]
        run = np.searchsorted(firsts, numbers, "right") - 1
        return (run >= 0) & (numbers <= lasts[run])

    def _add(self, key: int, numbers: Ints) -> None:
        ends = np.flatnonzero(np.diff(numbers) != 1)
        firsts, lasts = numbers[np.append(0, ends + 1)], numbers[np.append(ends, len(numbers) - 1)]
        if key in self._runs:
            firsts, lasts = (np.concatenate(pair) for pair in zip(self._runs[key], (firsts, lasts), strict=True))
            order = np.argsort(firsts)
            firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
            starts = np.append(True, firsts[1:] > lasts[:-1] + 1)
            firsts, lasts = firsts[starts], lasts[np.append(starts[1:], True)]
        self._runs[key] = firsts, lasts

    def _is_committed(self, key: int, numbers: Ints) -> Flags:
        is_known = np.zeros(len(numbers), np.bool_)
        boot, low, high = self._boots.get(key), int(numbers[0]), int(numbers[-1])
        if boot is None or low > boot.max_seq or high < boot.min_seq:
            return is_known
        storage = self._lake.storage
        paths = self._lake.paths(self._bronze, Wanted(seqs=(low, high)))
        if paths:
            schema = pa.schema({"boot_key": pa.int64(), "seq": pa.int64()})
            places = [storage.path_for_arrow(path) for path in paths]
            dataset = ds.dataset(places, schema=schema, format="parquet", filesystem=storage.fs)
            seq = ds.field("seq")
            is_meant = (ds.field("boot_key") == key) & (seq >= low) & (seq <= high)
            for committed in dataset.to_batches(columns=["seq"], filter=is_meant):
                is_known |= np.isin(numbers, committed["seq"].to_numpy())
        return is_known


# What is committed with them.


def _touched(groups: Iterable[Group]) -> Touched:
    hours: dict[str, set[str]] = defaultdict(set)
    view_starts: dict[str, set[str]] = defaultdict(set)
    session_starts: set[str] = set()
    for group in groups:
        hour = hour_of_us(group.hour_us)
        hours[group.kind].add(hour)
        if group.first_start_us is not None and group.last_start_us is not None:
            starts = _hours_of_starts(group.first_start_us, group.last_start_us)
            if group.kind in VIEW_KINDS or group.kind == BEACON:
                view_starts[hour] |= starts
            else:
                session_starts |= starts
    return Touched(_frozen(hours), _frozen(view_starts), frozenset(session_starts))


def _hours_of_starts(first_us: int, last_us: int) -> set[str]:
    """The hours in which sessions may have begun: one may have waited for its first picture from hour to hour."""
    earliest_us = max(first_us, last_us - _LONGEST_WAIT_US)
    return {hour_of_us(first_us), *hours_between(hour_of_us(earliest_us), hour_of_us(last_us))}


def _frozen(sets: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(held) for name, held in sets.items()}


def _boots(groups: Iterable[Group]) -> list[BootSpan]:
    spans: dict[int, BootSpan] = {}
    for group in groups:
        span = BootSpan(
            group.boot_key,
            group.server_id,
            group.boot_id,
            group.first_at_us,
            group.last_at_us,
            group.min_seq,
            group.max_seq,
            group.facts,
            group.kind == "server_stopped",
            group.worker,
        )
        spans[group.boot_key] = spans[group.boot_key].merged(span) if group.boot_key in spans else span
    return [spans[key] for key in sorted(spans)]


def _boot_hours(groups: Iterable[Group]) -> list[BootHour]:
    found: dict[tuple[int, str], BootHour] = {}
    for group in groups:
        hour = hour_of_us(group.hour_us)
        each = BootHour(group.boot_key, hour, group.min_seq, group.max_seq, group.kind in STREAM_KINDS)
        held = found.get((group.boot_key, hour))
        found[group.boot_key, hour] = each if held is None else held.merged(each)
    return [found[key] for key in sorted(found)]
