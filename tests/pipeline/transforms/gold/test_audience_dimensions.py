"""Audience and usage by dimensions: literal views in, literal rows out, which add up to the audience and the usage."""

from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.lake.dimensions import Dimensions
from penstock.pipeline.transforms.gold.audience import audience
from penstock.pipeline.transforms.gold.audience_dimensions import audience_dimensions
from penstock.pipeline.transforms.gold.stream_health import stream_health
from penstock.pipeline.transforms.gold.usage import usage
from penstock.pipeline.transforms.gold.usage_dimensions import usage_dimensions
from tests.pipeline.bronze_rows import assert_is_table, collected
from tests.pipeline.silver_rows import at, rows, shuffled, told

HOURS = ["2026-11-15T20", "2026-11-15T21", "2026-11-15T22"]
CAMPAIGN = Dimensions(parameters=("campaign",), auth_subject=False)
SUBJECT = Dimensions()
ALL = Dimensions(parameters=("campaign",), country_db="x")
SECOND = 1_000_000


def view(
    number: int, started_at: datetime, left_at: datetime, campaign: str | None = None, **fields: Any
) -> dict[str, Any]:
    return {
        "boot_key": 1,
        "view_seq": number,
        "viewer_key": f"v:{number}",
        "started_at": started_at,
        "last_seen_at": left_at,
        "ended_at": left_at,
        "dimensions": None if campaign is None else f'{{"campaign":"{campaign}"}}',
        **fields,
    }


def minute(number: int, at_: datetime, sent_bytes: int, stream: str = "x") -> dict[str, Any]:
    return {"boot_key": 1, "view_seq": number, "stream": stream, "minute": at_, "sent_bytes": sent_bytes}


VIEWS = [
    # Over the end of an hour, together with one that is the same viewer by another campaign.
    view(1, at("20:59:30"), at("21:00:30"), "spring", auth_subject="anna"),
    view(2, at("20:59:00"), at("20:59:40"), "fall", viewer_key="v:1", country="FR", auth_subject="anna"),
    view(3, at("20:59:10"), at("20:59:50"), "spring", country="DE"),
    # To the very end of an hour, which is the first moment of the next.
    view(4, at("20:58:30"), at("21:00:00")),
    view(5, at("20:59:15"), at("20:59:15"), "fall", is_failed_start=True),
    view(6, at("21:58:30"), at("22:00:10"), "spring", ended_at=None, is_open=True, is_estimated=True),
    view(7, at("19:30:00"), at("20:00:30"), "winter", is_estimated=True, end_reason="server_lost"),
    view(8, at("20:30:00"), at("20:30:00"), "winter", auth_subject="s" * 65),
]
MINUTES = [
    minute(1, at("20:59:00"), 100),
    minute(1, at("21:00:00"), 200),
    minute(2, at("20:59:00"), 400),
    minute(4, at("21:00:00"), 800),
    minute(6, at("21:59:00"), 1600),
    # Of a view that is not there, which cannot be, and is counted all the same.
    minute(99, at("20:59:00"), 3200),
]
FIGURES = ("viewers_peak", "viewers_unique", "joins", "leaves", "watch_seconds", "egress_bytes", "is_estimated")
SUMS = ("joins", "leaves", "watched_us", "egress_bytes")


def given(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return rows(spark, "silver.views", VIEWS), rows(spark, "rollup.view_minutes", MINUTES)


def summed(found: list[Row], keys: tuple[str, ...], amounts: tuple[str, ...]) -> dict[tuple[Any, ...], Counter[str]]:
    """Amounts by key. Of rows that are here: each sum in Spark would compute all that they are made of again."""
    sums: dict[tuple[Any, ...], Counter[str]] = {}
    for row in found:
        key = tuple(row[name] for name in keys)
        sums.setdefault(key, Counter()).update({name: row[name] for name in amounts})
    return sums


def test_each_value_has_an_audience_of_its_own(spark: SparkSession) -> None:
    found = audience_dimensions(*given(spark), HOURS, CAMPAIGN)
    assert_is_table(found, "gold.audience_dimensions")
    assert told(found, "value", "minute", *FIGURES) == [
        ("fall", "20:59:00", 1, 1, 1, 1, 40, 400, False),
        ("spring", "20:59:00", 2, 2, 2, 1, 30 + 40, 100, False),
        ("spring", "21:00:00", 1, 1, 0, 1, 30, 200, False),
        ("spring", "21:58:00", 1, 1, 1, 0, 30, 0, False),
        ("spring", "21:59:00", 1, 1, 0, 0, 60, 1600, False),
        ("spring", "22:00:00", 1, 1, 0, 0, 10, 0, False),
        ("unknown", "20:58:00", 1, 1, 1, 0, 30, 0, False),
        ("unknown", "20:59:00", 1, 1, 0, 0, 60, 3200, False),
        ("unknown", "21:00:00", 0, 0, 0, 1, 0, 800, False),
        ("winter", "20:00:00", 1, 1, 0, 1, 30, 0, True),
        ("winter", "20:30:00", 0, 1, 1, 1, 0, 0, False),
    ]


def test_the_rarer_values_of_an_hour_are_one_audience(spark: SparkSession) -> None:
    found = audience_dimensions(*given(spark), HOURS, replace(CAMPAIGN, max_values=1))
    of_eight = found.where("hour(minute) = 20")
    # Spring and winter have two views each in the hour, and the first by name has rows of its own.
    assert told(of_eight, "value", "minute", *FIGURES) == [
        ("other", "20:00:00", 1, 1, 0, 1, 30, 0, True),
        ("other", "20:30:00", 0, 1, 1, 1, 0, 0, False),
        ("other", "20:58:00", 1, 1, 1, 0, 30, 0, False),
        ("other", "20:59:00", 2, 2, 1, 1, 40 + 60, 400, False),
        ("spring", "20:59:00", 2, 2, 2, 1, 30 + 40, 100, False),
        ("unknown", "20:59:00", 0, 0, 0, 0, 0, 3200, False),
    ]


@pytest.mark.parametrize("max_values", [1, 2, 100])
def test_values_of_a_dimension_add_up_to_the_audience(spark: SparkSession, max_values: int) -> None:
    views, minutes = given(spark)
    total = summed(audience(views, minutes, HOURS).collect(), ("stream", "minute"), SUMS)
    found = audience_dimensions(views, minutes, HOURS, replace(ALL, max_values=max_values)).collect()
    by_dimension = summed(found, ("dimension", "stream", "minute"), SUMS)
    assert by_dimension == {(name, *key): sums for name in ALL.named for key, sums in total.items()}


def test_hours_are_the_same_one_by_one_and_in_whatever_order_rows_come(spark: SparkSession) -> None:
    views, minutes = given(spark)
    bounded = replace(ALL, max_values=1)
    whole = collected(audience_dimensions(views, minutes, HOURS, bounded))
    by_hour = []
    for hour in HOURS:
        of_hour = minutes.where(F.date_format("minute", "yyyy-MM-dd'T'HH") == hour)
        by_hour += collected(audience_dimensions(shuffled(views), shuffled(of_hour), [hour], bounded))
    assert sorted(by_hour, key=repr) == whole


def second(at_: datetime, publication: str, received_bytes: int) -> dict[str, Any]:
    return {"at": at_, "publication_id": publication, "received_bytes": received_bytes, "interval_us": SECOND}


SECONDS = [
    second(at("20:00:01"), "p1", 1000),
    second(at("20:00:02"), "p1", 500),
    second(at("20:10:00"), "p2", 30),
    second(at("20:20:00"), "p3", 7),
]
PUBLICATIONS: list[dict[str, Any]] = [
    {"publication_id": "p1", "dimensions": '{"campaign":"studio"}', "country": "DE", "auth_subject": "studio"},
    {"publication_id": "p2", "dimensions": '{"campaign":"spring"}', "is_estimated": True},
]
# The last is of a day that is not computed.
UNREPORTED = [("live", "x", at("20:59:00"), 64, 6 * SECOND), ("live", "x", at("00:00:00", 16), 5, 5)]


def used(spark: SparkSession, dimensions: Dimensions) -> tuple[DataFrame, DataFrame]:
    """Usage, and usage by dimensions."""
    views, minutes = given(spark)
    seconds, publications = (
        rows(spark, "silver.stream_seconds", SECONDS),
        rows(spark, "silver.publications", PUBLICATIONS),
    )
    unreported = spark.createDataFrame(
        UNREPORTED, "app string, stream string, minute timestamp, unreported_bytes bigint, unreported_us bigint"
    )
    total = usage(audience(views, minutes, HOURS), stream_health(seconds, publications), unreported)
    by_minute = audience_dimensions(views, minutes, HOURS, dimensions)
    return total, usage_dimensions(by_minute, seconds, publications, unreported, dimensions)


def test_usage_counts_for_the_values_of_viewers_and_publishers(spark: SparkSession) -> None:
    _, found = used(spark, CAMPAIGN)
    assert_is_table(found, "gold.usage_dimensions")
    columns = ("value", "ingress_bytes", "egress_bytes", "watched_us", "is_estimated")
    assert told(found, *columns) == [
        ("fall", 0, 400, 40 * SECOND, False),
        ("spring", 30, 1900, 200 * SECOND, True),
        ("studio", 1500, 0, 0, False),
        ("unknown", 7, 4064, 96 * SECOND, True),
        ("winter", 0, 0, 30 * SECOND, True),
    ]


def test_usage_counts_for_the_subjects_of_viewers_and_publishers_without_being_configured(spark: SparkSession) -> None:
    _, found = used(spark, SUBJECT)
    columns = ("dimension", "value", "ingress_bytes", "egress_bytes", "watched_us", "is_estimated")
    assert told(found, *columns) == [
        ("auth_subject", "anna", 0, 700, 100 * SECOND, False),
        ("auth_subject", "other", 0, 0, 0, False),
        ("auth_subject", "studio", 1500, 0, 0, False),
        ("auth_subject", "unknown", 37, 5664, 266 * SECOND, True),
    ]


@pytest.mark.parametrize("max_values", [1, 3, 100])
def test_values_of_a_dimension_add_up_to_the_usage(spark: SparkSession, max_values: int) -> None:
    total, found = (frame.collect() for frame in used(spark, replace(ALL, max_values=max_values)))
    amounts = ("ingress_bytes", "egress_bytes", "watched_us")
    of_all = summed(total, ("stream", "day"), amounts)
    by_dimension = summed(found, ("dimension", "stream", "day"), amounts)
    assert by_dimension == {(name, *key): sums for name in ALL.named for key, sums in of_all.items()}
    assert max(Counter(row.dimension for row in found).values()) <= max_values + 1
