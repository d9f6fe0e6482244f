"""The manifest beside recordings: app, stream, recording, segment and status of each file.

Owns reading `manifest.jsonl` as the recorder writes it: a line for each change of a segment, the newest one counts.
Lines that are no rows are skipped, as the last one may be torn. The file may be replaced by a compacted one that has
only the newest row of each segment, in the order of their last change. App and stream are known from the manifest only;
a file is in the folder of its manifest, whatever the row says.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from pyarrow.fs import FileType

from penstock.pipeline.lake.hours import us_of
from penstock.pipeline.sources.files import Location, OpenFile, file_system

MANIFEST_NAME: Final = "manifest.jsonl"
_FINISHED: Final = frozenset({"closed", "repaired"})


@dataclass(frozen=True, slots=True)
class Segment:
    """One row: a file of a recording and its status."""

    recording_id: str
    segment: int
    path: str
    """Its name in the folder of recordings."""
    app: str
    stream: str
    status: str
    started_at_us: int
    ended_at: str
    """As the row spells it; empty while it is open."""
    duration_ms: int
    bytes: int
    video: str | None
    audio: str | None

    @property
    def key(self) -> tuple[str, int]:
        """Which segment it is about."""
        return self.recording_id, self.segment

    @property
    def ended_at_us(self) -> int | None:
        """When it ended, in microseconds since 1970; None while it is open, or if the row has no time there."""
        try:
            return _microseconds(self.ended_at)
        except (ValueError, OverflowError):
            return None

    @property
    def is_open(self) -> bool:
        """Whether the file is being written."""
        return self.status == "open"

    @property
    def is_finished(self) -> bool:
        """Whether the file is there and as it will stay."""
        return self.status in _FINISHED


def read_rows(folder: Location) -> list[Segment]:
    """Every row, in the order in which they were written; none where there is no manifest."""
    place = folder.child(MANIFEST_NAME)
    if file_system(place).get_file_info(place.path).type is not FileType.File:
        return []
    with OpenFile(place) as file:
        data = file.read_at(0, file.file_bytes)
    return list(rows_of(data.split(b"\n")))


def rows_of(lines: Iterable[bytes]) -> Iterator[Segment]:
    """The rows among these lines."""
    for line in lines:
        try:
            row = json.loads(line)
            segment = Segment(
                recording_id=str(row["recording_id"]),
                segment=int(row["segment"]),
                path=PurePosixPath(str(row["path"])).name,
                app=str(row["app"]),
                stream=str(row["stream"]),
                status=str(row["status"]),
                started_at_us=_microseconds(row["started_at"]),
                ended_at=str(row["ended_at"] or ""),
                duration_ms=int(row["duration_ms"]),
                bytes=int(row["bytes"]),
                video=row["video"],
                audio=row["audio"],
            )
        except (ValueError, TypeError, KeyError, OverflowError):
            continue
        if segment.path not in ("", ".."):
            yield segment


def segments_by_name(folder: Location) -> dict[str, Segment]:
    """The newest row of each file in a folder."""
    newest = {row.key: row for row in read_rows(folder)}
    return {row.path: row for row in newest.values() if row.status != "deleted"}


def finished_segments(rows: Iterable[Segment]) -> list[Segment]:
    """Every segment that is finished by its newest row, sorted by recording and number."""
    newest = {row.key: row for row in rows}
    return [newest[key] for key in sorted(newest) if newest[key].is_finished]


def _microseconds(time: str) -> int:
    return us_of(datetime.fromisoformat(time).astimezone(UTC))
