"""What a viewer of HTTP-FLV costs beside one of RTMP: the same stream, the same server, in turns.

    python -m bench.http_flv [--viewers 250] [--seconds 8] [--rounds 4]

Owns the order: one server and one publisher for the whole run, and windows of viewers of one kind, then of the other,
the first kind changing from round to round. CPU is that of all processes of the server, less what it takes with no
viewer at all. What travels is the ratio. Refuses figures of a window in which a viewer got a wrong byte.
"""

import argparse
import statistics
import time
from typing import Final
from urllib.parse import urlsplit

from bench.load import LoadFailed, Result, load
from bench.run import READY_DEADLINE_S, Cores
from bench.servers import CONTESTANTS, RunningServer, serving
from bench.usage import cpu_s

AIM: Final = 1.15
KINDS: Final = ("rtmp", "http-flv")
REST_S: Final = 1.0
"""Between two windows: viewers of the one before are gone by then."""


def idle_share(server: RunningServer, seconds: float) -> float:
    """What the publisher alone costs, as a share of a core."""
    before_s = cpu_s(server.pid)
    time.sleep(seconds)
    return (cpu_s(server.pid) - before_s) / seconds


def window(server: RunningServer, kind: str, viewers: int, seconds: float, core: int | None) -> tuple[float, Result]:
    """CPU of the server as a share of a core, and what viewers saw."""
    options: dict[str, object] = {"port": server.port, "connections": viewers, "seconds": seconds}
    if kind == "http-flv":
        options["http_port"] = urlsplit(server.metrics_url or "").port or 0
    with load("play", options, core) as watched:
        watched.wait_for("window_start", READY_DEADLINE_S)
        before_s = cpu_s(server.pid)
        watched.wait_for("window_end", seconds + READY_DEADLINE_S)
        used_s = cpu_s(server.pid) - before_s
        result = watched.result()
    if result["corrupt_messages"] or result["protocol_errors"] or result["dropped"]:
        raise LoadFailed(f"{kind}: {result}")
    return used_s / float(result["window_s"]), result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.http_flv", description="HTTP-FLV beside RTMP.")
    parser.add_argument("--viewers", type=int, default=250)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    cores = Cores.apart()
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with (
        serving(CONTESTANTS["penstock frame"], cores.server) as server,
        load("publish", {"port": server.port, "seconds": 0}, cores.generator) as publisher,
    ):
        publisher.wait_for("ready", READY_DEADLINE_S)
        alone = idle_share(server, options.seconds / 2)
        print(f"{options.viewers} viewers of 4 Mbit/s; the publisher alone takes {alone:.1%} of a core", flush=True)
        for number in range(options.rounds):
            for kind in KINDS if number % 2 == 0 else reversed(KINDS):
                share, result = window(server, kind, options.viewers, options.seconds, cores.generator)
                cost = (share - alone) * 60 / options.viewers
                costs[kind].append(cost)
                latency = result["steady"]["latency"]
                print(
                    f"round {number + 1}, {kind}: {share:.1%} of a core, {cost:.4f} CPU-s per viewer-minute, "
                    f"p50 {latency['p50_ms']:.1f} ms, p99 {latency['p99_ms']:.1f} ms",
                    flush=True,
                )
                time.sleep(REST_S)
        publisher.stop()
    ratios = [flv / rtmp for flv, rtmp in zip(costs["http-flv"], costs["rtmp"], strict=True)]
    text = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"http-flv / rtmp: {statistics.median(ratios):.2f} (rounds: {text}); the aim is at most {AIM}")


if __name__ == "__main__":
    main()
