"""Small files for a live page: what gold says of the last minutes, hours and days.

Owns `lake/serving/`: a handful of JSON files of bounded size, each replaced in one step, so that a page may fetch them
at any moment without asking Spark. Every file has `as_of`, the time that it was made, `charts`, those that the report
draws of it, as figures for plotly.js, and otherwise the shape of the part of the report it is named after; times are
ISO 8601 in UTC. The server answers `GET /api/v1/analytics/` from them.

    now.json         streams that were published in the last minutes, and the incidents of the last hour
    audience.json    viewers by stream, the last day
    quality.json     startup, stalls and failures, the last day
    health.json      bitrate and verdict by stream, the last day, with incidents
    incidents.json   the same incidents alone, for those who want no curves
    usage.json       bytes and viewer-minutes by stream and by day, the last 31 days
    recordings.json  the newest recordings
"""

import json
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.lake.arrow_lake import ArrowLake, Span
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.reports.charts import Figure, charts
from penstock.pipeline.reports.gather import NEEDED_TABLES, gather
from penstock.pipeline.reports.report import to_json
from penstock.pipeline_figures import SERVING_FOLDER

MAX_STREAMS: Final = 20_000
MAX_ROWS: Final = 5_000_000
"""Both are of the last day, all of which is read into memory, by a pipeline that should stay small beside a server."""
_CHARTS: Final = {
    "audience": ("audience",),
    "quality": ("startup", "stalls"),
    "health": ("health", "bitrate"),
    "usage": ("usage",),
    "recordings": ("recordings",),
}
"""The charts of each file, by their names in the report."""
_LIVE: Final = timedelta(minutes=3)
"""A stream whose newest minute is older is not live. Covers the delay of landing and of a run."""
_RECENT: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_MONTH: Final = timedelta(days=31)


def write_serving(storage: Storage, as_of: datetime) -> list[str]:
    """Write all files from the current gold, and return their paths in the lake; none if gold is too large for it."""
    lake = ArrowLake(storage)
    last_day = Span(as_of - _DAY, None)
    if lake.count(["gold.usage"], last_day) > MAX_STREAMS or lake.count(NEEDED_TABLES, last_day) > MAX_ROWS:
        return []
    files = serving_files(lake, as_of)
    for name, content in files.items():
        storage.put(f"{SERVING_FOLDER}/{name}.json", content.encode())
    return [f"{SERVING_FOLDER}/{name}.json" for name in files]


def serving_files(lake: ArrowLake, as_of: datetime) -> dict[str, str]:
    """The content of each file by its name."""
    day = lake.tables(NEEDED_TABLES, Span(as_of - _DAY, None))
    month = {
        name: lake.read(name, Span(as_of - _MONTH, None)) for name in ("gold.usage", "gold.recordings", "gold.archive")
    }
    report = gather({**day, **month}, as_of, as_of - _DAY)
    parts = {name: json.loads(to_json(getattr(report, name))) for name in _CHARTS}
    parts["incidents"] = {name: parts["health"][name] for name in ("incidents", "incidents_left_out")}
    drawn = charts(report, ZoneInfo("UTC"))
    return {
        "now": json.dumps(_now(day, as_of), ensure_ascii=False),
        **{name: _stamped(part, _drawn_of(name, drawn), as_of) for name, part in parts.items()},
    }


def _now(tables: dict[str, pa.Table], as_of: datetime) -> dict[str, Any]:
    health, audience = (_newest_minutes(tables[f"gold.{name}"], as_of) for name in ("stream_health", "audience"))
    streams = [
        {
            "app": app,
            "stream": stream,
            "minute": _iso(row["minute"]),
            "viewers_peak": audience[app, stream]["viewers_peak"] if (app, stream) in audience else 0,
            **{name: row[name] for name in ("bitrate_bps", "fps", "keyframe_interval_ms", "verdict")},
        }
        for (app, stream), row in sorted(health.items())
    ]
    incidents = [row for row in tables["gold.incidents"].to_pylist() if row["ended_at"] > as_of - _RECENT]
    return {
        "as_of": _iso(as_of),
        "viewers_peak": sum(stream["viewers_peak"] for stream in streams),
        "streams": streams,
        "incidents": [
            {name: _iso(value) if isinstance(value, datetime) else value for name, value in row.items()}
            for row in sorted(incidents, key=lambda row: row["started_at"], reverse=True)
        ],
    }


def _newest_minutes(table: pa.Table, as_of: datetime) -> dict[tuple[str, str], dict[str, Any]]:
    rows = table.filter(pc.field("minute") > as_of - _LIVE).sort_by("minute").to_pylist()
    return {(row["app"], row["stream"]): row for row in rows}


def _drawn_of(name: str, drawn: dict[str, Figure]) -> dict[str, Figure]:
    return {chart: drawn[chart] for chart in _CHARTS.get(name, ()) if chart in drawn}


def _stamped(part: dict[str, Any], drawn: dict[str, Figure], as_of: datetime) -> str:
    return json.dumps({"as_of": _iso(as_of), **part, "charts": drawn}, ensure_ascii=False)


def _iso(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
