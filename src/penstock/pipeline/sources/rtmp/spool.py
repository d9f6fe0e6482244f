"""A folder between a live stream and its reader: rows wait there until Spark has committed them.

Owns files of rows and their numbers. A file is written under a hidden name and renamed, and never changes after that,
so rows have the same numbers each time they are read, also after a restart. Committed files are deleted, but for the
newest, which tells the next number. The folder may lie on any file system that all executors see.

A spool has one writer. A new one puts its mark into the folder; the one before it, if it still runs, sees the mark and
stops writing.
"""

import re
import threading
import uuid
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import ipc
from pyarrow.fs import FileSelector, FileType

from penstock.errors import MalformedInput, MisuseError
from penstock.pipeline.sources.files import Location, OpenFile, file_system

_NAME: Final = re.compile(r"rows-(\d{20})-(\d{8})\.arrow")
_OWNER_NAME: Final = "owner"


@dataclass(frozen=True, slots=True)
class SpoolFile:
    """Rows from number `first` on, so many."""

    location: Location
    first: int
    count: int
    file_bytes: int

    @property
    def end(self) -> int:
        return self.first + self.count


class Spool:
    """The rows of one live stream that are not committed yet. Safe to use from two threads."""

    def __init__(self, folder: Location) -> None:
        self._folder = folder
        self._file_system = file_system(folder)
        self._file_system.create_dir(folder.path, recursive=True)
        self._lock = threading.Lock()
        self._files = self._listed()
        self._next_row = self._files[-1].end if self._files else 0
        self._mark: bytes | None = None

    @property
    def next_row(self) -> int:
        """The number that the next row will have."""
        with self._lock:
            return self._next_row

    @property
    def spooled_bytes(self) -> int:
        """The size of all files but the newest, which is kept in any case."""
        with self._lock:
            return sum(file.file_bytes for file in self._files[:-1])

    def own(self) -> None:
        """Become the writer."""
        self._mark = uuid.uuid4().hex.encode()
        self._write(_OWNER_NAME, self._mark)

    def number_from(self, row: int) -> None:
        """Number new rows from this one on at least: those before it were committed, whatever became of the folder."""
        with self._lock:
            self._next_row = max(self._next_row, row)

    def append(self, rows: pa.RecordBatch) -> bool:
        """Add rows behind the last. False if another writer has taken over; then nothing was added."""
        if self._mark is None:
            raise MisuseError("spool: append before own")
        with OpenFile(self._folder.child(_OWNER_NAME)) as owner:
            if owner.read_at(0, owner.file_bytes) != self._mark:
                return False
        sink = pa.BufferOutputStream()
        with ipc.new_file(sink, rows.schema) as writer:
            writer.write_batch(rows)
        data = sink.getvalue()
        first = self.next_row
        name = f"rows-{first:020d}-{rows.num_rows:08d}.arrow"
        self._write(name, data)
        with self._lock:
            self._files.append(SpoolFile(self._folder.child(name), first, rows.num_rows, data.size))
            self._next_row = first + rows.num_rows
        return True

    def files_between(self, start: int, end: int) -> list[SpoolFile]:
        """The files that hold these rows, which must all be there."""
        with self._lock:
            files = [file for file in self._files if file.end > start and file.first < end]
        held = sum(min(file.end, end) - max(file.first, start) for file in files)
        if held != max(end - start, 0):
            raise MalformedInput("spool", f"{self._folder.uri} holds {held} of the rows {start} to {end}")
        return files

    def free(self, end: int) -> None:
        """Delete files of which every row is below `end`."""
        with self._lock:
            done = [file for file in self._files[:-1] if file.end <= end]
            self._files = [file for file in self._files if file not in done]
        for file in done:
            self._file_system.delete_file(file.location.path)

    def _write(self, name: str, data: bytes | pa.Buffer) -> None:
        hidden = self._folder.child("." + name)
        with self._file_system.open_output_stream(hidden.path) as stream:
            stream.write(data)
        self._file_system.move(hidden.path, self._folder.child(name).path)

    def _listed(self) -> list[SpoolFile]:
        found: list[SpoolFile] = []
        for info in self._file_system.get_file_info(FileSelector(self._folder.path)):
            match = _NAME.fullmatch(info.base_name)
            if match and info.type is FileType.File:
                place = Location(self._folder.prefix, info.path)
                found.append(SpoolFile(place, int(match[1]), int(match[2]), info.size))
        files: list[SpoolFile] = []
        for file in sorted(found, key=lambda each: each.first):
            # Two writers at the same moment may leave the same numbers twice: the first holds.
            if not files or file.first >= files[-1].end:
                files.append(file)
        return files


def read_rows(location: Location, start: int, end: int) -> pa.Table:
    """Rows of one file, counted from its beginning."""
    with OpenFile(location) as file:
        data = file.read_at(0, file.file_bytes)
    with ipc.open_file(pa.BufferReader(data)) as reader:
        return reader.read_all().slice(start, end - start)
