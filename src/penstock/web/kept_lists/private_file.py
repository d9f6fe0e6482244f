"""A small file for the server's user alone, written whole in the place of the one before."""

import contextlib
import os
from pathlib import Path


def replace_private_file(path: Path, data: bytes) -> None:
    """The file is the old one or the new one, whatever happens meanwhile."""
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)


def put_aside(path: Path) -> Path:
    """Where a file is from now on that cannot be read, so that the next one does not take its place."""
    aside = path.with_suffix(".unreadable")
    with contextlib.suppress(OSError):
        path.replace(aside)
    return aside
