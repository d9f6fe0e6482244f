"""What viewers of RTMP notice of viewers of HLS in the same worker: their p99 with them and without, in turns.

    python -m bench.hls_beside [--viewers 100] [--hls-viewers 300] [--seconds 8] [--rounds 3] [--without-sound]

Owns the order: one server of one worker, one stream by the load generator that measures, another of the same rate by
FFmpeg that is watched as low-latency HLS. Figures mean nothing on a machine whose cores are taken by others: the load
is printed with them, and how many answers viewers of HLS got, which is 9.9 a second and viewer if none is late. By
`auto` sound waits the longer the busier the server is, so pictures alone show what HLS holds up, and sound what that
policy saves.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bench.hls import SETTLE_S, get, make_file, publishing
from bench.hls_viewers import watch as watch_hls
from bench.load import LoadFailed, load
from bench.run import READY_DEADLINE_S, Cores
from bench.servers import CONTESTANTS, START_DEADLINE_S, RunningServer, serving

AIM: Final = 1.25
CROWD_NICENESS: Final = 15


def p99_ms(server: RunningServer, viewers: int, seconds: float, core: int | None) -> float:
    """Of the generator's viewers, in one window."""
    with load("play", {"port": server.port, "connections": viewers, "seconds": seconds}, core) as watched:
        result = watched.result(seconds + 2 * READY_DEADLINE_S)
    if result["corrupt_messages"] or result["protocol_errors"]:
        raise LoadFailed(str(result))
    return float(result["steady"]["latency"]["p99_ms"])


def beside_hls(server: RunningServer, http: int, options: argparse.Namespace, core: int | None) -> tuple[float, str]:
    """The same while HLS is watched, and what its viewers got."""
    are_there = multiprocessing.Event()
    results: Any = multiprocessing.Queue()
    watched_s = options.seconds + SETTLE_S
    arguments = http, "/live/beside/low.m3u8", options.hls_viewers, True, watched_s, are_there, results
    crowd = multiprocessing.Process(target=watch_hls_humbly, args=(core, *arguments), daemon=True)
    crowd.start()
    try:
        are_there.wait(START_DEADLINE_S)
        found_ms = p99_ms(server, options.viewers, options.seconds, core)
        result = results.get(timeout=START_DEADLINE_S)
    finally:
        crowd.terminate()
        crowd.join()
    if result["failure"]:
        raise LoadFailed(result["failure"])
    answers = (result["media_answers"] + result["playlist_answers"]) / watched_s / options.hls_viewers
    return found_ms, f"{answers:.1f} answers/s a viewer of HLS"


def watch_hls_humbly(core: int | None, *arguments: Any) -> None:
    """Beside the generator, which goes first, and never on the server's core: its latencies are what is measured."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # whatever priority the bench was started with
    os.nice(CROWD_NICENESS)
    watch_hls(*arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description="What viewers of RTMP notice of those of HLS.")
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--hls-viewers", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", default="penstock", help="the server, by its name in bench.servers")
    parser.add_argument("--without-sound", action="store_true", help="of the stream that is measured")
    options = parser.parse_args()
    cores = Cores.apart()
    told: dict[str, object] = {"audio_per_s": 0} if options.without_sound else {}
    ratios: list[float] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        file = make_file(folder)
        with (
            serving(CONTESTANTS[options.row], cores.server) as server,
            load("publish", {"port": server.port, "seconds": 0, **told}, cores.generator) as publisher,
            publishing(file, server.port, folder, "beside"),
        ):
            publisher.wait_for("ready", READY_DEADLINE_S)
            http = urlsplit(server.metrics_url or "").port or 0
            time.sleep(SETTLE_S)
            get(http, "/live/beside.m3u8?wait_s=20")
            for number in range(options.rounds):
                without_ms = p99_ms(server, options.viewers, options.seconds, cores.generator)
                with_ms, remark = beside_hls(server, http, options, cores.generator)
                ratios.append(with_ms / without_ms)
                load_now = os.getloadavg()[0]
                print(
                    f"round {number + 1}: p99 {without_ms:.1f} ms without, {with_ms:.1f} ms with {options.hls_viewers} "
                    f"viewers of HLS: {ratios[-1]:.2f}; {remark}; load {load_now:.1f}",
                    flush=True,
                )
            publisher.stop()
    print(f"median {statistics.median(ratios):.2f}; the aim is at most {AIM}")


if __name__ == "__main__":
    main()
