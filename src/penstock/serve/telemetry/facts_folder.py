"""The folder that facts land in: its modes, and how much of it is kept.

Owns which landed files are given up when there are too many bytes of them: the oldest. The pipeline removes files as
well, long before that; this is for servers beside which none runs, or none that gets on. Each worker looks after the
folder of all, and takes the others to land as much as itself: who lands most looks in time, and two who look at once
delete the same files. For the thread that writes.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from penstock.logs import get_logger
from penstock.serve.settings import FileModes

_KEPT_SHARE = 0.95
"""What is left when some has to go: all files are looked at for it, which is not to be done for each that lands."""


class _Landed(NamedTuple):
    is_plausible: bool
    """Whether it is from the past. One from the future tells of a clock that was wrong, and would be kept for ever."""
    landed_at: float
    path: str
    size: int


class FactsFolder:
    """Makes folders and keeps the landed files within a bound."""

    def __init__(
        self,
        path: Path,
        modes: FileModes,
        max_total_bytes: int | None,
        workers: int = 1,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.deleted_files = 0
        self.deleted_bytes = 0
        self._modes = modes
        self._max_total_bytes = max_total_bytes
        self._workers = workers
        self._wall_clock = wall_clock
        self._landed_bytes = 0
        """As much as is there, by guess: what others land and delete is noticed when it matters."""

    def make(self, below: Path) -> Path:
        """A folder below this one, with the modes that were asked for, as far as it was not there."""
        folder = self.path / below
        self._modes.make_folder(folder)
        return folder

    def count(self, size: int) -> None:
        """A file has landed."""
        self._landed_bytes += size * self._workers
        if self._max_total_bytes is not None and self._landed_bytes > self._max_total_bytes:
            self.tidy_up()

    def tidy_up(self) -> None:
        """Look at all files, and delete the oldest if they are too many bytes."""
        landed = self._landed()
        self._landed_bytes = sum(file.size for file in landed)
        if self._max_total_bytes is None or self._landed_bytes <= self._max_total_bytes:
            return
        files_before, bytes_before = self.deleted_files, self.deleted_bytes
        for file in sorted(landed):
            if self._landed_bytes <= _KEPT_SHARE * self._max_total_bytes:
                break
            self._delete(file)
        if self.deleted_files == files_before:
            return
        get_logger().warning(
            "facts deleted: landing is full",
            files=self.deleted_files - files_before,
            bytes=self.deleted_bytes - bytes_before,
            path=str(self.path),
        )

    def _landed(self) -> list[_Landed]:
        now = self._wall_clock()
        found = []
        for path in self.path.glob("date=*/hour=*/[!.]*.jsonl"):
            # Gone by now if the pipeline has removed it.
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                found.append(_Landed(status.st_mtime <= now, status.st_mtime, str(path), status.st_size))
        return found

    def _delete(self, file: _Landed) -> None:
        path = Path(file.path)
        # One that cannot be deleted stays, and the next one is tried.
        with contextlib.suppress(OSError):
            try:
                path.unlink()
            except FileNotFoundError:
                pass  # another worker was faster, or the pipeline
            else:
                self.deleted_files += 1
                self.deleted_bytes += file.size
            self._landed_bytes -= file.size
            for folder in (path.parent, path.parent.parent):
                folder.rmdir()
