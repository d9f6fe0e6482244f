"""Which sessions of a file are open, and which a lost server ended: what plans ask for without looking at rows."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.pipeline.lake.layout import ENDS, HOUR, folder_of
from penstock.pipeline.lake.state import OpenSessions
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.lake.tables import SERVER_LOST, TABLES

_REASONS: Final = ("end_reason", "close_reason")


def open_sessions(storage: Storage, table: str, files: Iterable[str]) -> dict[str, OpenSessions]:
    """By the hour in which sessions began; files are those of one table, below its folder."""
    names = [column.name for column in TABLES[table].columns]
    (reason,) = (name for name in _REASONS if name in names)
    columns = ["boot_id", "is_open", reason, HOUR, *(name for name in ENDS if name in names)]
    places = [storage.path_for_arrow(f"{folder_of(table)}/{path}") for path in files]
    if not places:
        return {}
    held: dict[str, OpenSessions] = {}
    for batch in ds.dataset(places, format="parquet", filesystem=storage.fs).to_batches(columns=columns):
        for hour in pc.unique(batch[HOUR]).to_pylist():
            found = _of_hour(batch.filter(pc.equal(batch[HOUR], hour)), reason)
            held[hour] = _merged(found, held.get(hour, OpenSessions()))
    return held


def _merged(left: OpenSessions, right: OpenSessions) -> OpenSessions:
    return OpenSessions(
        left.open_boots | right.open_boots,
        left.lost_boots | right.lost_boots,
        max(left.last_hour, right.last_hour),
    )


def _of_hour(rows: pa.RecordBatch, reason: str) -> OpenSessions:
    lasts = [last for name in ENDS if name in rows.schema.names and (last := pc.max(rows[name]).as_py())]
    return OpenSessions(
        _boots(rows.filter(rows["is_open"])),
        _boots(rows.filter(pc.equal(rows[reason], SERVER_LOST))),
        f"{max(lasts):%Y-%m-%dT%H}" if lasts else "",
    )


def _boots(rows: pa.RecordBatch) -> frozenset[str]:
    return frozenset(pc.unique(rows["boot_id"]).to_pylist())
