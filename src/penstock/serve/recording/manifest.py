"""The manifest of recordings: one JSON line per change of a segment, in a file that all workers append to.

Owns what is known of every recorded file. The newest row of a segment (`recording_id`, `segment`) holds; rows of one
segment follow each other as open, then closed, failed or repaired, and at last deleted. The segment touched last is
last in `rows`; rows of other workers are in it from the next `catch_up` on.

A row is one write in append mode, under a lock on the file, so a reader sees whole lines but for a torn one where a
disk or a process failed, which is passed over. Rows are synced to the disk before the writer goes on, but for those
that only note a gap. When the disk does not take a row, it goes out before the next one. Superseded rows are removed
when the manifest is opened, by a new file in place of the old, once they are most of it: whoever has the old one open
finds out before the next row. Whose folder it is, is not looked at here.
"""

import contextlib
import fcntl
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from penstock.serve.settings import FileModes

MANIFEST_NAME: Final = "manifest.jsonl"
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
    boot_id: str | None = None
    """Of the worker that wrote the file; None: an older server, which did not tell."""

    @classmethod
    def begun(
        cls,
        key: tuple[str, int],
        app: str,
        stream: str,
        started_at: datetime,
        first_timestamp_ms: int,
        *,
        boot_id: str | None = None,
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
            boot_id=boot_id,
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
        self._lines = 0
        self._read_bytes = 0
        self._unsaved: deque[SegmentRow] = deque()
        self._path = folder / MANIFEST_NAME
        modes.make_folder(folder)
        self._descriptor = self._open()
        try:
            with self._alone() as is_alone:
                self._read_on(is_alone=is_alone)
                if is_alone and self._lines > 2 * len(self.rows) + _MAX_SUPERSEDED_ROWS:
                    self._compact()
            sync_folder(folder)
        except OSError:
            os.close(self._descriptor)
            raise

    def newest(self, app: str, stream: str) -> SegmentRow | None:
        """The segment of a stream that was touched last, by whichever worker."""
        self.catch_up()
        of_stream = (row for row in reversed(self.rows.values()) if (row.app, row.stream) == (app, stream))
        return next(of_stream, None)

    def path_of(self, row: SegmentRow) -> Path:
        """Where its file is: in the folder, whatever the row says."""
        return self.folder / Path(row.path).name

    def catch_up(self) -> None:
        """Learn what other workers have noted since the last look."""
        if not self._is_current():
            self._reopen()
        self._read_on(is_alone=False)

    def begin(self, row: SegmentRow) -> SegmentRow:
        """Note a new segment, under a number that no other of its recording has, in any worker; its own or above."""
        with self._alone() as is_alone:
            self._read_on(is_alone=is_alone)
            taken = max(
                (each.segment for each in self.rows.values() if each.recording_id == row.recording_id), default=0
            )
            begun = replace(row, segment=max(row.segment, taken + 1))
            self._write(begun)
        os.fdatasync(self._descriptor)
        return begun

    def save(self, row: SegmentRow, *, is_synced: bool = True) -> None:
        """Note what is known of a segment now. Raises the file's own OSError; the row is not forgotten then."""
        with self._alone() as is_alone:
            self._read_on(is_alone=is_alone)
            self._write(row)
        if is_synced:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)

    # The file.

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, self.modes.file)

    def _reopen(self) -> None:
        """There is another file in the place of the one that is open, which says all that is worth knowing."""
        descriptor = self._open()
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._read_bytes = self._lines = 0
        self.rows.clear()

    def _is_current(self) -> bool:
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._descriptor))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Keep other writers off the file, and have the one open that is in use. Whether that can be done here."""
        is_alone = self._lock()
        try:
            while is_alone and not self._is_current():
                self._reopen()
                is_alone = self._lock()
            yield is_alone
        finally:
            if is_alone:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _lock(self) -> bool:
        try:
            # Nobody has it for longer than a row takes; but a disk may stand still.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError:
            return False  # some network file systems have no locks
        return True

    def _read_on(self, *, is_alone: bool) -> None:
        with open(os.dup(self._descriptor), "rb") as file:
            file.seek(self._read_bytes)
            while line := file.readline(_MAX_LINE_BYTES):
                # What has no end may be a row that is being written, unless nobody else can write.
                if not (line.endswith(b"\n") or is_alone or len(line) == _MAX_LINE_BYTES):
                    break
                self._read_bytes += len(line)
                self._read(line)
        for row in self._unsaved:
            self._remember(row)

    def _read(self, line: bytes) -> None:
        self._lines += 1
        row = read_row(line)
        if row is not None:
            self._remember(row)
        elif line != b"\n":
            self.damaged_lines += 1

    def _remember(self, row: SegmentRow) -> None:
        self.rows.pop(row.key, None)
        if row.status is not SegmentStatus.DELETED:
            self.rows[row.key] = row

    def _write(self, row: SegmentRow) -> None:
        """Write it behind those that the disk did not take before. A row of which it took a part is written again."""
        self._remember(row)
        self._unsaved.append(row)
        while self._unsaved:
            # A torn last line must not swallow the row that comes behind it.
            rest = (b"" if self._ends_whole() else b"\n") + write_row(self._unsaved[0])
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self._unsaved.popleft()

    def _ends_whole(self) -> bool:
        size = os.fstat(self._descriptor).st_size
        return size == 0 or os.pread(self._descriptor, 1, size - 1) == b"\n"

    def _compact(self) -> None:
        new_path = self._path.with_suffix(".new")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(new_path, flags, self.modes.file)
        try:
            with open(os.dup(descriptor), "wb") as file:
                file.writelines(map(write_row, self.rows.values()))
            os.fsync(descriptor)
            new_bytes = os.fstat(descriptor).st_size
            new_path.replace(self._path)
        except OSError:
            os.close(descriptor)
            raise
        # With the old file goes the lock on it. Who waits for that sees that there is a new one.
        os.close(self._descriptor)
        self._descriptor, self._read_bytes, self._lines = descriptor, new_bytes, len(self.rows)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
