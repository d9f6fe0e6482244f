"""What a process holds: memory wherever it is, descriptors, and processor time.

Owns the reading of /proc. Shared memory behind descriptors shows in no figure of the process, and socket buffers are
the kernel's, so memory is three figures: the process's share of pages, the blocks of its memfds, and TCP's pages. The
last is counted for the whole machine and is coarse.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_BLOCK_BYTES = 512
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a process holds at one moment."""

    private_bytes: int
    memfd_bytes: int
    socket_bytes: int
    sockets: int
    descriptors: int

    @property
    def own_bytes(self) -> int:
        return self.private_bytes + self.memfd_bytes


def holdings_of(pid: int) -> Holdings:
    """What a process holds now."""
    memfd_bytes = sockets = descriptors = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        # Any may be closed while we look.
        with suppress(FileNotFoundError):
            target = str(entry.readlink())
            descriptors += 1
            sockets += target.startswith("socket:")
            memfd_bytes += entry.stat().st_blocks * _BLOCK_BYTES if target.startswith("/memfd:") else 0
    return Holdings(
        private_bytes=_pss_bytes(pid),
        memfd_bytes=memfd_bytes,
        socket_bytes=_tcp_pages() * os.sysconf("SC_PAGE_SIZE"),
        sockets=sockets,
        descriptors=descriptors,
    )


def _pss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def _tcp_pages() -> int:
    words = next(
        line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:")
    ).split()
    return int(words[words.index("mem") + 1])


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process has used, both in user space and in the kernel."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_holdings(pid: int, is_as_wanted: Callable[[Holdings], bool], deadline_s: float) -> Holdings:
    """What a process holds once that is as wanted, or at the deadline."""
    give_up_at = time.monotonic() + deadline_s
    while True:
        holdings = holdings_of(pid)
        if is_as_wanted(holdings) or time.monotonic() >= give_up_at:
            return holdings
        time.sleep(_POLL_S)
