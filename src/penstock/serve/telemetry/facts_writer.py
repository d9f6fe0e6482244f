"""Facts to files: JSON lines that land whole, without ever holding up the server.

Owns the numbering of facts, their encoding and their landing: `date=YYYY-MM-DD/hour=HH/{server}-{boot}-{seq}.jsonl`
below the folder, by the UTC hour of the file's first fact. A file is written under a hidden name, flushed at intervals,
and renamed when it is closed, so that a reader of visible files never sees half of one. Files that a lost boot left
hidden are renamed as they are by the one boot whose task that is; their last line may be torn.

A fact is encoded where it is told, in about a microsecond, and written by a thread that does nothing else. When the
disk stalls, facts wait up to a bound; beyond it new ones are dropped, which shows as gaps in their numbers.
"""

import contextlib
import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson

from penstock.facts import CONTRACT_VERSION, FACTS, Fact
from penstock.logs import get_logger
from penstock.serve.boot import Boot
from penstock.serve.settings import FileModes
from penstock.serve.telemetry.facts_folder import FactsFolder

_WAKE_ABOVE_BYTES = 1024 * 1024
_BATCH_BYTES = 256 * 1024
"""Joined while the interpreter is held, so no more than this at a time."""


@dataclass(frozen=True, slots=True)
class FactsLimits:
    """How facts land."""

    flush_s: float = 1.0
    rotate_s: float = 10.0
    rotate_bytes: int = 16 * 1024 * 1024
    max_pending_bytes: int = 16 * 1024 * 1024
    max_total_bytes: int | None = None
    """Of the landed files; above it the oldest are deleted."""


class FactClock:
    """The time of facts: the wall clock as it was last followed, and the monotonic time since.

    So it runs evenly, whatever is done to the wall clock, until somebody says that it is to be followed.
    """

    __slots__ = ("_monotonic_ns", "_wall_ns", "boot_mono_us", "boot_wall_us", "offset_us")

    def __init__(
        self, monotonic_ns: Callable[[], int] = time.monotonic_ns, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns
        self.boot_mono_us = monotonic_ns() // 1000
        self.boot_wall_us = wall_ns() // 1000
        self.offset_us = self.boot_wall_us - self.boot_mono_us
        """From the monotonic clock to the time of facts."""

    def follow(self) -> None:
        """Go on from the wall clock as it is now."""
        self.offset_us = self.wall_us() - self.mono_us()

    def now_us(self) -> int:
        """The time of a fact that is told now."""
        return self.mono_us() + self.offset_us

    def mono_us(self) -> int:
        """The monotonic clock."""
        return self._monotonic_ns() // 1000

    def wall_us(self) -> int:
        """The wall clock as it is now."""
        return self._wall_ns() // 1000


Write = Callable[[int, bytes], int]
"""As os.write: descriptor and bytes to how many of them were taken."""

_Line = tuple[int, int, bytes]
"""Number, time and bytes of a fact. A plain tuple: there may be thousands a second."""
_NEW_FILE: _Line = (0, 0, b"")
"""Stands between facts of which the later ones belong into another file."""


class _OpenFile:
    """A file on its way to be landed. Locked while it is open, so that no other server takes it for a leftover."""

    def __init__(self, path: Path, mode: int, opened_at: float, write: Write) -> None:
        self._hidden = path.with_name(f".{path.name}")
        self._final = path
        self._descriptor = os.open(self._hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._write = write
        self.opened_at = opened_at
        self.size = 0

    def write(self, data: bytes) -> int:
        """How much was written."""
        written = self._write(self._descriptor, data)
        self.size += written
        return written

    def land(self) -> None:
        """Make it visible, whole and on the disk."""
        try:
            os.fsync(self._descriptor)
            self._hidden.rename(self._final)
        finally:
            os.close(self._descriptor)


class FactsWriter:
    """Takes facts on the loop and writes them in a thread."""

    def __init__(
        self,
        folder: Path,
        server_id: str,
        boot: Boot,
        limits: FactsLimits | None = None,
        modes: FileModes | None = None,
        *,
        clock: FactClock | None = None,
        write: Write = os.write,
        is_landing: bool = True,
    ) -> None:
        """`is_landing`: whether facts are written at all; if not, `on_fact` alone hears of them."""
        self.on_fact: Callable[[Fact, bytes], None] | None = None
        """Hears of every fact with its line, also of those that are dropped here."""
        self._is_landing = is_landing
        self.clock = clock or FactClock()
        self.dropped_facts = 0
        self._boot = boot
        self._prefix = f"{server_id}-{boot.boot_id}"
        self._limits = limits or FactsLimits()
        self._modes = modes or FileModes()
        self._folder = FactsFolder(folder, self._modes, self._limits.max_total_bytes, boot.workers)
        self._write = write
        self._templates = {kind: _line_template(kind.kind, server_id, boot) for kind in FACTS.values()}
        self._seq = 0
        self._pending: deque[_Line] = deque()
        # Two counters, each with one thread that changes it, instead of one with a lock.
        self._emitted_bytes = 0
        self._taken_bytes = 0
        self._written_facts = 0
        self._file: _OpenFile | None = None
        self._batch = b""
        self._batch_facts = 0
        self._is_failing = False
        self._wake = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="penstock-facts", daemon=True)

    @property
    def written_facts(self) -> int:
        """Facts that were given to the system."""
        return self._written_facts

    @property
    def pending_bytes(self) -> int:
        """What waits for the disk."""
        return self._emitted_bytes - self._taken_bytes

    @property
    def deleted_files(self) -> int:
        """Landed files that were given up since there were too many bytes of them."""
        return self._folder.deleted_files

    @property
    def deleted_bytes(self) -> int:
        """What was in them."""
        return self._folder.deleted_bytes

    def start(self) -> None:
        """Begin to write; before anything else, land what a crash left behind."""
        if self._is_landing:
            self._thread.start()

    def emit(self, fact: Fact) -> str:
        """Tell a fact, on the loop's thread. Its event_id, also if it had to be dropped. Never blocks."""
        self._seq = seq = self._seq + 1
        clock = self.clock
        mono_us = clock.mono_us()
        at_us = mono_us + clock.offset_us
        # The fields of the fact follow those of the envelope in the same object, so its brace is left out.
        data = self._templates[type(fact)] % (seq, seq, at_us, mono_us, orjson.dumps(fact)[1:])
        if self.on_fact is not None:
            self.on_fact(fact, data)
        if self._is_landing:
            self._put(seq, at_us, data)
        return f"{self._prefix}-{seq}"

    def _put(self, seq: int, at_us: int, data: bytes) -> None:
        emitted_bytes = self._emitted_bytes + len(data)
        pending_bytes = emitted_bytes - self._taken_bytes
        if pending_bytes > self._limits.max_pending_bytes:
            self.dropped_facts += 1
        else:
            self._emitted_bytes = emitted_bytes
            self._pending.append((seq, at_us, data))
            if pending_bytes > _WAKE_ABOVE_BYTES:
                self._wake.set()

    def follow_wall_clock(self) -> None:
        """The wall clock was set: facts from now on have its time, and land in a file of their own."""
        self.clock.follow()
        if self._is_landing:
            self._pending.append(_NEW_FILE)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Write and land what is left, for so long. False if the disk did not take it in time."""
        self._is_closing = True
        self._wake.set()
        # It may never have been started, if the server could not be.
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # Everything below is the thread's.

    def _run(self) -> None:
        self._guarded(self._land_leftovers)
        self._guarded(self._folder.tidy_up)
        while not self._is_closing:
            self._wake.wait(self._limits.flush_s)
            self._wake.clear()
            self._guarded(self._write_pending)
            self._guarded(self._rotate)
        self._guarded(self._write_pending)
        self._guarded(self._land)

    def _guarded(self, action: Callable[[], None]) -> None:
        """A disk that is full or gone costs facts, once they do not fit into memory any more, and nothing else."""
        try:
            action()
        except OSError as error:
            if not self._is_failing:
                self._is_failing = True
                get_logger().error("facts cannot be written", reason=error.strerror, path=str(self._folder.path))
        else:
            if self._is_failing and action == self._write_pending:
                self._is_failing = False
                get_logger().info("facts are written again", dropped_facts=self.dropped_facts)

    def _write_pending(self) -> None:
        while self._batch or self._pending:
            if not self._batch and self._pending[0] is _NEW_FILE:
                self._pending.popleft()
                self._land()
                continue
            if self._file is None:
                self._file = self._open(self._pending[0])
            if not self._batch:
                self._take_batch()
            written = self._file.write(self._batch)
            self._batch = self._batch[written:]
            self._taken_bytes += written
            if not self._batch:
                self._written_facts += self._batch_facts
                if self._file.size >= self._limits.rotate_bytes:
                    self._land()

    def _take_batch(self) -> None:
        lines: list[bytes] = []
        size = 0
        while self._pending and self._pending[0] is not _NEW_FILE and size < _BATCH_BYTES:
            lines.append(self._pending.popleft()[2])
            size += len(lines[-1])
        self._batch = b"".join(lines)
        self._batch_facts = len(lines)

    def _open(self, first: _Line) -> _OpenFile:
        seq, at_us, _ = first
        hour = datetime.fromtimestamp(at_us / 1_000_000, UTC)
        folder = self._folder.make(Path(f"date={hour:%Y-%m-%d}", f"hour={hour:%H}"))
        return _OpenFile(folder / f"{self._prefix}-{seq}.jsonl", self._modes.file, time.monotonic(), self._write)

    def _rotate(self) -> None:
        # A batch that is half written keeps its file, so that no line is torn between two.
        if self._file is None or self._batch:
            return
        if time.monotonic() - self._file.opened_at >= self._limits.rotate_s:
            self._land()

    def _land(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.land()
            self._folder.count(file.size)

    def _land_leftovers(self) -> None:
        for hidden in sorted(self._folder.path.glob("date=*/hour=*/.*-*-*.jsonl")):
            if not self._boot.may_finish(hidden.name.rsplit("-", 2)[1]):
                continue
            # Gone by now if another server that starts has landed it.
            with contextlib.suppress(FileNotFoundError, BlockingIOError):
                descriptor = os.open(hidden, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.fstat(descriptor).st_size:
                        hidden.rename(hidden.with_name(hidden.name[1:]))
                    else:
                        hidden.unlink()
                finally:
                    os.close(descriptor)


def _line_template(kind: str, server_id: str, boot: Boot) -> bytes:
    """The envelope with places for what differs between facts of a kind."""
    server, boot_id = (orjson.dumps(text)[1:-1].replace(b"%", b"%%").decode() for text in (server_id, boot.boot_id))
    return (
        f'{{"event_id":"{server}-{boot_id}-%d","server_id":"{server}","boot_id":"{boot_id}","seq":%d,"kind":"{kind}",'
        f'"version":{CONTRACT_VERSION},"at_us":%d,"mono_us":%d,"worker":{boot.worker},%b\n'
    ).encode()
