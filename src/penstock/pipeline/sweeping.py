"""Files that nobody lists: what commits took the place of, and what runs left that were killed.

Owns when they go. A reader that looked at the log of commits just before a commit may be at the old files for a while
yet, so a file stays for an hour after it was first seen unlisted. To be called by whoever holds the lock and has no
commit in the making.
"""

import json
import re
from typing import Final

from penstock.pipeline.lake import Lake
from penstock.pipeline.storage import Storage

KEPT_FOR_READERS_US: Final = 3_600_000_000
LEFTOVERS_KEPT_US: Final = 86_400_000_000
_EVERY_US: Final = 600_000_000
"""The whole lake is listed for it, so not in every cycle."""
_NOTES: Final = "_notes/unlisted.json"
_LAYERS: Final = ("bronze", "silver", "rollup")
# As `lake` names what it writes: run, number of the write, number of the file. Whatever else is there is left alone.
_WRITTEN_BY_A_RUN: Final = re.compile(r"/\d{8}T\d{6}-[0-9a-f]+-\d+-\d+\.parquet$")


def sweep(lake: Lake, now_us: int) -> int:
    """Remove what has been unlisted for long enough. How many files."""
    swept_at_us, since = _read_notes(lake.storage)
    if now_us - swept_at_us < _EVERY_US:
        return 0
    snapshot = lake.snapshot()
    listed = {file.path for table in snapshot.tables for file in snapshot.files(table)}
    found = (file.path for layer in _LAYERS for file in lake.storage.find(layer))
    unlisted = {
        path: since.get(path, now_us) for path in found if path not in listed and _WRITTEN_BY_A_RUN.search(path)
    }
    gone = [path for path, since_us in unlisted.items() if now_us - since_us >= KEPT_FOR_READERS_US]
    for path in gone:
        lake.storage.delete(path)
        del unlisted[path]
    leftovers = _remove_leftovers(lake.storage, now_us)
    lake.storage.put(_NOTES, json.dumps({"swept_at_us": now_us, "unlisted": unlisted}, sort_keys=True).encode())
    return len(gone) + leftovers


def _remove_leftovers(lake: Storage, now_us: int) -> int:
    """Half-written files of the lake: those being staged, and hidden ones that were never put in place."""
    old = [
        file.path
        for file in lake.find("")
        if (file.path.startswith("_staging/") or file.path.rpartition("/")[2].startswith("."))
        and now_us - file.modified_at_us >= LEFTOVERS_KEPT_US
    ]
    for path in old:
        lake.delete(path)
    return len(old)


def _read_notes(lake: Storage) -> tuple[int, dict[str, int]]:
    """When the lake was last swept, and since when files are unlisted."""
    try:
        notes = json.loads(lake.read(_NOTES))
        return notes["swept_at_us"], notes["unlisted"]
    except (FileNotFoundError, ValueError, KeyError):
        # Without them it counts from now.
        return 0, {}
