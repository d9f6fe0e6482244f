"""A lake from before its tables were Delta tables, for those who migrate it. Reads it and removes it; never writes one.

Such a lake keeps its log in `_commits/`: a JSON file for each commit and, now and then, a checkpoint of everything.
Only files that the log names count; gold has one `part.parquet` for each day instead. Files are in folders named by
their hour, which is no column of them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.errors import LakeError
from penstock.pipeline.lake.lake import MIGRATED, OLDER_LOG
from penstock.pipeline.lake.state import State, Touched, batch_of, joined
from penstock.pipeline.lake.storage import Storage

_RENAMED: Final = {"rollup.stream_episodes": "rollup.stream_spells"}
_FOLDERS: Final = re.compile(r"(_live|rollup/stream_spells|bronze/kind=[^/]+|(?:silver|rollup)/[^/]+/hour=[^/]+)/")
_FILES: Final = re.compile(r"gold/.*/part\.parquet|.*/_common_metadata|_notes/unlisted\.json")


@dataclass(frozen=True, slots=True)
class OlderLake:
    """What its log says."""

    tables: Mapping[str, Mapping[str, Sequence[str]]]
    """Of tables by hours: the hours, and the files of each."""
    state: State
    """Without what is known of boots by the hour, and of sessions."""

    def files(self, lake: Storage, table: str) -> list[str]:
        """The files that have the rows of a table."""
        name = _RENAMED.get(table, table)
        if name.startswith("gold."):
            found = lake.find(name.replace(".", "/"))
            return [file.path for file in found if file.path.endswith("/part.parquet")]
        return [path for paths in self.tables.get(name, {}).values() for path in paths]


def read_older(lake: Storage) -> OlderLake:
    """The newest state of its log."""
    names = sorted(file.path for file in lake.find(OLDER_LOG, recursive=False) if f"{OLDER_LOG}/." not in file.path)
    number, state = 0, State()
    tables: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    if checkpoints := [name for name in names if name.endswith(".checkpoint.json")]:
        held = json.loads(lake.read(checkpoints[-1]))
        number, tables = held["number"], held["tables"]
        state = _with(State(), {**held, "at_us": 0, "touched": held["pending"]})
        state = replace(
            state,
            spoken=frozenset(held.get("spoken", state.spoken)),
            view_starts=_frozen(held["view_starts"]),
            landed_at_us=held["landed_at_us"],
            transforms_version=held["transforms_version"],
        )
    newest = max((int(name.rpartition("/")[2].partition(".")[0]) for name in names), default=0)
    while number < newest:
        number += 1
        try:
            commit = json.loads(lake.read(f"{OLDER_LOG}/{number:020d}.json"))
        except FileNotFoundError:
            raise LakeError(f"commit {number} of the older lake is missing, though {newest} is there") from None
        for change in commit["changes"]:
            hours = tables.setdefault(change["table"], {})
            before = () if change["is_replacing"] else hours.get(change["partition"], ())
            hours[change["partition"]] = [*before, *change["files"]]
        state = _after(state, commit)
    kinds = {table.removeprefix("bronze."): hours for table, hours in tables.items() if table.startswith("bronze.")}
    state = replace(
        state,
        fact_hours=_frozen({kind: [hour for hour, files in hours.items() if files] for kind, hours in kinds.items()}),
        recordings={
            path: hour
            for hour, files in tables.get("silver.gops", {}).items()
            for file in files
            for path in file["stats"].get("paths", ())
        },
    )
    paths = {
        table: {hour: [file["path"] for file in files] for hour, files in hours.items()}
        for table, hours in tables.items()
    }
    return OlderLake(paths, state)


def remove_older(lake: Storage) -> None:
    """Remove all of it: the Delta tables hold everything. The log goes last, so that this can be done again."""
    lake.put(MIGRATED, b"")
    folders = set()
    for file in lake.find(""):
        if found := _FOLDERS.match(file.path):
            folders.add(found[1])
        elif _FILES.fullmatch(file.path):
            lake.delete(file.path)
    for folder in [*sorted(folders), OLDER_LOG]:
        lake.delete_folder(folder)
    lake.delete(MIGRATED)


def _after(state: State, commit: Mapping[str, Any]) -> State:
    state = _with(state, commit)
    landed = {file: at_us for file, at_us in state.landed_at_us.items() if file not in commit.get("removed", ())}
    state = replace(state, landed_at_us=landed)
    if commit["stage"] == "gold":
        state = replace(state, transforms_version=commit["transforms_version"])
    return replace(state, pending=Touched(), spoken=frozenset(), planned={}) if commit["is_settling"] else state


def _with(state: State, told: Mapping[str, Any]) -> State:
    batch = batch_of({"landed": (), "boot_hours": (), **told})
    return replace(state.with_batch(batch), planned=joined(state.planned, _frozen(told.get("planned", {}))))


def _frozen(sets: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(held) for name, held in sets.items() if held}
