"""One writer for each lake.

Owns `lake/_lock`: a file that its holder keeps locked by the system, so that the lock goes with the process, however it
ends. What is written in it tells others who the holder is. Readers need no lock.

A lake that is not on a local disk has its lock in this machine's folder for temporary files. It spares a second writer
the work of a run that would be refused; what keeps writers on two machines apart is that of two commits to one version
the second is refused (`delta`).
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from penstock.errors import LakeBusy
from penstock.pipeline.lake.storage import Storage

_NAME: Final = "_lock"
_LOOK_AGAIN_S: Final = 0.2
_MAX_COMMAND_CHARACTERS: Final = 400
_MAX_NOTE_BYTES: Final = 64 * 1024


@contextlib.contextmanager
def lake_lock(lake: Storage, holder: str, wait_s: float | None = None) -> Iterator[None]:
    """Be the only writer of the lake meanwhile. LakeBusy if another one has it, after this time; None: at once."""
    path = _path(lake)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, lake, 0.0 if wait_s is None else wait_s)
        _write_note(descriptor, holder)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        # The file stays: whoever waits has it open, and a new one in its place would be a second lock.
        os.close(descriptor)


def _path(lake: Storage) -> Path:
    if lake.is_local:
        return Path(lake.path_for_arrow(_NAME))
    digest = hashlib.sha256(lake.root.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"penstock-{digest}{_NAME}"


def _acquire(descriptor: int, lake: Storage, wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise LakeBusy(f"the lake {lake.root} is being written by {_read_note(descriptor)}") from None
            time.sleep(_LOOK_AGAIN_S)
        else:
            return


def _write_note(descriptor: int, holder: str) -> None:
    note = {
        "holder": holder,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": shlex.join(sys.argv)[:_MAX_COMMAND_CHARACTERS],
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(note).encode() + b"\n", 0)


def _read_note(descriptor: int) -> str:
    """Who holds the lock, as far as it has said so yet."""
    try:
        note = json.loads(os.pread(descriptor, _MAX_NOTE_BYTES, 0))
        return (
            f"{note['holder']} (process {note['pid']} on {note['host']} since {note['since']}, started as "
            f"{note['command']})"
        )
    except (ValueError, KeyError, TypeError):
        return "another process"
