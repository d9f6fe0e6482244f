"""Rows of bronze to be written down in tests: what a fact says, and the rest is filled in.

Owns the defaults of the envelope. A test names what it is about; fields that a kind does not have are null, as in
bronze. Keys of boots are made up but differ from boot to boot, which is all that transforms may rely on.
"""

import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.facts import CONTRACT_VERSION
from penstock.pipeline.lake.schemas import PARTITION_FIELDS, bronze_columns, bronze_schema, table_schema
from penstock.pipeline.lake.tables import TABLES

Row = dict[str, Any]

SCHEMA = StructType([*bronze_schema(), *PARTITION_FIELDS])
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
T0 = 1_794_772_800 * SECOND
"""2026-11-15T20:00:00Z."""


def clock(text: str) -> datetime:
    """A time of 2026-11-15 as Spark gives timestamps back."""
    return datetime.fromisoformat(f"2026-11-15T{text}+00:00").astimezone().replace(tzinfo=None)


def boot_key_of(server_id: str, boot_id: str) -> int:
    return zlib.crc32(f"{server_id}-{boot_id}".encode())


def fact(kind: str, seq: int, at_us: int, *, server_id: str = "a", boot_id: str = "b1", **fields: Any) -> Row:
    """One row of bronze. `at_us` counts from T0; `view_seq` and `publication_seq` stand for the ids."""
    name = f"{server_id}-{boot_id}"
    known = set(bronze_columns(kind))
    if "publication_seq" in fields:
        fields["publication_id"] = f"{name}-{fields.pop('publication_seq')}"
    if kind == "play_started":
        fields["view_seq"] = seq
    elif fields.get("view_seq") is not None:
        fields["view_id"] = f"{name}-{fields['view_seq']}"
    if unknown := set(fields) - known:
        raise ValueError(f"{kind} has no {sorted(unknown)}")
    envelope: Row = {
        "event_id": f"{name}-{seq}",
        "server_id": server_id,
        "boot_id": boot_id,
        "seq": seq,
        "kind": kind,
        "version": CONTRACT_VERSION,
        "at_us": T0 + at_us,
        "mono_us": 10 * HOUR + at_us,
        "boot_key": boot_key_of(server_id, boot_id),
        "landed_at_us": T0 + at_us + 30 * SECOND,
        "hour": datetime.fromtimestamp((T0 + at_us) / SECOND, UTC).strftime("%Y-%m-%dT%H"),
    }
    return {**_DEFAULTS.get(kind, {}), **envelope, **fields}


def bronze(spark: SparkSession, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """The rows as a frame of bronze."""
    return spark.createDataFrame([tuple(row.get(name) for name in SCHEMA.names) for row in rows], SCHEMA)


def table(spark: SparkSession, name: str, rows: Iterable[tuple[Any, ...]] = ()) -> DataFrame:
    """Rows of a table, as a reader of the lake gets them."""
    return spark.createDataFrame(list(rows), table_schema(TABLES[name]))


def collected(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a frame in an order of their own."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def assert_is_table(frame: DataFrame, name: str) -> None:
    """The columns have the names, the order and the types of the table."""
    wanted = table_schema(TABLES[name])
    assert [(each.name, each.dataType.simpleString()) for each in frame.schema] == [
        (each.name, each.dataType.simpleString()) for each in wanted
    ]


def of_kind(rows: Iterable[Row], *kinds: str) -> list[Row]:
    return [row for row in rows if row["kind"] in kinds]


_STREAM: Row = {"app": "live", "stream": "x"}
_PEER: Row = {"conn_id": "c1", "protocol": "rtmp", "client": "OBS", "peer_addr": "10.0.0.1:5000", "network": "private"}
_WATCHER: Row = {**_PEER, "client": "VLC", "viewer_key": "h:1"}
_PUBLISHED: Row = {
    **_STREAM,
    "received_bytes": 0,
    "messages": 0,
    "video_frames": 0,
    "audio_frames": 0,
    "keyframes": 0,
    "timestamp_jumps": 0,
}
_WATCHED: Row = {**_STREAM, "conn_id": "c1", "watched_us": 0, "sent_bytes": 0, "skips": 0, "skipped_bytes": 0}

_DEFAULTS: dict[str, Row] = {
    "connection_opened": {**_PEER, "client": None},
    "connection_closed": {**_PEER, "app": "live", "reason": "bye", "received_bytes": 0, "sent_bytes": 0},
    "publish_started": {**_PEER, **_STREAM, "publishing_type": "live"},
    "publish_stopped": {**_PUBLISHED, "conn_id": "c1", "reason": "unpublished", "duration_us": 0},
    "play_started": {**_WATCHER, **_STREAM, "waited_us": 0},
    "play_first_keyframe": {**_STREAM, "conn_id": "c1", "startup_us": 0},
    "play_stopped": {**_WATCHER, **_WATCHED, "reason": "closed by the viewer"},
    "stream_sample": {
        **_PUBLISHED,
        "viewers": 0,
        "interval_us": SECOND,
        "bitrate_bps": 0,
        "fps": 0.0,
        "interval_timestamp_jumps": 0,
    },
    "viewer_sample": {**_WATCHED, "lag_bytes": 0, "lag_ms": 0},
    "view_beacon": {**_STREAM, "watched_us": 0},
    "recording_segment_closed": {
        **_STREAM,
        "recording_id": "r1",
        "segment": 1,
        "path": "live/x/1.flv",
        "status": "closed",
        "duration_ms": 0,
        "size_bytes": 0,
        "keyframes": 0,
        "gaps": 0,
    },
    "recording_gap": {**_STREAM, "recording_id": "r1", "segment": 1, "path": "live/x/1.flv", "gap_ms": 0},
}
