"""What clients of events cost the web process: a thousand that follow, a hundred events a second, sent twice a second.

A real server on loopback. Connections to its RTMP port that are closed at once make the events: one opened, one closed
each. The clients are sockets of this process; every one must be sent every event, in order, or the run is worth
nothing. CPU time is that of the web process alone, without clients first. Run: `python -m bench.events [--json]`.
"""

import argparse
import json
import re
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.processes import free_port, running

from bench.usage import command_line, cpu_s, memory, with_descendants

LOOPBACK = "127.0.0.1"
WEB_MODULE = "penstock.web"
SETTLE_S = 3.0
COMES_WITHIN_S = 60.0
_EVENT_ID = re.compile(rb"^id: \S+:(\d+)\nevent: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run. A core is 100 %."""

    clients: int
    events_per_s: float
    batch_ms: int
    core_percent: float
    """Of the web process, with clients."""
    without_clients_percent: float
    sent_mb_per_s: float
    pss_mb: float
    pss_without_clients_mb: float


class Follower:
    """One client: the numbers of events that it was sent."""

    def __init__(self, port: int, batch_ms: int) -> None:
        self.socket = socket.create_connection((LOOPBACK, port), 10)
        request = f"GET /api/v1/events?batch_ms={batch_ms} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self.socket.sendall(request.encode())
        self.socket.setblocking(False)
        self.received_bytes = 0
        self.is_following = False
        self.last = 0
        self.events = 0
        self._rest = b""

    def read(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise RuntimeError("a client was closed")
        self.received_bytes += len(data)
        self.is_following = True
        text = self._rest + data
        # An event may be cut anywhere: what follows the last empty line waits for the rest.
        whole, _, self._rest = text.rpartition(b"\n\n")
        numbers = _EVENT_ID.findall(whole + b"\n")
        if numbers:
            self.last = int(numbers[-1])
            self.events += len(numbers)


class Crowd:
    """All clients, read by one loop."""

    def __init__(self, port: int, batch_ms: int) -> None:
        self.followers: list[Follower] = []
        self._port = port
        self._batch_ms = batch_ms
        self._selector = selectors.DefaultSelector()

    def grow(self, clients: int) -> None:
        """As fast as the server takes them, a few at a time."""
        ends_at = time.monotonic() + COMES_WITHIN_S
        while len(self.followers) < clients:
            for _ in range(min(20, clients - len(self.followers))):
                follower = Follower(self._port, self._batch_ms)
                self._selector.register(follower.socket, selectors.EVENT_READ, follower)
                self.followers.append(follower)
            while not all(each.is_following for each in self.followers):
                if time.monotonic() > ends_at:
                    raise RuntimeError(f"only {sum(each.is_following for each in self.followers)} clients were served")
                self.read(0.05)

    def read(self, for_s: float) -> None:
        ends_at = time.monotonic() + for_s
        while (left_s := ends_at - time.monotonic()) > 0:
            for key, _ in self._selector.select(left_s):
                key.data.read()

    def begin(self) -> None:
        """Count from here: who came first was still sent what happened before the last one came."""
        for each in self.followers:
            each.events = 0

    def judge(self) -> None:
        """All were sent the same events since they were all there."""
        seen = {(each.last, each.events) for each in self.followers}
        if len(seen) != 1:
            raise RuntimeError(f"clients were sent different events: {sorted(seen)[:5]}")

    def close(self) -> None:
        for each in self.followers:
            each.socket.close()


@contextmanager
def server() -> Iterator[tuple[int, int, int]]:
    """A server: the pid of its web process, its ports of RTMP and HTTP."""
    rtmp, http = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "penstock.toml"
        config.write_text('[logs]\nlevel = "warning"\n', encoding="utf-8")
        places = ["--rtmp", f"{LOOPBACK}:{rtmp}", "--http", f"{LOOPBACK}:{http}", "--data", f"{folder}/data"]
        command = [sys.executable, "-m", "penstock", "serve", "--config", str(config), *places]
        with running(command, Path(folder) / "log") as program:
            yield _web_of(program.pid), rtmp, http


def _web_of(pid: int) -> int:
    ends_at = time.monotonic() + 30
    while time.monotonic() < ends_at:
        for each in with_descendants(pid):
            if WEB_MODULE in command_line(each):
                time.sleep(SETTLE_S)
                return each
        time.sleep(0.1)
    raise RuntimeError("the server has no web process")


def make_events(port: int, per_s: float, crowd: Crowd, seconds: float) -> None:
    """Connections that come and go, while the crowd reads."""
    began = time.monotonic()
    made = 0
    while (now := time.monotonic()) < began + seconds:
        while made < (now - began) * per_s / 2:
            with closing(socket.create_connection((LOOPBACK, port), 10)):
                made += 1
        crowd.read(0.002)


def measure(clients: int, events_per_s: float, batch_ms: int, seconds: float) -> Figures:
    with server() as (web, rtmp, http), closing(Crowd(http, batch_ms)) as crowd:
        before_s, began = cpu_s(web), time.monotonic()
        make_events(rtmp, events_per_s, crowd, seconds)
        without = (cpu_s(web) - before_s) / (time.monotonic() - began)
        alone_bytes = memory(web).pss_bytes
        crowd.grow(clients)
        crowd.read(SETTLE_S)
        crowd.begin()
        received = sum(each.received_bytes for each in crowd.followers)
        before_s, began = cpu_s(web), time.monotonic()
        make_events(rtmp, events_per_s, crowd, seconds)
        spent_s, lasted_s = cpu_s(web) - before_s, time.monotonic() - began
        pss_bytes = memory(web).pss_bytes
        events = crowd.followers[0].events
        crowd.read(2.0)
        crowd.judge()
        return Figures(
            clients=clients,
            events_per_s=round(events / lasted_s, 1),
            batch_ms=batch_ms,
            core_percent=round(100 * spent_s / lasted_s, 1),
            without_clients_percent=round(100 * without, 1),
            sent_mb_per_s=round((sum(each.received_bytes for each in crowd.followers) - received) / lasted_s / 1e6, 1),
            pss_mb=round(pss_bytes / 1e6, 1),
            pss_without_clients_mb=round(alone_bytes / 1e6, 1),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="What clients of events cost the web process.")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--events", type=float, default=100.0, metavar="PER_S")
    parser.add_argument("--batch-ms", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.clients, arguments.events, arguments.batch_ms, arguments.seconds)
    if arguments.json:
        print(json.dumps(asdict(figures)))
        return
    for name, value in asdict(figures).items():
        print(f"{name:>24} {value}")


if __name__ == "__main__":
    main()
