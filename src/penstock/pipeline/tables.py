"""The tables of the lake as a contract: grain, key, columns, meaning, promises. Imports no Spark.

Owns the names that readers of the lake rely on; `schemas` turns them into Spark's types, `docs/5-tables.md` lists them,
and a test holds the three together. Columns may be added; one that goes, or changes its meaning, raises
TRANSFORMS_VERSION, which makes the next run rebuild what retention allows.

Stored values do not depend on the order in which facts came: times and durations are integers of microseconds or
timestamps made of them, amounts are integers, and a fraction is one division of two of those, done last. Rows of a file
are sorted by the table's key, or by a time and the key.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

from penstock.pipeline.table_columns import (
    ARCHIVE,
    AUDIENCE,
    CONNECTIONS,
    GOPS,
    HISTOGRAM_HOURS,
    INCIDENTS,
    PUBLICATIONS,
    QUALITY_CHECKS,
    RECORDING_SEGMENTS,
    RECORDINGS,
    STREAM_HEALTH,
    STREAM_SECONDS,
    STREAM_SPELLS,
    USAGE,
    VIEW_LAGS,
    VIEW_MINUTES,
    VIEW_QUALITY,
    VIEWER_SAMPLES,
    VIEWS,
    Column,
)

TRANSFORMS_VERSION: Final = 3

SERVER_LOST: Final = "server_lost"
"""The reason of an end that nobody told: the server fell silent, or started anew."""

Layer = Literal["bronze", "silver", "rollup", "gold"]
Partition = Literal["hour", "day", None]


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `partition` is the unit that is written and replaced as a whole; None: one file for all."""

    layer: Layer
    name: str
    grain: str
    key: tuple[str, ...]
    partition: Partition
    columns: tuple[Column, ...]
    time: str | None = None
    """Rows of a file are sorted by it before the key, if the key is text and rows are many: numbers sort faster."""
    promises: tuple[str, ...] = field(default=())

    @property
    def full_name(self) -> str:
        return f"{self.layer}.{self.name}"

    @property
    def order(self) -> tuple[str, ...]:
        """What rows of a file are sorted by."""
        return self.key if self.time is None else (self.time, *self.key)


TABLES: Final[dict[str, Table]] = {
    table.full_name: table
    for table in (
        Table(
            "silver",
            "connections",
            "one row for each connection",
            ("server_id", "boot_id", "conn_id"),
            "hour",
            CONNECTIONS,
            time="opened_at",
        ),
        Table("silver", "publications", "one row for each publication", ("publication_id",), "hour", PUBLICATIONS),
        Table(
            "silver",
            "views",
            "one row for each viewer session, failed starts included",
            ("view_id",),
            "hour",
            VIEWS,
            time="started_at",
        ),
        Table("silver", "viewer_samples", "one row for each sample of a view", ("event_id",), "hour", VIEWER_SAMPLES),
        Table(
            "silver",
            "stream_seconds",
            "one row for each sample of a publication",
            ("event_id",),
            "hour",
            STREAM_SECONDS,
            time="at",
        ),
        Table(
            "silver",
            "recording_segments",
            "one row for each recorded file",
            ("server_id", "recording_id", "segment"),
            "hour",
            RECORDING_SEGMENTS,
        ),
        Table("silver", "gops", "one row for each group of pictures in a recorded file", ("path", "gop"), "hour", GOPS),
        Table(
            "rollup",
            "view_minutes",
            "one row for each view and minute in which it was seen",
            ("boot_key", "view_seq", "minute"),
            "hour",
            VIEW_MINUTES,
        ),
        Table(
            "rollup",
            "view_lags",
            "one row for each hour, view and bucket that the lag of a sample falls into",
            ("boot_key", "view_seq", "bucket"),
            "hour",
            VIEW_LAGS,
        ),
        Table(
            "rollup",
            "stream_spells",
            "one row for each hour, stream, kind and time in which something was wrong without a break",
            ("app", "stream", "kind", "started_at"),
            "hour",
            STREAM_SPELLS,
        ),
        Table(
            "rollup",
            "histogram_hours",
            "one row for each hour, stream, cut, metric and bucket",
            ("app", "stream", "dimension", "value", "metric", "bucket"),
            "hour",
            HISTOGRAM_HOURS,
        ),
        Table(
            "gold",
            "audience",
            "one row for each stream and minute, over all servers",
            ("app", "stream", "minute"),
            "day",
            AUDIENCE,
        ),
        Table(
            "gold",
            "view_quality",
            "one row for each stream, hour and cut",
            ("app", "stream", "hour_at", "dimension", "value"),
            "day",
            VIEW_QUALITY,
        ),
        Table(
            "gold",
            "stream_health",
            "one row for each stream and minute",
            ("app", "stream", "minute"),
            "day",
            STREAM_HEALTH,
        ),
        Table(
            "gold", "incidents", "one row for each incident", ("app", "stream", "kind", "started_at"), "day", INCIDENTS
        ),
        Table("gold", "usage", "one row for each stream and UTC day", ("app", "stream", "day"), "day", USAGE),
        Table("gold", "recordings", "one row for each recorded file", ("server_id", "path"), None, RECORDINGS),
        Table(
            "gold",
            "archive",
            "one row for each recorded file that the archive job has seen",
            ("recording_id", "segment"),
            None,
            ARCHIVE,
        ),
        Table(
            "gold",
            "data_quality",
            "one row for each check that was violated, with its subject",
            ("check", "subject", "at"),
            "day",
            QUALITY_CHECKS,
        ),
    )
}
"""Every table but those of bronze, which are the facts themselves: see `schemas.bronze_schema`."""
