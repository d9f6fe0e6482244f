"""Data-quality checks: literal rows in, literal violations out."""

from pyspark.sql import SparkSession

from penstock.pipeline.build.checks import CHECKS, NAMED_SUBJECTS, violations
from tests.pipeline.bronze_rows import HOUR, SECOND, T0, assert_is_table
from tests.pipeline.silver_rows import at, rows, told

COLUMNS = ("check", "subject", "at", "violations", "detail")


def test_names_of_checks_are_unique() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_views_that_cannot_be_are_told_with_their_figures(spark: SparkSession) -> None:
    whole = {"started_at": at("20:10:00"), "last_seen_at": at("20:11:00"), "watched_us": 61 * SECOND}
    views = [
        {"view_id": "good", **whole, "ended_at": at("20:11:00")},
        {"view_id": "open", **whole},
        {"view_id": "double", **whole},
        {"view_id": "double", **whole},
        {"view_id": "backwards", **whole, "ended_at": at("20:09:59"), "watched_us": 0},
        {"view_id": "too long", **whole, "watched_us": 61 * SECOND + 1000},
        {"view_id": "negative", **whole, "bytes_sent": -1},
    ]
    found = violations("silver.views", {"silver.views": rows(spark, "silver.views", views)})
    assert_is_table(found, "gold.data_quality")
    assert told(found, *COLUMNS) == [
        ("view_amounts_are_not_negative", "negative", "20:00:00", 1, "watched 61000000 us, sent -1, skipped 0 bytes"),
        ("view_ends_after_its_start", "backwards", "20:00:00", 1, "ended 1000 ms before it began"),
        ("view_watches_while_present", "too long", "20:00:00", 1, "watched 61001 ms, present 60000 ms"),
        ("views_have_one_row_each", "double", "20:00:00", 1, "rows with the same key"),
    ]


def test_facts_that_are_missing_late_or_ahead_are_counted_by_boot_and_hour(spark: SparkSession) -> None:
    minute = 60 * SECOND
    facts = [
        # Of the boot's numbers 3 is missing, then 5 and 6 between the hours.
        ("a", "b1", 1, 0, 30 * SECOND, None),
        ("a", "b1", 2, 1, 30 * SECOND, None),
        ("a", "b1", 4, 2, 30 * SECOND, None),
        ("a", "b1", 7, HOUR, HOUR + minute, None),
        ("late", "b1", 1, 0, HOUR, None),
        ("late", "b1", 2, 0, 90 * minute, None),
        ("ahead", "b1", 1, 5 * SECOND, 2 * SECOND, None),
        ("nearly ahead", "b1", 1, 5 * SECOND, 5 * SECOND - 1_999_999, None),
        ("stepped", "b1", 1, 0, 1, -2 * SECOND),
    ]
    schema = "boot_key bigint, seq bigint, at_us bigint, landed_at_us bigint, step_us bigint"
    keys = {row[:2]: key for key, row in enumerate(facts)}
    timed = [(keys[row[:2]], row[2], T0 + row[3], T0 + row[4], row[5]) for row in facts]
    boots = [(key, *names) for names, key in keys.items()]
    named = spark.createDataFrame(boots, "boot_key bigint, server_id string, boot_id string")
    found = violations("facts", {"facts": spark.createDataFrame(timed, schema), "boots": named})
    assert told(found, *COLUMNS) == [
        ("facts_are_complete", "a-b1", "20:00:00", 1, "1 of 4 facts are missing"),
        ("facts_are_complete", "a-b1", "21:00:00", 2, "2 of 3 facts are missing"),
        ("facts_land_within_an_hour", "late-b1", "20:00:00", 1, "1 facts landed late, at most by 90 minutes"),
        ("server_clock_is_right", "ahead-b1", "20:00:00", 1, "the clock is at least 3000 ms off"),
        ("server_clock_is_right", "stepped-b1", "20:00:00", 1, "the clock is at least 2000 ms off"),
    ]


def test_of_many_subjects_the_worst_are_named_and_the_rest_counted(spark: SparkSession) -> None:
    lines = [(f"reason {number:02}", T0) for number in range(NAMED_SUBJECTS + 3) for _ in range(number + 1)]
    refused = spark.createDataFrame(lines, "refusal string, landed_at_us bigint")
    found = told(violations("quarantine", {"quarantine": refused}), "subject", "violations", "detail")
    assert len(found) == NAMED_SUBJECTS + 1
    assert found[0] == ("others", 1 + 2 + 3, "3 subjects")
    assert found[-1] == ("reason 22", 23, "23 lines refused")


def test_usage_is_between_what_views_of_the_day_and_those_over_midnight_were_sent(spark: SparkSession) -> None:
    billed = {"least": 100, "too little": 99, "most": 150, "too much": 151, "of a lost server": 151}
    views = [
        {"stream": stream, **view}
        for stream in billed
        for view in (
            {"started_at": at("20:00:00"), "last_seen_at": at("21:00:00"), "bytes_sent": 100},
            {"started_at": at("23:00:00", 14), "last_seen_at": at("01:00:00"), "bytes_sent": 50},
        )
    ]
    usage = [
        {"stream": stream, "egress_bytes": sent, "is_estimated": stream == "of a lost server"}
        for stream, sent in billed.items()
    ]
    frames = {"gold.usage": rows(spark, "gold.usage", usage), "silver.views": rows(spark, "silver.views", views)}
    over_midnight = "views of the day alone 100, with those over midnight 150"
    assert told(violations("gold.usage", frames), "subject", "at", "detail") == [
        ("live/too little", "00:00:00", f"99 bytes billed; {over_midnight}"),
        ("live/too much", "00:00:00", f"151 bytes billed; {over_midnight}"),
    ]
