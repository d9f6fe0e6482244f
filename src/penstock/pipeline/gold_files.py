"""The files of gold that a run makes: written aside, and put in place when nobody is in the middle of reading them.

Owns which of them are replaced: those whose bytes change. A day that has no rows any more keeps a file without rows,
since somebody may have listed the folder and be about to open it. Our own reads of a file come before its rows are
computed, so that they are long over when it is replaced.
"""

import hashlib
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from penstock.pipeline.layout import file_without_rows, folder_of, gold_path
from penstock.pipeline.quiet import Readers
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import Table


@dataclass(slots=True)
class GoldFiles:
    """The files of one run. Several threads may stage some, each of another table."""

    storage: Storage
    readers: Readers = field(default_factory=Readers)
    _staged: list[tuple[str, str | None]] = field(default_factory=list)
    """Of each file its place, and where the new one lies, if that differs."""
    _publishing: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, table: Table, days: Collection[str]) -> dict[str, bytes]:
        """Watch from now on who reads a table. Digests of its files of these days, by path."""
        paths = [gold_path(table, day) for day in days]
        if self.storage.is_local:
            folder = self.storage.path_for_arrow(folder_of(table.full_name))
            self.readers.watch(folder, [_folder(self.storage.path_for_arrow(path)) for path in paths])
        known = {path: _digest(self.storage.read(path)) for path in paths if self.storage.exists(path)}
        self.readers.look()
        return known

    def stage(self, table: Table, day: str, data: bytes | None, known: Mapping[str, bytes], aside: str) -> None:
        """Write a day's file aside, if it is to be another one than is known. None is for a day without rows."""
        path = gold_path(table, day)
        if data is None and path in known:
            data = file_without_rows(table.full_name)
        is_changed = data is not None and _digest(data) != known.get(path)
        if data is not None and is_changed:
            self.storage.put(aside, data)
        self._staged.append((path, aside if is_changed else None))

    def publish(self, is_replaced: Callable[[], None]) -> int:
        """Put every staged file in place, each in one step and soon after each other. How many, changed or not."""
        # Whoever comes while others publish finds all in place that was staged before.
        with self._publishing:
            return self._publish(is_replaced)

    def _publish(self, is_replaced: Callable[[], None]) -> int:
        # Others may stage meanwhile: those are for whoever publishes next.
        staged = self._staged[:]
        del self._staged[: len(staged)]
        count, changed = len(staged), [(aside, path) for path, aside in staged if aside is not None]
        tables = {"/".join(path.split("/")[:2]) for _, path in changed}
        silence = self.readers.silence([self.storage.path_for_arrow(table) for table in tables])
        for _ in self.storage.replace_all(changed, silence.replace if self.storage.is_local else None):
            is_replaced()
        for _ in range(count - len(changed)):
            is_replaced()
        return count


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
