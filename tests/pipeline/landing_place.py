"""A data folder with a landing that tests fill, and facts as the server lands them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.ingest import quarantine
from penstock.pipeline.ingest.bronze import IngestResult
from penstock.pipeline.ingest.landing import ingest_landed
from penstock.pipeline.lake.dimensions import NO_DIMENSIONS, Dimensions
from penstock.pipeline.lake.hours import us_of_hour
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE
from penstock.pipeline.lake.storage import Storage

NOON_US = us_of_hour("2026-11-15T12")
SECOND_US = 1_000_000
FOLDER = "date=2026-11-15/hour=12"
LIKE_A_GLOB = "a [1] {b,c} *what?* 5%"
"""The name of a folder in which nothing is found by who takes it for a glob."""


def fact(seq: int, kind: str, at_us: int = NOON_US, boot: str = "b1", **fields: Any) -> dict[str, Any]:
    """A fact of the server `edge-1` as the server lands it."""
    envelope = {
        "event_id": f"edge-1-{boot}-{seq}",
        "server_id": "edge-1",
        "boot_id": boot,
        "seq": seq,
        "kind": kind,
        "version": 1,
        "at_us": at_us,
        "mono_us": seq,
    }
    return {**envelope, **DEFAULTS.get(kind, {}), **fields}


PLACE = {"conn_id": "c1", "app": "live", "stream": "cam"}
PEER = {"peer_addr": "203.0.113.7:50123", "protocol": "rtmp", "client": "vlc"}
NAMES = {"viewer": None, "auth_subject": None}
AMOUNTS = {"sent_bytes": 1000, "skips": 0, "skipped_bytes": 0}
DEFAULTS: Mapping[str, dict[str, Any]] = {
    "server_started": {"software_version": "1", "pid": 1, "boot_wall_us": NOON_US, "boot_mono_us": 0},
    "server_stopped": {"software_version": "1", "uptime_us": 1, "wall_us": NOON_US, "dropped_facts": 0},
    "play_started": {**PLACE, **PEER, **NAMES, "waited_us": 5},
    "play_first_keyframe": {**PLACE, "startup_us": 5},
    "play_stopped": {**PLACE, **PEER, **NAMES, **AMOUNTS, "reason": "left", "startup_us": 5, "watched_us": SECOND_US},
    "viewer_sample": {
        **PLACE,
        **AMOUNTS,
        "watched_us": SECOND_US,
        "acknowledged_bytes": None,
        "lag_bytes": 0,
        "lag_ms": None,
        "ping_ms": None,
        "rtt_us": None,
        "retransmits": None,
    },
    "view_beacon": {
        "app": "live",
        "stream": "cam",
        "watched_us": SECOND_US,
        **dict.fromkeys(("startup_ms", "played_ms", "stalls", "stalled_ms", "latency_ms", "dropped_frames")),
    },
    "stream_sample": {
        "publication_id": "edge-1-b1-2",
        "app": "live",
        "stream": "cam",
        **dict.fromkeys(("viewers", "bitrate_bps", "fps", "interval_timestamp_jumps", "timestamp_jumps"), 0),
        **dict.fromkeys(("av_skew_ms", "keyframe_interval_ms", "media_ms", "wall_ms", "viewers_sent_bytes")),
        **dict.fromkeys(("received_bytes", "messages", "video_frames", "audio_frames", "keyframes"), 0),
        "interval_us": SECOND_US,
        "viewers_watched_us": None,
    },
    "connection_closed": {
        **PEER,
        "conn_id": "c1",
        "reason": "left",
        "app": "live",
        "duration_us": SECOND_US,
        "received_bytes": 1,
        "sent_bytes": 1,
    },
    "limit_hit": {"limit": "connections per address", "hits": 1, "detail": "203.0.113.7 has 5"},
}


class Place:
    """A data folder for one test."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.spark = spark
        self.facts = folder / "facts"
        self.landing = Storage(self.facts)
        self.lake = Lake(Storage(folder / "lake"))

    def land(self, name: str, *lines: dict[str, Any] | bytes, at_us: int = NOON_US + SECOND_US) -> Path:
        """A landing file with these lines, the last one ended like all others."""
        texts = (
            line if isinstance(line, bytes) else json.dumps(line, separators=(",", ":")).encode() for line in lines
        )
        data = b"".join(text + b"\n" for text in texts)
        return self.land_bytes(name, data, at_us)

    def land_bytes(self, name: str, data: bytes, at_us: int = NOON_US + SECOND_US) -> Path:
        path = self.facts / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (at_us / 1e6, at_us / 1e6))
        return path

    def ingest(self, now_us: int = NOON_US + 60 * SECOND_US, dimensions: Dimensions = NO_DIMENSIONS) -> IngestResult:
        return ingest_landed(self.lake, self.landing, now_us, dimensions=dimensions)

    def rows(self, kind: str, *columns: str) -> list[tuple[Any, ...]]:
        """Rows of a kind in bronze, by number."""
        found = self.lake.read(self.spark, self.lake.pin(BRONZE), f"bronze.{kind}").orderBy("boot_id", "seq")
        return [tuple(row) for row in found.select(*columns).collect()]

    def refusals(self) -> list[tuple[str, str]]:
        kept = quarantine.read_quarantine(self.spark, self.lake.storage)
        return sorted((row.refusal, row.raw[:60]) for row in kept.select("refusal", "raw").collect())
