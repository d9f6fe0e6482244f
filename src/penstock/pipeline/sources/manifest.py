"""The manifest beside recordings: which app, stream, recording and segment a file holds.

Owns reading `manifest.jsonl` as the recorder writes it: a line for each change of a segment, the newest of which holds.
Lines that are no rows are passed over, as the last one may be torn. The file may be replaced by a shorter one that has
only the newest row of each segment left, in the order in which they were last touched.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyarrow.fs import FileType

from penstock.pipeline.sources.files import Location, OpenFile, file_system

MANIFEST_NAME: Final = "manifest.jsonl"
_FINISHED: Final = frozenset({"closed", "repaired"})


@dataclass(frozen=True, slots=True)
class Segment:
    """One row: a file of a recording and what became of it."""

    recording_id: str
    segment: int
    name: str
    app: str
    stream: str
    status: str
    ended_at: str
    file_bytes: int

    @property
    def key(self) -> str:
        return f"{self.recording_id}/{self.segment}"

    @property
    def is_open(self) -> bool:
        return self.status == "open"

    @property
    def is_finished(self) -> bool:
        return self.status in _FINISHED


def read_rows(folder: Location) -> list[Segment]:
    """Every row, in the order in which they were written; none where there is no manifest."""
    place = folder.child(MANIFEST_NAME)
    if file_system(place).get_file_info(place.path).type is not FileType.File:
        return []
    with OpenFile(place) as file:
        data = file.read_at(0, file.file_bytes)
    return list(_rows(data))


def segments_by_name(folder: Location) -> dict[str, Segment]:
    """The newest row of each file in a folder."""
    newest = {row.key: row for row in read_rows(folder)}
    return {row.name: row for row in newest.values() if row.status != "deleted"}


def _rows(data: bytes) -> Iterator[Segment]:
    for line in data.split(b"\n"):
        try:
            row = json.loads(line)
            yield Segment(
                recording_id=str(row["recording_id"]),
                segment=int(row["segment"]),
                # The file is in the folder of its manifest, whatever the row says.
                name=str(row["path"]).rpartition("/")[2],
                app=str(row["app"]),
                stream=str(row["stream"]),
                status=str(row["status"]),
                ended_at=str(row["ended_at"] or ""),
                file_bytes=int(row["bytes"]),
            )
        except (ValueError, TypeError, KeyError):
            continue
