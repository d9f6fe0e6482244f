"""Where the archive of a recorded file lies, and how it gets there whole.

Owns the layout:

    {app}/{stream}/{recording}-{segment}/recording.mp4, hls/…, thumbnails/…, sheet.jpg
    {app}/{stream}/{recording}-{segment}/archive.json       the mark: put in place last, so what it names is there
    _work/{token}/…                                         what is being made

Names of apps and streams come from peers: they are spelled so that none of them leads out of the folder, hides a file
or equals another one. Files are made in `_work`, or in a local folder if the archive is elsewhere, and are moved into
place one by one. Leftovers of an earlier run are removed.
"""

import hashlib
import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.sources.flv.manifest import Segment

MARK_NAME: Final = "archive.json"
MP4_NAME: Final = "recording.mp4"
HLS_FOLDER: Final = "hls"
THUMBNAIL_FOLDER: Final = "thumbnails"
SHEET_NAME: Final = "sheet.jpg"
WORK_FOLDER: Final = "_work"

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARACTERS: Final = 90
_MARK_CHARACTERS: Final = 8


def folder_of(segment: Segment) -> str:
    """The folder of a segment, below that of the archive."""
    return f"{safe_name(segment.app)}/{safe_name(segment.stream)}/{safe_name(segment.recording_id)}-{segment.segment}"


def safe_name(name: str) -> str:
    """The name itself if it is harmless; else its harmless characters and a hash of the name."""
    # A dot hides a file from people, an underscore from Spark, and a dash makes it an option of commands.
    safe = _UNSAFE.sub("-", name).lstrip("._-")[:_MAX_NAME_CHARACTERS]
    if safe == name and name:
        return name
    # Surrogates can stand in a name that was decoded leniently.
    mark = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_MARK_CHARACTERS]
    return f"{safe}-{mark}".lstrip("-")


@contextmanager
def workspace(archive: Storage) -> Iterator["Workspace"]:
    """A place to make files in, for the length of the block."""
    token = secrets.token_hex(8)
    folder = Path(archive.path_for_arrow(f"{WORK_FOLDER}/{token}")) if archive.is_local else Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield Workspace(archive, token, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Workspace:
    """Files in the making, below the local `folder`."""

    def __init__(self, archive: Storage, token: str, folder: Path) -> None:
        self.folder = folder
        self._archive = archive
        self._token = token

    def clear(self) -> None:
        """Give up what was made so far."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()

    def put_in_place(self, target: str) -> dict[str, int]:
        """Move every file to the folder `target` of the archive, in place of all that is there. Name to size."""
        sizes = {
            path.relative_to(self.folder).as_posix(): path.stat().st_size
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }
        # Without its mark the folder is not done, so a crash from here on means that it is made again.
        self._archive.delete(f"{target}/{MARK_NAME}")
        # A playlist comes after the segments that it lists.
        for name in sorted(sizes, key=lambda name: (name.endswith(".m3u8"), name)):
            self._archive.replace(self._in_archive(name), f"{target}/{name}")
        for file in self._archive.find(target):
            if file.path.removeprefix(f"{target}/") not in sizes:
                self._archive.delete(file.path)
        return sizes

    def _in_archive(self, name: str) -> str:
        """Where the file is in the archive before it is moved into place."""
        path = f"{WORK_FOLDER}/{self._token}/{name}"
        if not self._archive.is_local:
            upload(self.folder / name, self._archive, path)
        return path


def upload(source: Path, storage: Storage, path: str) -> None:
    """Copy a local file."""
    storage.make_folder(path.rpartition("/")[0])
    with source.open("rb") as file, storage.fs.open_output_stream(storage.path_for_arrow(path)) as stream:
        shutil.copyfileobj(file, stream, 1024 * 1024)


def write_mark(archive: Storage, folder: str, mark: Mapping[str, Any]) -> None:
    """Say that a folder is done, and from what."""
    archive.put(f"{folder}/{MARK_NAME}", json.dumps(mark, indent=1, sort_keys=True).encode() + b"\n")


def read_mark(archive: Storage, folder: str) -> Mapping[str, Any] | None:
    """What the mark of a folder says, if all that it names is there as it was."""
    path = f"{folder}/{MARK_NAME}"
    try:
        mark = json.loads(archive.read(path)) if archive.exists(path) else None
        if mark is None:
            return None
        found = {file.path.removeprefix(f"{folder}/"): file.size for file in archive.find(folder)}
        is_whole = all(found.get(name) == size for name, size in mark["outputs"].items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return mark if is_whole else None
