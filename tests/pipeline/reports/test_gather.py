"""What a report says of literal rows of gold."""

import json
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from penstock.pipeline.reports.gather import gather
from penstock.pipeline.reports.gather_quality import percentile
from penstock.pipeline.reports.report import to_json
from penstock.pipeline.transforms.histograms import bucket_of
from tests.pipeline.reports.rows import at, tables_of

MINUTE_US = 60_000_000
NOON = at("12:00")
STAGE = {"app": "live", "stream": "stage"}
RADIO = {"app": "radio", "stream": "jazz"}


def quality(**values: Any) -> dict[str, Any]:
    return {**STAGE, "hour_at": at("20:00"), "dimension": "all", "value": "all", **values}


def bucket(measured: int, count: int, **values: Any) -> dict[str, Any]:
    return {"metric": "startup_us", "bucket": bucket_of(measured), "count": count, **quality(**values)}


def test_an_empty_lake_is_a_report_of_zeros() -> None:
    report = gather(tables_of(), NOON)
    assert (report.first_at, report.newest_at, report.audience.at, report.health.streams) == (None, None, (), ())
    assert report.totals.views == report.totals.egress_bytes == 0
    assert report.quality.all.score is None
    assert report.totals.busiest_at is None


def test_viewers_of_a_minute_are_watch_time_by_minute_and_streams_add_up() -> None:
    audience = [
        {**STAGE, "minute": at("20:00"), "watched_us": 90_000_000, "viewers_peak": 2},
        {**STAGE, "minute": at("20:02"), "watched_us": MINUTE_US, "viewers_peak": 1},
        {**RADIO, "minute": at("20:02"), "watched_us": 3 * MINUTE_US, "viewers_peak": 4},
    ]
    report = gather(tables_of(audience=audience), NOON)
    assert report.audience.step_minutes == 1
    assert report.audience.at == (at("20:00"), at("20:01"), at("20:02"))
    radio, stage = report.audience.streams
    assert (radio.stream, radio.viewers_avg, radio.viewers_peak) == ("jazz", (0, 0, 3.0), (0, 0, 4))
    assert (stage.stream, stage.viewers_avg, stage.viewers_peak) == ("stage", (1.5, 0, 1.0), (2, 0, 1))
    assert (report.totals.busiest_viewers, report.totals.busiest_at) == (4 + 1, at("20:02"))
    assert report.totals.watched_us == 330_000_000
    assert (report.first_at, report.newest_at) == (at("20:00"), at("20:03"))


def test_a_long_span_is_cut_into_few_steps_and_amounts_stay() -> None:
    minutes = [at("00:00") + timedelta(minutes=3 * number) for number in range(1000)]
    audience = [{**STAGE, "minute": minute, "watched_us": MINUTE_US, "viewers_peak": 1} for minute in minutes]
    drawn = gather(tables_of(audience=audience), NOON).audience
    assert drawn.step_minutes == 10
    assert len(drawn.at) == 300
    assert drawn.at[1] - drawn.at[0] == timedelta(minutes=10)
    assert sum(drawn.streams[0].viewers_avg) * 10 == pytest.approx(1000)


def test_streams_beyond_the_eighth_are_drawn_as_one() -> None:
    audience = [
        {
            "app": "live",
            "stream": f"s{number:02}",
            "minute": at("20:00"),
            "watched_us": (20 - number) * MINUTE_US,
            "viewers_peak": 30 - number,
        }
        for number in range(12)
    ]
    streams = gather(tables_of(audience=audience), NOON).audience.streams
    assert [each.stream for each in streams] == [f"s{number:02}" for number in range(8)] + [None]
    assert streams[-1].viewers_avg == (12 + 11 + 10 + 9,)
    assert streams[-1].viewers_peak == (22 + 21 + 20 + 19,)


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        ((), None),
        (("20:00:30",), at("20:00:30")),
        (("20:00:30", "20:04"), at("20:00:30")),
        (("19:10",), at("19:10")),
        (("20:01",), None),
    ],
)
def test_a_server_start_is_told_if_no_minute_is_older(starts: tuple[str, ...], said: datetime | None) -> None:
    audience = [{**STAGE, "minute": at("20:00"), "watched_us": MINUTE_US, "viewers_peak": 1}]
    report = gather(tables_of(audience=audience), NOON, server_starts=[at(start) for start in starts])
    assert report.started_at == said


def test_quality_of_hours_is_added_up_before_it_is_divided() -> None:
    rows = [
        quality(
            views=90, failed_starts=10, watched_us=1000, stalled_us=10, bytes_sent=900, skipped_bytes=100, score=90.0
        ),
        quality(hour_at=at("21:00"), views=100, watched_us=3000, stalled_us=190, bytes_sent=1000, score=60.0),
        quality(dimension="client", value="OBS", views=190, watched_us=4000, stalled_us=200, score=75.0),
    ]
    buckets = [
        bucket(20_000, 98),
        bucket(5_000_000, 2, hour_at=at("21:00")),
        bucket(40_000, 190, dimension="client", value="OBS"),
        bucket(60, 10, metric="lag_ms"),
    ]
    part = gather(tables_of(view_quality=rows, histogram_hours=buckets), NOON).quality
    assert (part.all.views, part.all.failed_starts) == (190, 10)
    assert (part.all.stall_ratio, part.all.drop_rate, part.all.score) == (0.05, 0.05, 75.0)
    assert (part.all.startup_ms_p50, part.all.startup_ms_p95, part.all.lag_ms_p95) == (20, 20, 60)
    assert part.all.startup_ms_p99 == pytest.approx(5000, rel=0.02)
    assert [(each.app, each.stream, each.quality) for each in part.streams] == [("live", "stage", part.all)]
    assert [(each.dimension, each.value, each.quality.startup_ms_p50) for each in part.dimensions] == [
        ("client", "OBS", 40)
    ]
    assert (part.hours[0].at, part.hours[0].quality.startup_ms_p50) == (at("20:00"), 20)
    assert part.hours[1].quality.stall_ratio == pytest.approx(190 / 3000, abs=1e-6)


def test_a_percentile_is_the_value_at_its_rank() -> None:
    counts = [(3, 50), (1, 49), (9, 1)]
    assert [percentile(counts, percent) for percent in (1, 49, 50, 99, 100)] == [1, 1, 3, 3, 9]
    assert percentile([], 50) is None


def test_health_shows_the_worst_minute_of_a_step_and_troubled_streams_first() -> None:
    def minute(clock: str, verdict: str = "healthy", **values: Any) -> dict[str, Any]:
        row = {"minute": at(clock), "verdict": verdict, "ingress_bytes": 750_000, "sampled_us": MINUTE_US}
        return {**STAGE, **row, **values}

    rows = [
        minute("00:00"),
        minute("00:01", "no data for 12 s", ingress_bytes=0),
        minute("16:00", **RADIO),
        minute("16:01", **RADIO),
        minute("16:02", **RADIO),
    ]
    incidents = [
        {**STAGE, "kind": "ingest_stalled", "started_at": at("00:01"), "ended_at": at("00:02"), "evidence": "12 s"},
        {**STAGE, "kind": "av_drift", "started_at": at("03:00"), "ended_at": at("03:02"), "evidence": "300 ms"},
    ]
    health = gather(tables_of(stream_health=rows, incidents=incidents), NOON).health
    assert health.step_minutes == 5
    stage, radio = health.streams
    assert (stage.stream, stage.minutes, stage.healthy_minutes) == ("stage", 2, 1)
    assert (stage.verdict[0], stage.bitrate_bps[0], stage.verdict[1], stage.bitrate_bps[1]) == (
        "no data for 12 s",
        50_000,
        None,
        None,
    )
    assert (radio.verdict[-1], radio.bitrate_bps[-1]) == ("healthy", 100_000)
    assert [each.kind for each in health.incidents] == ["av_drift", "ingest_stalled"]


def test_usage_is_summed_by_stream_and_by_day_and_app() -> None:
    rows = [
        {**STAGE, "day": date(2026, 11, 14), "egress_bytes": 5, "ingress_bytes": 1, "watched_us": MINUTE_US},
        {**STAGE, "day": date(2026, 11, 15), "egress_bytes": 6, "egress_bps_p95": 9, "is_estimated": True},
        {**RADIO, "day": date(2026, 11, 15), "egress_bytes": 20},
    ]
    report = gather(tables_of(usage=rows), NOON)
    radio, stage = report.usage.streams
    assert (radio.stream, radio.egress_bytes, radio.days) == ("jazz", 20, 1)
    assert (stage.egress_bytes, stage.ingress_bytes, stage.viewer_minutes, stage.days) == (11, 1, 1.0, 2)
    assert (stage.egress_bps_p95, stage.is_estimated, report.totals.is_estimated) == (9, True, True)
    assert [(each.day.day, each.app, each.egress_bytes) for each in report.usage.days] == [
        (14, "live", 5),
        (15, "live", 6),
        (15, "radio", 20),
    ]


def test_recordings_come_newest_first_and_checks_by_name() -> None:
    recordings = [
        {"path": "a.flv", **STAGE, "started_at": at("10:00"), "duration_ms": 1000, "bytes": 10, "status": "closed"},
        {"path": "b.flv", **STAGE, "started_at": at("11:00"), "duration_ms": 2000, "bytes": 20, "status": "failed"},
    ]
    checks = [
        {"at": at("10:00"), "table": "facts", "check": "lost", "subject": "s1", "violations": 2, "detail": "old"},
        {"at": at("11:00"), "table": "facts", "check": "lost", "subject": "s2", "violations": 3, "detail": "new"},
    ]
    archive = [{"path": "a.flv", "status": "damaged", "reason": "torn", "mp4_path": "a.mp4"}]
    report = gather(tables_of(recordings=recordings, archive=archive, data_quality=checks), NOON)
    assert [each.path for each in report.recordings.newest] == ["b.flv", "a.flv"]
    assert (report.totals.recordings, report.totals.recorded_ms, report.totals.recorded_bytes) == (2, 3000, 30)
    assert [(each.archive_status, each.archive_reason, each.mp4_path) for each in report.recordings.newest] == [
        (None, None, None),
        ("damaged", "torn", "a.mp4"),
    ]
    assert report.recordings.archive == {"damaged": 1}
    (day,) = report.recordings.days
    assert (day.day, day.app, day.files, day.duration_ms, day.bytes) == (date(2026, 11, 15), "live", 2, 3000, 30)
    (line,) = report.data_quality
    assert (line.violations, line.subjects, line.last_at, line.detail) == (5, 2, at("11:00"), "new")


def test_as_json_times_are_in_utc_and_days_are_dates() -> None:
    usage = [{**STAGE, "day": date(2026, 11, 15)}]
    audience = [{**STAGE, "minute": at("20:00")}]
    value = json.loads(to_json(gather(tables_of(audience=audience, usage=usage), at("20:05"))))
    assert (value["made_at"], value["newest_at"]) == ("2026-11-15T20:05:00Z", "2026-11-15T20:01:00Z")
    assert value["usage"]["days"][0]["day"] == "2026-11-15"
