"""Files of recordings, by path or URI: found, opened, read at an offset.

Owns the way from what a user names (a file, a folder, a glob, a list of them) to files, and all access to their bytes.
A name that exists is taken literally, whatever characters it has. Everything goes through pyarrow.fs, so a recording
may be on any file system that pyarrow supports. Files are read, never mapped: a mapped file that shrinks, or whose disk
fails, ends the process.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from pyarrow import NativeFile
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from penstock.errors import ConfigError

RECORDING_SUFFIX: Final = ".flv"
_GLOB_CHARACTERS: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Location:
    """A place on a file system. `prefix` and `path` together are its URI; a plain local path has no prefix."""

    prefix: str
    path: str

    @property
    def uri(self) -> str:
        return self.prefix + self.path

    @property
    def folder(self) -> "Location":
        return Location(self.prefix, str(PurePosixPath(self.path).parent))

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    def child(self, name: str) -> "Location":
        return Location(self.prefix, str(PurePosixPath(self.path) / name))


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that was asked for, and its size when it was found."""

    location: Location
    file_bytes: int


def locate(uri: str) -> Location:
    """The place that a path or URI names."""
    if "://" not in uri and not uri.startswith("file:"):
        return Location("", str(Path(uri).absolute()))
    scheme, colon, rest = uri.partition(":")
    # Hadoop's name for what everybody else calls s3.
    uri = ("s3" if scheme in ("s3a", "s3n") else scheme) + colon + rest
    _, path = FileSystem.from_uri(uri)
    return Location(uri.removesuffix(path) if uri.endswith(path) else f"{uri.partition(':')[0]}://", path)


@cache
def _file_system(prefix: str) -> FileSystem:
    return FileSystem.from_uri(prefix + "/")[0] if prefix else LocalFileSystem()


def file_system(location: Location) -> FileSystem:
    """The file system of a place."""
    # In a URI of an object store the path begins with the bucket, which belongs to what names the file system.
    is_rooted = location.path.startswith("/")
    return _file_system(location.prefix if is_rooted or not location.prefix else location.uri.rsplit("/", 1)[0])


def paths_of(options: Mapping[str, str]) -> list[str]:
    """The paths given to `load`: one, or several."""
    if "paths" in options:
        return [str(path) for path in json.loads(options["paths"])]
    if "path" in options:
        return [options["path"]]
    raise ConfigError("load() needs a file, a folder or a glob of recordings")


def find_files(paths: Iterable[str]) -> list[FoundFile]:
    """Every recording that the paths name, once, sorted by URI."""
    found = {file.location.uri: file for path in paths for file in _find(path)}
    return [found[uri] for uri in sorted(found)]


def _find(path: str) -> Iterator[FoundFile]:
    parts = path.split("/")
    first_glob = _first_glob(parts)
    before = parts[:first_glob]
    # Nothing before a glob is the current folder, nothing before its slash is the root.
    base = locate(("/".join(before) or "/") if before else ".")
    info = file_system(base).get_file_info(base.path)
    if info.type is FileType.NotFound:
        raise ConfigError(f"there is no file or folder {path}")
    if info.type is FileType.File:
        yield FoundFile(base, info.size)
        return
    pattern = "/".join(parts[first_glob:])
    infos: list[FileInfo] = file_system(base).get_file_info(FileSelector(base.path, recursive=True))
    for each in infos:
        if each.type is FileType.File and _is_recording(each.path, base.path, pattern):
            yield FoundFile(Location(base.prefix, each.path), each.size)


def _first_glob(parts: Sequence[str]) -> int:
    """Which part of a path is the first that is a glob; how many there are if none is."""
    for index, part in enumerate(parts):
        # A folder may have a name that looks like a glob; one that exists is meant literally.
        if _GLOB_CHARACTERS & set(part) and not _is_there("/".join(parts[: index + 1])):
            return index
    return len(parts)


def _is_there(path: str) -> bool:
    try:
        location = locate(path)
    except ValueError:  # a glob is not always a URI
        return False
    # Of a URI a question mark and what follows is no part of the path.
    is_whole = location.name == PurePosixPath(path).name
    return is_whole and bool(file_system(location).get_file_info(location.path).type is not FileType.NotFound)


def _is_recording(path: str, base: str, pattern: str) -> bool:
    below = PurePosixPath(path).relative_to(base)
    is_hidden = any(part.startswith(".") for part in below.parts)
    if is_hidden or below.suffix != RECORDING_SUFFIX:
        return False
    if not pattern:
        return True
    # With a root, or a pattern would match the end of a path.
    rooted = PurePosixPath("/") / below
    return any(place.match(f"/{pattern}") for place in (rooted, *rooted.parents[:-1]))


class OpenFile:
    """A file open for reading at any offset. Raises the file system's OSError."""

    __slots__ = ("_file", "file_bytes")

    def __init__(self, location: Location) -> None:
        self._file: NativeFile = file_system(location).open_input_file(location.path)
        self.file_bytes: int = self._file.size()

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read_at(self, offset: int, size: int) -> bytes:
        """So many bytes from there, fewer only where the file ends."""
        data: bytes = self._file.read_at(size, offset)
        return data

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill a view from there; how much of it was filled, which is less only where the file ends."""
        self._file.seek(offset)
        filled = 0
        while filled < len(view) and (read := int(self._file.readinto(view[filled:]))):
            filled += read
        return filled
