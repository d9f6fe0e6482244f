"""Landed files of one server on their way to the lake that several servers share.

Owns one direction: closed files of this machine's landing folder to the same names in another one, local or remote. A
file is sent at least once: under a hidden name, its size compared, then renamed. Its name says whose facts it holds and
from which number on, so a file that is sent again replaces itself, and bronze takes each fact once anyway. What was
sent is noted beside the files; if the note is lost, everything that is still there is sent again.
"""

import json
import secrets
from dataclasses import dataclass
from typing import Final

from pyarrow import fs

from penstock.errors import PipelineError
from penstock.pipeline.lake.storage import Storage, StoredFile

_NOTE: Final = ".shipped/files.json"
DEFAULT_KEPT_US: Final = 2 * 86_400_000_000


@dataclass(frozen=True, slots=True)
class Shipped:
    """What one round did."""

    files: int
    bytes: int
    removed: int
    """Files that were sent before and have had their time here."""


def ship_landed(landing: Storage, target: Storage, now_us: int, kept_us: int = DEFAULT_KEPT_US) -> Shipped:
    """Send every closed file that was not sent yet; remove what was sent that long ago.

    A target that cannot be reached is a PipelineError; what was sent before that counts.
    """
    files = {file.path: file for file in landing.find("") if _is_closed(file.path)}
    sent_at_us = {path: at_us for path, at_us in _read_note(landing).items() if path in files}
    new = [file for path, file in files.items() if path not in sent_at_us]
    sent: list[StoredFile] = []
    old = [path for path, at_us in sent_at_us.items() if at_us <= now_us - kept_us]
    try:
        for file in new:
            try:
                _send(landing, target, file)
            except FileNotFoundError:
                if landing.exists(file.path):
                    raise
                continue  # given up by a server whose landing folder is full
            sent.append(file)
            sent_at_us[file.path] = now_us
    except OSError as error:
        raise PipelineError(f"ship: {target.root} does not take {file.path}: {error}") from error
    finally:
        if new or old:
            landing.put(_NOTE, json.dumps(sent_at_us, sort_keys=True).encode() + b"\n")
    for path in old:
        landing.delete(path)
    return Shipped(len(sent), sum(file.size for file in sent), len(old))


def _is_closed(path: str) -> bool:
    """Whether it is a file that a server has landed: those that it writes, and our own, are hidden."""
    return path.endswith(".jsonl") and not any(part.startswith(".") for part in path.split("/"))


def _send(landing: Storage, target: Storage, file: StoredFile) -> None:
    folder, _, name = file.path.rpartition("/")
    hidden = f"{folder}/.{name}.{secrets.token_hex(4)}" if folder else f".{name}.{secrets.token_hex(4)}"
    target.make_folder(folder)
    fs.copy_files(
        landing.path_for_arrow(file.path),
        target.path_for_arrow(hidden),
        source_filesystem=landing.fs,
        destination_filesystem=target.fs,
    )
    size = target.fs.get_file_info(target.path_for_arrow(hidden)).size
    if size != file.size:
        target.delete(hidden)
        raise PipelineError(f"ship: {file.path} has {file.size} bytes, of which {size} arrived")
    target.replace(hidden, file.path)


def _read_note(landing: Storage) -> dict[str, int]:
    try:
        return {str(path): int(at_us) for path, at_us in json.loads(landing.read(_NOTE)).items()}
    except (FileNotFoundError, ValueError, AttributeError):
        return {}
