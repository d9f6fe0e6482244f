"""How long the lake keeps what, and how it lets go.

Owns the ages: landing files after their commit, addresses and facts in bronze, silver and rollups, the quarantine and
the salts. Gold is kept for good. Whatever goes from a table goes by a commit; its files are removed by `sweeping`, when
no reader can still be at them.

`plan_retention` decides, without looking at a row; `apply_retention` does it.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.facts import FACTS
from penstock.pipeline.bronze import joined_stats
from penstock.pipeline.commits import Snapshot
from penstock.pipeline.compaction import SORTED
from penstock.pipeline.horizon import raise_horizon
from penstock.pipeline.hours import HOUR_US, hour_of_us, shifted, us_of_hour
from penstock.pipeline.lake import Lake
from penstock.pipeline.quarantine import FOLDER as QUARANTINE
from penstock.pipeline.salts import forget_salts
from penstock.pipeline.schemas import fields_of
from penstock.pipeline.storage import Storage, StoredFile
from penstock.pipeline.sweeping import sweep

_DAY_S: Final = 86_400.0
_SECOND_US: Final = 1_000_000
_MASKED: Final = "is_masked"
_MAX_MASKED_AT_ONCE: Final = 64
"""Parts of bronze that one run rewrites. A run comes every minute; only the first one after an upgrade has more."""
# Whom a limit turned away is told in words: an address of IPv4 or IPv6 at their beginning.
_ADDRESS_IN_WORDS: Final = r"(\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F]*:[0-9a-fA-F:.]+(%\w+)?"
KINDS_WITH_ADDRESS: Final = (
    *(kind for kind, fact in FACTS.items() if any(field.name == "peer_addr" for field in fields_of(fact))),
    "limit_hit",
)


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """For how long, from the end of the hour that it is about, or from the commit of a landing file."""

    landing_s: float = 2 * _DAY_S
    address_s: float = 7 * _DAY_S
    bronze_s: float = 30 * _DAY_S
    views_s: float = 400 * _DAY_S
    quarantine_s: float = 30 * _DAY_S


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What has had its time. Partitions are table and hour."""

    landing: tuple[str, ...]
    dropped: tuple[tuple[str, str], ...]
    masked: tuple[tuple[str, str], ...]
    """Parts of bronze that lose their addresses."""
    quarantine: tuple[str, ...]


def plan_retention(
    snapshot: Snapshot,
    landing: list[StoredFile],
    quarantine: list[StoredFile],
    settings: RetentionSettings,
    now_us: int,
) -> RetentionPlan:
    """What is to go. A landing file that no commit holds stays, however old it is."""
    dropped = tuple(_past(snapshot, settings, now_us))
    return RetentionPlan(
        landing=tuple(
            file.path
            for file in landing
            if file.path in snapshot.landed_at_us
            and snapshot.landed_at_us[file.path] <= now_us - _us(settings.landing_s)
        ),
        dropped=dropped,
        masked=tuple(
            (table, hour)
            for table, hour in _older_than(
                snapshot, [f"bronze.{kind}" for kind in KINDS_WITH_ADDRESS], now_us, settings
            )
            if (table, hour) not in dropped
            and not all(file.stats.get(_MASKED) for file in snapshot.files(table, [hour]))
        ),
        quarantine=tuple(
            file.path for file in quarantine if file.modified_at_us <= now_us - _us(settings.quarantine_s)
        ),
    )


def apply_retention(
    spark: SparkSession, lake: Lake, landing: Storage, settings: RetentionSettings, now_us: int
) -> RetentionPlan:
    """Let go of what has had its time, and of files that nobody lists. What that was."""
    snapshot = lake.snapshot()
    plan = plan_retention(snapshot, landing.find(""), lake.storage.find(QUARANTINE), settings, now_us)
    for path in plan.landing:
        _remove_landed(landing, path)
    if plan.dropped or plan.masked or plan.landing:
        _commit(spark, lake, snapshot, plan, now_us)
    for path in plan.quarantine:
        lake.storage.delete(path)
    forget_salts(lake.storage, hour_of_us(now_us - _us(settings.views_s))[: len("2026-11")])
    sweep(lake, now_us)
    return plan


def without_address(facts: DataFrame, is_meant: Column | None = None) -> DataFrame:
    """Facts without the addresses of their peers, or without those that are meant; all else stays."""
    meant = F.lit(True) if is_meant is None else is_meant
    detail = F.when(F.col("limit").isNotNull(), F.regexp_replace("detail", _ADDRESS_IN_WORDS, "somebody"))
    return facts.withColumns(
        {
            "peer_addr": F.when(~meant, F.col("peer_addr")),
            "detail": F.when(meant, F.coalesce(detail, "detail")).otherwise(F.col("detail")),
        }
    )


def _past(snapshot: Snapshot, settings: RetentionSettings, now_us: int) -> Iterator[tuple[str, str]]:
    ages = {"bronze": settings.bronze_s, "silver": settings.views_s, "rollup": settings.views_s}
    for table in sorted(snapshot.tables):
        age_s = ages.get(table.partition(".")[0])
        for hour in snapshot.partitions(table):
            # A table that is not cut by hours has one partition without a name.
            if age_s is not None and hour and _end_us(hour) <= now_us - _us(age_s):
                yield table, hour


def _older_than(
    snapshot: Snapshot, tables: list[str], now_us: int, settings: RetentionSettings
) -> list[tuple[str, str]]:
    found = [
        (table, hour)
        for table in tables
        for hour in snapshot.partitions(table)
        if _end_us(hour) <= now_us - _us(settings.address_s)
    ]
    return sorted(found, key=lambda part: part[1])


def _commit(spark: SparkSession, lake: Lake, snapshot: Snapshot, plan: RetentionPlan, now_us: int) -> None:
    gone = [hour for table, hour in plan.dropped if table.startswith("bronze.")]
    if gone:
        raise_horizon(lake.storage, shifted(max(gone), 1))
    transaction = lake.begin(snapshot, "retention", now_us)
    for table, hour in plan.dropped:
        transaction.drop(table, hour)
    for table, hour in plan.masked[:_MAX_MASKED_AT_ONCE]:
        facts = without_address(lake.read(spark, snapshot, table, [hour]))
        stats = joined_stats(snapshot.files(table, [hour])) | {SORTED: True, _MASKED: True}
        transaction.rewrite_bronze(table.partition(".")[2], hour, facts, stats)
    # Names of files that are gone need not be known any more; a file that was removed before this was noted is still
    # known, and forgotten when it is missed again.
    gone_files = [path for path in snapshot.landed_at_us if path in plan.landing]
    transaction.commit(removed=gone_files)


def _remove_landed(landing: Storage, path: str) -> None:
    landing.delete(path)
    if landing.is_local:
        # The folder of its hour and of its day, if they are empty now.
        for folder in list(Path(landing.path_for_arrow(path)).parents)[:2]:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _end_us(hour: str) -> int:
    return us_of_hour(hour) + HOUR_US


def _us(seconds: float) -> int:
    return round(seconds * _SECOND_US)
