"""One table as a DataFrame of one version, for a span of time or all."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import LakeError
from penstock.pipeline.lake.hours import us_of
from penstock.pipeline.lake.lake import EVERYTHING, Lake, Wanted
from penstock.pipeline.lake.layout import (
    BRONZE,
    HOUR,
    VIEWS_ONLY,
    has_hours,
    stored_as,
    time_of,
    viewer_samples_columns,
)
from penstock.pipeline.lake.tables import TABLES

_MOMENT = timedelta(microseconds=1)


def read_table(
    spark: SparkSession,
    lake: Lake,
    name: str,
    *,
    version: int | None = None,
    hours: tuple[datetime, datetime] | None = None,
) -> DataFrame:
    """Rows of a table at a version, the newest if none is named; of these hours by the time that places a row."""
    if name in VIEWS_ONLY:
        samples = read_table(spark, lake, "bronze.viewer_sample", version=version, hours=hours)
        return samples.selectExpr(*viewer_samples_columns())
    if version is not None and version < 0:
        raise LakeError(f"version {version} of {name}: versions are counted from 0")
    stored = stored_as(name)
    pinned = lake.pin(stored, version)
    if version is not None and pinned is not None:
        gone = [path for path in lake.paths(pinned) if not lake.storage.exists(path)]
        if gone:
            raise LakeError(f"version {version} of {name} was vacuumed: {len(gone)} of its files are gone")
    if hours is None:
        return lake.read(spark, pinned, name)
    since, until = (_utc(moment) for moment in hours)
    if until <= since:
        return lake.read(spark, pinned, name, Wanted(hours=()))
    if stored in TABLES and TABLES[stored].partition is None:
        return _within(lake.read(spark, pinned, name, EVERYTHING), name, since, until)
    wanted = Wanted(since=_hour(since), until=f"{_hour(until - _MOMENT)}~")
    return _within(lake.read(spark, pinned, name, wanted), name, since, until)


def _within(rows: DataFrame, name: str, since: datetime, until: datetime) -> DataFrame:
    """Rows of a span. Sessions count to the time at which they began."""
    if stored_as(name) == BRONZE:
        first_us, last_us = map(us_of, (since, until))
        return rows.where((F.col("at_us") >= first_us) & (F.col("at_us") < last_us))
    time = time_of(TABLES[name])
    if time is None:
        # Rollups without a time are of whole hours.
        is_in = (F.col(HOUR) >= _hour(since)) & (F.col(HOUR) <= _hour(until - _MOMENT))
        return rows.where(is_in) if has_hours(name) else rows
    moment = F.col(time).cast("timestamp")
    return rows.where((moment >= F.lit(since)) & (moment < F.lit(until)))


def _hour(moment: datetime) -> str:
    # strftime spells early years with fewer digits, which come last in the order of texts.
    return moment.isoformat()[: len("2026-11-15T20")]


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
