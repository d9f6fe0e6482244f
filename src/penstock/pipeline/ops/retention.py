"""How long the lake keeps what, and how it lets go.

Owns the ages: landing files after their commit, addresses and facts in bronze, silver and rollups, the quarantine and
the salts. Gold is kept for good. Tables give up whole days, by a commit; files go when no kept version needs them.
"""

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import LakeBusy
from penstock.facts import FACTS
from penstock.pipeline.ingest.horizon import raise_horizon
from penstock.pipeline.ingest.quarantine import FOLDER as QUARANTINE
from penstock.pipeline.ingest.salts import forget_salts
from penstock.pipeline.lake.hours import day_of, hour_of_us
from penstock.pipeline.lake.lake import Lake, Wanted
from penstock.pipeline.lake.layout import BRONZE, DATE, KIND, stored_tables
from penstock.pipeline.lake.schemas import fields_of
from penstock.pipeline.lake.state import State
from penstock.pipeline.lake.storage import Storage, StoredFile

_DAY_S: Final = 86_400.0
_SECOND_US: Final = 1_000_000
_VACUUM_EVERY_S: Final = 3600.0
"""Every folder is listed for it, so not in every cycle."""
_VACUUMED: Final = "_notes/vacuumed_at_us"
_MAX_MASKED_AT_ONCE: Final = 64
"""Partitions of bronze that one run rewrites. Only the first one after an upgrade has more."""
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
    """What has had its time."""

    landing: tuple[str, ...]
    first_days: dict[str, str]
    """Layer to the first day that it keeps."""
    masked: tuple[tuple[str, str], ...]
    """Kinds and days of bronze that lose their addresses."""
    quarantine: tuple[str, ...]


def plan_retention(
    state: State,
    settings: RetentionSettings,
    now_us: int,
    *,
    bronze: Collection[tuple[str, str]],
    landing: list[StoredFile],
    quarantine: list[StoredFile],
) -> RetentionPlan:
    """What is to go; `bronze` is kind and day of what it has. A landing file that no commit holds stays."""
    first_days = {
        "bronze": _first_day(settings.bronze_s, now_us),
        "silver": _first_day(settings.views_s, now_us),
        "rollup": _first_day(settings.views_s, now_us),
    }
    unmasked = _first_day(settings.address_s, now_us)
    return RetentionPlan(
        landing=tuple(
            file.path
            for file in landing
            if file.path in state.landed_at_us and state.landed_at_us[file.path] <= now_us - _us(settings.landing_s)
        ),
        first_days=first_days,
        masked=tuple(
            (kind, day)
            for kind, day in sorted(bronze, key=lambda part: part[1])
            if kind in KINDS_WITH_ADDRESS
            and first_days["bronze"] <= day < unmasked
            and f"{kind}/{day}" not in state.masked
        )[:_MAX_MASKED_AT_ONCE],
        quarantine=tuple(
            file.path for file in quarantine if file.modified_at_us <= now_us - _us(settings.quarantine_s)
        ),
    )


def apply_retention(
    spark: SparkSession, lake: Lake, landing: Storage, settings: RetentionSettings, now_us: int
) -> RetentionPlan:
    """Let go of what has had its time, and of files that no kept version needs. What that was."""
    state, facts, landed = lake.read_state(), lake.pin(BRONZE), landing.find("")
    parts = set() if facts is None else {(file.partition[KIND], file.partition[DATE]) for file in facts.files}
    found = lake.storage.find(QUARANTINE)
    plan = plan_retention(state, settings, now_us, bronze=parts, landing=landed, quarantine=found)
    for path in plan.landing:
        _remove_landed(landing, path)
    for kind, day in plan.masked:
        _mask(spark, lake, kind, day)
    _drop_days(lake, plan)
    for path in plan.quarantine:
        lake.storage.delete(path)
    first_day, there = plan.first_days["bronze"], {file.path for file in landed}.difference(plan.landing)
    after = replace(
        state.without_days_before(first_day),
        # Facts of a boot that is silent since then are refused from now on.
        boots={
            key: boot
            for key, boot in state.boots.items()
            if hour_of_us(boot.last_at_us) >= first_day or key in state.spoken
        },
        # A file may be gone without us: a run was killed right here, or a server gave it up for room.
        landed_at_us={
            path: at_us
            for path, at_us in state.landed_at_us.items()
            if path in there or at_us > now_us - _us(settings.landing_s)
        },
        masked=state.masked.union(f"{kind}/{day}" for kind, day in plan.masked),
    )
    if after != state:
        lake.state.commit(after)
    forget_salts(lake.storage, plan.first_days["silver"][: len("2026-11")])
    _vacuum(lake, now_us)
    return plan


def _mask(spark: SparkSession, lake: Lake, kind: str, day: str) -> None:
    """Write a day of a kind without addresses."""
    facts = lake.pin(BRONZE)
    if facts is None:
        return
    removed = [file for file in facts.files if (file.partition[KIND], file.partition[DATE]) == (kind, day)]
    rows = lake.read(spark, facts, BRONZE, Wanted(since=day, until=f"{day}U", kinds=[kind]))
    lake.rewrite(BRONZE, facts, without_address(rows).coalesce(1), removed)


def _drop_days(lake: Lake, plan: RetentionPlan) -> None:
    for name in stored_tables():
        first_day, pinned = plan.first_days.get(name.partition(".")[0]), lake.pin(name)
        if first_day is None or pinned is None:
            continue
        if name == BRONZE and any(file.partition[DATE] < first_day for file in pinned.files):
            raise_horizon(lake.storage, f"{first_day}T00")
        lake.drop_days(name, pinned, first_day)


def is_overdue(lake: Lake, now_us: int) -> bool:
    """Whether retention was not applied for a day, as where no facts land that a run would be for."""
    return not _was_vacuumed(lake, now_us, _DAY_S)


def _vacuum(lake: Lake, now_us: int) -> None:
    if not _was_vacuumed(lake, now_us, _VACUUM_EVERY_S):
        for name in stored_tables():
            # A table that somebody else writes meanwhile keeps its files for an hour more.
            with contextlib.suppress(LakeBusy):
                lake.table(name).vacuum()
        with contextlib.suppress(LakeBusy):
            lake.state.vacuum()
        lake.storage.put(_VACUUMED, str(now_us).encode())


def _was_vacuumed(lake: Lake, now_us: int, within_s: float) -> bool:
    try:
        last_us = int(lake.storage.read(_VACUUMED))
    except (FileNotFoundError, ValueError):
        return False
    # A clock that was ahead, and is put back, must not put it off for as long.
    return 0 <= now_us - last_us < _us(within_s)


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


def _remove_landed(landing: Storage, path: str) -> None:
    landing.delete(path)
    if landing.is_local:
        # The folder of its hour and of its day, if they are empty now.
        for folder in list(Path(landing.path_for_arrow(path)).parents)[:2]:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _first_day(age_s: float, now_us: int) -> str:
    """The first day of which some is younger than that."""
    return day_of(hour_of_us(now_us - _us(age_s)))


def _us(seconds: float) -> int:
    return round(seconds * _SECOND_US)
