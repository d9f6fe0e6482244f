"""Gold tables to the values of a report.

Owns sums over a span of time, and the bounds that keep a page small: steps of the time axis and rows of lists.
Percentiles over several hours are read from summed histograms, never from other percentiles. Reads no files: the caller
hands over the tables.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.lake.hours import us_of
from penstock.pipeline.reports.gather_quality import quality_part
from penstock.pipeline.reports.report import (
    Audience,
    DataQuality,
    DayRecorded,
    DayUsage,
    Health,
    Incident,
    Recording,
    Recordings,
    Report,
    StreamCurve,
    StreamHealth,
    StreamUsage,
    Totals,
    Usage,
)

NEEDED_TABLES: Final = (
    "gold.audience",
    "gold.view_quality",
    "gold.stream_health",
    "gold.incidents",
    "gold.usage",
    "gold.recordings",
    "gold.archive",
    "gold.data_quality",
    "rollup.histogram_hours",
)

MAX_ROWS: Final = 20_000_000
"""Of these tables, which are held in memory: 23 million, of a million streams, took 5.2 GB."""

HEALTHY: Final = "healthy"

_MAX_STEPS: Final = 480
_MAX_CURVES: Final = 8
_MAX_HEALTH_ROWS: Final = 20
_MAX_LISTED: Final = 100
_STEPS_MINUTES: Final = (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440)
_MINUTE: Final = timedelta(minutes=1)
_MINUTE_US: Final = 60_000_000

Row = dict[str, Any]
Stream = tuple[str, str]


def gather(
    tables: Mapping[str, pa.Table],
    made_at: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    server_starts: Iterable[datetime] = (),
    *,
    is_being_built: bool = False,
) -> Report:
    """A report on the rows of NEEDED_TABLES, which the caller has cut to the span.

    `server_starts` are those that are known, to say so if nothing is older. `is_being_built`: a run is under way.
    """
    audience, health = tables["gold.audience"], tables["gold.stream_health"]
    first_at, newest_at = _ends([audience, health])
    axis = _Axis(first_at, newest_at)
    return Report(
        made_at=made_at,
        since=since,
        until=until,
        first_at=first_at,
        newest_at=newest_at,
        is_being_built=is_being_built,
        started_at=_started_at(first_at, server_starts),
        totals=_totals(tables),
        audience=_audience(audience, axis),
        quality=quality_part(tables["gold.view_quality"], tables["rollup.histogram_hours"]),
        health=_health(health, tables["gold.incidents"], axis),
        usage=_usage(tables["gold.usage"]),
        recordings=_recordings(tables["gold.recordings"], tables["gold.archive"]),
        data_quality=_data_quality(tables["gold.data_quality"]),
    )


class _Axis:
    """Equal steps of whole minutes, aligned to UTC, from the first to the newest minute."""

    def __init__(self, first_at: datetime | None, newest_at: datetime | None) -> None:
        self.step_minutes = 1
        self.at: tuple[datetime, ...] = ()
        if first_at is None or newest_at is None:
            return
        minutes = (newest_at - first_at) / _MINUTE
        fitting = [each for each in _STEPS_MINUTES if minutes / each < _MAX_STEPS - 1]
        # Beyond the longest step of the list, a step is as many whole days as needed.
        self.step_minutes = fitting[0] if fitting else 1440 * (int(minutes / 1440 / _MAX_STEPS) + 1)
        step = self.step_minutes * _MINUTE
        start = first_at - (first_at - datetime(1970, 1, 1, tzinfo=UTC)) % step
        self.at = tuple(start + index * step for index in range(-((start - newest_at) // step)))

    def with_step(self, table: pa.Table) -> pa.Table:
        """Adds the number of each row's step."""
        if not self.at:
            return table.append_column("step", pa.array([], pa.int64()))
        since_start = pc.subtract(table["minute"].cast(pa.int64()), us_of(self.at[0]))
        return table.append_column("step", pc.divide(since_start, self.step_minutes * _MINUTE_US))


def _totals(tables: Mapping[str, pa.Table]) -> Totals:
    audience, usage, recordings = tables["gold.audience"], tables["gold.usage"], tables["gold.recordings"]
    views = tables["gold.view_quality"].filter(pc.field("dimension") == "all")
    minutes = audience.group_by("minute").aggregate([("viewers_peak", "sum")]).sort_by("minute").to_pylist()
    busiest = max(minutes, key=lambda row: row["viewers_peak_sum"], default=None)
    named = [tables[f"gold.{name}"].select(["app", "stream"]) for name in ("audience", "stream_health")]
    return Totals(
        streams=pa.concat_tables(named).group_by(["app", "stream"]).aggregate([]).num_rows,
        views=_sum(views, "views"),
        failed_starts=_sum(views, "failed_starts"),
        watched_us=_sum(audience, "watched_us"),
        busiest_viewers=0 if busiest is None else busiest["viewers_peak_sum"],
        busiest_at=None if busiest is None else busiest["minute"],
        ingress_bytes=_sum(usage, "ingress_bytes"),
        egress_bytes=_sum(usage, "egress_bytes"),
        incidents=tables["gold.incidents"].num_rows,
        recordings=recordings.num_rows,
        recorded_ms=_sum(recordings, "duration_ms"),
        recorded_bytes=_sum(recordings, "bytes"),
        is_estimated=any(pc.any(each["is_estimated"]).as_py() or False for each in (audience, usage)),
    )


def _audience(table: pa.Table, axis: _Axis) -> Audience:
    watched = table.group_by(["app", "stream"]).aggregate([("watched_us", "sum")])
    ranked = _first(watched, ["watched_us_sum"], _MAX_CURVES)
    table, shown = axis.with_step(table), [_stream(row) for row in ranked]
    curves = [_curve(table.filter(_is_among(table, [name])), axis, *name) for name in shown]
    if watched.num_rows > _MAX_CURVES:
        curves.append(_curve(table.filter(pc.invert(_is_among(table, shown))), axis, None, None))
    return Audience(axis.step_minutes, axis.at, tuple(curves))


def _curve(table: pa.Table, axis: _Axis, app: str | None, stream: str | None) -> StreamCurve:
    watched_us, peaks = [0] * len(axis.at), [0] * len(axis.at)
    minutes = table.group_by(["step", "minute"]).aggregate([("watched_us", "sum"), ("viewers_peak", "sum")])
    for row in minutes.to_pylist():
        step = row["step"]
        watched_us[step] += row["watched_us_sum"]
        peaks[step] = max(peaks[step], row["viewers_peak_sum"])
    step_us = axis.step_minutes * _MINUTE_US
    return StreamCurve(app, stream, tuple(round(each / step_us, 2) for each in watched_us), tuple(peaks))


def _health(table: pa.Table, incidents: pa.Table, axis: _Axis) -> Health:
    is_healthy = pc.equal(table["verdict"], HEALTHY)
    judged = table.append_column("good", is_healthy).append_column("bad", pc.invert(is_healthy))
    minutes = judged.group_by(["app", "stream"]).aggregate([("good", "sum"), ("bad", "sum")])
    table = axis.with_step(table)
    streams = (
        _stream_health(row, table.filter(_is_among(table, [_stream(row)])), len(axis.at))
        for row in _first(minutes, ["bad_sum", "good_sum"], _MAX_HEALTH_ROWS)
    )
    happened = [_incident(row) for row in incidents.to_pylist()]
    happened.sort(key=lambda each: (each.started_at, each.app, each.stream, each.kind), reverse=True)
    return Health(
        axis.step_minutes,
        axis.at,
        tuple(streams),
        max(minutes.num_rows - _MAX_HEALTH_ROWS, 0),
        tuple(happened[:_MAX_LISTED]),
        len(happened[_MAX_LISTED:]),
    )


def _stream_health(minutes: Row, table: pa.Table, steps: int) -> StreamHealth:
    received_bytes, sampled_us = [0] * steps, [0] * steps
    verdicts: list[str | None] = [None] * steps
    for row in table.sort_by("minute").select(["step", "verdict", "ingress_bytes", "sampled_us"]).to_pylist():
        step = row["step"]
        received_bytes[step] += row["ingress_bytes"]
        sampled_us[step] += row["sampled_us"]
        if verdicts[step] is None or (verdicts[step] == HEALTHY and row["verdict"] != HEALTHY):
            verdicts[step] = row["verdict"]
    bitrates = (
        received * 8_000_000 // sampled if sampled else None
        for received, sampled in zip(received_bytes, sampled_us, strict=True)
    )
    good, bad = minutes["good_sum"], minutes["bad_sum"]
    return StreamHealth(*_stream(minutes), tuple(bitrates), tuple(verdicts), good + bad, good)


def _is_among(table: pa.Table, streams: Sequence[Stream]) -> pa.ChunkedArray:
    """Which rows are about one of these streams."""
    found = pa.chunked_array([pa.repeat(pa.scalar(False), table.num_rows)])
    for app, stream in streams:
        found = pc.or_(found, pc.and_(pc.equal(table["app"], app), pc.equal(table["stream"], stream)))
    return found


def _incident(row: Row) -> Incident:
    return Incident(**{name: row[name] for name in Incident.__dataclass_fields__})


def _usage(table: pa.Table) -> Usage:
    sums = [("ingress_bytes", "sum"), ("egress_bytes", "sum"), ("watched_us", "sum")]
    more = [*sums, ("egress_bps_p95", "max"), ("is_estimated", "max"), ("day", "count")]
    streams = table.group_by(["app", "stream"]).aggregate(more)
    days = table.group_by(["day", "app"]).aggregate(sums).to_pylist()
    return Usage(
        streams=tuple(
            StreamUsage(
                app=row["app"],
                stream=row["stream"],
                days=row["day_count"],
                ingress_bytes=row["ingress_bytes_sum"],
                egress_bytes=row["egress_bytes_sum"],
                viewer_minutes=round(row["watched_us_sum"] / _MINUTE_US, 2),
                egress_bps_p95=row["egress_bps_p95_max"],
                is_estimated=row["is_estimated_max"],
            )
            for row in _first(streams, ["egress_bytes_sum", "ingress_bytes_sum"], _MAX_LISTED)
        ),
        streams_left_out=max(streams.num_rows - _MAX_LISTED, 0),
        days=tuple(
            DayUsage(
                day=row["day"],
                app=row["app"],
                ingress_bytes=row["ingress_bytes_sum"],
                egress_bytes=row["egress_bytes_sum"],
                viewer_minutes=round(row["watched_us_sum"] / _MINUTE_US, 2),
            )
            for row in sorted(days, key=lambda row: (row["day"], row["app"]))
        ),
    )


def _recordings(table: pa.Table, archive: pa.Table) -> Recordings:
    archived = {row["path"]: row for row in archive.select(["path", "status", "reason", "mp4_path"]).to_pylist()}
    newest = table.sort_by([("started_at", "descending"), ("path", "ascending")]).slice(0, _MAX_LISTED)
    days = table.append_column("day", table["started_at"].cast(pa.timestamp("us")).cast(pa.date32()))
    amounts = [("duration_ms", "sum"), ("bytes", "sum"), ("path", "count")]
    rows = days.group_by(["day", "app"]).aggregate(amounts).sort_by([("day", "ascending"), ("app", "ascending")])
    return Recordings(
        newest=tuple(_recording(row, archived.get(row["path"], {})) for row in newest.to_pylist()),
        left_out=max(table.num_rows - _MAX_LISTED, 0),
        days=tuple(
            DayRecorded(row["day"], row["app"], row["path_count"], row["duration_ms_sum"], row["bytes_sum"])
            for row in rows.to_pylist()
        ),
        archive=dict(sorted(Counter(archive["status"].to_pylist()).items())),
    )


def _recording(row: Row, archived: Row) -> Recording:
    made = {"archive_status": archived.get("status"), "archive_reason": archived.get("reason")}
    found = row | made | {"mp4_path": archived.get("mp4_path")}
    return Recording(**{name: found[name] for name in Recording.__dataclass_fields__})


def _data_quality(table: pa.Table) -> tuple[DataQuality, ...]:
    checks: dict[tuple[str, str], list[Row]] = {}
    for row in table.sort_by([("at", "ascending"), ("subject", "ascending")]).to_pylist():
        checks.setdefault((row["table"], row["check"]), []).append(row)
    return tuple(
        DataQuality(
            table=name,
            check=check,
            violations=sum(row["violations"] for row in rows),
            subjects=len({row["subject"] for row in rows}),
            last_at=rows[-1]["at"],
            detail=rows[-1]["detail"],
        )
        for (name, check), rows in sorted(checks.items())
    )


def _ends(tables: Iterable[pa.Table]) -> tuple[datetime | None, datetime | None]:
    ends = [pc.min_max(table["minute"]).as_py() for table in tables if table.num_rows]
    if not ends:
        return None, None
    return min(each["min"] for each in ends), max(each["max"] for each in ends) + _MINUTE


def _started_at(first_at: datetime | None, server_starts: Iterable[datetime]) -> datetime | None:
    """The first start of a server, unless a minute of the report was over before it."""
    started_at = min(server_starts, default=None)
    if started_at is None or first_at is None or first_at + _MINUTE <= started_at:
        return None
    return started_at


def _first(streams: pa.Table, amounts: Sequence[str], most: int) -> list[Row]:
    """The streams with the largest amounts, by name where they have the same. Of the others no object is made."""
    order = [*((name, "descending") for name in amounts), ("app", "ascending"), ("stream", "ascending")]
    rows: list[Row] = streams.sort_by(order).slice(0, most).to_pylist()
    return rows


def _stream(row: Row) -> Stream:
    return row["app"], row["stream"]


def _sum(table: pa.Table, column: str) -> int:
    return int(pc.sum(table[column]).as_py() or 0)
