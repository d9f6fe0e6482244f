"""The tables of the lake as a contract: grain, key, columns and their meaning. Imports no Spark.

Owns the names that readers of the lake rely on; `schemas` turns them into Spark's types, `docs/5-tables.md` lists them,
and a test holds the three together. Columns may be added; one that goes, or changes its meaning, raises
TRANSFORMS_VERSION, which makes the next run rebuild what retention allows.

Stored values do not depend on the order in which facts came: times and durations are integers of microseconds or
timestamps made of them, amounts are integers, and a fraction is one division of two of those, done last. Rows of a file
are sorted by the table's key, or by a time and the key.
"""

from dataclasses import dataclass
from typing import Final, Literal

from penstock.pipeline.lake.table_columns import (
    ARCHIVE,
    AUDIENCE,
    AUDIENCE_DIMENSIONS,
    CONNECTIONS,
    GOPS,
    HISTOGRAM_HOURS,
    INCIDENTS,
    PUBLICATIONS,
    QUALITY_CHECKS,
    RECORDING_SEGMENTS,
    RECORDINGS,
    STREAM_EPISODES,
    STREAM_HEALTH,
    STREAM_SECONDS,
    USAGE,
    USAGE_DIMENSIONS,
    VIEW_LAGS,
    VIEW_MINUTES,
    VIEW_QUALITY,
    VIEWER_SAMPLES,
    VIEWS,
    Column,
)

TRANSFORMS_VERSION: Final = 5

SERVER_LOST: Final = "server_lost"
"""end_reason of what no fact ended: its server fell silent or was started again."""

Layer = Literal["bronze", "silver", "rollup", "gold"]
Partition = Literal["hour", "day", None]


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `partition` is the unit that a run replaces as a whole; None: the whole table."""

    layer: Layer
    name: str
    grain: str
    key: tuple[str, ...]
    partition: Partition
    columns: tuple[Column, ...]
    time: str | None = None
    """Column that rows of a file are sorted by before the key, where the key is text: a timestamp sorts faster."""

    @property
    def full_name(self) -> str:
        return f"{self.layer}.{self.name}"

    @property
    def order(self) -> tuple[str, ...]:
        """Columns that rows of a file are sorted by."""
        return self.key if self.time is None else (self.time, *self.key)


TABLES: Final[dict[str, Table]] = {
    table.full_name: table
    for table in (
        Table(
            "silver",
            "connections",
            "one row per connection",
            ("server_id", "boot_id", "conn_id"),
            "hour",
            CONNECTIONS,
            time="opened_at",
        ),
        Table("silver", "publications", "one row per publication", ("publication_id",), "hour", PUBLICATIONS),
        Table(
            "silver",
            "views",
            "one row per view (one viewer playing one stream once), failed starts included",
            ("view_id",),
            "hour",
            VIEWS,
            time="started_at",
        ),
        Table(
            "silver",
            "viewer_samples",
            "one row per viewer sample, taken every few seconds",
            ("event_id",),
            "hour",
            VIEWER_SAMPLES,
        ),
        Table(
            "silver",
            "stream_seconds",
            "one row per stream sample, taken about every second, and one for the end",
            ("event_id",),
            "hour",
            STREAM_SECONDS,
            time="at",
        ),
        Table(
            "silver",
            "recording_segments",
            "one row per recorded file",
            ("server_id", "recording_id", "segment"),
            "hour",
            RECORDING_SEGMENTS,
        ),
        Table(
            "silver", "gops", "one row per GOP (group of pictures) of a recorded file", ("path", "gop"), "hour", GOPS
        ),
        Table(
            "rollup",
            "view_minutes",
            "one row per view and minute with a fact about it",
            ("boot_key", "view_seq", "minute"),
            "hour",
            VIEW_MINUTES,
        ),
        Table(
            "rollup",
            "view_lags",
            "one row per hour, view and histogram bucket of its lag",
            ("boot_key", "view_seq", "bucket"),
            "hour",
            VIEW_LAGS,
        ),
        Table(
            "rollup",
            "stream_episodes",
            "one row per hour, stream, kind and run of consecutive bad samples; of jumps, per sample with some",
            ("app", "stream", "kind", "started_at"),
            "hour",
            STREAM_EPISODES,
        ),
        Table(
            "rollup",
            "histogram_hours",
            "one row per hour, stream, dimension, value, metric and bucket",
            ("app", "stream", "dimension", "value", "metric", "bucket"),
            "hour",
            HISTOGRAM_HOURS,
        ),
        Table(
            "gold",
            "audience",
            "one row per stream and minute, over all servers",
            ("app", "stream", "minute"),
            "day",
            AUDIENCE,
        ),
        Table(
            "gold",
            "audience_dimensions",
            "one row per stream, minute, dimension and value, over all servers",
            ("app", "stream", "minute", "dimension", "value"),
            "day",
            AUDIENCE_DIMENSIONS,
        ),
        Table(
            "gold",
            "view_quality",
            "one row per stream, hour, dimension and value",
            ("app", "stream", "hour_at", "dimension", "value"),
            "day",
            VIEW_QUALITY,
        ),
        Table(
            "gold",
            "stream_health",
            "one row per stream and minute",
            ("app", "stream", "minute"),
            "day",
            STREAM_HEALTH,
        ),
        Table("gold", "incidents", "one row per incident", ("app", "stream", "kind", "started_at"), "day", INCIDENTS),
        Table("gold", "usage", "one row per stream and UTC day", ("app", "stream", "day"), "day", USAGE),
        Table(
            "gold",
            "usage_dimensions",
            "one row per stream, UTC day, dimension and value",
            ("app", "stream", "day", "dimension", "value"),
            "day",
            USAGE_DIMENSIONS,
        ),
        Table("gold", "recordings", "one row per recorded file", ("server_id", "path"), None, RECORDINGS),
        Table(
            "gold",
            "archive",
            "one row per recorded file that the archive job has processed",
            ("recording_id", "segment"),
            None,
            ARCHIVE,
        ),
        Table(
            "gold",
            "data_quality",
            "one row per violated check, subject and hour",
            ("check", "subject", "at"),
            "day",
            QUALITY_CHECKS,
        ),
    )
}
"""Every table but those of bronze, which are the facts themselves: see `schemas.bronze_schema`."""
