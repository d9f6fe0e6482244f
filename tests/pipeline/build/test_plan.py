"""What a run has to compute: partitions from what was touched, without a row of data."""

from dataclasses import replace

import pytest

from penstock.pipeline.build.plan import (
    hours_with_views_of,
    last_numbers_before,
    lost_boots,
    plan_increment,
    plan_rebuild,
    sampled_before,
)
from penstock.pipeline.lake.hours import (
    day_of,
    hour_of_us,
    hours_between,
    hours_of_day,
    runs_of,
    shifted,
    shifted_day,
    us_of_hour,
)
from penstock.pipeline.lake.state import BootHour, BootSpan, OpenSessions, State, Touched

H = "2026-11-15T{:02d}".format
MINUTE_US = 60_000_000
SILENT_US = 90_000_000


def boot(boot_id: str, first: str, last: str, server: str = "s") -> BootSpan:
    return BootSpan(hash(boot_id), server, boot_id, us_of_hour(first), us_of_hour(last), 1, 9, 9, is_stopped=False)


def begun(hour: str, *, open_boots: str = "", lost_boots: str = "", last_hour: str = "") -> dict[str, OpenSessions]:
    """What is known of the sessions that began in an hour; boots are named with a space between them."""
    return {hour: OpenSessions(frozenset(open_boots.split()), frozenset(lost_boots.split()), last_hour or hour)}


def told_in(boot_key: int, *hours: str, has_streams: bool = True) -> dict[tuple[int, str], BootHour]:
    return {(boot_key, hour): BootHour(boot_key, hour, 1, 9, has_streams) for hour in hours}


def hours_of(**kinds: list[str]) -> dict[str, frozenset[str]]:
    return {kind: frozenset(hours) for kind, hours in kinds.items()}


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
    state = State(
        pending=touched({"viewer_sample": [H(20)], "stream_sample": [H(20)]}, {H(20): [H(18), H(20)]}),
        view_starts={H(18): frozenset([H(18)]), H(19): frozenset([H(18)]), H(20): frozenset([H(18), H(20)])},
        boots={1: boot("b", H(18), H(20))},
    )
    plan = plan_increment(state, us_of_hour(H(20)), SILENT_US)
    assert plan.view_hours == {H(20)}
    assert plan.view_starts == {H(18), H(20)}
    assert plan.stream_hours == plan.audience_hours == {H(20)}
    assert plan.quality_hours == {H(18), H(20)}
    assert plan.gold_days == {"2026-11-15"}


@pytest.mark.parametrize(("facts", "audience"), [(9, {H(20)}), (8, {H(18), H(19), H(20)})], ids=["whole", "with gaps"])
def test_a_stop_tells_of_all_hours_of_its_views_where_a_start_may_be_lost(facts: int, audience: set[str]) -> None:
    state = State(
        pending=touched({"play_stopped": [H(20)]}, {H(20): [H(18)]}),
        view_starts={H(18): frozenset([H(18)]), H(19): frozenset([H(18)]), H(20): frozenset([H(18)])},
        boots={1: replace(boot("b", H(18), H(20)), facts=facts)},
        spoken=frozenset([1]),
    )
    plan = plan_increment(state, us_of_hour(H(20)), SILENT_US)
    assert plan.audience_hours == audience
    assert plan.named_hours == (audience if facts < 9 else set())


def test_a_late_hour_brings_the_later_hours_of_its_views_along() -> None:
    state = State(
        pending=touched({"viewer_sample": [H(18)], "stream_sample": [H(18)]}, {H(18): [H(17)]}),
        view_starts={H(18): frozenset([H(17)]), H(19): frozenset([H(19)]), H(20): frozenset([H(17), H(20)])},
    )
    plan = plan_increment(state, us_of_hour(H(20)), SILENT_US)
    assert plan.view_hours == {H(18), H(20)}


def test_a_late_hour_brings_the_next_hour_of_the_same_boots_streams_along() -> None:
    state = State(
        pending=touched({"stream_sample": [H(17)]}, {}),
        spoken=frozenset([1]),
        boot_hours={
            **told_in(1, H(17), H(19), H(20), H(21)),
            **told_in(1, H(18), has_streams=False),
            **told_in(2, H(18), H(20)),
        },
        boots={1: boot("mine", H(17), H(21)), 2: boot("other", H(18), H(21), "t")},
    )
    assert plan_increment(state, us_of_hour(H(21)), SILENT_US).stream_hours == {H(17), H(19)}


def test_open_views_count_from_where_they_were_last_seen() -> None:
    state = State(
        pending=touched({"viewer_sample": [H(20)]}, {H(20): [H(17)]}),
        boots={1: boot("b", H(17), H(20))},
        fact_hours=hours_of(viewer_sample=[H(17), H(20)], limit_hit=[H(19)]),
        sessions={"silver.views": begun(H(17), open_boots="b")},
    )
    plan = plan_increment(state, us_of_hour(H(20)), SILENT_US)
    assert plan.audience_hours == {H(17), H(18), H(19), H(20)}
    assert plan.quality_hours == {H(17), H(20)}, "their samples of between are counted already"
    nobody_there = plan_increment(replace(state, sessions={}), us_of_hour(H(20)), SILENT_US)
    assert nobody_there.audience_hours == {H(20)}


def test_what_waits_for_a_lost_server_is_ended_without_new_facts() -> None:
    sessions = {
        "silver.views": {
            **begun(H(16), open_boots="alive", last_hour=H(18)),
            **begun(H(17), open_boots="dead", last_hour=H(18)),
        },
        "silver.connections": begun(H(17), open_boots="dead"),
        "silver.publications": begun(H(16), open_boots="dead"),
    }
    boots = {1: boot("dead", H(16), H(18)), 2: boot("alive", H(16), H(20), "t")}
    plan = plan_increment(State(sessions=sessions, boots=boots), us_of_hour(H(20)), SILENT_US)
    assert plan.view_starts == {H(17)}
    assert plan.connection_starts == {H(17)}
    assert plan.publication_starts == {H(16)}
    assert plan.audience_hours == {H(17), H(18)}
    alive = {2: boots[2], 1: boot("dead", H(16), H(20))}
    assert not plan_increment(State(sessions=sessions, boots=alive), us_of_hour(H(20)), SILENT_US)


def test_what_ended_with_a_lost_boot_is_made_anew_when_that_boot_speaks_again() -> None:
    settled = State(
        sessions={
            "silver.views": {
                **begun(H(15), lost_boots="gone", last_hour=H(16)),
                **begun(H(16), lost_boots="gone back", last_hour=H(17)),
            },
            "silver.connections": begun(H(14), lost_boots="back", last_hour=H(17)),
            "silver.publications": {
                **begun(H(14), lost_boots="gone", last_hour=H(17)),
                **begun(H(15), lost_boots="back", last_hour=H(17)),
            },
        },
        fact_hours=hours_of(stream_sample=[H(14), H(15), H(17), H(21)]),
        boots={1: boot("gone", H(14), H(17)), 2: boot("back", H(14), H(19), "t")},
    )
    state = replace(settled, pending=touched({"limit_hit": [H(19)]}, {}), spoken=frozenset([2]))
    plan = plan_increment(state, us_of_hour(H(19)), SILENT_US)
    assert plan.view_starts == {H(16)}
    assert plan.audience_hours == {H(16), H(17), H(18), H(19)}
    assert plan.connection_starts == {H(14)}
    assert plan.publication_starts == {H(15)}
    assert plan.stream_hours == {H(15), H(17)}
    assert not plan_increment(settled, us_of_hour(H(23)), SILENT_US), "lost long ago"


def test_what_is_lost_counts_as_estimated_in_all_its_hours() -> None:
    state = State(
        sessions={
            "silver.views": begun(H(14), open_boots="dead", last_hour=H(17)),
            "silver.publications": begun(H(13), open_boots="dead", last_hour=H(17)),
        },
        fact_hours=hours_of(stream_sample=[H(12), H(13), H(16)]),
        boots={1: boot("dead", H(12), H(18))},
    )
    plan = plan_increment(state, us_of_hour(H(20)), SILENT_US)
    assert plan.audience_hours == {H(14), H(15), H(16), H(17)}
    assert plan.stream_hours == {H(13), H(16)}
    given_up = plan_increment(state, us_of_hour(H(20)), SILENT_US, horizon=H(15))
    assert not given_up, "and nothing waits for ever"


def test_rows_of_sessions_from_before_bronze_was_given_up_stay_as_they_are() -> None:
    pending = touched(
        {"viewer_sample": [H(20)], "connection_closed": [H(20)]}, {H(20): [H(3), H(20)]}, sessions=[H(2), H(19)]
    )
    plan = plan_increment(State(pending=pending), us_of_hour(H(20)), SILENT_US, horizon=H(10))
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


@pytest.mark.parametrize(
    ("workers", "lost"),
    [
        ({"a": 1, "b": 2}, []),
        ({"a": 1, "b": 2, "c": 1}, ["a"]),
        ({"a": None, "b": 1, "c": 2}, ["a"]),
        ({"a": None, "b": 2}, []),
    ],
    ids=["alive at once", "one replaced", "after an older server", "only the second has spoken yet"],
)
def test_a_boot_is_lost_for_a_newer_one_of_the_same_worker_alone(
    workers: dict[str, int | None], lost: list[str]
) -> None:
    boots = [
        replace(boot(name, H(number), H(5)), worker=worker) for number, (name, worker) in enumerate(workers.items())
    ]
    assert [each.boot_id for each in lost_boots(boots, us_of_hour(H(5)), SILENT_US)] == lost


def test_a_rebuild_of_a_day_takes_all_of_it_and_no_more() -> None:
    state = State(
        fact_hours=hours_of(viewer_sample=["2026-11-14T23", H(3), H(5)], publish_started=[H(3)]),
        view_starts={H(3): frozenset(["2026-11-14T23", H(3)]), H(5): frozenset([H(4)])},
    )
    plan = plan_rebuild(state, ["2026-11-15"])
    assert plan.view_hours == {H(3), H(5)}
    assert plan.view_starts == {H(3), H(4), H(5)}
    assert plan.audience_hours == plan.named_hours == {H(3), H(4), H(5)}
    assert plan.publication_starts == {H(3)}
    assert plan.gold_days == {"2026-11-15"}


def test_a_gap_before_an_hour_is_seen_by_the_last_number_of_the_boot_before_it() -> None:
    last_numbers = {(7, H(1)): 12, (7, H(4)): 30, (7, H(5)): 40, (8, H(1)): 5, (8, H(5)): 9}
    state = State(
        boot_hours={(key, hour): BootHour(key, hour, 1, last, False) for (key, hour), last in last_numbers.items()}
    )
    assert last_numbers_before(state, {H(4), H(5)}) == [(7, us_of_hour(H(1)), 12), (8, us_of_hour(H(1)), 5)]
    assert last_numbers_before(state, {H(5)}) == [(7, us_of_hour(H(4)), 30), (8, us_of_hour(H(1)), 5)]
    assert last_numbers_before(state, {H(1)}) == []


def test_views_are_found_by_the_hours_they_began_in() -> None:
    state = State(view_starts={H(1): frozenset([H(1)]), H(4): frozenset([H(1), H(3)])})
    assert hours_with_views_of(state, [H(3)]) == [H(4)]
    assert hours_with_views_of(state, [H(1)]) == [H(1), H(4)]


def test_the_last_samples_of_streams_are_looked_for_where_their_boots_told_of_streams_before() -> None:
    mine = {**told_in(1, H(1), H(3), H(4), H(8)), **told_in(1, H(5), has_streams=False)}
    state = State(boot_hours={**mine, **told_in(2, H(6), H(7))})
    assert sampled_before(state, [H(8)], 2) == {H(3), H(4)}
    assert sampled_before(state, [H(9)], 2) == set(), "nobody told of streams then"
