"""What a viewer of HTTP-FLV costs beside one of RTMP: the same stream, the same server, in turns; and in other servers.

    python -m bench.http_flv [--viewers 250] [--seconds 8] [--rounds 4] [--peer NAME=PID,RTMP_PORT,HTTP_PORT]

Owns the order: a publisher to each server for the whole run, and windows of viewers of one row, then of the next, in
the other direction every second round. CPU is that of all processes of the server, less what it takes with no viewer at
all. What travels is the ratio. Refuses figures of a window in which a viewer of ours got a wrong byte.
"""

import argparse
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from bench.load import LoadFailed, Result, load
from bench.peers import add_peers
from bench.run import READY_DEADLINE_S, Cores
from bench.servers import CONTESTANTS, serving
from bench.usage import cpu_s

AIM: Final = 1.15
REST_S: Final = 1.0
"""Between two windows: viewers of the one before are gone by then."""


@dataclass(eq=False)
class Row:
    """Viewers of one kind and server, and what each cost in each round."""

    name: str
    pid: int
    port: int
    http_port: int = 0
    """0: by RTMP."""
    is_ours: bool = True
    alone: float = 0.0
    """What its publisher costs, as a share of a core."""
    costs: list[float] = field(default_factory=list)

    def window(self, viewers: int, seconds: float, core: int | None) -> tuple[float, Result]:
        """CPU of the server as a share of a core, and what viewers saw."""
        options = {"port": self.port, "connections": viewers, "seconds": seconds}
        if self.http_port:
            options["http_port"] = self.http_port
        with load("play", options, core) as watched:
            watched.wait_for("window_start", READY_DEADLINE_S)
            before_s = cpu_s(self.pid)
            watched.wait_for("window_end", seconds + READY_DEADLINE_S)
            used_s = cpu_s(self.pid) - before_s
            result = watched.result()
        if self.is_ours and (result["corrupt_messages"] or result["protocol_errors"] or result["dropped"]):
            raise LoadFailed(f"{self.name}: {result}")
        return used_s / float(result["window_s"]), result

    def measure(self, number: int, viewers: int, seconds: float, core: int | None) -> None:
        """One round, told as it ends."""
        share, result = self.window(viewers, seconds, core)
        cost = (share - self.alone) * 60 / viewers
        self.costs.append(cost)
        latency = result["steady"]["latency"]
        wrong = result["corrupt_messages"] + result["protocol_errors"] + result["dropped"]
        print(
            f"round {number}, {self.name}: {share:.1%} of a core, {cost:.4f} CPU-s per viewer-minute, "
            f"p50 {latency['p50_ms']:.1f} ms, p99 {latency['p99_ms']:.1f} ms{f', {wrong} wrong' if wrong else ''}",
            flush=True,
        )


def idle_share(pid: int, seconds: float) -> float:
    """What the publisher alone costs, as a share of a core."""
    before_s = cpu_s(pid)
    time.sleep(seconds)
    return (cpu_s(pid) - before_s) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.http_flv", description="HTTP-FLV beside RTMP.")
    parser.add_argument("--viewers", type=int, default=250)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=4)
    add_peers(parser)
    options = parser.parse_args()
    cores = Cores.apart()
    with ExitStack() as stack:
        server = stack.enter_context(serving(CONTESTANTS["penstock frame"], cores.server))
        http_port = urlsplit(server.metrics_url or "").port or 0
        rtmp, flv = Row("rtmp", server.pid, server.port), Row("http-flv", server.pid, server.port, http_port)
        peers = [Row(f"http-flv of {peer.name}", peer.pid, peer.port, peer.http_port, False) for peer in options.peer]
        rows = [rtmp, flv, *peers]
        for port in {row.port for row in rows}:
            publisher = stack.enter_context(load("publish", {"port": port, "seconds": 0}, cores.generator))
            publisher.wait_for("ready", READY_DEADLINE_S)
            stack.callback(publisher.stop)
        for row in rows:
            row.alone = idle_share(row.pid, options.seconds / 2)
            print(f"{row.name}: the publisher alone takes {row.alone:.1%} of a core", flush=True)
        print(f"{options.viewers} viewers of 4 Mbit/s", flush=True)
        for number in range(options.rounds):
            for row in rows if number % 2 == 0 else reversed(rows):
                row.measure(number + 1, options.viewers, options.seconds, cores.generator)
                time.sleep(REST_S)
    for row in (flv, *peers):
        ratios = [cost / by_rtmp for cost, by_rtmp in zip(row.costs, rtmp.costs, strict=True)]
        text = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{row.name} / rtmp: {statistics.median(ratios):.2f} (rounds: {text})")
    print(f"the aim of http-flv / rtmp is at most {AIM}")


if __name__ == "__main__":
    main()
