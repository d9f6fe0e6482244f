"""Boots: when each start of a server was heard of first and last, and which of them can tell no more.

Owns the rule by which a server counts as lost. What a lost boot left open ended with its last fact.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

SERVER_LOST: Final = "server_lost"
"""The reason of an end that nobody told."""

_BOOT: Final = ["boot_key", "server_id", "boot_id"]


def boot_spans(facts: DataFrame) -> DataFrame:
    """Bronze to one row for each boot: from its first fact to its last one."""
    return facts.groupBy(*_BOOT).agg(F.min("at_us").alias("first_at_us"), F.max("at_us").alias("last_at_us"))


def boots(spans: DataFrame, as_of_us: int, silent_us: int) -> DataFrame:
    """One row for each boot, with `is_lost`, from any number of spans of each: of files, of hours, of all bronze.

    A boot is lost when a later one of the same server has spoken, or when it has said nothing for `silent_us`.
    """
    of_server = Window.partitionBy("server_id")
    has_successor = F.max("first_at_us").over(of_server) > F.col("first_at_us")
    is_silent = F.col("last_at_us") < F.lit(as_of_us - silent_us)
    return (
        spans.groupBy(*_BOOT)
        .agg(F.min("first_at_us").alias("first_at_us"), F.max("last_at_us").alias("last_at_us"))
        .select(*_BOOT, "first_at_us", "last_at_us", (has_successor | is_silent).alias("is_lost"))
    )
