"""The manifest of recordings: one JSON line per change of a segment, in a file that only grows while it is open.

Owns what is known of every recorded file. The newest row of a segment (`recording_id`, `segment`) holds; rows of one
segment follow each other as open, then closed, failed or repaired, and at last deleted. The segment touched last is
last in `rows`.

A row is one write in append mode, so a reader sees whole lines but for a torn last one after a crash, which is passed
over. Rows are synced to the disk before the writer goes on, but for those that only note a gap. When the disk does not
take a row, it goes out before the next one. Superseded rows are removed when the manifest is opened, by a new file in
place of the old, once they are most of it. A lock on the folder keeps a second server out of it.
"""

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from penstock.serve.settings import FileModes

MANIFEST_NAME: Final = "manifest.jsonl"
LOCK_NAME: Final = ".lock"
_MAX_LINE_BYTES: Final = 1024 * 1024
_MAX_SUPERSEDED_ROWS: Final = 1000


class SegmentStatus(StrEnum):
    """What became of a segment."""

    OPEN = "open"
    CLOSED = "closed"
    FAILED = "failed"
    REPAIRED = "repaired"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Gap:
    """Some of the stream is missing. `at_ms` is the time in the file; how long the gap is was told by the stream."""

    at_ms: int
    length_ms: int
    dropped_messages: int
    dropped_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """One file of a recording. Times in the file start at 0; `first_timestamp_ms` is what was taken off."""

    recording_id: str
    segment: int
    path: str
    """Below the folder of recordings."""
    app: str
    stream: str
    status: SegmentStatus
    reason: str | None
    """Why it failed, what was repaired or why it was deleted."""
    started_at: AwareDatetime
    ended_at: AwareDatetime | None
    duration_ms: int
    bytes: int
    video: str | None
    audio: str | None
    keyframes: int
    gaps: tuple[Gap, ...]
    first_timestamp_ms: int
    last_timestamp_ms: int

    @classmethod
    def begun(
        cls, key: tuple[str, int], app: str, stream: str, started_at: datetime, first_timestamp_ms: int
    ) -> "SegmentRow":
        """The row of a segment that has nothing in it yet, not even a name."""
        return cls(
            *key,
            path="",
            app=app,
            stream=stream,
            status=SegmentStatus.OPEN,
            reason=None,
            started_at=started_at,
            ended_at=None,
            duration_ms=0,
            bytes=0,
            video=None,
            audio=None,
            keyframes=0,
            gaps=(),
            first_timestamp_ms=first_timestamp_ms,
            last_timestamp_ms=first_timestamp_ms,
        )

    @property
    def key(self) -> tuple[str, int]:
        """Which segment it is about."""
        return self.recording_id, self.segment

    @property
    def stream_key(self) -> str:
        """The stream as viewers name it."""
        return f"{self.app}/{self.stream}"


_ROW: Final = TypeAdapter(SegmentRow)


def write_row(row: SegmentRow) -> bytes:
    """A row as a line."""
    return _ROW.dump_json(row) + b"\n"


def read_row(line: bytes) -> SegmentRow | None:
    """A line as a row; None for anything else."""
    try:
        return _ROW.validate_json(line)
    except ValidationError:
        return None


class Manifest:
    """The manifest of one folder, open for writing. Its folder is made if it is not there."""

    def __init__(self, folder: Path, modes: FileModes) -> None:
        self.folder = folder
        self.modes = modes
        self.rows: dict[tuple[str, int], SegmentRow] = {}
        """The newest row of every segment that was not deleted."""
        self.damaged_lines = 0
        self._unsaved = b""
        modes.make_folder(folder)
        self._lock = _lock(folder, modes.file)
        try:
            path = folder / MANIFEST_NAME
            lines = self._load(path) if path.exists() else 0
            if lines > 2 * len(self.rows) + _MAX_SUPERSEDED_ROWS:
                self._compact(path)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, modes.file)
            sync_folder(folder)
        except OSError:
            os.close(self._lock)
            raise

    def newest(self, app: str, stream: str) -> SegmentRow | None:
        """The segment of a stream that was touched last."""
        of_stream = (row for row in reversed(self.rows.values()) if (row.app, row.stream) == (app, stream))
        return next(of_stream, None)

    def next_segment(self, recording_id: str) -> int:
        """A number that no segment of a recording has."""
        return 1 + max((row.segment for row in self.rows.values() if row.recording_id == recording_id), default=0)

    def path_of(self, row: SegmentRow) -> Path:
        """Where its file is: in the folder, whatever the row says."""
        return self.folder / Path(row.path).name

    def save(self, row: SegmentRow, *, is_synced: bool = True) -> None:
        """Note what is known of a segment now. Raises the file's own OSError; the row is not forgotten then."""
        self._remember(row)
        self._unsaved += write_row(row)
        while self._unsaved:
            self._unsaved = self._unsaved[os.write(self._descriptor, self._unsaved) :]
        if is_synced:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._descriptor)
        os.close(self._lock)

    def _remember(self, row: SegmentRow) -> None:
        self.rows.pop(row.key, None)
        if row.status is not SegmentStatus.DELETED:
            self.rows[row.key] = row

    def _load(self, path: Path) -> int:
        lines = 0
        with path.open("rb") as file:
            for line in _lines(file):
                lines += 1
                row = read_row(line)
                if row is None:
                    self.damaged_lines += 1
                else:
                    self._remember(row)
                # A torn last line must not swallow the row that comes behind it.
                self._unsaved = b"" if line.endswith(b"\n") else b"\n"
        return lines

    def _compact(self, path: Path) -> None:
        new_path = path.with_suffix(".new")
        with open(new_path, "wb", opener=partial(os.open, mode=self.modes.file)) as file:
            file.writelines(map(write_row, self.rows.values()))
            file.flush()
            os.fsync(file.fileno())
        new_path.replace(path)
        self._unsaved = b""


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(_MAX_LINE_BYTES):
        yield line


def _lock(folder: Path, mode: int) -> int:
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise BlockingIOError(error.errno, "another server records here", str(folder)) from None
    except OSError:
        pass  # some network file systems have no locks
    return descriptor
