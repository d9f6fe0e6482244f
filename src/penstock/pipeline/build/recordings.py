"""From bronze and recorded files to silver: recording segments, and the GOPs of finished files.

Owns which rows and files are looked at again. A recorded file may be told of long after it began, so its row is found
by the file and not by the hours of a plan.
"""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from penstock.pipeline.build.run import Run
from penstock.pipeline.build.silver import replace_by_start
from penstock.pipeline.lake.fact_kinds import RECORDING_KINDS
from penstock.pipeline.lake.hours import HOUR_US, hour_of_us, us_of_hour
from penstock.pipeline.lake.lake import Wanted
from penstock.pipeline.lake.layout import BRONZE
from penstock.pipeline.sources.files import locate
from penstock.pipeline.sources.flv.manifest import finished_segments, read_rows
from penstock.pipeline.transforms.common import hour_of
from penstock.pipeline.transforms.silver.gops import gops
from penstock.pipeline.transforms.silver.recording_segments import SEGMENT, recording_segments

_SEGMENT_KEYS: Final = pa.schema({"server_id": pa.string(), "recording_id": pa.string(), "segment": pa.int64()})


def write_recordings(run: Run) -> None:
    """Silver of what was recorded, if facts tell of any."""
    if run.plan.recording_hours:
        _write_segments(run)
        _write_gops(run)


def _write_segments(run: Run) -> None:
    run.progress.step("recordings")
    columns = [*SEGMENT, "started_at_us"]
    wanted = Wanted(hours=run.plan.recording_hours, kinds=RECORDING_KINDS)
    told = run.lake.rows(run.pin(BRONZE), wanted, columns)
    begun_us: dict[tuple[Any, ...], int | None] = {}
    for *key, at_us in zip(*told.select(columns).to_pydict().values(), strict=True):
        begun_us[tuple(key)] = at_us if at_us is not None else begun_us.get(tuple(key))
    if not begun_us:
        return
    hours = {hour_of_us(at_us) for at_us in begun_us.values() if at_us is not None}
    # Only the end of a file tells when it began. Where a gap came later than that, all that is known is looked at.
    is_clear = None not in begun_us.values()
    keys = dict(zip(SEGMENT, zip(*begun_us, strict=True), strict=True))
    touched = F.broadcast(run.of_rows(pa.table(keys, _SEGMENT_KEYS)))
    since = min(hours, default="") if is_clear else ""
    closed, gaps = (run.facts_since(kind, since).join(touched, SEGMENT, "left_semi") for kind in RECORDING_KINDS)
    fresh = recording_segments(closed, gaps)
    if not is_clear:
        hours.update(row.hour for row in fresh.select(hour_of("started_at").alias("hour")).distinct().collect())
    # A file that began long ago may be repaired now: its row is in the hour of its beginning.
    known = run.read("silver.recording_segments", hours)
    kept = known.join(touched, SEGMENT, "left_anti").select(*fresh.columns)
    replace_by_start(run, "silver.recording_segments", fresh.unionByName(kept), "started_at", hours)


def _write_gops(run: Run) -> None:
    """GOPs of the files that were finished since; a file never changes after that."""
    if run.recordings is None:
        return
    recorded = finished_segments(read_rows(locate(run.recordings)))
    known_paths = {each.path for each in recorded} & run.analysed.keys()
    finished = [each for each in recorded if each.path not in known_paths]
    if not finished:
        return
    run.progress.step(f"GOPs of {len(finished)} recordings")
    hour_of_path = {segment.path: hour_of_us(segment.started_at_us) for segment in finished}
    hours = sorted(set(hour_of_path.values()))
    placed = [(path, us_of_hour(hour) // HOUR_US) for path, hour in hour_of_path.items()]
    named = F.broadcast(run.spark.createDataFrame(placed, "path string, hour bigint"))
    fresh = gops(run.spark, run.recordings, finished).join(named, "path")
    # A run that was killed may have written some of them.
    known = run.read("silver.gops", hours).join(named.select("path"), "path", "left_anti")
    hour = F.expr(f"unix_timestamp(hour, \"yyyy-MM-dd'T'HH\") div {HOUR_US // 1_000_000}")
    kept = known.withColumn("hour", hour).select(*fresh.columns)
    run.replace("silver.gops", fresh.unionByName(kept), hours)
    run.analysed = {path: run.analysed[path] for path in known_paths} | hour_of_path
