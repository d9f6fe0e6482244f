"""What is noted of a file of sessions, so that a plan need not look at its rows.

Owns the names of the notes: boots of rows that are open, boots of rows that were ended with their server, and the last
hour that a row reaches into.
"""

from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import SERVER_LOST


def notes_of(storage: Storage, path: str) -> dict[str, Any]:
    """The notes of a file; none where rows are not open or ended."""
    with storage.fs.open_input_file(storage.path_for_arrow(path)) as source:
        names = pq.read_schema(source).names
        if "is_open" not in names:
            return {}
        ends = [name for name in ("last_seen_at", "ended_at", "opened_at", "closed_at") if name in names]
        reason = "end_reason" if "end_reason" in names else "close_reason"
        rows = pq.read_table(source, columns=["is_open", "boot_id", reason, *ends])
    latest = max((value for name in ends if (value := pc.max(rows[name]).as_py()) is not None), default=None)
    return {
        "open_boots": pc.unique(rows.filter(rows["is_open"])["boot_id"]).sort().to_pylist(),
        "lost_boots": pc.unique(rows.filter(pc.equal(rows[reason], SERVER_LOST))["boot_id"]).sort().to_pylist(),
        "last_hour": None if latest is None else f"{latest:%Y-%m-%dT%H}",
    }
