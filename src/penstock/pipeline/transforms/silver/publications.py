"""silver.publications: one row per publication, from its start to its end.

A publication without publish_stopped is open until its server is lost; then it ended with its last sample. If its
publish_started fact is missing, its samples and its stop still give a row.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.lake.tables import SERVER_LOST
from penstock.pipeline.transforms.common import at, event_id, seq_of

_PUBLICATION: Final = ["boot_key", "publication_seq"]
_COUNTERS: Final = ("received_bytes", "messages", "video_frames", "audio_frames", "keyframes", "timestamp_jumps")
_PUBLISHER: Final = ("client", "protocol", "network", "country", "asn", "dimensions", "auth_subject")
_OF_VIEWERS: Final = ("viewers_sent_bytes", "viewers_watched_us")


def publications(started: DataFrame, stopped: DataFrame, samples: DataFrame, boots: DataFrame) -> DataFrame:
    """One row per publication that any of the facts is about.

    Counters are cumulative, so the last stream_sample of each publication suffices, and the first one if
    publish_started is missing. The sums over viewers are of those present at a sample, so the last sample has them.
    `boots` has every boot of the facts, and whether it is lost.
    """
    found = (
        _starts(started)
        .join(_stops(stopped), _PUBLICATION, "full")
        .join(_sampled(samples), _PUBLICATION, "full")
        .join(F.broadcast(boots.select("boot_key", "server_id", "boot_id", "is_lost")), "boot_key")
    )
    started_at_us = F.coalesce("started_at_us", F.col("stopped_at_us") - F.col("duration_us"), "first_sampled_us")
    last_seen_at_us = F.greatest("started_at_us", "stopped_at_us", "last_sampled_us")
    is_stopped = F.col("stopped_at_us").isNotNull()
    is_lost = ~is_stopped & F.col("is_lost")
    has_ended = is_stopped | is_lost
    return found.select(
        event_id("publication_seq").alias("publication_id"),
        "server_id",
        "boot_id",
        F.coalesce("start_conn_id", "stop_conn_id").alias("conn_id"),
        _first_known("app"),
        _first_known("stream"),
        *_PUBLISHER,
        "publishing_type",
        at(started_at_us).alias("started_at"),
        at(last_seen_at_us).alias("last_seen_at"),
        at(F.when(has_ended, last_seen_at_us)).alias("ended_at"),
        (~has_ended).alias("is_open"),
        F.when(is_lost, F.lit(SERVER_LOST)).otherwise(F.col("reason")).alias("end_reason"),
        F.coalesce("duration_us", last_seen_at_us - started_at_us).alias("duration_us"),
        *(F.coalesce(f"stop_{name}", f"sampled_{name}", F.lit(0)).alias(name) for name in _COUNTERS),
        *(F.when(~is_stopped, F.col(name)).alias(name) for name in _OF_VIEWERS),
        (~is_stopped).alias("is_estimated"),
    )


def _starts(started: DataFrame) -> DataFrame:
    return started.select(
        "boot_key",
        F.col("seq").alias("publication_seq"),
        F.col("at_us").alias("started_at_us"),
        F.col("conn_id").alias("start_conn_id"),
        *(F.col(name).alias(f"start_{name}") for name in ("app", "stream")),
        *_PUBLISHER,
        "publishing_type",
    )


def _stops(stopped: DataFrame) -> DataFrame:
    return stopped.select(
        "boot_key",
        seq_of("publication_id").alias("publication_seq"),
        F.col("at_us").alias("stopped_at_us"),
        F.col("conn_id").alias("stop_conn_id"),
        *(F.col(name).alias(f"stop_{name}") for name in ("app", "stream", *_COUNTERS)),
        "duration_us",
        "reason",
    )


def _sampled(samples: DataFrame) -> DataFrame:
    """One row per publication with samples: start of the first, end of the last, and the final counters."""
    return samples.groupBy(
        "boot_key",
        seq_of("publication_id").alias("publication_seq"),
        *(F.col(name).alias(f"sampled_{name}") for name in ("app", "stream")),
    ).agg(
        F.min(F.col("at_us") - F.col("interval_us")).alias("first_sampled_us"),
        F.max("at_us").alias("last_sampled_us"),
        *(F.max(name).alias(f"sampled_{name}") for name in _COUNTERS),
        *(F.max_by(name, "at_us").alias(name) for name in _OF_VIEWERS),
    )


def _first_known(name: str) -> Column:
    return F.coalesce(f"start_{name}", f"stop_{name}", f"sampled_{name}").alias(name)
