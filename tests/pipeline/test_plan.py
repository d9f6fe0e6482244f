"""What a run has to compute: partitions from what was touched, without a row of data."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.pipeline.commits import BootSpan, DataFile, Snapshot, Touched
from penstock.pipeline.hours import (
    day_of,
    hour_of_us,
    hours_between,
    hours_of_day,
    runs_of,
    shifted,
    shifted_day,
    us_of_hour,
)
from penstock.pipeline.plan import (
    hours_with_views_of,
    last_numbers_before,
    lost_boots,
    plan_increment,
    plan_rebuild,
    starts_in,
)

H = "2026-11-15T{:02d}".format
MINUTE_US = 60_000_000
SILENT_US = 90_000_000


def boot(boot_id: str, first: str, last: str, server: str = "s") -> BootSpan:
    return BootSpan(hash(boot_id), server, boot_id, us_of_hour(first), us_of_hour(last), 1, 9, 9, is_stopped=False)


def file_of(path: str, **stats: Any) -> DataFile:
    return DataFile(path, 1, 1, stats)


def touched(hours: dict[str, list[str]], starts: dict[str, list[str]], sessions: list[str] | None = None) -> Touched:
    return Touched(
        {kind: frozenset(held) for kind, held in hours.items()},
        {hour: frozenset(held) for hour, held in starts.items()},
        frozenset(sessions or []),
    )


def test_hours_are_spelled_and_counted_in_utc() -> None:
    assert hour_of_us(1_763_236_799_999_999) == "2025-11-15T19"
    assert us_of_hour("2025-11-15T20") == 1_763_236_800_000_000
    assert shifted("2026-12-31T23", 1) == "2027-01-01T00"
    assert shifted_day("2026-03-01", -1) == "2026-02-28"
    assert hours_between("2026-11-14T23", "2026-11-15T01") == ["2026-11-14T23", "2026-11-15T00", "2026-11-15T01"]
    assert (day_of(H(7)), len(hours_of_day("2026-11-15"))) == ("2026-11-15", 24)


def test_hours_run_on_until_another_known_hour_lies_between_or_they_are_many() -> None:
    known = [H(1), H(2), H(3), H(7), H(9)]
    assert list(runs_of([H(7), H(1), H(3)], known, 24)) == [[H(1)], [H(3), H(7)]]
    assert list(runs_of([H(1), H(2), H(3)], known, 2)) == [[H(1), H(2)], [H(3)]]
    assert list(runs_of([], known, 2)) == []


def test_new_facts_of_the_newest_hour_touch_that_hour_and_the_starts_of_its_views() -> None:
    snapshot = Snapshot(
        pending=touched({"viewer_sample": [H(20)], "stream_sample": [H(20)]}, {H(20): [H(18), H(20)]}),
        view_starts={H(18): frozenset([H(18)]), H(19): frozenset([H(18)]), H(20): frozenset([H(18), H(20)])},
        boots={1: boot("b", H(18), H(20))},
    )
    plan = plan_increment(snapshot, us_of_hour(H(20)), SILENT_US)
    assert plan.view_hours == {H(20)}
    assert plan.view_starts == {H(18), H(20)}
    assert plan.stream_hours == plan.audience_hours == {H(20)}
    assert plan.quality_hours == {H(18), H(20)}
    assert plan.gold_days == {"2026-11-15"}


@pytest.mark.parametrize(("facts", "audience"), [(9, {H(20)}), (8, {H(18), H(19), H(20)})], ids=["whole", "with gaps"])
def test_a_stop_tells_of_all_hours_of_its_views_where_a_start_may_be_lost(facts: int, audience: set[str]) -> None:
    snapshot = Snapshot(
        pending=touched({"play_stopped": [H(20)]}, {H(20): [H(18)]}),
        view_starts={H(18): frozenset([H(18)]), H(19): frozenset([H(18)]), H(20): frozenset([H(18)])},
        boots={1: replace(boot("b", H(18), H(20)), facts=facts)},
        spoken=frozenset([1]),
    )
    plan = plan_increment(snapshot, us_of_hour(H(20)), SILENT_US)
    assert plan.audience_hours == plan.sampled_hours == audience


def test_a_late_hour_brings_the_later_hours_of_its_views_along() -> None:
    snapshot = Snapshot(
        pending=touched({"viewer_sample": [H(18)], "stream_sample": [H(18)]}, {H(18): [H(17)]}),
        view_starts={H(18): frozenset([H(17)]), H(19): frozenset([H(19)]), H(20): frozenset([H(17), H(20)])},
    )
    plan = plan_increment(snapshot, us_of_hour(H(20)), SILENT_US)
    assert plan.view_hours == {H(18), H(20)}


def test_a_late_hour_brings_the_next_hour_of_the_same_boots_streams_along() -> None:
    mine, others = ({"seqs": {key: [1, 9]}} for key in ("1", "2"))
    snapshot = Snapshot(
        pending=touched({"stream_sample": [H(17)]}, {}),
        spoken=frozenset([1]),
        tables={
            "bronze.stream_sample": {
                H(17): (file_of("a", **mine),),
                H(18): (file_of("b", **others),),
                H(20): (file_of("c", **others), file_of("d", **mine)),
                H(21): (file_of("e", **mine),),
            },
            "bronze.publish_stopped": {H(19): (file_of("f", **mine),)},
        },
        boots={1: boot("mine", H(17), H(21)), 2: boot("other", H(18), H(21), "t")},
    )
    assert plan_increment(snapshot, us_of_hour(H(21)), SILENT_US).stream_hours == {H(17), H(19)}


def test_open_views_count_from_where_they_were_last_seen() -> None:
    tables = {
        "rollup.view_minutes": {H(17): (file_of("a"),)},
        "silver.views": {H(17): (file_of("b", open_boots=["b"], last_hour=H(17)),)},
    }
    pending = touched({"viewer_sample": [H(20)]}, {H(20): [H(17)]})
    boots = {1: boot("b", H(17), H(20))}
    plan = plan_increment(Snapshot(pending=pending, tables=tables, boots=boots), us_of_hour(H(20)), SILENT_US)
    assert plan.audience_hours == {H(17), H(18), H(19), H(20)}
    assert plan.sampled_hours == {H(20)}, "their samples of before are counted already"
    tables["silver.views"] = {H(17): (file_of("b", open_boots=[], last_hour=H(17)),)}
    plan = plan_increment(Snapshot(pending=pending, tables=tables, boots=boots), us_of_hour(H(20)), SILENT_US)
    assert plan.audience_hours == {H(20)}


def test_what_waits_for_a_lost_server_is_ended_without_new_facts() -> None:
    tables = {
        "silver.views": {
            H(16): (file_of("a", open_boots=["alive"], last_hour=H(18)),),
            H(17): (file_of("b", open_boots=["dead"], last_hour=H(18)),),
        },
        "silver.connections": {H(17): (file_of("c", open_boots=["dead"]),)},
        "silver.publications": {H(16): (file_of("d", open_boots=["dead"]),)},
    }
    boots = {1: boot("dead", H(16), H(18)), 2: boot("alive", H(16), H(20), "t")}
    plan = plan_increment(Snapshot(tables=tables, boots=boots), us_of_hour(H(20)), SILENT_US)
    assert plan.view_starts == {H(17)}
    assert plan.connection_starts == {H(17)}
    assert plan.publication_starts == {H(16)}
    assert plan.audience_hours == {H(17), H(18)}
    alive = {2: boots[2], 1: boot("dead", H(16), H(20))}
    assert not plan_increment(Snapshot(tables=tables, boots=alive), us_of_hour(H(20)), SILENT_US)


def test_what_ended_with_a_lost_boot_is_made_anew_when_that_boot_speaks_again() -> None:
    tables = {
        "silver.views": {
            H(15): (file_of("a", open_boots=[], lost_boots=["gone"], last_hour=H(16)),),
            H(16): (file_of("b", open_boots=[], lost_boots=["gone", "back"], last_hour=H(17)),),
        },
        "silver.connections": {H(14): (file_of("c", open_boots=[], lost_boots=["back"], last_hour=H(17)),)},
        "silver.publications": {
            H(14): (file_of("d", open_boots=[], lost_boots=["gone"], last_hour=H(17)),),
            H(15): (file_of("e", open_boots=[], lost_boots=["back"], last_hour=H(17)),),
        },
        "silver.stream_seconds": {hour: (file_of(hour),) for hour in (H(14), H(15), H(17), H(21))},
    }
    boots = {1: boot("gone", H(14), H(17)), 2: boot("back", H(14), H(19), "t")}
    pending = touched({"limit_hit": [H(19)]}, {})
    snapshot = Snapshot(pending=pending, spoken=frozenset([2]), tables=tables, boots=boots)
    plan = plan_increment(snapshot, us_of_hour(H(19)), SILENT_US)
    assert plan.view_starts == {H(16)}
    assert plan.audience_hours == {H(16), H(17), H(18), H(19)}
    assert plan.connection_starts == {H(14)}
    assert plan.publication_starts == {H(15)}
    assert plan.stream_hours == {H(15), H(17)}
    assert not plan_increment(Snapshot(tables=tables, boots=boots), us_of_hour(H(23)), SILENT_US), "lost long ago"


def test_what_is_lost_counts_as_estimated_in_all_its_hours() -> None:
    tables = {
        "silver.views": {H(14): (file_of("a", open_boots=["dead"], last_hour=H(17)),)},
        "silver.publications": {H(13): (file_of("b", open_boots=["dead"], last_hour=H(17)),)},
        "silver.stream_seconds": {hour: (file_of(hour),) for hour in (H(12), H(13), H(16))},
    }
    snapshot = Snapshot(tables=tables, boots={1: boot("dead", H(12), H(18))})
    plan = plan_increment(snapshot, us_of_hour(H(20)), SILENT_US)
    assert plan.audience_hours == {H(14), H(15), H(16), H(17)}
    assert plan.stream_hours == {H(13), H(16)}
    given_up = plan_increment(snapshot, us_of_hour(H(20)), SILENT_US, horizon=H(15))
    assert not given_up, "and nothing waits for ever"


def test_rows_of_sessions_from_before_bronze_was_given_up_stay_as_they_are() -> None:
    pending = touched(
        {"viewer_sample": [H(20)], "connection_closed": [H(20)]}, {H(20): [H(3), H(20)]}, sessions=[H(2), H(19)]
    )
    plan = plan_increment(Snapshot(pending=pending), us_of_hour(H(20)), SILENT_US, horizon=H(10))
    assert plan.view_starts == {H(20)}
    assert plan.connection_starts == {H(19)}
    assert plan.view_hours == {H(20)}


@pytest.mark.parametrize(
    ("boots", "lost"),
    [
        ([boot("a", H(1), H(2))], []),
        ([boot("a", H(1), H(1))], ["a"]),
        ([boot("a", H(1), H(2)), boot("b", H(2), H(2))], ["a"]),
        ([boot("a", H(1), H(2)), boot("b", H(2), H(2), "other")], []),
    ],
)
def test_a_boot_is_lost_when_it_is_silent_or_a_newer_one_speaks(boots: list[BootSpan], lost: list[str]) -> None:
    as_of_us = us_of_hour(H(2)) + MINUTE_US
    assert [each.boot_id for each in lost_boots(boots, as_of_us, SILENT_US)] == lost


def test_a_rebuild_of_a_day_takes_all_of_it_and_no_more() -> None:
    hours = {"2026-11-14T23": (), H(3): (), H(5): ()}
    snapshot = Snapshot(
        tables={"bronze.viewer_sample": hours, "bronze.publish_started": {H(3): ()}, "silver.views": {}},
        view_starts={H(3): frozenset(["2026-11-14T23", H(3)]), H(5): frozenset([H(4)])},
    )
    plan = plan_rebuild(snapshot, ["2026-11-15"])
    assert plan.whole_starts >= plan.view_starts | plan.connection_starts
    assert plan.view_hours == {H(3), H(5)}
    assert plan.view_starts == {H(3), H(4), H(5)}
    assert plan.audience_hours == {H(3), H(4), H(5)}
    assert plan.publication_starts == {H(3)}
    assert plan.gold_days == {"2026-11-15"}


def test_a_gap_before_an_hour_is_seen_by_the_last_number_of_the_boot_before_it() -> None:
    def numbers(**highest: int) -> DataFile:
        return file_of("x", seqs={key.removeprefix("boot_"): [1, high] for key, high in highest.items()})

    snapshot = Snapshot(
        tables={
            "bronze.viewer_sample": {H(1): (numbers(boot_7=10, boot_8=5),), H(4): (numbers(boot_7=30),)},
            "bronze.stream_sample": {H(1): (numbers(boot_7=12),), H(5): (numbers(boot_7=40, boot_8=9),)},
            "silver.views": {H(3): (file_of("y"),)},
        }
    )
    assert last_numbers_before(snapshot, {H(4), H(5)}) == [(7, us_of_hour(H(1)), 12), (8, us_of_hour(H(1)), 5)]
    assert last_numbers_before(snapshot, {H(5)}) == [(7, us_of_hour(H(4)), 30), (8, us_of_hour(H(1)), 5)]
    assert last_numbers_before(snapshot, {H(1)}) == []


def test_views_are_found_by_the_hours_they_began_and_were_there_in() -> None:
    tables = {
        "silver.views": {
            H(1): (file_of("a", last_hour=H(4)),),
            H(2): (file_of("b", last_hour=H(2)),),
            H(5): (file_of("c", last_hour=None),),
        }
    }
    snapshot = Snapshot(tables=tables, view_starts={H(1): frozenset([H(1)]), H(4): frozenset([H(1), H(3)])})
    assert starts_in(snapshot, "silver.views", [H(3), H(4)]) == [H(1)]
    assert starts_in(snapshot, "silver.views", [H(2), H(5)]) == [H(1), H(2), H(5)]
    assert hours_with_views_of(snapshot, [H(3)]) == [H(4)]
