"""The stage of attacks: a real server, a witness and an innocent on it, and an eye on what the server holds.

Owns what must hold whatever is done to the server: the witness loses nothing, the innocent is answered at once, memory
is bounded while the attack lasts, and afterwards sockets, descriptors and memory are back where they were. Figures are
logged for each attack: `pytest --log-cli-level=info` shows them.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.hostile_clients import HostileClient
from tests.support.innocent import RoundTrips, RunningInnocent, running_innocent
from tests.support.memory_of import Holdings, holdings_of, wait_for_holdings
from tests.support.penstock_server import PenstockServer, penstock_server
from tests.support.witness import VIEWERS, RunningWitness, Testimony, running_witness

MIB = 1024 * 1024
HANDSHAKE_DEADLINE_S = 2.0
CONNECT_DEADLINE_S = 3.0
SWEEP_S = 1.0
"""Deadlines are looked at once a second."""
MAX_P99_MS = 50.0
MAX_ROUND_TRIP_MS = 250.0
"""A ping and its answer, while the attack lasts."""
MAX_WITNESS_P99_MS = 1000.0
"""Delays of the witness have the rhythm of flushes in them: the innocent is the better clock."""
MAX_GROWTH_BYTES = 64_000_000
"""Of the process, its memfds and the kernel's socket buffers, those of the attackers with them."""
MAX_LEFT_BYTES = 24 * MIB
"""What an allocator keeps of a flood that is over."""
_MAX_LEFT_SOCKET_BYTES = 16 * MIB
ATTACK_S = 2.0
_LOOK_INTERVAL_S = 0.1
_RETURN_S = 10.0
_SETTLE_S = 0.3
"""After the attackers have left: their end is part of the attack."""
_SPARE_DESCRIPTORS = 16
"""Segments of the witness's own log come and go."""
_LOGGER = logging.getLogger(__name__)

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
NO_EXEMPTIONS = """
[limits]
exempts_loopback = false
"""
STAGE_CONNECTIONS = 1 + VIEWERS + 1
"""Witness, its viewers and the innocent."""
ATTACKER_ADDRESS = "127.0.0.2"
"""Limits per address are the attackers' own: witness and innocent come from 127.0.0.1."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What an attack did to the others and to the server."""

    round_trips: RoundTrips
    witness: Testimony
    growth_bytes: int
    peak_descriptors: int
    log_bytes_per_s: float
    facts_bytes_per_s: float
    before: Holdings
    after: Holdings

    def complaints(self, max_growth_bytes: int, max_written_bytes_per_s: float | None) -> list[str]:
        """What must not be."""
        trips = self.round_trips
        written_bytes_per_s = max(self.log_bytes_per_s, self.facts_bytes_per_s)
        found = {
            "pings are unanswered": trips.unanswered > 0,
            f"p99 of round trips is above {MAX_P99_MS} ms": trips.p99_ms > MAX_P99_MS,
            f"a round trip is above {MAX_ROUND_TRIP_MS} ms": trips.max_ms > MAX_ROUND_TRIP_MS,
            f"memory grew by more than {max_growth_bytes} bytes": self.growth_bytes > max_growth_bytes,
            f"more than {max_written_bytes_per_s} bytes a second were written": max_written_bytes_per_s is not None
            and written_bytes_per_s > max_written_bytes_per_s,
            "sockets, descriptors or memory did not come back": not _is_back(self.before, self.after),
        }
        return [what for what, is_so in found.items() if is_so] + _complaints_of(self.witness)

    def __str__(self) -> str:
        trips = self.round_trips
        return (
            f"round trips p50 {trips.p50_ms:.1f} p99 {trips.p99_ms:.1f} max {trips.max_ms:.1f} ms"
            f" of {trips.pings}, {trips.unanswered} unanswered;"
            f" witness {self.witness.received_frames} of {self.witness.sent_frames} frames,"
            f" p99 {self.witness.p99_ms:.1f} ms, {len(self.witness.faults)} faults;"
            f" memory +{self.growth_bytes / 1e6:.1f} MB;"
            f" descriptors {self.before.descriptors}, at most {self.peak_descriptors}, then {self.after.descriptors},"
            f" of these sockets {self.before.sockets}, then {self.after.sockets};"
            f" left +{(self.after.own_bytes - self.before.own_bytes) / 1e6:.1f} MB,"
            f" in socket buffers +{(self.after.socket_bytes - self.before.socket_bytes) / 1e6:.1f} MB;"
            f" log {self.log_bytes_per_s / 1e3:.0f} kB/s, facts {self.facts_bytes_per_s / 1e3:.0f} kB/s"
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """A server, its witness and its innocent."""

    server: PenstockServer
    witness: RunningWitness
    innocent: RunningInnocent

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def data_dir(self) -> Path:
        return self.server.program.log_path.parent / "data"

    def holdings(self) -> Holdings:
        return holdings_of(self.server.program.pid)

    def attacker(self, receive_buffer_bytes: int | None = None) -> HostileClient:
        """One more connection from the attackers' address."""
        return HostileClient(self.port, receive_buffer_bytes, source=ATTACKER_ADDRESS)

    def limits_hit(self) -> set[object]:
        """The limits that the log names so far."""
        return {line["limit"] for line in self.server.log_lines() if "limit" in line}

    @contextmanager
    def attack(
        self,
        max_growth_bytes: int = MAX_GROWTH_BYTES,
        return_s: float = _RETURN_S,
        max_written_bytes_per_s: float | None = None,
    ) -> Iterator[None]:
        """Attack in the block.

        `max_growth_bytes`: of process, memfds and sockets together, at any moment of it. `return_s`: for everything to
        be back afterwards. `max_written_bytes_per_s`: of the log, and of facts.
        """
        before = self.holdings()
        written = self._written_bytes()
        self.witness.testify()
        self.innocent.testify()
        started_at = time.monotonic()
        watch = _Watch(self.server.program.pid)
        with watch.watching():
            yield
            time.sleep(_SETTLE_S)
            round_trips = self.innocent.testify()
        witness = self.witness.testify()
        passed_s = time.monotonic() - started_at
        log_bytes, facts_bytes = (now - then for now, then in zip(self._written_bytes(), written, strict=True))
        after = wait_for_holdings(self.server.program.pid, lambda now: _is_back(before, now), return_s)
        figures = Figures(
            round_trips,
            witness,
            growth_bytes=watch.peak_bytes - before.own_bytes - before.socket_bytes,
            peak_descriptors=watch.peak_descriptors,
            log_bytes_per_s=log_bytes / passed_s,
            facts_bytes_per_s=facts_bytes / passed_s,
            before=before,
            after=after,
        )
        _LOGGER.info("%s", figures)
        complaints = figures.complaints(max_growth_bytes, max_written_bytes_per_s)
        assert not complaints, f"{complaints}: {figures}"

    def _written_bytes(self) -> tuple[int, int]:
        """Of the log and of facts, since the start."""
        facts = [path.stat().st_size for path in (self.data_dir / "facts").rglob("*") if path.is_file()]
        return self.server.program.log_path.stat().st_size, sum(facts)


def judge(testimony: Testimony) -> None:
    """Nothing lost, nothing out of order, nothing late."""
    assert not (complaints := _complaints_of(testimony)), f"{complaints}: {testimony}"


def _complaints_of(testimony: Testimony) -> list[str]:
    found = list(testimony.faults[:5])
    if testimony.received_frames != testimony.sent_frames:
        found.append("the witness lost frames")
    if testimony.p99_ms > MAX_WITNESS_P99_MS:
        found.append(f"the witness had delays above {MAX_WITNESS_P99_MS} ms")
    return found


def _is_back(before: Holdings, now: Holdings) -> bool:
    return (
        now.sockets <= before.sockets
        and now.descriptors <= before.descriptors + _SPARE_DESCRIPTORS
        and now.own_bytes <= before.own_bytes + MAX_LEFT_BYTES
        and now.socket_bytes <= before.socket_bytes + _MAX_LEFT_SOCKET_BYTES
    )


class _Watch:
    """Looks at a process again and again."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self.peak_descriptors = 0
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
            self.peak_bytes = max(self.peak_bytes, holdings.own_bytes + holdings.socket_bytes)
            self.peak_descriptors = max(self.peak_descriptors, holdings.descriptors)
            if self._is_over.wait(_LOOK_INTERVAL_S):
                return


@contextmanager
def hostile_stage(
    work_dir: Path, config: str = SHORT_DEADLINES, options: Sequence[str] = (), launcher: Sequence[str] = ()
) -> Iterator[Stage]:
    """A server for the length of the block, which it must leave in good order."""
    with (
        # Without a line for each message: writing those would be most of what a flood costs.
        penstock_server(work_dir, ["--log-level", "info", *options], config, launcher) as server,
        running_witness(server.port, work_dir / "witness.log") as witness,
        running_innocent(server.port, work_dir / "innocent.log") as innocent,
    ):
        yield Stage(server, witness, innocent)
