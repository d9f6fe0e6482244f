"""silver.connections: one row per connection, from the accepted socket to its close.

App and client are in connection_closed; of an open connection they are taken from its views and publications. A
connection without connection_closed is open until its server is lost; then it ended when one of its views or
publications was last seen.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.lake.tables import SERVER_LOST
from penstock.pipeline.transforms.common import at, micros_of

_CONNECTION: Final = ["boot_key", "conn_id"]
_NAMES: Final = ["server_id", "boot_id", "conn_id"]


def connections(
    opened: DataFrame, closed: DataFrame, views: DataFrame, publications: DataFrame, boots: DataFrame
) -> DataFrame:
    """One row per connection with a connection_opened or connection_closed fact.

    Takes the rows of silver.views and silver.publications that belong to connections without an end; more rows do no
    harm. `boots` has every boot of the facts, and whether it is lost.
    """
    reported = (
        _openings(opened)
        .join(_closings(closed), _CONNECTION, "full")
        .join(F.broadcast(boots.select("boot_key", "server_id", "boot_id", "is_lost")), "boot_key")
    )
    found = reported.join(_sessions(views, publications, closed), _NAMES, "left")
    opened_at_us = F.coalesce("opened_at_us", F.col("closed_at_us") - F.col("duration_us"))
    is_closed = F.col("closed_at_us").isNotNull()
    is_lost = ~is_closed & F.col("is_lost")
    last_seen_at_us = F.greatest("opened_at_us", "session_seen_at_us")
    return found.select(
        *_NAMES,
        F.coalesce("close_app", "session_app").alias("app"),
        F.coalesce("close_client", "session_client").alias("client"),
        _either("protocol"),
        _either("network"),
        at(opened_at_us).alias("opened_at"),
        at(F.when(is_lost, last_seen_at_us).otherwise(F.col("closed_at_us"))).alias("closed_at"),
        (~(is_closed | is_lost)).alias("is_open"),
        F.when(is_lost, F.lit(SERVER_LOST)).otherwise(F.col("reason")).alias("close_reason"),
        "duration_us",
        "received_bytes",
        "sent_bytes",
    )


def _openings(opened: DataFrame) -> DataFrame:
    return opened.select(
        *_CONNECTION,
        F.col("at_us").alias("opened_at_us"),
        *(F.col(name).alias(f"open_{name}") for name in ("protocol", "network")),
    )


def _closings(closed: DataFrame) -> DataFrame:
    return closed.select(
        *_CONNECTION,
        F.col("at_us").alias("closed_at_us"),
        *(F.col(name).alias(f"close_{name}") for name in ("app", "client", "protocol", "network")),
        "reason",
        "duration_us",
        "received_bytes",
        "sent_bytes",
    )


def _sessions(views: DataFrame, publications: DataFrame, closed: DataFrame) -> DataFrame:
    """One row per connection without an end that played or published: app, client, and its newest fact."""
    columns: list[Column | str] = [*_NAMES, "app", "client", micros_of("last_seen_at").alias("seen_at_us")]
    return (
        views.select(*columns)
        .unionByName(publications.select(*columns))
        .join(closed.select(*_NAMES), _NAMES, "left_anti")
        .groupBy(*_NAMES)
        .agg(
            F.max("app").alias("session_app"),
            F.max("client").alias("session_client"),
            F.max("seen_at_us").alias("session_seen_at_us"),
        )
    )


def _either(name: str) -> Column:
    return F.coalesce(f"open_{name}", f"close_{name}").alias(name)
