"""What a server holds, a process and all that it started: memory wherever it is, descriptors, and processor time.

Owns the reading of /proc. Shared memory behind descriptors shows in no figure of the process, and socket buffers are
the kernel's, so memory is three figures: the process's own pages, the blocks of its memfds, and TCP's pages. The
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
    """What a process and its children hold at one moment."""

    private_bytes: int
    memfd_bytes: int
    socket_bytes: int
    sockets: int
    descriptors: int

    @property
    def own_bytes(self) -> int:
        return self.private_bytes + self.memfd_bytes


def family_of(pid: int) -> list[int]:
    """A process and all that it started, directly or not."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _family_if_alive(int(child)))]


def _family_if_alive(pid: int) -> list[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return family_of(pid)
    return []


def holdings_of(pid: int) -> Holdings:
    """What a process and its children hold now. Memory that several have open counts once."""
    memfds: dict[int, int] = {}
    private_bytes = sockets = descriptors = 0
    for member in family_of(pid):
        # Any may end or be closed while we look.
        with suppress(FileNotFoundError, ProcessLookupError):
            private_bytes += _private_bytes(member)
            for entry in Path(f"/proc/{member}/fd").iterdir():
                with suppress(FileNotFoundError):
                    target = str(entry.readlink())
                    descriptors += 1
                    sockets += target.startswith("socket:")
                    if target.startswith("/memfd:"):
                        found = entry.stat()
                        memfds[found.st_ino] = found.st_blocks * _BLOCK_BYTES
    return Holdings(
        private_bytes=private_bytes,
        memfd_bytes=sum(memfds.values()),
        socket_bytes=_tcp_pages() * os.sysconf("SC_PAGE_SIZE"),
        sockets=sockets,
        descriptors=descriptors,
    )


def _private_bytes(pid: int) -> int:
    """Without pages of programs and libraries: a process's share of those grows whenever another one ends."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) * 1024


def _tcp_pages() -> int:
    words = next(
        line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:")
    ).split()
    return int(words[words.index("mem") + 1])


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process has used itself, both in user space and in the kernel."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_holdings(pid: int, is_as_wanted: Callable[[Holdings], bool], deadline_s: float) -> Holdings:
    """What a process and its children hold once that is as wanted, or at the deadline."""
    give_up_at = time.monotonic() + deadline_s
    while True:
        holdings = holdings_of(pid)
        if is_as_wanted(holdings) or time.monotonic() >= give_up_at:
            return holdings
        time.sleep(_POLL_S)
