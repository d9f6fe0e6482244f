"""The rows of an older lake into Delta tables: every fact, and what facts cannot tell any more.

Owns what is carried over and what is computed again. Rows of days whose facts are all there are left out: whoever
calls computes them. Rows of earlier days, whose facts retention has given up, stay as they are, and so do the tables
that rest on recordings. Until the older files are removed they are what counts, so this begins anew if it was killed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.pipeline.build.open_sessions import open_sessions
from penstock.pipeline.build.run import SESSIONS
from penstock.pipeline.lake.fact_kinds import STREAM_KINDS
from penstock.pipeline.lake.hours import day_of
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import (
    BRONZE,
    DATE,
    HOUR,
    KIND,
    folder_of,
    has_hours,
    partition_by,
    schema_of,
    stored_tables,
)
from penstock.pipeline.lake.state import FOLDER as STATE
from penstock.pipeline.lake.state import BootHour, State
from penstock.pipeline.ops.older import OlderLake

_NOT_OF_FACTS: Final = ("silver.gops", "gold.recordings", "gold.archive")


def carry_over(spark: SparkSession, lake: Lake, older: OlderLake, first_day: str | None) -> State:
    """Write the tables of an older lake, without what facts since this day tell; None: they tell nothing. The state."""
    # What a migration that was killed has committed; its files are for the vacuum.
    for folder in (STATE, *(f"{folder_of(name)}/_delta_log" for name in stored_tables())):
        lake.storage.delete_folder(folder)
    boot_hours = _carry_facts(spark, lake, older)
    for name in stored_tables():
        if name != BRONZE:
            _carry_rows(spark, lake, older, name, None if name in _NOT_OF_FACTS else first_day)
    sessions = {}
    for name in SESSIONS:
        pinned = lake.table(name).pin_or_create()
        sessions[name] = open_sessions(lake.storage, name, [file.path for file in pinned.files])
    known = {(told.boot_key, told.hour): told for told in boot_hours}
    return lake.state.commit(replace(older.state, boot_hours=known, sessions=sessions))


def _carry_facts(spark: SparkSession, lake: Lake, older: OlderLake) -> list[BootHour]:
    """Every fact, a day at a time. What each boot told in each hour."""
    days: dict[str, list[str]] = {}
    for kind, hours in older.state.fact_hours.items():
        for hour in hours:
            days.setdefault(day_of(hour), []).extend(older.tables[f"bronze.{kind}"][hour])
    schema = StructType([field for field in schema_of(BRONZE) if field.name != DATE])
    pinned, told = lake.table(BRONZE).pin_or_create(), []
    for _, paths in sorted(days.items()):
        facts = _read(spark, lake, "bronze", schema, paths)
        rows = _dated(facts).repartition(KIND, HOUR).select(*schema_of(BRONZE).names)
        pinned = lake.rewrite(BRONZE, pinned, rows, ())
        grouped = facts.groupBy("boot_key", HOUR).agg(
            F.min("seq").alias("min_seq"),
            F.max("seq").alias("max_seq"),
            F.bool_or(F.col(KIND).isin(*STREAM_KINDS)).alias("has_streams"),
        )
        told += [BootHour(*row) for row in grouped.collect()]
    return told


def _carry_rows(spark: SparkSession, lake: Lake, older: OlderLake, name: str, first_day: str | None) -> None:
    """The rows of a table before this day; None: all of them."""
    pinned, paths = lake.table(name).pin_or_create(), older.files(lake.storage, name)
    if not paths:
        return
    whole = schema_of(name)
    schema = StructType([field for field in whole if field.name != DATE]) if has_hours(name) else whole
    base = "/".join(paths[0].split("/")[:2])
    rows = _read(spark, lake, base, schema, paths)
    rows = (_dated(rows) if has_hours(name) else rows).select(*whole.names)
    if partition_by(name):
        rows = rows.repartition(DATE)
        rows = rows if first_day is None else rows.where(F.col(DATE) < F.lit(first_day).cast("date"))
    lake.rewrite(name, pinned, rows, ())


def _read(spark: SparkSession, lake: Lake, base: str, schema: StructType, paths: Sequence[str]) -> DataFrame:
    reader = spark.read.schema(schema).option("basePath", lake.storage.address(base))
    return reader.parquet(*(lake.storage.pattern(path) for path in paths))


def _dated(rows: DataFrame) -> DataFrame:
    return rows.withColumn(DATE, F.to_date(F.substring(HOUR, 1, len("2026-11-15"))))
