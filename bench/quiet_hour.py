"""What the cycles of a quiet server cost, without waiting for them: the facts of the time between are written at once.

    python -m bench.quiet_hour [--cycles 3] [--every-s 3600] [--viewers 3]

Owns one measurement: one stream and a few viewers, whose facts one session takes into all tables, as `penstock up` does
it on two cores. Tells the CPU seconds of each cycle, Java's start in the first. `bench.quiet_pipeline` measures the
same in real time, with the idle session between cycles.
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.pipeline.landing_place import NOON_US, PEER, PLACE, SECOND_US, fact

from bench.pipeline_report import markdown
from bench.usage import cpu_s
from penstock.pipeline.engine.session import SparkSettings
from penstock.pipeline.ops.cycle import Cycles
from penstock.pipeline.progress import LineProgress
from penstock.pipeline.settings import PipelineSettings

ROTATE_S = 10
VIEWER_SAMPLE_S = 5
FIRST_S = 600
"""The first cycle comes as soon as anything has landed and `pipeline.every_s` is over."""
OPENED: dict[str, Any] = {name: PEER[name] for name in ("peer_addr", "protocol")}
PUBLISHED: dict[str, Any] = {**PLACE, **PEER, "publishing_type": "live", "dimensions": None}


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.quiet_hour", description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--every-s", type=int, default=3600, help="between cycles, after the first")
    parser.add_argument("--viewers", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        spent_s = list(run(Path(folder), options.cycles, options.every_s, options.viewers))
    head = [f"cycle {number}, CPU-s" for number in range(1, len(spent_s) + 1)]
    print(markdown([head, [f"{each_s:.1f}" for each_s in spent_s]]))
    return 0


def run(data: Path, cycles: int, every_s: int, viewers: int) -> Iterator[float]:
    """CPU seconds of each cycle."""
    now_us = NOON_US
    home, lake, landing, recordings = (str(data / name) for name in ("", "lake", "facts", "recordings"))
    progress = LineProgress(sys.stderr, is_json=False)
    pipeline = Cycles(
        PipelineSettings(home, lake, landing, recordings, spark=SparkSettings(cores=1)), progress, now_us=lambda: now_us
    )
    files = itertools.groupby(told(viewers), key=lambda line: (line["at_us"] - NOON_US) // (ROTATE_S * SECOND_US))
    for number in range(cycles):
        seconds = every_s if number else FIRST_S
        for _, lines in itertools.islice(files, seconds // ROTATE_S):
            now_us += ROTATE_S * SECOND_US
            land(data / "facts", now_us, lines)
        before_s = cpu_s(os.getpid())
        pipeline.run_cycle()
        yield cpu_s(os.getpid()) - before_s
    pipeline.close()


def told(viewers: int) -> Iterator[dict[str, Any]]:
    """The facts of one server: a stream from its start on, and viewers who stay."""
    seqs = itertools.count(1)
    yield fact(next(seqs), "server_started")
    yield fact(next(seqs), "connection_opened", **OPENED, conn_id="c0")
    published = fact(next(seqs), "publish_started", **{**PUBLISHED, "conn_id": "c0"})
    yield published
    views = []
    for number in range(1, viewers + 1):
        yield fact(next(seqs), "connection_opened", **OPENED, conn_id=f"c{number}")
        views.append(fact(next(seqs), "play_started", conn_id=f"c{number}", dimensions=None))
        yield views[-1]
    for second in itertools.count(1):
        at_us, sent = NOON_US + second * SECOND_US, 25_000 * second
        grown: dict[str, Any] = {
            "bitrate_bps": 200_000,
            "received_bytes": sent,
            "video_frames": 10 * second,
            "keyframes": second // 2,
        }
        name = published["event_id"]
        yield fact(next(seqs), "stream_sample", at_us, publication_id=name, viewers=viewers, **grown)
        for view in views if second % VIEWER_SAMPLE_S == 0 else ():
            seen: dict[str, Any] = {"sent_bytes": sent, "watched_us": second * SECOND_US, "lag_ms": 120, "rtt_us": 900}
            place = {"conn_id": view["conn_id"], "view_id": view["event_id"]}
            yield fact(next(seqs), "viewer_sample", at_us, **place, **seen)


def land(facts: Path, at_us: int, lines: Iterator[dict[str, Any]]) -> None:
    """A landing file."""
    at = datetime.fromtimestamp(at_us / SECOND_US, UTC)
    path = facts / f"date={at:%Y-%m-%d}" / f"hour={at:%H}" / f"edge-1-b1-{at_us}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    os.utime(path, (at_us / SECOND_US,) * 2)


if __name__ == "__main__":
    sys.exit(main())
