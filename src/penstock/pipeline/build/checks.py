"""Checks on facts and tables, as named SQL conditions; a violation becomes a row of gold.data_quality.

No check repairs or drops anything. A check looks at one row: of a table, of a boot's facts in an hour, or of an hour's
refused lines by reason. Its condition holds for a good row; null counts as good, because there is nothing to compare.
Violations of one subject in one hour are one row. If a check has many subjects in an hour, the worst are named and the
rest are counted together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.pipeline.lake.hours import HOUR_US
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.transforms.times import SECOND_US, start_us

FACTS: Final = "facts"
QUARANTINE: Final = "quarantine"
BOOTS: Final = "boots"
OTHERS: Final = "others"
NAMED_SUBJECTS: Final = 20
"""Subjects that are named per check and hour. The limit is by hour, so that hours can be computed one by one."""
LATE_US: Final = HOUR_US
CLOCK_OFF_US: Final = 2 * SECOND_US


Severity = Literal["error", "warning", "info"]
"""error: a table is wrong. warning: facts are missing or wrong, and figures with them. info: worth knowing."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `detail` and `amount` are SQL on a row that violates it: the figures in words, and its weight."""

    name: str
    table: str
    condition: str
    detail: str
    amount: str = "1"
    severity: Severity = "error"


CHECKS: Final = (
    Check(
        "view_ends_after_its_start",
        "silver.views",
        "ended_at >= started_at",
        "format_string('ended %d ms before it began', (unix_micros(started_at) - unix_micros(ended_at)) div 1000)",
    ),
    Check(
        "view_amounts_are_not_negative",
        "silver.views",
        "watched_us >= 0 AND bytes_sent >= 0 AND skipped_bytes >= 0 AND stalled_us >= 0",
        "format_string('watched %d us, sent %d, skipped %d bytes', watched_us, bytes_sent, skipped_bytes)",
    ),
    Check(
        "view_watches_while_present",
        "silver.views",
        "watched_us <= unix_micros(coalesce(ended_at, last_seen_at)) - unix_micros(started_at) + 1000000",
        "format_string('watched %d ms, present %d ms', watched_us div 1000, "
        "(unix_micros(coalesce(ended_at, last_seen_at)) - unix_micros(started_at)) div 1000)",
    ),
    Check(
        "publication_ends_after_its_start",
        "silver.publications",
        "ended_at >= started_at",
        "format_string('ended %d ms before it began', (unix_micros(started_at) - unix_micros(ended_at)) div 1000)",
    ),
    Check(
        "publication_amounts_are_not_negative",
        "silver.publications",
        "received_bytes >= 0 AND video_frames >= keyframes AND keyframes >= 0 AND duration_us >= 0",
        "format_string('%d bytes, %d frames, %d of them key frames', received_bytes, video_frames, keyframes)",
    ),
    Check(
        "audience_peak_is_not_below_average",
        "gold.audience",
        "viewers_peak >= viewers_avg",
        "format_string('peak %d, watched %d ms', viewers_peak, watched_us div 1000)",
    ),
    Check(
        "audience_amounts_are_not_negative",
        "gold.audience",
        "viewers_peak >= 0 AND viewers_unique >= 0 AND watched_us >= 0 AND egress_bytes >= 0",
        "format_string('peak %d, watched %d us, sent %d bytes', viewers_peak, watched_us, egress_bytes)",
    ),
    Check(
        "health_amounts_are_not_negative",
        "gold.stream_health",
        "ingress_bytes >= 0 AND video_frames >= 0 AND stalled_us BETWEEN 0 AND sampled_us",
        "format_string('%d bytes, stalled %d of %d us', ingress_bytes, stalled_us, sampled_us)",
    ),
    Check(
        "usage_egress_is_what_views_were_sent",
        "gold.usage",
        # Usage of a lost server also has what its viewers' samples had not reported yet.
        "egress_bytes >= inside_bytes AND (egress_bytes <= touching_bytes OR is_estimated)",
        "format_string('%d bytes billed; views of the day alone %d, with those over midnight %d', "
        "egress_bytes, inside_bytes, touching_bytes)",
    ),
    Check(
        "facts_are_complete",
        FACTS,
        "missing = 0",
        "format_string('%d of %d facts are missing', missing, missing + facts)",
        amount="missing",
        severity="warning",
    ),
    Check(
        "facts_land_within_an_hour",
        FACTS,
        "late = 0",
        "format_string('%d facts landed late, at most by %d minutes', late, late_us_max div 60000000)",
        amount="late",
        severity="info",
    ),
    Check(
        "server_clock_is_right",
        FACTS,
        f"off_us < {CLOCK_OFF_US}",
        "format_string('the clock is at least %d ms off', off_us div 1000)",
        severity="warning",
    ),
    Check(
        "lines_are_understood",
        QUARANTINE,
        "lines = 0",
        "format_string('%d lines refused', lines)",
        amount="lines",
        severity="warning",
    ),
)

_SUBJECTS: Final[Mapping[str, tuple[str, str]]] = {
    "silver.views": ("view_id", "started_at"),
    "silver.publications": ("publication_id", "started_at"),
    "silver.connections": ("concat_ws('-', server_id, boot_id, conn_id)", "opened_at"),
    "gold.audience": ("concat_ws('/', app, stream)", "minute"),
    "gold.stream_health": ("concat_ws('/', app, stream)", "minute"),
    "gold.usage": ("concat_ws('/', app, stream)", "CAST(day AS timestamp)"),
    FACTS: ("concat_ws('-', server_id, boot_id)", "timestamp_micros(hour_us)"),
    QUARANTINE: ("refusal", "timestamp_micros(hour_us)"),
}
"""Per table: SQL for the name of a row, and for its time."""

SEVERITIES: Final[Mapping[str, Severity]] = {check.name: check.severity for check in CHECKS}
"""By the name of a check. Those on keys, one for each table, are not in it: they are errors."""


def violations(table: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """One row per check, subject and hour with violations.

    Takes the rows of the table under its name. `facts` are bronze rows of all kinds, including the hour before those
    that are checked, so that a gap between hours is found; `boots` has the boots of these facts. `quarantine` has the
    refused lines. gold.usage is compared with the silver.views that were present on its days.
    """
    return summed_up(broken_rules(table, frames))


def has_rules(table: str) -> bool:
    """Whether there is a check on single rows of the table."""
    return any(check.table == table for check in CHECKS)


def broken_rules(table: str, frames: Mapping[str, DataFrame], *, is_unique: bool = False) -> DataFrame:
    """One row per check and row of the table that violates it, from the same frames.

    If keys are known to be unique, and the table `has_rules`, duplicates are not looked for.
    """
    subject, time = _SUBJECTS[table]
    hour = F.date_trunc("hour", F.expr(time)).alias("at")
    measured = _measured(table, frames)
    checks = [check for check in CHECKS if check.table == table]
    called = F.lit(table).alias("table")
    found = [_unique_violations(table, measured, hour, called)] if table in TABLES and not is_unique else []
    if checks:
        # As SQL text: an expression of Column objects would be hundreds of calls into the JVM.
        told = f"inline(array_compact(array({', '.join(_told(check) for check in checks)})))"
        is_suspect = " OR ".join(_is_bad(check) for check in checks)
        found.append(measured.where(is_suspect).select(hour, called, F.expr(subject).alias("subject"), F.expr(told)))
    return reduce(DataFrame.unionByName, found)


def summed_up(broken: DataFrame) -> DataFrame:
    """Violations of any tables as rows of gold.data_quality. One pass for all, since there are few."""
    grouped = broken.groupBy("at", "table", "check", "subject").agg(
        F.sum("violations").alias("violations"), F.min("detail").alias("detail")
    )
    return _worst(grouped)


def fact_hours(facts: DataFrame, boots: DataFrame) -> DataFrame:
    """One row per boot and hour: how many facts there are, how many are missing, and how late or early they landed.

    Facts are numbered in the order of time, so numbers missing between two hours count in the later one.
    """
    late_us = F.col("landed_at_us") - F.col("at_us")
    # Grouped by the numeric key, and named afterwards: there are millions of facts.
    per_hour = facts.groupBy("boot_key", start_us(F.col("at_us"), HOUR_US).alias("hour_us")).agg(
        F.count("*").alias("facts"),
        F.min("seq").alias("min_seq"),
        F.max("seq").alias("max_seq"),
        F.sum((late_us > LATE_US).cast("bigint")).alias("late"),
        F.max(late_us).alias("late_us_max"),
        # A fact that landed before it happened means that a clock is wrong.
        F.greatest(F.max(-late_us), F.max(F.abs("step_us")), F.lit(0)).alias("off_us"),
    )
    in_order = Window.partitionBy("boot_key").orderBy("hour_us")
    between = F.coalesce(F.col("min_seq") - F.lag("max_seq").over(in_order) - 1, F.lit(0))
    within = F.col("max_seq") - F.col("min_seq") + 1 - F.col("facts")
    counted = per_hour.withColumn("missing", F.greatest(within + between, F.lit(0)))
    return counted.join(F.broadcast(boots.select("boot_key", "server_id", "boot_id")), "boot_key")


def _measured(table: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    rows = frames[table]
    if table == FACTS:
        return fact_hours(rows, frames[BOOTS])
    if table == QUARANTINE:
        return rows.groupBy("refusal", start_us(F.col("landed_at_us"), HOUR_US).alias("hour_us")).agg(
            F.count("*").alias("lines")
        )
    if table == "gold.usage":
        return _with_bytes_of_views(rows, frames["silver.views"])
    return rows


def _with_bytes_of_views(usage: DataFrame, views: DataFrame) -> DataFrame:
    """Adds the bytes of views that were present on this day only, and of all views present on this day."""
    last_day = F.to_date(F.greatest("ended_at", "last_seen_at", "started_at"))
    inside_bytes = F.when(F.col("first_day") == F.col("last_day"), F.col("bytes_sent")).otherwise(0)
    # Summed before they are exploded into days: most views are of one day.
    sent = (
        views.groupBy("app", "stream", F.to_date("started_at").alias("first_day"), last_day.alias("last_day"))
        .agg(F.sum("bytes_sent").alias("bytes_sent"))
        .select(
            "app",
            "stream",
            "bytes_sent",
            inside_bytes.alias("inside_bytes"),
            F.explode(F.sequence("first_day", "last_day")).alias("day"),
        )
        .groupBy("app", "stream", "day")
        .agg(F.sum("inside_bytes").alias("inside_bytes"), F.sum("bytes_sent").alias("touching_bytes"))
    )
    return usage.join(sent, ["app", "stream", "day"], "left").fillna(0, ["inside_bytes", "touching_bytes"])


def _is_bad(check: Check) -> str:
    return f"NOT coalesce({check.condition}, true)"


def _told(check: Check) -> str:
    told = f"'{check.name}', 'violations', CAST({check.amount} AS bigint), 'detail', {check.detail}"
    return f"IF({_is_bad(check)}, named_struct('check', {told}), NULL)"


def _unique_violations(table: str, rows: DataFrame, hour: Column, called: Column) -> DataFrame:
    """Keys with several rows."""
    key = TABLES[table].key
    return (
        rows.groupBy(hour, *key)
        .agg((F.count("*") - 1).alias("violations"))
        .where(F.col("violations") > 0)
        .select(
            "at",
            called,
            F.lit(f"{TABLES[table].name}_have_one_row_each").alias("check"),
            F.concat_ws("/", *(F.col(name).cast("string") for name in key)).alias("subject"),
            "violations",
            F.lit("rows with the same key").alias("detail"),
        )
    )


def _worst(grouped: DataFrame) -> DataFrame:
    """The worst subjects of each check and hour by name, the rest of the hour as one row."""
    of_hour = Window.partitionBy("table", "check", "at").orderBy(F.desc("violations"), "subject")
    is_named = F.row_number().over(of_hour) <= NAMED_SUBJECTS
    subject = F.when(is_named, F.col("subject")).otherwise(F.lit(OTHERS)).alias("subject")
    others = F.when(F.col("subject") == OTHERS, F.format_string("%d subjects", F.count("*")))
    return (
        grouped.select("at", "table", "check", subject, "violations", "detail")
        .groupBy("at", "table", "check", "subject")
        .agg(F.sum("violations").alias("violations"), F.coalesce(others, F.min("detail")).alias("detail"))
    )
