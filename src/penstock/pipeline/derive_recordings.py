"""From bronze and recorded files to silver: recording segments, and the GOPs of finished files.

Owns which rows and files are looked at again. A recorded file may be told of long after it began, so its row is found
by the file and not by the hours of a plan.
"""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from penstock.pipeline.derive import Derivation
from penstock.pipeline.hours import hour_of_us
from penstock.pipeline.plan import RECORDING_KINDS
from penstock.pipeline.sources.files import locate
from penstock.pipeline.sources.manifest import finished_segments, read_rows
from penstock.pipeline.transforms.common import hour_of
from penstock.pipeline.transforms.gops import gops
from penstock.pipeline.transforms.recording_segments import SEGMENT, recording_segments
from penstock.pipeline.untouched import distinct

_PATHS: Final = "paths"
"""In the stats of a file of silver.gops: the recordings that its rows are of."""
_SEGMENT_KEYS: Final = pa.schema({"server_id": pa.string(), "recording_id": pa.string(), "segment": pa.int64()})


def write_recordings(silver: Derivation) -> None:
    """Silver of what was recorded, if facts tell of any."""
    if silver.plan.recording_hours:
        _write_segments(silver)
        _write_gops(silver)


def _write_segments(silver: Derivation) -> None:
    silver.progress.step("recordings")
    snapshot, columns = silver.state, [*SEGMENT, "started_at_us"]
    told = distinct(
        columns,
        *(
            silver.lake.rows(snapshot, f"bronze.{kind}", silver.plan.recording_hours, columns)
            for kind in RECORDING_KINDS
        ),
    )
    begun_us: dict[tuple[Any, ...], int | None] = {}
    for *key, at_us in zip(*told.to_pydict().values(), strict=True):
        begun_us[tuple(key)] = at_us if at_us is not None else begun_us.get(tuple(key))
    if not begun_us:
        return
    hours = {hour_of_us(at_us) for at_us in begun_us.values() if at_us is not None}
    # Only the end of a file tells when it began. Where a gap came later than that, all that is known is looked at.
    is_clear = None not in begun_us.values()
    keys = dict(zip(SEGMENT, zip(*begun_us, strict=True), strict=True))
    touched = F.broadcast(silver.frames.of_rows(pa.table(keys, _SEGMENT_KEYS)))
    closed, gaps = (
        silver.since(snapshot, kind, min(hours, default="") if is_clear else "").join(touched, SEGMENT, "left_semi")
        for kind in RECORDING_KINDS
    )
    fresh = recording_segments(closed, gaps)
    if not is_clear:
        hours.update(row.hour for row in fresh.select(hour_of("started_at").alias("hour")).distinct().collect())
    # A file that began long ago may be repaired now: its row is in the partition of its beginning.
    known = silver.frames.read(snapshot, "silver.recording_segments", hours)
    kept = known.join(touched, SEGMENT, "left_anti").drop("hour")
    silver.replace_by_start("silver.recording_segments", fresh.unionByName(kept), "started_at", frozenset(hours))


def _write_gops(silver: Derivation) -> None:
    """GOPs of the files that were finished since; a file never changes after that."""
    if silver.recordings is None:
        return
    snapshot = silver.state
    known = {path for file in snapshot.files("silver.gops") for path in file.stats.get(_PATHS, ())}
    recorded = finished_segments(read_rows(locate(silver.recordings)))
    finished = [each for each in recorded if each.path not in known]
    if not finished:
        return
    silver.progress.step(f"GOPs of {len(finished)} recordings")
    hour_of_path = {segment.path: hour_of_us(segment.started_at_us) for segment in finished}
    hours = sorted(set(hour_of_path.values()))
    paths = {hour: [path for path in hour_of_path if hour_of_path[path] == hour] for hour in hours}
    for hour in hours:
        paths[hour] += [path for file in snapshot.files("silver.gops", [hour]) for path in file.stats[_PATHS]]
    named = silver.spark.createDataFrame(list(hour_of_path.items()), "path string, hour string")
    fresh = gops(silver.spark, silver.recordings, finished).join(F.broadcast(named), "path")
    rows = fresh.unionByName(silver.lake.read(silver.spark, snapshot, "silver.gops", hours))
    silver.replace("silver.gops", rows, hours, {hour: {_PATHS: sorted(paths[hour])} for hour in hours})
