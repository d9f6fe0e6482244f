"""Which sessions a run makes anew and which rows it carries over: literal rows in, names out."""

from typing import Any

import pyarrow as pa

from penstock.pipeline.tables import SERVER_LOST
from penstock.pipeline.transforms.histogram_hours import STARTUP_COLUMNS
from penstock.pipeline.untouched import (
    CONNECTION,
    changed_hours,
    touched_connections,
    touched_views,
    untouched_connections,
    untouched_views,
)
from tests.pipeline.bronze_rows import boot_key_of
from tests.pipeline.silver_rows import at, gathered_rows

BOOT, OTHER_BOOT = boot_key_of("a", "b1"), boot_key_of("a", "b2")


def view(seq: int, **fields: Any) -> dict[str, Any]:
    return {"view_id": f"a-b1-{seq}", "boot_key": BOOT, "view_seq": seq, **fields}


def test_a_view_is_made_anew_if_it_has_a_new_minute_or_nobody_told_its_end() -> None:
    told = [
        {"boot_key": BOOT, "view_seq": 1},
        {"boot_key": BOOT, "view_seq": 1},
        {"boot_key": OTHER_BOOT, "view_seq": 2},
    ]
    known = gathered_rows(
        "silver.views",
        [
            view(1, end_reason="left"),
            view(2, end_reason="left"),
            view(3, is_open=True, is_estimated=True),
            view(4, end_reason=SERVER_LOST, is_estimated=True),
            view(5, end_reason="no stream", is_failed_start=True),
        ],
    )
    touched = touched_views(gathered_rows("rollup.view_minutes", told), known)
    assert sorted((row["boot_key"], row["view_seq"]) for row in touched.to_pylist()) == sorted(
        [(BOOT, 1), (OTHER_BOOT, 2), (BOOT, 3), (BOOT, 4)]
    )
    # The second has a namesake in another boot; plays in vain are told by one fact, and found again from it.
    assert untouched_views(known, touched)["view_id"].to_pylist() == ["a-b1-2"]


def test_a_connection_is_made_anew_if_a_fact_tells_of_it_or_none_told_its_end() -> None:
    known = gathered_rows(
        "silver.connections",
        [
            {"server_id": "a", "boot_id": boot, "conn_id": conn_id, **fields}
            for boot, conn_id, fields in (
                ("b1", "told of", {"closed_at": at("20:01:00"), "close_reason": "left"}),
                ("b2", "told of", {"closed_at": at("20:01:00"), "close_reason": None}),
                ("b1", "open", {"is_open": True}),
                ("b1", "lost", {"closed_at": at("20:01:00"), "close_reason": SERVER_LOST}),
                ("b1", "closed", {"closed_at": at("20:01:00"), "close_reason": "left"}),
            )
        ],
    )
    told = pa.table(dict(zip(CONNECTION, (["a", "a"], ["b1", "b1"], ["told of", "new"]), strict=True)))
    touched = touched_connections(told, known)
    assert set(touched["conn_id"].to_pylist()) == {"told of", "new", "open", "lost"}
    kept = untouched_connections(known, touched)
    assert kept.column_names == known.column_names
    assert {(row["boot_id"], row["conn_id"]) for row in kept.to_pylist()} == {("b2", "told of"), ("b1", "closed")}


def test_startups_of_an_hour_are_counted_anew_if_a_view_of_it_came_went_or_tells_another_one() -> None:
    before = gathered_rows(
        "silver.views",
        [
            view(1, started_at=at("18:10:00"), startup_us=900, watched_us=5),
            view(2, started_at=at("18:10:00")),
            view(3, started_at=at("19:10:00")),
            view(4, started_at=at("20:10:00"), client="vlc", startup_us=700),
            view(5, started_at=at("21:10:00"), startup_us=700),
        ],
    )
    after = gathered_rows(
        "silver.views",
        [
            view(2, started_at=at("18:10:00"), watched_us=90),
            view(1, started_at=at("18:10:00"), startup_us=900, watched_us=70, end_reason="left"),
            view(3, started_at=at("19:10:00"), startup_us=0),
            view(4, started_at=at("20:10:00"), client="obs", startup_us=700),
            view(6, started_at=at("22:10:00")),
        ],
    )
    assert changed_hours(before, after, "started_at", STARTUP_COLUMNS) == {
        "2026-11-15T19",
        "2026-11-15T20",
        "2026-11-15T21",
        "2026-11-15T22",
    }
    assert changed_hours(before, before, "started_at", STARTUP_COLUMNS) == frozenset()
