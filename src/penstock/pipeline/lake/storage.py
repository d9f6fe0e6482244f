"""Files of the lake and of landing, by path or by address, through pyarrow.

Owns the few operations that the pipeline needs of a file system, and their promises: a file that is put in place is
there whole or not at all, on a local disk and on an object store alike. Paths inside a storage are relative to its root
and use slashes. Spark writes to full addresses, by `address`, and reads what is at them, by `pattern`.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
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

    def uri(self, path: str = "") -> str:
        """What `deltalake` calls it."""
        for hadoop, arrow in _ARROW_SCHEMES.items():
            if self.root.startswith(hadoop):
                return self.address(path).replace(hadoop, arrow, 1).partition("?")[0]
        return self.address(path)

    @property
    def options(self) -> dict[str, str] | None:
        """What `deltalake` has to know besides; credentials and the endpoint are taken from the environment."""
        if not self.uri().startswith("s3://"):
            return None
        is_plain_http = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        # A log entry is put only where none is: that is what tells two writers apart.
        return {"aws_conditional_put": "etag", **({"aws_allow_http": "true"} if is_plain_http else {})}

    def sync(self, path: str) -> None:
        """Have a local file or folder on the disk."""
        _sync(self.path_for_arrow(path))

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
        try:
            with self.fs.open_output_stream(self.path_for_arrow(hidden)) as stream:
                stream.write(data)
            self.replace(hidden, path)
        except OSError:
            # On a full disk every try would leave some of it.
            self.delete(hidden)
            raise

    def parquet_writer(self, path: str, schema: pa.Schema) -> pq.ParquetWriter:
        """What writes a file where nobody looks for one yet."""
        self.make_folder(path.rpartition("/")[0])
        return pq.ParquetWriter(self.path_for_arrow(path), schema, filesystem=self.fs, store_schema=False)

    def replace(self, source: str, target: str) -> None:
        """Put a finished file in place of another one, in one step and on the disk."""
        folder = target.rpartition("/")[0]
        self.make_folder(folder)
        if self.is_local:
            self.sync(source)
        self.fs.move(self.path_for_arrow(source), self.path_for_arrow(target))
        if self.is_local:
            self.sync(folder)

    def move_all(self, pairs: Collection[tuple[str, str]]) -> None:
        """Give finished files their places, where nobody looks for them yet."""
        for folder in sorted({target.rpartition("/")[0] for _, target in pairs}):
            self.make_folder(folder)
        for source, target in pairs:
            self.fs.move(self.path_for_arrow(source), self.path_for_arrow(target))

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
