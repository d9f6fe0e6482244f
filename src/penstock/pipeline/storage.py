"""Files of the lake and of landing, by path or by address, through pyarrow.

Owns the few operations that the pipeline needs of a file system, and their promises: a file that is put in place is
there whole or not at all, on a local disk and on an object store alike. Paths inside a storage are relative to its root
and use slashes. Spark writes to full addresses, by `address`, and reads what is at them, by `pattern`.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyarrow import fs

_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*://")
_GLOB_CHARACTERS: Final = re.compile(r"[][{}*?\\]")
# Hadoop's names for the stores that pyarrow calls otherwise.
_ARROW_SCHEMES: Final = {"s3a://": "s3://", "s3n://": "s3://"}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that was found. `path` is relative to the root of the storage."""

    path: str
    size: int
    modified_at_us: int


class Storage:
    """A folder, local or remote."""

    def __init__(self, root: str | Path) -> None:
        text = str(root)
        if _SCHEME.match(text):
            self.root = text.rstrip("/")
            for hadoop, arrow in _ARROW_SCHEMES.items():
                text = text.replace(hadoop, arrow, 1) if text.startswith(hadoop) else text
            self.fs, self._base = fs.FileSystem.from_uri(text.rstrip("/"))
        else:
            self._base = str(Path(text).absolute())
            self.root = self._base
            self.fs = fs.LocalFileSystem()
        self.is_local = isinstance(self.fs, fs.LocalFileSystem)

    def address(self, path: str = "") -> str:
        """What Spark calls a file here."""
        return f"{self.root}/{path}" if path else self.root

    def pattern(self, path: str = "") -> str:
        """What Spark is told to read there: it takes every name for a glob, and a folder may be called like one."""
        return _GLOB_CHARACTERS.sub(r"\\\g<0>", self.address(path))

    def path_for_arrow(self, path: str = "") -> str:
        """What pyarrow calls it, for use with `fs`."""
        return f"{self._base}/{path}" if path else self._base

    def below(self, path: str) -> "Storage":
        """A folder in it."""
        return Storage(self.address(path))

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        return bool(self.fs.get_file_info(self.path_for_arrow(path)).type != fs.FileType.NotFound)

    def read(self, path: str) -> bytes:
        """All of a file."""
        with self.fs.open_input_file(self.path_for_arrow(path)) as stream:
            return bytes(stream.read())

    def find(self, folder: str, *, recursive: bool = True) -> list[StoredFile]:
        """Every file in a folder that is there, sorted by name."""
        selector = fs.FileSelector(self.path_for_arrow(folder), recursive=recursive, allow_not_found=True)
        found = [info for info in self.fs.get_file_info(selector) if info.type == fs.FileType.File]
        start = len(self._base) + 1
        files = [StoredFile(info.path[start:], info.size, (info.mtime_ns or 0) // 1000) for info in found]
        return sorted(files, key=lambda file: file.path)

    def put(self, path: str, data: bytes) -> None:
        """Make a file with this content, or replace the one that is there, in one step and on the disk."""
        folder, _, name = path.rpartition("/")
        self.make_folder(folder)
        hidden = f"{folder}/.{name}.{secrets.token_hex(4)}"
        with self.fs.open_output_stream(self.path_for_arrow(hidden)) as stream:
            stream.write(data)
        self.replace(hidden, path)

    def replace(self, source: str, target: str) -> None:
        """Put a finished file in place of another one, in one step and on the disk."""
        for _ in self.replace_all([(source, target)]):
            pass

    def replace_all(
        self, pairs: Collection[tuple[str, str]], move: Callable[[str, str], None] | None = None
    ) -> Iterator[str]:
        """The same with each target in turn, which is told when it is in place. All are on the disk in the end.

        `move` is how a file gets its new name, if there is more to it. Nothing else is done in between.
        """
        move, folders = move or self.fs.move, sorted({target.rpartition("/")[0] for _, target in pairs})
        for folder in folders:
            self.make_folder(folder)
        if self.is_local:
            for source, _ in pairs:
                _sync(self.path_for_arrow(source))
        for source, target in pairs:
            move(self.path_for_arrow(source), self.path_for_arrow(target))
            yield target
        if self.is_local:
            for folder in folders:
                _sync(self.path_for_arrow(folder))

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        self.fs.create_dir(self.path_for_arrow(path), recursive=True)

    def delete(self, path: str) -> None:
        """Remove a file; no matter if it is gone."""
        if self.exists(path):
            # Not every file system says so in this way, and with none it is there until the very moment.
            with contextlib.suppress(FileNotFoundError):
                self.fs.delete_file(self.path_for_arrow(path))

    def delete_folder(self, path: str) -> None:
        """Remove a folder with everything in it; no matter if it is gone."""
        if self.exists(path):
            self.fs.delete_dir(self.path_for_arrow(path))


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
