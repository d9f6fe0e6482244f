"""What operators' requests cost viewers: how late media comes with 100 requests a second, and without, in turns.

One server with one publisher. Each turn has a new audience, so that no turn has an older one than its neighbour; which
half of a round comes first changes from round to round. The requests read what is costliest to tell, pages of viewers
and connections among them; they come from this process, on the generator's core. The server has one core for all of its
processes. The ratio is taken within each round. Figures are worthless, and the exit status is 1, if a request failed or
a viewer got a wrong byte or was dropped.

Run: `python -m bench.api [--rounds 5] [--seconds 6] [--viewers 1000] [--requests 100] [--json FILE]`.
Where others use the machine, in front of it: `chrt -r 5`.
"""

import argparse
import http.client
import itertools
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bench.load import Result, load
from bench.run import READY_DEADLINE_S, Cores
from bench.scenarios import AUDIO_PER_S, FPS, MESSAGES_PER_S
from bench.servers import CONTESTANTS, RunningServer, serving
from bench.usage import command_line, core_s, cpu_s, memory, with_descendants

WEB_MODULE: Final = "penstock.web"
PATHS: Final = (
    "/api/v1/viewers?limit=100",
    "/api/v1/streams",
    "/api/v1/connections?limit=100&sort=-sent_bytes",
    "/api/v1/server",
    "/api/v1/incidents",
)
CLIENTS: Final = 8
MAX_VIEWERS: Final = 2000
MAX_REQUESTS_PER_S: Final = 150
MEDIA: Final = {"streams": 1, "video_bps": 4_000_000, "fps": FPS, "audio_per_s": AUDIO_PER_S}


@dataclass(frozen=True, slots=True)
class Figures:
    """One turn."""

    with_requests: bool
    p50_ms: float
    p99_ms: float
    delivered: float
    """Messages that viewers got, as a share of those that were due."""
    server_share: float
    """CPU of all processes of the server, as a share of a core."""
    web_share: float
    web_pss_mb: float
    others_share: float
    """How much of the server's core others took."""
    requests_per_s: float = 0.0
    request_p50_ms: float | None = None
    request_p99_ms: float | None = None
    faults: tuple[str, ...] = ()


class Requests:
    """Clients that ask at a steady rate for the length of the block, each request on a connection of its own."""

    def __init__(self, base_url: str, per_s: float) -> None:
        self._host = urlsplit(base_url).netloc
        self._per_s = per_s
        self._turns = itertools.count()
        self._is_over = threading.Event()
        self._began_at = 0.0
        self.took_s: list[float] = []
        self.failed = 0
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]

    def __enter__(self) -> "Requests":
        self._began_at = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        # `next` of a count is one step of the interpreter: two clients never have the same turn.
        for turn in self._turns:
            if self._is_over.wait(max(0.0, self._began_at + turn / self._per_s - time.monotonic())):
                return
            began_at = time.monotonic()
            connection = http.client.HTTPConnection(self._host, timeout=10)
            try:
                connection.request("GET", PATHS[turn % len(PATHS)])
                answer = connection.getresponse()
                is_good = answer.status == http.HTTPStatus.OK and bool(answer.read())
            except (OSError, http.client.HTTPException):
                is_good = False
            finally:
                connection.close()
            self.failed += not is_good
            self.took_s.append(time.monotonic() - began_at)


def measure(server: RunningServer, cores: Cores, viewers: int, seconds: float, per_s: float) -> Figures:
    """One turn; 0 requests: without."""
    web = next(pid for pid in with_descendants(server.pid) if WEB_MODULE in command_line(pid))
    options = {**MEDIA, "port": server.port, "connections": viewers, "seconds": seconds}
    with load("play", options, cores.generator) as watched:
        watched.wait_for("window_start", READY_DEADLINE_S)
        server_s, web_s, core_before_s = cpu_s(server.pid), cpu_s(web), _core_s(cores)
        with ExitStack() as stack:
            requests = stack.enter_context(Requests(str(server.metrics_url), per_s)) if per_s else None
            time.sleep(seconds / 2)
            pss_bytes = memory(web).pss_bytes
            watched.wait_for("window_end", seconds + READY_DEADLINE_S)
            server_s, web_s = cpu_s(server.pid) - server_s, cpu_s(web) - web_s
            others_s = _core_s(cores) - core_before_s - server_s
        result = watched.result()
    window_s, steady = float(result["window_s"]), result["steady"]
    took_ms = sorted(each * 1000 for each in requests.took_s) if requests else []
    return Figures(
        with_requests=requests is not None,
        p50_ms=steady["latency"]["p50_ms"],
        p99_ms=steady["latency"]["p99_ms"],
        delivered=steady["messages"] / (MESSAGES_PER_S * window_s * steady["viewers"]),
        server_share=server_s / window_s,
        web_share=web_s / window_s,
        web_pss_mb=pss_bytes / 1e6,
        others_share=max(0.0, others_s / window_s),
        requests_per_s=len(took_ms) / window_s,
        request_p50_ms=statistics.median(took_ms) if took_ms else None,
        request_p99_ms=took_ms[int(len(took_ms) * 0.99)] if took_ms else None,
        faults=faults_of(result, requests.failed if requests else 0),
    )


def faults_of(result: Result, failed: int) -> tuple[str, ...]:
    """Why the figures must not be used."""
    wrong = {name.replace("_", " "): result[name] for name in ("corrupt_messages", "protocol_errors", "dropped")}
    return tuple(f"{times} {name}" for name, times in {**wrong, "requests failed": failed}.items() if times)


def ratio(rounds: Sequence[tuple[Figures, Figures]]) -> float:
    """The median over rounds of p99 with requests to p99 without."""
    return statistics.median(with_them.p99_ms / without.p99_ms for without, with_them in rounds)


def _core_s(cores: Cores) -> float:
    return 0.0 if cores.server is None else core_s(cores.server)


def _line(each: Figures) -> str:
    asked = f", {each.requests_per_s:.0f} requests/s of p99 {each.request_p99_ms:.1f} ms" if each.with_requests else ""
    return (
        f"  {'with   ' if each.with_requests else 'without'} p50 {each.p50_ms:.1f} p99 {each.p99_ms:.1f} ms, "
        f"{each.delivered:.1%} delivered, CPU {each.server_share:.0%} of a core, of which web {each.web_share:.0%}, "
        f"others {each.others_share:.0%}, web {each.web_pss_mb:.1f} MB{asked}{' INVALID: ' if each.faults else ''}"
        f"{', '.join(each.faults)}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description="What requests cost viewers.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--viewers", type=int, default=1000)
    parser.add_argument("--requests", type=float, default=100.0, metavar="PER_S")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every turn's figures there")
    options = parser.parse_args(arguments)
    viewers, per_s = min(options.viewers, MAX_VIEWERS), min(options.requests, MAX_REQUESTS_PER_S)
    cores = Cores.apart()
    rounds: list[tuple[Figures, Figures]] = []
    with serving(CONTESTANTS["penstock"], cores.server) as server:
        if cores.generator is not None:
            os.sched_setaffinity(0, {cores.generator})
        publish = {**MEDIA, "port": server.port, "seconds": 0}
        with load("publish", publish, cores.generator) as publisher:
            publisher.wait_for("ready", READY_DEADLINE_S)
            for number in range(options.rounds):
                print(f"round {number + 1}, load {os.getloadavg()[0]:.1f}", flush=True)
                turns: dict[bool, Figures] = {}
                for is_with in (bool(number % 2), not number % 2):
                    turns[is_with] = measure(server, cores, viewers, options.seconds, per_s if is_with else 0.0)
                    print(_line(turns[is_with]), flush=True)
                rounds.append((turns[False], turns[True]))
    each_round = ", ".join(f"{with_them.p99_ms / without.p99_ms:.2f}" for without, with_them in rounds)
    print(f"p99 with requests to p99 without: {ratio(rounds):.2f}, the median of {each_round}")
    if options.json:
        turned = [asdict(each) for pair in rounds for each in pair]
        options.json.write_text(json.dumps(turned, indent=1) + "\n", encoding="utf-8")
    return 1 if any(each.faults for pair in rounds for each in pair) else 0


if __name__ == "__main__":
    sys.exit(main())
