"""Views: literal minutes and play facts in, literal rows out."""

from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.lake.table_columns import VIEW_MINUTES, VIEWS
from penstock.pipeline.transforms.histograms import bucket_of
from penstock.pipeline.transforms.silver.views import views
from tests.pipeline.bronze_rows import (
    MINUTE,
    SECOND,
    Row,
    assert_is_table,
    boot_key_of,
    bronze,
    clock,
    fact,
    table,
)

NOW, LOST = "b2", "b1"
BOOTS = [(boot_key_of("a", NOW), "a", NOW, False), (boot_key_of("a", LOST), "a", LOST, True)]


def minute(view_seq: int, started_at: str, last_at: str, boot_id: str = NOW, **figures: Any) -> tuple[Any, ...]:
    """A row of view minutes; amounts play no part in views, totals do."""
    row: dict[str, Any] = {each.name: 0 for each in VIEW_MINUTES} | {
        "boot_key": boot_key_of("a", boot_id),
        "view_seq": view_seq,
        "app": "live",
        "stream": "x",
        "minute": clock(last_at[:5] + ":00"),
        "started_at": clock(started_at),
        "first_at": clock(last_at),
        "last_at": clock(last_at),
        "is_joined": False,
        "is_left": False,
        "lag_ms_max": None,
        "rtt_us_max": None,
    }
    return tuple((row | figures).values())


MINUTES = [
    # 1: whole, with samples that were behind.
    minute(
        *(1, "20:00:00", "20:00:50"),
        watched_us_total=50 * SECOND,
        sent_bytes_total=5000,
        retransmits_total=2,
        samples=10,
        stalled_samples=1,
        lag_samples=10,
        lag_ms_max=60,
        rtt_us_sum=10_000,
        rtt_samples=10,
        rtt_us_max=1500,
    ),
    minute(
        *(1, "20:00:00", "20:01:40"),
        watched_us_total=100 * SECOND,
        sent_bytes_total=9000,
        skips_total=1,
        skipped_bytes_total=70,
        retransmits_total=3,
        samples=11,
        stalled_samples=4,
        lag_samples=10,
        lag_ms_max=5000,
        rtt_us_sum=10_999,
        rtt_samples=10,
        rtt_us_max=1200,
    ),
    # 20: open.
    minute(20, "20:01:00", "20:01:20", watched_us_total=20 * SECOND, sent_bytes_total=200, samples=4, lag_samples=4),
    # 1 of the boot before: its stop was never told.
    minute(1, "19:59:00", "19:59:55", LOST, watched_us_total=55 * SECOND, sent_bytes_total=550, samples=11),
    # 30: gone before the first picture.
    minute(30, "20:02:00", "20:02:03", watched_us_total=3 * SECOND),
    # 40: its start was lost; 50: there is nothing but samples.
    minute(40, "20:03:00", "20:03:30", watched_us_total=30 * SECOND, sent_bytes_total=30),
    minute(50, "20:03:00", "20:03:30", watched_us_total=30 * SECOND, sent_bytes_total=30),
]


LAGS = [
    *((boot_key_of("a", NOW), 1, clock("20:00:00"), bucket_of(ms), 1) for ms in (5000, 40, 50, 60, 70, 80, 90)),
    (boot_key_of("a", NOW), 1, clock("20:00:00"), 0, 10),
    (boot_key_of("a", NOW), 1, clock("20:00:00"), bucket_of(20), 2),
    (boot_key_of("a", NOW), 1, clock("21:00:00"), bucket_of(20), 1),
    (boot_key_of("a", NOW), 20, clock("20:00:00"), 0, 4),
]


def played(kind: str, seq: int, at_us: int, **fields: Any) -> Row:
    return fact(kind, seq, at_us, **{"boot_id": NOW, **fields})


IN_SPRING = {"country": "DE", "asn": 64_500, "dimensions": '{"campaign":"spring"}'}
FACTS = [
    played("play_started", 1, 0, viewer_key="a:ann", auth_subject="ann", conn_id="c7", **IN_SPRING),
    played("play_first_keyframe", 2, SECOND, view_seq=1, startup_us=1_234_567),
    played("play_stopped", 9, 100 * SECOND, view_seq=1, startup_us=1_234_567, reason="done"),
    played("play_started", 20, MINUTE),
    played("play_first_keyframe", 21, MINUTE, view_seq=20, startup_us=999),
    played("play_started", 1, -MINUTE, boot_id=LOST),
    played("play_started", 30, 2 * MINUTE),
    played("play_stopped", 31, 2 * MINUTE + 3 * SECOND, view_seq=30),
    played(
        "play_stopped",
        41,
        3 * MINUTE + 30 * SECOND,
        view_seq=40,
        startup_us=5000,
        client="VLC 3",
        conn_id="c4",
        **IN_SPRING,
    ),
    played("play_stopped", 60, 4 * MINUTE, reason="no such stream", viewer_key="v:bob", stream="nowhere", **IN_SPRING),
]
BEACONS = [
    played("view_beacon", 3, SECOND, view_seq=1, startup_ms=1300, latency_ms=400, stalls=0, stalled_ms=0, played_ms=0),
    played("view_beacon", 5, 50 * SECOND, view_seq=1, startup_ms=1300, latency_ms=501, stalls=1, stalled_ms=700),
    # After its end, and it has lost count of its stalls.
    played("view_beacon", 11, 130 * SECOND, view_seq=1, played_ms=99_000, dropped_frames=2),
    # It tells nothing but that it is there.
    played("view_beacon", 22, MINUTE, view_seq=20),
    # Of a view of which nothing else was told.
    played("view_beacon", 71, MINUTE, view_seq=70, stalls=3),
]
LATE_STOP = played("play_stopped", 8, -2 * SECOND, view_seq=1, boot_id=LOST, startup_us=70, reason="done")

Rows = dict[str, dict[str, Any]]


def computed(spark: SparkSession, facts: list[Row], minutes: Iterable[tuple[Any, ...]], partitions: int) -> Rows:
    plays = bronze(spark, facts).repartition(partitions)
    boots = spark.createDataFrame(BOOTS, "boot_key bigint, server_id string, boot_id string, is_lost boolean")
    seen = table(spark, "rollup.view_minutes", minutes).repartition(partitions)
    lags = table(spark, "rollup.view_lags", LAGS).repartition(partitions)
    beacons = bronze(spark, BEACONS).repartition(partitions)
    frame = views(plays, seen, lags, beacons, boots)
    assert_is_table(frame, "silver.views")
    rows = frame.collect()
    assert len(rows) == len({row.view_id for row in rows})
    return {row.view_id: row.asDict() for row in rows}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Rows:
    return computed(spark, FACTS, MINUTES, 1)


@pytest.fixture(scope="module")
def rows_later(spark: SparkSession) -> Rows:
    """The same and a late stop, with everything in another order and in other partitions."""
    return computed(spark, [LATE_STOP, *reversed(FACTS)], reversed(MINUTES), 3)


def test_a_view_is_one_row_from_its_start_to_its_stop(rows: Rows) -> None:
    assert rows["a-b2-1"] == {
        "view_id": "a-b2-1",
        "boot_key": boot_key_of("a", "b2"),
        "view_seq": 1,
        "server_id": "a",
        "boot_id": "b2",
        "conn_id": "c7",
        "app": "live",
        "stream": "x",
        "client": "VLC",
        "protocol": "rtmp",
        "network": "private",
        "country": "DE",
        "asn": 64_500,
        "dimensions": '{"campaign":"spring"}',
        "auth_subject": "ann",
        "viewer_key": "a:ann",
        "started_at": clock("20:00:00"),
        "last_seen_at": clock("20:01:40"),
        "ended_at": clock("20:01:40"),
        "is_open": False,
        "end_reason": "done",
        "is_failed_start": False,
        "is_exit_before_picture": False,
        "startup_us": 1_234_567,
        "startup_ms": 1234,
        "watched_us": 100 * SECOND,
        "watch_seconds": 100.0,
        "bytes_sent": 9000,
        "skips": 1,
        "skipped_bytes": 70,
        "samples": 21,
        # Of 20 samples that knew, 10 were not behind: the tenth is the last of them, the nineteenth the ninth behind.
        "lag_ms_p50": 0,
        "lag_ms_p95": 90,
        "lag_ms_max": 5000,
        "stalled_us": 5 * 100 * SECOND // 21,
        "stall_source": "samples",
        "rtt_us": 1049,
        "rtt_us_max": 1500,
        "retransmits": 3,
        "player_beacons": 3,
        "player_startup_ms": 1300,
        "player_played_ms": 99_000,
        "player_stalls": 1,
        "player_stalled_ms": 700,
        "player_latency_ms": 450,
        "player_dropped_frames": 2,
        "is_estimated": False,
    }


def of(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


END = ("is_open", "ended_at", "end_reason", "is_estimated", "is_exit_before_picture", "is_failed_start")


def test_a_view_without_a_stop_is_open_while_its_server_is_there(rows: Rows) -> None:
    assert of(rows["a-b2-20"], *END) == (True, None, None, True, False, False)
    assert of(rows["a-b2-20"], "last_seen_at", "watched_us", "bytes_sent") == (clock("20:01:20"), 20 * SECOND, 200)
    assert of(rows["a-b2-20"], "startup_us", "startup_ms", "lag_ms_p50", "lag_ms_p95") == (999, 0, 0, 0)


def test_a_view_without_a_stop_ended_with_its_last_fact_if_its_server_is_lost(rows: Rows) -> None:
    assert of(rows["a-b1-1"], *END) == (False, clock("19:59:55"), "server_lost", True, True, False)
    assert of(rows["a-b1-1"], "watched_us", "bytes_sent") == (55 * SECOND, 550)
    no_sample_had_a_place = of(rows["a-b1-1"], "lag_ms_p50", "lag_ms_p95", "lag_ms_max")
    assert no_sample_had_a_place == (None, None, None)


def test_a_stop_that_lands_later_corrects_the_row(rows_later: Rows) -> None:
    assert of(rows_later["a-b1-1"], *END) == (False, clock("19:59:58"), "done", False, False, False)
    assert of(rows_later["a-b1-1"], "last_seen_at", "startup_us") == (clock("19:59:58"), 70)


def test_an_exit_before_the_first_picture_is_a_row(rows: Rows) -> None:
    assert of(rows["a-b2-30"], *END) == (False, clock("20:02:03"), "closed by the viewer", False, True, False)
    assert of(rows["a-b2-30"], "startup_us", "samples", "stalled_us", "stall_source", "rtt_us", "retransmits") == (
        *(None, 0, 0, "none", None, None),
    )


def test_a_view_whose_start_was_lost_is_known_by_its_stop_or_its_samples(rows: Rows) -> None:
    assert of(rows["a-b2-40"], "started_at", "conn_id", "client", "viewer_key", "startup_us") == (
        *(clock("20:03:00"), "c4", "VLC 3", "h:1", 5000),
    )
    assert of(rows["a-b2-50"], "started_at", "conn_id", "client", "viewer_key", "is_open") == (
        *(clock("20:03:00"), None, None, "u:a-b2-50", True),
    )


def test_a_play_that_was_never_let_in_is_a_row_named_by_its_stop(rows: Rows) -> None:
    assert of(rows["a-b2-60"], *END) == (False, clock("20:04:00"), "no such stream", False, False, True)
    assert of(rows["a-b2-60"], "view_seq", "stream", "viewer_key", "started_at", "watched_us") == (
        *(60, "nowhere", "v:bob", clock("20:04:00"), 0),
    )


def test_neither_order_nor_partitions_change_a_row(rows: Rows, rows_later: Rows) -> None:
    corrected = {"a-b1-1"}
    assert rows.keys() == rows_later.keys()
    assert {name: row for name, row in rows.items() if name not in corrected} == {
        name: row for name, row in rows_later.items() if name not in corrected
    }


PLAYER = tuple(column.name for column in VIEWS if column.name.startswith("player_"))


def test_what_no_player_told_is_null(rows: Rows) -> None:
    assert of(rows["a-b2-20"], *PLAYER) == (1, None, None, None, None, None, None)
    for untold in ("a-b1-1", "a-b2-30", "a-b2-60"):
        assert of(rows[untold], *PLAYER) == (None,) * 7


def test_nothing_is_a_view_by_what_a_player_tells_alone(rows: Rows) -> None:
    assert "a-b2-70" not in rows
    assert of(rows["a-b2-1"], "last_seen_at", "ended_at") == (clock("20:01:40"), clock("20:01:40"))


@pytest.mark.parametrize("view_id", ["a-b2-1", "a-b2-40", "a-b2-60"])
def test_dimensions_are_those_of_the_start_or_else_of_the_stop(rows: Rows, view_id: str) -> None:
    assert {name: rows[view_id][name] for name in IN_SPRING} == IN_SPRING


def test_a_view_of_which_nobody_told_them_has_no_dimensions(rows: Rows) -> None:
    assert {rows["a-b2-20"][name] for name in IN_SPRING} == {None}
