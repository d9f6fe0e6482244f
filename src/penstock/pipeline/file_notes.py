"""What is noted of a file of sessions, so that a plan need not look at its rows.

Owns the names of the notes: boots of rows that are open, boots of rows that were ended with their server, and the last
hour that a row reaches into.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import SERVER_LOST

_ENDS: Final = ("last_seen_at", "ended_at", "opened_at", "closed_at")
_REASONS: Final = ("end_reason", "close_reason")


def notes_of_file(storage: Storage, path: str) -> dict[str, Any]:
    """The notes of a file; none where rows are not open or ended."""
    with storage.fs.open_input_file(storage.path_for_arrow(path)) as source:
        names = pq.read_schema(source).names
        looked_at = [name for name in ("is_open", "boot_id", *_REASONS, *_ENDS) if name in names]
        return notes_of_rows(pq.read_table(source, columns=looked_at)) if "is_open" in names else {}


def notes_of_rows(rows: pa.Table) -> dict[str, Any]:
    """The same of rows that are about to be a file."""
    names = rows.column_names
    if "is_open" not in names:
        return {}
    (reason,) = (name for name in _REASONS if name in names)
    latest = max((value for name in _ENDS if name in names and (value := pc.max(rows[name]).as_py())), default=None)
    return {
        "open_boots": pc.unique(rows.filter(rows["is_open"])["boot_id"]).sort().to_pylist(),
        "lost_boots": pc.unique(rows.filter(pc.equal(rows[reason], SERVER_LOST))["boot_id"]).sort().to_pylist(),
        "last_hour": None if latest is None else f"{latest:%Y-%m-%dT%H}",
    }
