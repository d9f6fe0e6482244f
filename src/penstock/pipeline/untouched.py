"""Rows of sessions that a run leaves as they are: which may have changed is told by keys, and the rest is carried over.

Owns what a row rests on. A session that a fact has ended rests on its own facts alone, and changes only with new ones.
One whose end nobody told also rests on its boot, which may be lost or speak again, and is made anew by every run that
looks at its hour. It may name a session too many, never one too few.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.identity import boot_key
from penstock.pipeline.tables import SERVER_LOST
from penstock.pipeline.transforms.common import VIEW_KEYS

CONNECTION: Final = ["conn_id", "boot_key"]
_FEW_KEYS: Final = 2_000_000
"""Up to here every task is given all keys; more are left to Spark's own judgement."""


def touched_views(minutes: DataFrame, known: DataFrame, rows: int) -> DataFrame:
    """The keys of views that have one of the minutes, which are about so many, or whose end nobody told.

    Every fact about a view that was let in is in one of its minutes. The others are of one fact each.
    """
    estimated = known.where("is_estimated").select(*VIEW_KEYS)
    return _handed_out(minutes.select(*VIEW_KEYS).unionByName(estimated).distinct(), rows)


def untouched_views(known: DataFrame, touched: DataFrame) -> DataFrame:
    """Rows of views that were let in and have none of the keys."""
    return known.where("NOT is_estimated AND NOT is_failed_start").join(touched, VIEW_KEYS, "left_anti")


def touched_connections(told: DataFrame, known: DataFrame, rows: int) -> DataFrame:
    """The keys of connections that these facts, about so many, are about, or whose end nobody told."""
    unended = known.where(~_is_ended_by_a_fact()).select(*CONNECTION)
    return _handed_out(told.select(*CONNECTION).unionByName(unended).distinct(), rows)


def untouched_connections(known: DataFrame, touched: DataFrame) -> DataFrame:
    """Rows of connections that have none of the keys."""
    return known.where(_is_ended_by_a_fact()).join(touched, CONNECTION, "left_anti").drop("boot_key")


def with_boot_key(rows: DataFrame) -> DataFrame:
    """With the number of the boot, for tables that only have its name."""
    return rows.withColumn("boot_key", boot_key(F.col("server_id"), F.col("boot_id")))


def _is_ended_by_a_fact() -> Column:
    return F.expr(f"closed_at IS NOT NULL AND close_reason IS DISTINCT FROM '{SERVER_LOST}'")


def _handed_out(keys: DataFrame, rows: int) -> DataFrame:
    return F.broadcast(keys) if rows <= _FEW_KEYS else keys
