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
    rows = ds.dataset(places, format="parquet", filesystem=storage.fs).to_table(columns=columns)
    hours = pc.unique(rows[HOUR]).to_pylist()
    return {hour: _of_hour(rows.filter(pc.equal(rows[HOUR], hour)), reason) for hour in hours}


def _of_hour(rows: pa.Table, reason: str) -> OpenSessions:
    lasts = [last for name in ENDS if name in rows.column_names and (last := pc.max(rows[name]).as_py())]
    return OpenSessions(
        frozenset(rows.filter(rows["is_open"])["boot_id"].to_pylist()),
        frozenset(rows.filter(pc.equal(rows[reason], SERVER_LOST))["boot_id"].to_pylist()),
        f"{max(lasts):%Y-%m-%dT%H}" if lasts else "",
    )
