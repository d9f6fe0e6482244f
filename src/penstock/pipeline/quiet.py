"""Files that are replaced while nobody is in the middle of reading them.

Owns the wait for that moment. Some readers open a file by its name more than once in a query (DuckDB for the footer and
again for the rows, Spark as well), and take a file that was replaced in between for the one they knew. Linux tells who
opens, reads and closes what lies in a folder (inotify(7)), so a writer can keep still until readers do. Nobody can be
seen on other systems, nor on other machines that share the file system; there files are replaced at once. Whatever
happens, a name always stands for a whole file, the old or the new one.
"""

import ctypes
import os
import struct
import sys
import threading
import time
import weakref
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

QUIET_S: Final = 0.1
"""Between two looks at one file DuckDB 2.0 took 0.5 ms, over sixty files 5 ms, on an overloaded machine 33 ms."""
PATIENCE_S: Final = 2.0
"""The wanted silence shrinks to nothing in this time, so readers that pause for less are met in a long pause."""
_TICK_S: Final = 0.002
MOST_FOLDERS: Final = 200
"""Of a table's days, the last ones: the kernel's number of watches is small on some machines, and for all programs."""

_IN_ACCESS, _IN_CLOSE_NOWRITE, _IN_OPEN, _IN_MOVED_TO, _IN_Q_OVERFLOW = 0x1, 0x10, 0x20, 0x80, 0x4000
_IS_READING: Final = _IN_ACCESS | _IN_CLOSE_NOWRITE | _IN_OPEN | _IN_Q_OVERFLOW
_EVENT: Final = struct.Struct("iIII")
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_MANY_EVENTS_BYTES: Final = 1 << 18


class Readers:
    """Who reads in some folders. Several threads may ask. Lets go of the kernel's watches when it is forgotten."""

    def __init__(self, quiet_s: float = QUIET_S, patience_s: float = PATIENCE_S) -> None:
        self._quiet_s, self._patience_s = quiet_s, patience_s
        self._lock = threading.Lock()
        self._libc = _libc()
        self._descriptor: int | None = None
        self._folders: dict[int, tuple[str, str]] = {}
        """Of each watch its folder, and the one with which that was asked for."""
        self._seen_at_s: dict[str, float] = {}
        self.close: weakref.finalize[..., Readers] = weakref.finalize(self, _nothing)

    def watch(self, folder: str, also: Iterable[str] = ()) -> None:
        """Notice from now on who reads what lies in a folder or in the last of those in it, or in these."""
        with self._lock:
            if self._libc is None or not self._open():
                return
            if folder not in self._seen_at_s:
                also = [folder, *_last_folders(folder), *also]
            watched = {path for path, _ in self._folders.values()}
            for path in dict.fromkeys(also):
                if path not in watched:
                    wanted = _IN_ACCESS | _IN_CLOSE_NOWRITE | _IN_OPEN | _IN_MOVED_TO
                    number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), wanted)
                    # One that is not there yet has no readers; and where no more can be watched, so be it.
                    if number >= 0:
                        self._folders[number] = path, folder
            self._seen_at_s.setdefault(folder, time.monotonic())

    def look(self) -> list[tuple[str, int]]:
        """Take note of what was read until now: paths and what happened to them, in order."""
        with self._lock:
            found: list[tuple[str, int]] = []
            while self._descriptor is not None and self.close.alive:
                try:
                    data = os.read(self._descriptor, _MANY_EVENTS_BYTES)
                except BlockingIOError:
                    break
                found += self._events(data, time.monotonic())
            return found

    def silent_s(self, folders: Iterable[str]) -> float:
        """For how long nobody is known to have read in any of these folders that are watched."""
        now_s = time.monotonic()
        return min((now_s - self._seen_at_s[each] for each in folders if each in self._seen_at_s), default=float("inf"))

    def silence(self, folders: Collection[str]) -> "Silence":
        """To be kept for files in these folders."""
        return Silence(self, frozenset(folders), self._quiet_s, self._patience_s)

    def swap(self, one: str, other: str) -> bool:
        """Let two files change names in one step, if that can be done here."""
        if self._libc is None or not hasattr(self._libc, "renameat2"):
            return False
        paths = os.fsencode(one), os.fsencode(other)
        return bool(self._libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)

    def _open(self) -> bool:
        if self._descriptor is None and self._libc is not None:
            descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if descriptor >= 0:
                self._descriptor = descriptor
                self.close = weakref.finalize(self, os.close, descriptor)
        return self._descriptor is not None and self.close.alive

    def _events(self, data: bytes, now_s: float) -> list[tuple[str, int]]:
        found, place = [], 0
        while place < len(data):
            number, what, _, length = _EVENT.unpack_from(data, place)
            name = data[place + _EVENT.size : place + _EVENT.size + length].rstrip(b"\0")
            place += _EVENT.size + length
            path, folder = self._folders.get(number, ("", ""))
            if what & _IS_READING:
                # Of what did not fit into the kernel's queue nobody knows where it was.
                self._seen_at_s.update(dict.fromkeys([folder] if path else self._seen_at_s, now_s))
            found.append((f"{path}/{os.fsdecode(name)}", what))
        return found


@dataclass(slots=True)
class Silence:
    """What files that belong together are replaced in, one after the other, with patience for all of them."""

    _readers: Readers
    _folders: frozenset[str]
    _quiet_s: float
    _patience_s: float
    waited_s: float = 0.0

    def replace(self, source: str, target: str) -> None:
        """Put a file in place of another one as soon as nobody reads. The old one may get the name of the new."""
        while not self._is_replaced(source, target):
            before_s = time.monotonic()
            time.sleep(_TICK_S)
            self.waited_s += time.monotonic() - before_s

    def _is_replaced(self, source: str, target: str) -> bool:
        # Of a file that is not there nobody knows the footer.
        is_first = not os.path.exists(target)
        wanted_s = 0 if is_first else self._quiet_s * (1 - self.waited_s / self._patience_s)
        self._readers.look()
        if wanted_s > 0 and self._readers.silent_s(self._folders) < wanted_s:
            return False
        if is_first or not self._readers.swap(source, target):
            os.rename(source, target)
            return True
        # Whoever came since the look has the old file and will want to find it again.
        if wanted_s > 0 and _was_opened_before(self._readers.look(), target):
            return not self._readers.swap(source, target)
        return True


def _was_opened_before(events: Iterable[tuple[str, int]], target: str) -> bool:
    """Whether a file was opened before another one came in its place, and that one not yet."""
    opened = [False, False]
    has_come = False
    for path, what in events:
        if path == target:
            has_come = has_come or bool(what & _IN_MOVED_TO)
            opened[has_come] |= bool(what & _IN_OPEN)
    return opened == [True, False]


def _last_folders(folder: str) -> list[str]:
    with suppress(OSError), os.scandir(folder) as found:
        return sorted((each.path for each in found if each.is_dir()), reverse=True)[:MOST_FOLDERS]
    return []


def _libc() -> Any:
    """The C library, if it has what is needed."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "inotify_init1") and hasattr(library, "inotify_add_watch") else None


def _nothing() -> None:
    """What is to be closed before anything is open."""
