"""silver.views: one row per view, from the start of playback to its end.

rollup.view_minutes has the views and their counters; play facts say who watched, and how it started and ended. A view
without play_stopped is open until its server is lost; then it ended with its newest fact. A stop that lands later
corrects the row, because the row is computed again. A play that never started is a row too, named by its play_stopped.

What its player told stands beside what the server counted, in columns of its own: players may be wrong, and lie.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.pipeline.lake.tables import SERVER_LOST
from penstock.pipeline.transforms.common import VIEW, VIEW_KEYS, at, event_id, micros_of, whole
from penstock.pipeline.transforms.histograms import middle_column

PLAY_KINDS: Final = ("play_started", "play_first_keyframe", "play_stopped")
"""The facts about a view beside its samples, in the order in which they happen."""
_VIEWER: Final = (
    "conn_id",
    "client",
    "protocol",
    "network",
    "country",
    "asn",
    "dimensions",
    "auth_subject",
    "viewer_key",
)
_DESCRIBED: Final = _VIEWER[1:-1]
_PLAYER: Final = (
    "player_beacons",
    "player_startup_ms",
    "player_played_ms",
    "player_stalls",
    "player_stalled_ms",
    "player_latency_ms",
    "player_dropped_frames",
)
_STOPPED: Final = (*_VIEWER, "at_us", "startup_us", "reason")


def views(plays: DataFrame, minutes: DataFrame, lags: DataFrame, beacons: DataFrame, boots: DataFrame) -> DataFrame:
    """One row per view in `minutes`, and one per play_stopped without a view.

    Takes the view minutes of each view over all its hours, and the lags, play facts (with `kind`) and beacons about
    them; rows about other views do no harm. `boots` has every boot of the facts, and whether it is lost.
    """
    started, shown, stopped = (plays.where(F.col("kind") == kind) for kind in PLAY_KINDS)
    has_view = F.col("view_seq").isNotNull()
    let_in = (
        _seen(minutes)
        .join(_lags(lags), VIEW_KEYS, "left")
        .join(_told_by_players(beacons), VIEW_KEYS, "left")
        .join(_prefixed(started, "start", _VIEWER), VIEW_KEYS, "left")
        .join(shown.select(*VIEW, "startup_us"), VIEW_KEYS, "left")
        .join(_prefixed(stopped.where(has_view), "stop", _STOPPED), VIEW_KEYS, "left")
        .join(F.broadcast(boots.select("boot_key", "server_id", "boot_id", "is_lost")), "boot_key")
    )
    return _let_in_rows(let_in).unionByName(_failed_rows(stopped.where(~has_view)))


def _let_in_rows(let_in: DataFrame) -> DataFrame:
    is_stopped = F.col("stop_at_us").isNotNull()
    is_lost = ~is_stopped & F.col("is_lost")
    has_ended = is_stopped | is_lost
    ended_at_us = F.when(has_ended, F.coalesce("stop_at_us", "last_at_us"))
    startup_us = F.coalesce("startup_us", "stop_startup_us")
    has_samples = F.col("samples") > 0
    # Each sample stands for an equal share of the watch time.
    stalled_us = whole(F.col("stalled_samples") * F.col("watched_us"), F.col("samples"))
    # Without a fact that says who watched, the view counts as a viewer of its own.
    viewer_key = F.coalesce("start_viewer_key", "stop_viewer_key", F.concat(F.lit("u:"), event_id("view_seq")))
    return let_in.select(
        event_id("view_seq").alias("view_id"),
        *VIEW,
        "server_id",
        "boot_id",
        _either("conn_id"),
        "app",
        "stream",
        *(_either(name) for name in _DESCRIBED),
        viewer_key.alias("viewer_key"),
        at("started_at_us").alias("started_at"),
        at(F.greatest("last_at_us", "stop_at_us")).alias("last_seen_at"),
        at(ended_at_us).alias("ended_at"),
        (~has_ended).alias("is_open"),
        F.when(is_lost, F.lit(SERVER_LOST)).otherwise(F.col("stop_reason")).alias("end_reason"),
        F.lit(False).alias("is_failed_start"),
        (has_ended & startup_us.isNull()).alias("is_exit_before_picture"),
        *_startup(startup_us),
        *_watched(F.col("watched_us")),
        F.col("sent_bytes").alias("bytes_sent"),
        "skips",
        "skipped_bytes",
        "samples",
        *(_lag_percentile(percent).alias(f"lag_ms_p{percent}") for percent in (50, 95)),
        "lag_ms_max",
        F.coalesce(stalled_us, F.lit(0)).alias("stalled_us"),
        F.when(has_samples, F.lit("samples")).otherwise(F.lit("none")).alias("stall_source"),
        whole(F.col("rtt_us_sum"), F.col("rtt_samples")).alias("rtt_us"),
        "rtt_us_max",
        F.when(has_samples, F.col("retransmits")).alias("retransmits"),
        *_PLAYER,
        (~is_stopped).alias("is_estimated"),
    )


def _failed_rows(stopped: DataFrame) -> DataFrame:
    """Plays that waited for a stream and never started: their start and end is when the client gave up."""
    given_up_at = at("at_us")
    none = F.lit(None).cast("bigint")
    return stopped.select(
        F.col("event_id").alias("view_id"),
        "boot_key",
        F.col("seq").alias("view_seq"),
        "server_id",
        "boot_id",
        "conn_id",
        "app",
        "stream",
        *_DESCRIBED,
        F.coalesce("viewer_key", F.concat(F.lit("u:"), "event_id")).alias("viewer_key"),
        given_up_at.alias("started_at"),
        given_up_at.alias("last_seen_at"),
        given_up_at.alias("ended_at"),
        F.lit(False).alias("is_open"),
        F.col("reason").alias("end_reason"),
        F.lit(True).alias("is_failed_start"),
        F.lit(False).alias("is_exit_before_picture"),
        *_startup(none),
        *_watched(F.lit(0).cast("bigint")),
        F.col("sent_bytes").alias("bytes_sent"),
        "skips",
        "skipped_bytes",
        F.lit(0).cast("bigint").alias("samples"),
        *(none.alias(name) for name in ("lag_ms_p50", "lag_ms_p95", "lag_ms_max")),
        F.lit(0).cast("bigint").alias("stalled_us"),
        F.lit("none").alias("stall_source"),
        *(none.alias(name) for name in ("rtt_us", "rtt_us_max", "retransmits", *_PLAYER)),
        F.lit(False).alias("is_estimated"),
    )


def _seen(minutes: DataFrame) -> DataFrame:
    """One row per view: the totals over its minutes."""
    totals = ("watched_us", "sent_bytes", "skips", "skipped_bytes", "retransmits")
    sums = ("samples", "stalled_samples", "lag_samples", "rtt_us_sum", "rtt_samples")
    return minutes.groupBy(*VIEW_KEYS, "app", "stream").agg(
        F.min(micros_of("started_at")).alias("started_at_us"),
        F.max(micros_of("last_at")).alias("last_at_us"),
        *(F.max(f"{name}_total").alias(name) for name in totals),
        *(F.sum(name).alias(name) for name in sums),
        *(F.max(name).alias(name) for name in ("lag_ms_max", "rtt_us_max")),
    )


def _lags(lags: DataFrame) -> DataFrame:
    """One row per view that was ever behind the live edge: the sorted buckets of those samples."""
    repeated = "transform(collect_list(struct(bucket, samples)), each -> array_repeat(each.bucket, int(each.samples)))"
    return (
        lags.where(F.col("bucket") > 0)
        .groupBy(*VIEW_KEYS)
        .agg(F.expr(f"sort_array(flatten({repeated}))").alias("lag_buckets"))
    )


def _told_by_players(beacons: DataFrame) -> DataFrame:
    """One row per view of which a player told anything. Counters go on, so their largest value is the last one."""
    counters = ("played_ms", "stalls", "stalled_ms", "dropped_frames")
    return (
        beacons.where(F.col("view_seq").isNotNull())
        .groupBy(*VIEW_KEYS)
        .agg(
            F.count("*").alias("player_beacons"),
            F.min("startup_ms").alias("player_startup_ms"),
            whole(F.sum("latency_ms"), F.count("latency_ms")).alias("player_latency_ms"),
            *(F.max(name).alias(f"player_{name}") for name in counters),
        )
    )


def _lag_percentile(percent: int) -> Column:
    """The lag of the sample of that rank; 0 if that sample was not behind."""
    behind = F.coalesce(F.array_size("lag_buckets"), F.lit(0))
    rank = whole(F.col("lag_samples") * percent + 99, F.lit(100))
    rank_behind = (rank - (F.col("lag_samples") - behind)).cast("int")
    lag_ms = middle_column(F.get("lag_buckets", rank_behind - 1))
    return F.when(F.col("lag_samples") > 0, F.when(rank_behind > 0, lag_ms).otherwise(F.lit(0)))


def _prefixed(facts: DataFrame, prefix: str, names: tuple[str, ...]) -> DataFrame:
    return facts.select(*VIEW, *(F.col(name).alias(f"{prefix}_{name}") for name in names))


def _either(name: str) -> Column:
    return F.coalesce(f"start_{name}", f"stop_{name}").alias(name)


def _startup(startup_us: Column) -> list[Column]:
    return [startup_us.alias("startup_us"), whole(startup_us, F.lit(1000)).alias("startup_ms")]


def _watched(watched_us: Column) -> list[Column]:
    return [watched_us.alias("watched_us"), (watched_us / F.lit(1_000_000)).alias("watch_seconds")]
