"""The innocent: one who is connected, does nothing, and measures how fast the server answers.

Owns a ping request every 20 ms and the time until its answer, in a process of its own. Pings are sent when they are
due, answered or not, so that a stall of the server is seen by every ping that falls into it.
"""

import gc
import selectors
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.hostile_clients import (
    PING_REQUEST,
    PING_RESPONSE,
    USER_CONTROL,
    HostileClient,
    connect_command,
    control,
)
from tests.support.measuring import MeasuringProcess, answer, measuring_process
from tests.support.witness import ChunkReader

PING_INTERVAL_S = 0.02
_DRAIN_S = 15.0
"""How long answers are waited for when figures are asked for."""


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """How the server answered since it was asked last."""

    pings: int
    unanswered: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class _Innocent:
    def __init__(self, client: HostileClient) -> None:
        client.greeted().send(connect_command())
        self._socket = client.socket
        self._reader = ChunkReader()
        data = client.heard
        while all(b"NetConnection.Connect.Success" not in said for _, _, said in self._reader.messages(data)):
            data = self._socket.recv(1 << 16)
        self._socket.setblocking(False)
        self._sent_at_ns: dict[int, int] = {}
        self._round_trips_ms: list[float] = []
        self._number = 0
        self._due_at = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self.is_over = False

    def step(self, *, sends: bool) -> None:
        """Send a ping if it is time, and take what comes until the next one."""
        now = time.monotonic()
        if sends and now >= self._due_at:
            self._due_at = max(self._due_at + PING_INTERVAL_S, now)
            self._number += 1
            self._sent_at_ns[self._number] = time.monotonic_ns()
            self._socket.send(control(USER_CONTROL, struct.pack(">HI", PING_REQUEST, self._number)))
        ready = [key.fileobj for key, _ in self._selector.select(self._due_at - time.monotonic() if sends else 0.01)]
        if self._socket in ready:
            self._read()
        # Last, as it takes steps of its own.
        if sys.stdin in ready:
            self._on_request()

    def _read(self) -> None:
        data = self._socket.recv(1 << 16)
        now_ns = time.monotonic_ns()
        if not data:
            raise ConnectionError("the innocent was closed")
        for type_id, _, payload in self._reader.messages(data):
            if type_id == USER_CONTROL and payload[:2] == struct.pack(">H", PING_RESPONSE):
                sent_at_ns = self._sent_at_ns.pop(int.from_bytes(payload[2:6], "big"))
                self._round_trips_ms.append((now_ns - sent_at_ns) / 1e6)

    def _on_request(self) -> None:
        if not sys.stdin.readline():
            self.is_over = True
            return
        give_up_at = time.monotonic() + _DRAIN_S
        while self._sent_at_ns and time.monotonic() < give_up_at:
            self.step(sends=False)
        answer(asdict(self._testimony()))
        self._due_at = time.monotonic()

    def _testimony(self) -> RoundTrips:
        times_ms = sorted(self._round_trips_ms) or [0.0]
        testimony = RoundTrips(
            pings=len(self._round_trips_ms) + len(self._sent_at_ns),
            unanswered=len(self._sent_at_ns),
            p50_ms=times_ms[len(times_ms) // 2],
            # Of few pings, one alone is not the measure: a machine has its hiccups.
            p99_ms=times_ms[max(0, min(len(times_ms) * 99 // 100, len(times_ms) - 2))],
            max_ms=times_ms[-1],
        )
        self._round_trips_ms.clear()
        return testimony


class RunningInnocent:
    """The process, seen from a test."""

    def __init__(self, process: MeasuringProcess) -> None:
        self._process = process

    def testify(self) -> RoundTrips:
        """What was measured since the last time, every ping answered or given up."""
        return RoundTrips(**self._process.ask())


@contextmanager
def running_innocent(port: int, log_path: Path) -> Iterator[RunningInnocent]:
    """An innocent for the length of the block."""
    with measuring_process("tests.support.innocent", port, log_path) as process:
        yield RunningInnocent(process)


def main(port: int) -> None:
    with HostileClient(port) as client:
        innocent = _Innocent(client)
        # A collection in here would be counted against the server.
        gc.disable()
        while not innocent.is_over:
            innocent.step(sends=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
