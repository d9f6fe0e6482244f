"""The stage of attacks: a real server with short deadlines, a witness on it, and an eye on what the server holds.

Owns what must hold whatever is done to the server: the witness loses nothing and waits little, memory is bounded while
the attack lasts, and afterwards sockets and memory are back where they were.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.memory_of import Holdings, holdings_of, wait_for_holdings
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.witness import RunningWitness, Testimony, running_witness

MIB = 1024 * 1024
HANDSHAKE_DEADLINE_S = 2.0
CONNECT_DEADLINE_S = 3.0
SWEEP_S = 1.0
"""Deadlines are looked at once a second."""
MAX_P99_MS = 1000.0
MAX_SOCKET_BYTES = 256 * MIB
"""In the kernel's buffers, those of the attackers with them and of everybody else on the machine: coarse."""
MAX_LEFT_BYTES = 24 * MIB
"""What an allocator keeps of a flood that is over."""
_LOOK_INTERVAL_S = 0.1
_RETURN_S = 10.0
_SPARE_DESCRIPTORS = 8
"""Segments of the witness's own log come and go."""

SHORT_DEADLINES = f"""
[limits]
handshake_deadline_s = {HANDSHAKE_DEADLINE_S}
connect_deadline_s = {CONNECT_DEADLINE_S}
ping_interval_s = 2
silent_peer_s = 20
[relay]
slow_viewer_s = 3
[defaults]
grace_s = 1
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A server and its witness."""

    server: PenstockServer
    witness: RunningWitness

    @property
    def port(self) -> int:
        return self.server.port

    def holdings(self) -> Holdings:
        return holdings_of(self.server.program.pid)

    @contextmanager
    def attack(self, max_growth_bytes: int, return_s: float = _RETURN_S) -> Iterator[None]:
        """Attack in the block. `max_growth_bytes`: of the process and its memfds together, at any moment of it."""
        self.witness.testify()
        before = self.holdings()
        watch = _Watch(self.server.program.pid)
        with watch.watching():
            yield
        testimony = self.witness.testify()
        judge(testimony)
        growth_bytes = watch.peak_bytes - before.own_bytes
        assert growth_bytes <= max_growth_bytes, f"memory grew by {growth_bytes} bytes"
        assert watch.peak_socket_bytes - before.socket_bytes <= MAX_SOCKET_BYTES
        after = wait_for_holdings(self.server.program.pid, lambda now: _is_back(before, now), return_s)
        assert _is_back(before, after), f"before {before}, after {after}"


def judge(testimony: Testimony) -> None:
    """Nothing lost, nothing out of order, nothing late."""
    assert not testimony.faults, testimony
    assert testimony.received_frames == testimony.sent_frames, testimony
    assert testimony.p99_ms <= MAX_P99_MS, testimony


def _is_back(before: Holdings, now: Holdings) -> bool:
    return (
        now.sockets <= before.sockets
        and now.descriptors <= before.descriptors + _SPARE_DESCRIPTORS
        and now.own_bytes <= before.own_bytes + MAX_LEFT_BYTES
        and now.socket_bytes <= before.socket_bytes + MAX_SOCKET_BYTES // 4
    )


class _Watch:
    """Looks at a process again and again."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self.peak_socket_bytes = 0
        self._pid = pid
        self._is_over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _look(self) -> None:
        while True:
            holdings = holdings_of(self._pid)
            self.peak_bytes = max(self.peak_bytes, holdings.own_bytes)
            self.peak_socket_bytes = max(self.peak_socket_bytes, holdings.socket_bytes)
            if self._is_over.wait(_LOOK_INTERVAL_S):
                return


@contextmanager
def hostile_stage(work_dir: Path, config: str = SHORT_DEADLINES) -> Iterator[Stage]:
    """A server for the length of the block, which it must leave in good order."""
    with (
        # Without a line for each message: writing those would be most of what a flood costs.
        penstock_server(work_dir, ["--log-level", "info"], config) as server,
        running_witness(server.port, work_dir / "witness.log") as witness,
    ):
        yield Stage(server, witness)
