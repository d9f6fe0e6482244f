"""Recorded files, as the manifest of their folder tells.

Owns what the API knows of recordings. Workers append a line for each change of a file; here the lines are read on from
where the last look ended, in a thread, since disks may hang. Files are looked at only where they are asked for, or
while they grow. The manifest itself is written by workers alone.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

_MANIFEST: Final = "manifest.jsonl"
_MAX_LINE_BYTES: Final = 1024 * 1024
_OPEN: Final = "open"
_DELETED: Final = "deleted"


class RecordedFile(msgspec.Struct, frozen=True):
    """A row of the manifest, as far as the API tells it."""

    recording_id: str
    segment: int
    path: str
    app: str
    stream: str
    status: str
    started_at: datetime
    duration_ms: int
    bytes: int

    @property
    def id(self) -> str:
        """As the API names it."""
        return f"{self.recording_id}-{self.segment}"

    @property
    def is_open(self) -> bool:
        """Whether it is being written."""
        return self.status == _OPEN

    @property
    def started_at_us(self) -> int:
        """Microseconds since 1970."""
        return round(self.started_at.astimezone(UTC).timestamp() * 1_000_000)


_decoder: Final = msgspec.json.Decoder(RecordedFile)


class Catalogue:
    """The newest row of every file that was not deleted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, RecordedFile] = {}
        """By id. Replaced as a whole by each look, so that a reader in another thread sees one state."""
        self._read_bytes = 0
        self._inode: tuple[int, int] | None = None

    def look(self) -> None:
        """Learn what has changed. Blocks on the disk; one call at a time."""
        try:
            with (self.folder / _MANIFEST).open("rb") as file:
                self._read_on(file)
        except FileNotFoundError:
            self.files, self._read_bytes, self._inode = {}, 0, None

    def path_of(self, recorded: RecordedFile) -> Path:
        """Where its file is: in the folder, whatever the row says."""
        return self.folder / Path(recorded.path).name

    def size_of(self, recorded: RecordedFile) -> int | None:
        """What it has grown to; None: it is gone. Blocks on the disk for one that is being written."""
        if not recorded.is_open:
            return recorded.bytes
        try:
            return self.path_of(recorded).stat().st_size
        except OSError:
            return None

    def _read_on(self, file: BinaryIO) -> None:
        status = os.fstat(file.fileno())
        inode = (status.st_dev, status.st_ino)
        files = dict(self.files)
        # Another file in its place says all that is worth knowing; so does one that was cut.
        if inode != self._inode or status.st_size < self._read_bytes:
            files, self._read_bytes, self._inode = {}, 0, inode
        elif status.st_size == self._read_bytes:
            return
        file.seek(self._read_bytes)
        while (line := file.readline(_MAX_LINE_BYTES)).endswith(b"\n") or len(line) == _MAX_LINE_BYTES:
            self._read_bytes += len(line)
            _apply(line, files)
        self.files = files


def _apply(line: bytes, files: dict[str, RecordedFile]) -> None:
    try:
        row = _decoder.decode(line)
    except msgspec.MsgspecError:
        return  # torn where a disk or a process failed
    files.pop(row.id, None)
    if row.status != _DELETED:
        files[row.id] = row
