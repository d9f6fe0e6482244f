"""Which recorded files there are: the manifest of a folder of recordings, as far as the pipeline needs it.

Owns reading `manifest.jsonl`. The newest row of a segment (`recording_id`, `segment`) holds, and only finished files
count: those being written, failed or deleted are left out. A line that is torn or is no row of ours is passed over. App
and stream are told by the manifest alone; a path is taken for a name within the folder, whatever it says.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from penstock.pipeline.storage import Storage

MANIFEST_NAME: Final = "manifest.jsonl"
_FINISHED: Final = frozenset(("closed", "repaired"))


@dataclass(frozen=True, slots=True)
class Segment:
    """One finished file of a recording, as the manifest tells it."""

    recording_id: str
    segment: int
    path: str
    """Below the folder of recordings."""
    app: str
    stream: str
    started_at_us: int
    duration_ms: int
    bytes: int
    video: str | None
    audio: str | None


def read_segments(recordings: Storage) -> list[Segment]:
    """Every finished segment, sorted by recording and number; none if there is no manifest."""
    if not recordings.exists(MANIFEST_NAME):
        return []
    return segments_of(recordings.read(MANIFEST_NAME).splitlines())


def segments_of(lines: Iterable[bytes]) -> list[Segment]:
    """The finished segments that these lines of a manifest tell of; a later line of a segment holds."""
    newest: dict[tuple[str, int], Segment | None] = {}
    for line in lines:
        row = _row(line)
        try:
            key = str(row["recording_id"]), int(row["segment"])
            newest[key] = _segment(row) if row["status"] in _FINISHED else None
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    held = (newest[key] for key in sorted(newest))
    return [segment for segment in held if segment is not None]


def _row(line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _segment(row: Mapping[str, Any]) -> Segment | None:
    name = PurePosixPath(str(row["path"])).name
    if name in ("", ".."):
        return None
    started_at = datetime.fromisoformat(row["started_at"]).astimezone(UTC)
    return Segment(
        recording_id=str(row["recording_id"]),
        segment=int(row["segment"]),
        path=name,
        app=str(row["app"]),
        stream=str(row["stream"]),
        started_at_us=round(started_at.timestamp() * 1_000_000),
        duration_ms=int(row["duration_ms"]),
        bytes=int(row["bytes"]),
        video=row["video"],
        audio=row["audio"],
    )
