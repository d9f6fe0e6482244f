"""Locks that keep a second server out of a folder, for as long as any process of the first one lives.

Owns the lock on the data folder and the one on the folder of recordings. Workers inherit their descriptors: a lock
outlives a supervisor that was killed, until its workers have ended, and so nobody repairs files that are being written.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.errors import ConfigError

LOCK_NAME: Final = ".lock"
_LOOK_S: Final = 0.1


def try_lock(path: Path, mode: int = 0o600) -> int | None:
    """The descriptor that holds the lock; None if another process has it."""
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        pass  # some network file systems have no locks
    return descriptor


def lock_recordings(folder: Path, mode: int) -> int:
    """Refuse to record where another server does."""
    try:
        descriptor = try_lock(folder / LOCK_NAME, mode)
    except OSError as error:
        raise ConfigError(f"recording.folder: cannot use {folder}: {error.strerror}") from error
    if descriptor is None:
        raise ConfigError(f"recording: another server records in {folder}")
    return descriptor


def lock_data(
    folder: Path, wait_s: float, on_wait: Callable[[], None], sleep: Callable[[float], None] = time.sleep
) -> int:
    """Refuse to serve from a folder that another server has; wait for workers that a lost one has left there."""
    waited_s = 0.0
    while (descriptor := _try_data(folder)) is None:
        if waited_s >= wait_s:
            raise ConfigError(f"server.data_dir: another server uses {folder}")
        if not waited_s:
            on_wait()
        sleep(_LOOK_S)
        waited_s += _LOOK_S
    return descriptor


def _try_data(folder: Path) -> int | None:
    try:
        return try_lock(folder)
    except OSError as error:
        raise ConfigError(f"server.data_dir: cannot use {folder}: {error.strerror}") from error
