"""How well views went, summed over hours: of all, of each stream, of each value of a dimension and of each hour.

Owns how hours are combined: amounts are summed before they are divided, percentiles are read from summed histograms,
and scores are averaged, weighted by views.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.reports.report import HourQuality, Quality, QualityPart, StreamQuality, ValueQuality
from penstock.pipeline.transforms.histograms import middle_of

_MAX_STREAMS: Final = 50
_MAX_VALUES: Final = 8
_DIMENSIONS: Final = ("server", "protocol", "client", "network")
_AMOUNTS: Final = (
    "views",
    "failed_starts",
    "exits_before_picture",
    "watched_us",
    "stalled_us",
    "bytes_sent",
    "skipped_bytes",
    "starts",
    "weighed_score",
)

Row = dict[str, Any]
Key = tuple[Any, ...]


def quality_part(rows: pa.Table, buckets: pa.Table) -> QualityPart:
    """Quality of all views, by stream, by dimension and by hour, from gold.view_quality and rollup.histogram_hours."""
    rows = _weighed(rows)
    of_all, buckets_of_all = (table.filter(pc.field("dimension") == "all") for table in (rows, buckets))
    by_value, buckets_by_value = (table.filter(pc.field("dimension") != "all") for table in (rows, buckets))
    streams = _qualities(*_of_busiest(of_all, buckets_of_all, ["app", "stream"], _MAX_STREAMS), ["app", "stream"])
    values = _qualities(by_value, buckets_by_value, ["dimension", "value"])
    hours = _qualities(of_all, buckets_of_all, ["hour_at"])
    listed = [
        each
        for dimension in _DIMENSIONS
        for each in _busiest({key: values[key] for key in values if key[0] == dimension})[:_MAX_VALUES]
    ]
    return QualityPart(
        all=_qualities(of_all, buckets_of_all, ["dimension"]).get(("all",), _quality({}, [])),
        streams=tuple(StreamQuality(key[0], key[1], found) for key, found in _busiest(streams)),
        dimensions=tuple(ValueQuality(key[0], key[1], found) for key, found in listed),
        hours=tuple(HourQuality(key[0], hours[key]) for key in sorted(hours)),
    )


def percentile(counts: Sequence[tuple[int, int]], percent: int) -> int | None:
    """The value at a rank, by buckets and their counts; None if nothing was counted."""
    rank = -(-sum(count for _, count in counts) * percent // 100)
    seen = 0
    for bucket, count in sorted(counts):
        seen += count
        if seen >= rank > 0:
            return middle_of(bucket)
    return None


def _weighed(rows: pa.Table) -> pa.Table:
    starts = pc.add(rows["views"], rows["failed_starts"])
    score = pc.multiply(rows["score"], starts.cast(pa.float64()))
    return rows.append_column("starts", starts).append_column("weighed_score", score)


def _busiest(qualities: dict[Key, Quality]) -> list[tuple[Key, Quality]]:
    return sorted(qualities.items(), key=lambda item: (-item[1].views - item[1].failed_starts, item[0]))


def _of_busiest(rows: pa.Table, buckets: pa.Table, keys: list[str], most: int) -> tuple[pa.Table, pa.Table]:
    """The rows and buckets of so many keys with the most starts: those of the others need not become objects."""
    order = [("starts_sum", "descending"), *((key, "ascending") for key in keys)]
    kept = rows.group_by(keys).aggregate([("starts", "sum")]).sort_by(order).slice(0, most).select(keys)
    found, counted = (table.join(kept, keys, join_type="left semi", use_threads=False) for table in (rows, buckets))
    return found, counted


def _qualities(rows: pa.Table, buckets: pa.Table, keys: list[str]) -> dict[Key, Quality]:
    # Single-threaded, so that floats are summed in the same order each time.
    sums = rows.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in _AMOUNTS]).to_pylist()
    counted = buckets.group_by([*keys, "metric", "bucket"]).aggregate([("count", "sum")]).to_pylist()
    buckets_of: dict[Key, list[Row]] = {}
    for row in counted:
        buckets_of.setdefault(tuple(row[key] for key in keys), []).append(row)
    found = {tuple(row[key] for key in keys): row for row in sums}
    return {key: _quality(row, buckets_of.get(key, [])) for key, row in found.items()}


def _quality(sums: Row, buckets: Iterable[Row]) -> Quality:
    total = {name: sums.get(f"{name}_sum") or 0 for name in _AMOUNTS}
    counts: dict[str, list[tuple[int, int]]] = {}
    for row in buckets:
        counts.setdefault(row["metric"], []).append((row["bucket"], row["count_sum"]))
    startup_us, lag_ms = counts.get("startup_us", []), counts.get("lag_ms", [])
    return Quality(
        views=total["views"],
        failed_starts=total["failed_starts"],
        exits_before_picture=total["exits_before_picture"],
        startup_ms_p50=_milliseconds(percentile(startup_us, 50)),
        startup_ms_p95=_milliseconds(percentile(startup_us, 95)),
        startup_ms_p99=_milliseconds(percentile(startup_us, 99)),
        lag_ms_p95=percentile(lag_ms, 95),
        stall_ratio=_ratio(total["stalled_us"], total["watched_us"]),
        drop_rate=_ratio(total["skipped_bytes"], total["bytes_sent"] + total["skipped_bytes"]),
        score=round(total["weighed_score"] / total["starts"], 1) if total["starts"] else None,
    )


def _milliseconds(value_us: int | None) -> int | None:
    return None if value_us is None else value_us // 1000


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
