"""An absurd number of streams through all tables, with the default heap: how much memory that takes.

    python -m bench.many_streams [--streams 1000000] [--heap 1g]

Owns one measurement: an hour in which every stream is published and watched once, by one server that is lost then, from
landing files to gold. Prints JSON: the rows of each table, the bytes of gold.usage, the peak memory of Python and of
Java, and the seconds of ingest and tables.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from tests.pipeline.landing_place import FOLDER, NAMES, NOON_US, PEER, PLACE, SECOND_US, fact

from bench.usage import with_descendants
from penstock.facts import FACTS
from penstock.pipeline.engine.session import SparkSettings
from penstock.pipeline.lake.layout import stored_tables
from penstock.pipeline.ops.cycle import Cycles
from penstock.pipeline.progress import LineProgress
from penstock.pipeline.settings import PipelineSettings

KINDS = (
    "connection_opened",
    "publish_started",
    "stream_sample",
    "play_started",
    "play_first_keyframe",
    "viewer_sample",
)
STREAMS_OF_A_FILE = 20_000
HOUR_US = 3600 * SECOND_US
LOST_US = NOON_US + HOUR_US + 600 * SECOND_US
"""When the server has been silent for ten minutes."""
SENT_BYTES = 5000
"""Sent to the viewer of a stream by its last sample; the viewer's own sample says less."""
MIB = 1024 * 1024


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.many_streams", description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--heap", default=SparkSettings().heap)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        data = Path(folder)
        land(data / "facts" / FOLDER, options.streams)
        print(json.dumps(run(data, SparkSettings(heap=options.heap))))
    return 0


def run(data: Path, spark: SparkSettings) -> dict[str, Any]:
    """One cycle over what has landed."""
    home, lake_folder, landing, recordings = (str(data / name) for name in ("", "lake", "facts", "recordings"))
    settings = PipelineSettings(home, lake_folder, landing, recordings, spark=spark)
    cycles = Cycles(settings, LineProgress(sys.stderr, is_json=False), now_us=lambda: LOST_US)
    began_at, before_bytes = time.monotonic(), python_bytes()
    cycles.run_cycle()
    took_s, java_bytes = time.monotonic() - began_at, max(map(peak_bytes, with_descendants(os.getpid())[1:]), default=0)
    cycles.close()
    lake = cycles.lake
    usage = lake.pin("gold.usage")
    return {
        "rows": {name: lake.count(lake.pin(name)) for name in stored_tables() if lake.pin(name) is not None},
        "egress_bytes": pc.sum(lake.rows(usage, columns=["egress_bytes"])["egress_bytes"]).as_py(),
        "quarantined": lake.read_state().counts.get("quarantined", 0),
        "state_bytes": max(path.stat().st_size for path in (data / "lake/state").glob("*.parquet")),
        "python_grown_mib": (python_bytes() - before_bytes) // MIB,
        "java_mib": java_bytes // MIB,
        "seconds": round(took_s, 1),
    }


def land(folder: Path, streams: int) -> None:
    """Landing files with the facts of so many streams, spread over an hour."""
    folder.mkdir(parents=True)
    forms = [form(place, kind) for place, kind in enumerate(KINDS)]
    for first in range(0, streams, STREAMS_OF_A_FILE):
        path = folder / f"edge-1-b1-{first:08}.jsonl"
        numbers = range(first, min(first + STREAMS_OF_A_FILE, streams))
        with path.open("w", encoding="utf-8") as file:
            for lines in each_stream(forms, numbers, HOUR_US // streams):
                file.write(lines)
        os.utime(path, ((NOON_US + HOUR_US) / 1e6 - 1,) * 2)


def form(place: int, kind: str) -> str:
    """A line of this kind with marks for what differs from stream to stream."""
    started = {"publication_id": "<publication>", "view_id": "<view>"}
    fields = {**PLACE, **PEER, **NAMES, "dimensions": None, "publishing_type": "live"}
    known = FACTS[kind].__dataclass_fields__
    told = {**{name: value for name, value in fields.items() if name in known}, **fact(1, kind, 0)}
    told |= {"stream": "cam<stream>"} if "stream" in told else {}
    told |= {name: value for name, value in {"conn_id": "c<stream>", **started}.items() if name in known}
    told |= {"lag_ms": 100, "rtt_us": 900} if kind == "viewer_sample" else {}
    sums = {"viewers_sent_bytes": SENT_BYTES, "viewers_watched_us": SECOND_US}
    told |= {"bitrate_bps": 200_000, "received_bytes": 25_000, **sums} if kind == "stream_sample" else {}
    text = json.dumps({**told, "event_id": f"edge-1-b1-<{place}>"}, separators=(",", ":"))
    return text.replace('"seq":1,', f'"seq":<{place}>,').replace('"at_us":0', '"at_us":<at>') + "\n"


def each_stream(forms: list[str], numbers: range, apart_us: int) -> Iterator[str]:
    """The lines of each stream."""
    for number in numbers:
        seqs = [number * len(KINDS) + place + 1 for place in range(len(KINDS))]
        lines = "".join(forms)
        for place, seq in enumerate(seqs):
            lines = lines.replace(f"<{place}>", str(seq))
        marks = {"publication": f"edge-1-b1-{seqs[1]}", "view": f"edge-1-b1-{seqs[3]}", "stream": str(number)}
        marks["at"] = str(NOON_US + number * apart_us)
        for mark, value in marks.items():
            lines = lines.replace(f"<{mark}>", value)
        yield lines


def python_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_bytes(pid: int) -> int:
    """The most memory that another process has had."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM")), 0)


if __name__ == "__main__":
    sys.exit(main())
