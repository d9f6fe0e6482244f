"""Rows of silver, rollups and gold to be written down in tests: what a row is about, and the rest is filled in.

Owns the defaults: amounts are 0, conditions are false, names are `-`, and what may be null is.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.lake.schemas import table_schema
from penstock.pipeline.lake.tables import TABLES

DEFAULTS: dict[str, Any] = {
    "string": "-",
    "bigint": 0,
    "int": 0,
    "double": 0.0,
    "boolean": False,
    "timestamp": datetime(2026, 11, 15, 20, tzinfo=UTC),
    "date": date(2026, 11, 15),
}


def at(text: str, day: int = 15) -> datetime:
    """A time of day in November 2026, as in 20:00:30 or 20:00:30.5."""
    return datetime.fromisoformat(f"2026-11-{day}T{text}+00:00")


def rows(spark: SparkSession, name: str, each: Iterable[dict[str, Any]]) -> DataFrame:
    """A frame of the table."""
    return spark.createDataFrame([tuple(row.values()) for row in _filled(name, each)], table_schema(TABLES[name]))


def _filled(name: str, each: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    defaults = {
        field.name: None if field.nullable else DEFAULTS[field.dataType.simpleString()]
        for field in table_schema(TABLES[name]).fields
    }
    known = {"app": "live", "stream": "x"}
    for row in each:
        if unknown := set(row) - set(defaults):
            raise ValueError(f"{name} has no {sorted(unknown)}")
        yield {**defaults, **{k: v for k, v in known.items() if k in defaults}, **row}


def told(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """These columns, times as text, in order."""
    as_text = [
        F.date_format(name, "HH:mm:ss").alias(name) if type_ == "timestamp" else F.col(name)
        for name, type_ in frame.select(*columns).dtypes
    ]
    return sorted(tuple(row) for row in frame.select(*as_text).collect())


def shuffled(frame: DataFrame) -> DataFrame:
    """The same rows in another order and in other partitions."""
    return frame.orderBy(
        F.xxhash64(*(name for name, type_ in frame.dtypes if type_ in ("bigint", "string"))).desc()
    ).repartition(3)
