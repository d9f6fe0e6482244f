"""What processes cost, from /proc: CPU seconds, and memory in the three places where a live server keeps it.

Owns the arithmetic of /proc on Linux. A process that ends while it is read counts as nothing. Memory is private and
shared pages without the mapped memfds (PSS), the blocks of memfds, and the kernel's socket buffers, machine-wide.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MEMFD_PREFIX = "/memfd:"
RAN, WAITED = 0, 1
"""Fields of a thread's schedstat, in ns."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes at one moment."""

    pss_bytes: int
    memfd_bytes: int
    socket_bytes: int

    def __sub__(self, earlier: "Memory") -> "Memory":
        return Memory(
            self.pss_bytes - earlier.pss_bytes,
            self.memfd_bytes - earlier.memfd_bytes,
            self.socket_bytes - earlier.socket_bytes,
        )


def with_descendants(pid: int) -> list[int]:
    """A process and all that it started, directly or not."""
    found = [pid]
    for each in found:
        for task in _entries(PROC / str(each) / "task"):
            found += [int(child) for child in _text(task / "children").split()]
    return found


def command_line(pid: int) -> list[str]:
    """The words that a process was started with; none if it is gone."""
    return _text(PROC / str(pid) / "cmdline").split("\0")


def cpu_s(pid: int) -> float:
    """User and system time of a process and its descendants.

    The scheduler's clock is in ns but forgets threads that ended; the other counts in ticks and forgets none.
    """
    return sum(max(_scheduled_s(each, RAN), _ticked_s(each) - 2 / TICKS_PER_S) for each in with_descendants(pid))


def core_s(cpu: int) -> float:
    """How long a core has worked since the machine began, interrupts included: processes are charged for those too."""
    found = re.search(rf"^cpu{cpu} (\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+)", _text(PROC / "stat"), re.MULTILINE)
    return sum(map(int, found.groups())) / TICKS_PER_S if found else 0.0


def waited_s(pid: int) -> float:
    """How long a process and its descendants could have run but had no core."""
    return sum(_scheduled_s(each, WAITED) for each in with_descendants(pid))


def memory(pid: int) -> Memory:
    """What a process and its descendants hold."""
    pids = with_descendants(pid)
    return Memory(sum(map(_pss_bytes, pids)), _memfd_bytes(pids), socket_bytes())


def descriptors(pid: int) -> int:
    """How many a process and its descendants have open."""
    return sum(len(_entries(PROC / str(each) / "fd")) for each in with_descendants(pid))


def socket_bytes() -> int:
    """TCP buffers of the whole machine, both ends of each loopback connection."""
    found = re.search(r"^TCP:.* mem (\d+)", _text(PROC / "net" / "sockstat"), re.MULTILINE)
    return int(found[1]) * PAGE_BYTES if found else 0


def _scheduled_s(pid: int, field: int) -> float:
    fields = (_text(task / "schedstat").split() for task in _entries(PROC / str(pid) / "task"))
    return sum(int(each[field]) for each in fields if each) / 1e9


def _ticked_s(pid: int) -> float:
    # The name of the program, in parentheses, may hold blanks.
    fields = _text(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S if fields else 0.0


def _pss_bytes(pid: int) -> int:
    rollup = dict(re.findall(r"^(Pss|Pss_Shmem):\s+(\d+) kB", _text(PROC / str(pid) / "smaps_rollup"), re.MULTILINE))
    # Mapped memfds are in the shared part and are counted by their blocks.
    return (int(rollup.get("Pss", 0)) - int(rollup.get("Pss_Shmem", 0))) * 1024


def _memfd_bytes(pids: Iterable[int]) -> int:
    blocks: dict[tuple[int, int], int] = {}
    for pid in pids:
        for entry in _entries(PROC / str(pid) / "fd"):
            try:
                if entry.readlink().as_posix().startswith(MEMFD_PREFIX):
                    status = entry.stat()
                    blocks[status.st_dev, status.st_ino] = status.st_blocks * 512
            except OSError:
                continue
    return sum(blocks.values())


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
