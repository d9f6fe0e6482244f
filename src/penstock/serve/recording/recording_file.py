"""One recorded file on the disk: an FLV file (Adobe FLV 10.1, annex E) that is whole after every batch and at its end.

Owns the system calls and the layout of one file: made exclusively, tags written in batches by one call each, the true
beginning written over the first one at the end. A file whose disk failed is cut back to its last whole tag if the disk
allows. Decides nothing about when a file begins or ends, and belongs to one thread.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.amf import AmfValue
from penstock.errors import MalformedMedia
from penstock.media.flv import (
    BACK_POINTER_BYTES,
    TAG_HEADER_BYTES,
    write_back_pointer,
    write_tag_header,
)
from penstock.media.flv_index import FlvIndexer
from penstock.media.flv_metadata import ReservedMetadata
from penstock.media.flv_repair import RepairReport, repair
from penstock.media.flv_writer import head_bytes, write_head
from penstock.serve.recording.manifest import sync_folder

_PIECES_PER_TAG: Final = 3
_TAGS_PER_WRITE: Final = 64
_BYTES_PER_WRITE: Final = 1024 * 1024
_MAX_METADATA_BYTES: Final = 64 * 1024
"""Of the publisher's metadata; that of encoders has a tenth of this at most."""


class Disk:
    """The system calls that meet the disk. A test can stand in for one that is full, slow or broken."""

    def create(self, path: Path, mode: int) -> int:
        """A new file, whose name survives a crash. FileExistsError if there is one, be it a link to nowhere."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        sync_folder(path.parent)
        return descriptor

    def reopen(self, path: Path) -> int:
        """A file that was left unfinished, to be repaired."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)

    def write(self, descriptor: int, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        """Write at the file's end. How much was taken."""
        return os.writev(descriptor, pieces)

    def write_at(self, descriptor: int, data: bytes, offset: int) -> int:
        """Write over what is there. How much was taken."""
        return os.pwrite(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        """Have it survive a crash."""
        os.fdatasync(descriptor)

    def delete(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def size_of(self, path: Path) -> int:
        """The size of a file as it is now; 0 if it is not there."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0

    def free_bytes(self, folder: Path) -> int:
        """What can still be written there."""
        status = os.statvfs(folder)
        return status.f_bavail * status.f_frsize


class RecordingFile:
    """A file that is being written."""

    def __init__(self, disk: Disk, path: Path, descriptor: int, metadata: ReservedMetadata, file_bytes: int) -> None:
        self.path = path
        self.index = FlvIndexer(metadata.keyframe_room)
        self.file_bytes = file_bytes
        """Its size once everything is flushed."""
        self._disk = disk
        self._descriptor = descriptor
        self._metadata = metadata
        self._pieces: list[bytes | bytearray | memoryview] = []
        self._unwritten_bytes = 0

    @classmethod
    def create(
        cls,
        disk: Disk,
        folder: Path,
        names: Iterable[str],
        mode: int,
        *,
        members: Mapping[str, AmfValue],
        keyframe_room: int,
    ) -> "RecordingFile":
        """Begin a file under the first of these names that is free. `members` are those of the publisher's metadata."""
        metadata = bare = ReservedMetadata.with_room({}, keyframe_room)
        # Every file repeats it. More than a tag can hold is refused by itself.
        with contextlib.suppress(MalformedMedia):
            metadata = ReservedMetadata.with_room(members, keyframe_room)
        if metadata.payload_bytes > bare.payload_bytes + _MAX_METADATA_BYTES:
            metadata = bare
        path, descriptor = _create_first(disk, folder, names, mode)
        file = cls(disk, path, descriptor, metadata, head_bytes(metadata))
        # Both kinds are promised until the end tells what came: a track may begin late.
        file._pieces.append(write_head(metadata, file.index, 0, has_audio=True, has_video=True))
        return file

    @property
    def is_written(self) -> bool:
        """Whether the disk has taken everything that was added."""
        return not self._pieces

    @property
    def duration_ms(self) -> int:
        """From its first to its last frame."""
        return self.index.duration_ms

    @property
    def keyframes(self) -> int:
        """How many key frames are in it."""
        return self.index.keyframes

    def add(self, kind: int, time_ms: int, payload: bytes | bytearray | memoryview, *, is_key: bool) -> None:
        """Add one tag; it is written with the next batch."""
        size = len(payload)
        pieces = self._pieces
        pieces.append(write_tag_header(kind, time_ms, size))
        pieces.append(payload)
        pieces.append(write_back_pointer(TAG_HEADER_BYTES + size))
        self.index.add_tag(kind, time_ms, self.file_bytes, bytes(payload[:2]), is_key)
        self.file_bytes += TAG_HEADER_BYTES + size + BACK_POINTER_BYTES
        self._unwritten_bytes += size
        if len(pieces) >= _TAGS_PER_WRITE * _PIECES_PER_TAG or self._unwritten_bytes >= _BYTES_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what was added."""
        pieces, self._pieces = self._pieces, []
        self._unwritten_bytes = 0
        if not pieces:
            return
        size = sum(map(len, pieces))
        written = self._disk.write(self._descriptor, pieces)
        if written < size:
            rest = b"".join(pieces)[written:]
            while rest:
                rest = rest[self._disk.write(self._descriptor, [rest]) :]

    def finish(self) -> None:
        """Write what is left and the true beginning, have it survive a crash, and close. On OSError call `abandon`."""
        self.flush()
        index = self.index
        head = write_head(self._metadata, index, self.file_bytes, has_audio=index.has_audio, has_video=index.has_video)
        self._disk.write_at(self._descriptor, head, 0)
        self._disk.sync(self._descriptor)
        os.close(self._descriptor)

    def abandon(self) -> RepairReport | None:
        """The disk failed: make the file whole up to its last whole tag, if that can be done, and close it."""
        try:
            with open(self._descriptor, "r+b", buffering=0) as file:
                return repair(file)
        except OSError:
            return None


def repair_file(disk: Disk, path: Path) -> RepairReport:
    """Make a torn file whole."""
    with open(disk.reopen(path), "r+b", buffering=0) as file:
        report = repair(file)
        disk.sync(file.fileno())
    return report


def _create_first(disk: Disk, folder: Path, names: Iterable[str], mode: int) -> tuple[Path, int]:
    for name in names:
        try:
            return folder / name, disk.create(folder / name, mode)
        except FileExistsError as error:
            refusal = error
    raise refusal
