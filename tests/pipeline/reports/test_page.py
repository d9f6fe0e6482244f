"""The page: complete in itself, safe whatever peers call their streams, and true to the time zone."""

import json
import re
from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import plotly.graph_objects as go
import pytest

from penstock.errors import ConfigError
from penstock.pipeline.reports import wording
from penstock.pipeline.reports.charts import charts, label
from penstock.pipeline.reports.gather import gather
from penstock.pipeline.reports.page import render, script_json
from penstock.pipeline.reports.report import Report, to_json
from tests.pipeline.reports.rows import at, tables_of

UTC = ZoneInfo("UTC")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}"
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
FIGURES = re.compile(r'<script type="application/json" id="figures">(.*?)</script>', re.DOTALL)


def full_report(stream: str = "stage") -> Report:
    """A row or two of everything, so that there is every chart."""
    name = {"app": "live", "stream": stream}
    hour = {**name, "hour_at": at("20:00"), "dimension": "all", "value": "all"}
    tables: dict[str, list[dict[str, Any]]] = {
        "audience": [{**name, "minute": at("20:00"), "watched_us": 120_000_000, "viewers_peak": 3}],
        "view_quality": [
            {**hour, "views": 12, "score": 88.0},
            {**hour, "hour_at": at("21:00"), "views": 0, "score": 88.0},
            {**hour, "dimension": "client", "value": stream, "views": 12, "score": 88.0},
        ],
        "histogram_hours": [{**hour, "metric": "startup_us", "bucket": 300, "count": 12}],
        "stream_health": [{**name, "minute": at("20:00"), "verdict": "no data for 9 s", "sampled_us": 60_000_000}],
        "incidents": [
            {**name, "kind": "av_drift", "started_at": at("20:00"), "ended_at": at("20:01"), "evidence": stream}
        ],
        "usage": [
            {**name, "day": date(2026, 11, 15), "egress_bytes": 1_240_000_000_000},
            {**name, "day": date(2026, 11, 14)},
        ],
        "recordings": [
            {**name, "path": stream, "started_at": at("19:00"), "video": stream, "status": "closed"},
            {**name, "path": "other", "started_at": at("19:00") - timedelta(days=1), "status": "closed"},
        ],
        "archive": [{**name, "path": stream, "status": "damaged", "reason": f'"{stream}'}],
        "data_quality": [{"at": at("20:00"), "table": "facts", "check": "lost", "detail": stream, "violations": 3}],
    }
    return gather(tables_of(**tables), at("20:05"))


def young_report(**more: list[dict[str, Any]]) -> Report:
    """A server that started at 20:00:10, and whose one stream had one viewer for eight seconds."""
    name = {"app": "live", "stream": "first"}
    hour = {**name, "hour_at": at("20:00"), "dimension": "all", "value": "all"}
    tables: dict[str, list[dict[str, Any]]] = {
        "audience": [{**name, "minute": at("20:00"), "watched_us": 8_000_000, "viewers_peak": 1}],
        "view_quality": [{**hour, "views": 1, "failed_starts": 1, "score": 100.0}],
        "histogram_hours": [{**hour, "metric": "startup_us", "bucket": 300, "count": 1}],
        "stream_health": [
            {**name, "minute": at("20:00"), "verdict": "healthy", "sampled_us": 50_000_000, "ingress_bytes": 6_000_000}
        ],
        "usage": [{**name, "day": date(2026, 11, 15), "egress_bytes": 900_000}],
        "recordings": [{**name, "path": "a.flv", "started_at": at("20:00"), "duration_ms": 50_000}],
        **more,
    }
    return gather(tables_of(**tables), at("20:05:30"), server_starts=[at("20:00:10")])


def without_plotly(page: str) -> str:
    """The page but for the one script that is plotly.js, which knows addresses of maps that it is never asked for."""
    scripts = SCRIPT.findall(page)
    assert len(scripts) == 2
    return page.replace(scripts[0], "")


def test_the_page_refers_to_nothing_outside_itself() -> None:
    page = without_plotly(render(full_report(), UTC))
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+|@import|url\(", page)
    assert addresses == []
    assert set(re.findall(r'(?:src|href)="([^"#]*)', page)) <= {"", "data:,"}
    assert "default-src &#39;none&#39;" in page


def test_plotly_is_inlined_once_and_only_where_there_is_a_chart() -> None:
    assert render(full_report(), UTC).count("plotly.js v") == 1
    assert "plotly.js v" not in render(gather(tables_of(), at("20:05")), UTC)


def test_a_hostile_name_is_text_everywhere() -> None:
    page = render(full_report(HOSTILE), UTC)
    assert len(SCRIPT.findall(page)) == 2
    assert "<img" not in without_plotly(page)
    assert "49" not in re.findall(r"<td class=\"name\">[^<]*", page)[0]
    (figures,) = FIGURES.findall(page)
    assert "<" not in figures
    names = [trace.get("name", "") for figure in json.loads(figures).values() for trace in figure["data"]]
    assert "<" not in "".join(names)


def test_json_for_a_script_cannot_end_the_script() -> None:
    text = script_json({"name": "</script><!-- & \u2028"})
    assert re.search("[<>&\u2028]", text) is None
    assert json.loads(text) == {"name": "</script><!-- & \u2028"}


def test_a_label_is_short_and_its_tags_are_characters() -> None:
    assert label("<b>&") == "&lt;b&gt;&amp;"
    assert len(label("x" * 100)) == 32


def test_an_empty_lake_has_a_page_that_says_so() -> None:
    page = render(gather(tables_of(), at("20:05")), UTC)
    assert "There is nothing here yet" in page
    assert "<section" in page
    assert "No stream was published" in render(gather(tables_of(), at("20:05"), since=at("19:00")), UTC)


def test_figures_and_rows_are_on_the_page() -> None:
    page = render(full_report(), UTC)
    for words in ("1.24 TB", "live/stage", "av drift", "2026-11-15 20:00", "closed", "88"):
        assert words in page, words
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page


def test_the_time_zone_changes_what_is_shown_and_no_value() -> None:
    report = full_report()
    before = to_json(report)
    page = render(report, ZoneInfo("Asia/Tokyo"))
    assert "2026-11-16 05:00" in page
    assert "times in Asia/Tokyo" in page
    assert to_json(report) == before
    figures = charts(report, ZoneInfo("Asia/Tokyo"))
    assert figures["audience"]["data"][0]["x"] == ["2026-11-16 05:00:00", "2026-11-16 05:01:00"]
    # Usage is billed by UTC days, wherever it is read.
    assert figures["usage"]["data"][0]["x"] == ["2026-11-14", "2026-11-15"]


def test_an_unknown_time_zone_is_the_callers_mistake() -> None:
    with pytest.raises(ConfigError, match="no zone 'Mars/Olympus'"):
        wording.zone_of("Mars/Olympus")
    with pytest.raises(ConfigError):
        wording.zone_of("../etc/passwd")


def test_every_chart_is_one_that_plotly_accepts() -> None:
    drawn = charts(full_report(HOSTILE), UTC)
    assert sorted(drawn) == ["audience", "bitrate", "health", "recordings", "stalls", "startup", "usage"]
    for figure in drawn.values():
        go.Figure(json.loads(re.sub(r"var\(--[\w-]+\)", "#000000", json.dumps(figure))))


def test_troubled_minutes_are_told_from_those_without_data() -> None:
    assert charts(full_report(), UTC)["health"]["data"][0]["z"] == [[2]]


@pytest.mark.parametrize("chart", ["audience", "health", "bitrate"])
def test_the_time_axis_of_a_single_minute_is_that_minute_and_its_ticks_are_whole_ones(chart: str) -> None:
    axis = charts(young_report(), UTC)[chart]["layout"]["xaxis"]
    assert axis["range"] == ["2026-11-15 20:00:00", "2026-11-15 20:01:00"]
    assert (axis["dtick"], axis["tickformat"]) == (60_000, "%H:%M")
    assert charts(young_report(), UTC)[chart]["data"][0]["x"] == axis["range"]


@pytest.mark.parametrize(("minutes", "dtick_minutes"), [(8, 1), (9, 2), (100, 15), (480, 60), (481, None)])
def test_ticks_are_few_whole_minutes_until_plotly_does_as_well(minutes: int, dtick_minutes: int | None) -> None:
    last = {"app": "live", "stream": "first", "watched_us": 1, "viewers_peak": 1}
    audience = [{**last, "minute": at("00:00") + timedelta(minutes=each)} for each in (0, minutes - 1)]
    axis = charts(young_report(audience=audience, stream_health=[]), UTC)["audience"]["layout"]["xaxis"]
    assert axis.get("dtick") == (dtick_minutes and dtick_minutes * 60_000)


def test_viewers_of_a_minute_are_whole_on_the_curve_its_axis_and_the_figure_above() -> None:
    figure = charts(young_report(), UTC)["audience"]
    assert (figure["data"][0]["y"], figure["data"][0]["hovertemplate"]) == ([1, 1], "%{y:,d}")
    assert (figure["layout"]["yaxis"]["dtick"], figure["layout"]["yaxis"]["tickformat"]) == (1, ",d")
    page = render(young_report(), UTC)
    assert '<span class="value">1</span><br><span class="aside">viewer, 2026-11-15 20:00</span>' in page
    assert "Most viewers at one time in each minute, over all servers." in page


def test_viewers_of_longer_steps_are_averages() -> None:
    row = {"app": "live", "stream": "first", "watched_us": 8_000_000, "viewers_peak": 1}
    audience = [{**row, "minute": at("00:00")}, {**row, "minute": at("23:00")}]
    report = young_report(audience=audience, stream_health=[])
    assert report.audience.step_minutes == 5
    assert charts(report, UTC)["audience"]["data"][0]["y"][0] == pytest.approx(8 / 300, abs=0.01)
    assert "Viewers on average over each 5 minutes" in render(report, UTC)


def test_what_was_in_one_hour_or_on_one_day_is_in_tables_without_a_chart_of_one_point() -> None:
    assert sorted(charts(young_report(), UTC)) == ["audience", "bitrate", "health"]
    page = render(young_report(), UTC)
    for heading in ("by hour", "by day and app"):
        assert heading not in page


def test_a_young_server_is_said_to_be_one_and_one_is_counted_as_one() -> None:
    page = render(young_report(), UTC)
    assert "Since the server started 5 minutes ago: 2026-11-15 20:00 to 20:01, times in UTC." in page
    for words in (
        "in 1 view of 1 stream",
        "of the only view",
        "1 failed start<",
        "1 file, ",
        '<p class="lead">1 file.<',
    ):
        assert words in page, words
    assert "Since the server started" not in render(full_report(), UTC)


def test_a_stream_that_nobody_watched_has_a_page_without_empty_charts_or_fractions() -> None:
    page = render(young_report(audience=[], view_quality=[], histogram_hours=[]), UTC)
    for words in (
        "Nobody watched.",
        "nobody watched<",
        "no picture was sent",
        "in 0 views of 1 stream",
        "Nobody tried",
    ):
        assert words in page, words
    assert 'id="chart-audience"' not in page


def test_figures_of_the_last_minute_are_up_to_date() -> None:
    minute = {"app": "live", "stream": "first", "minute": at("20:04"), "watched_us": 1, "viewers_peak": 1}
    assert "the figures are up to date." in render(young_report(audience=[minute]), UTC)
    assert "the newest figures are 4 min 30 s old." in render(young_report(), UTC)


def test_a_report_that_is_made_while_tables_are_being_built_does_not_call_itself_up_to_date() -> None:
    minute = {"app": "live", "stream": "first", "minute": at("20:04"), "watched_us": 1, "viewers_peak": 1}
    page = render(replace(young_report(audience=[minute]), is_being_built=True), UTC)
    assert "while a run is under way, so parts of it may disagree." in page
    assert "up to date" not in page


def test_an_axis_of_nothing_received_has_no_thousandths_of_a_bit() -> None:
    nothing = {"app": "live", "stream": "first", "minute": at("20:00"), "verdict": "no data for 9 s", "sampled_us": 1}
    assert charts(young_report(stream_health=[nothing]), UTC)["bitrate"]["layout"]["yaxis"]["range"] == [0, 1000]
    assert "range" not in charts(young_report(), UTC)["bitrate"]["layout"]["yaxis"]


def test_short_recordings_are_in_minutes_and_long_ones_in_hours() -> None:
    def unit_of(duration_ms: int) -> str:
        row = {"app": "live", "stream": "first", "duration_ms": duration_ms}
        days = [{**row, "path": str(ago), "started_at": at("20:00") - timedelta(days=ago)} for ago in (0, 1)]
        return str(charts(young_report(recordings=days), UTC)["recordings"]["layout"]["yaxis"]["ticksuffix"])

    assert (unit_of(50_000), unit_of(7_200_000)) == (" min", " h")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (wording.roughly(59), "less than a minute"),
        (wording.roughly(60), "1 minute"),
        (wording.roughly(5399), "90 minutes"),
        (wording.roughly(5400), "2 hours"),
        (wording.startup(0), "< 1 ms"),
        (wording.startup(12), "12 ms"),
        (wording.duration(0), "0 s"),
        (wording.span(at("20:00"), at("21:00"), UTC), "2026-11-15 20:00 to 21:00"),
        (wording.span(at("20:00"), at("20:00") + timedelta(days=1), UTC), "2026-11-15 20:00 to 2026-11-16 20:00"),
        (wording.amount(0, "B"), "0 B"),
        (wording.amount(999, "B"), "999 B"),
        (wording.amount(999_600, "B"), "1.00 MB"),
        (wording.amount(1_240_000_000_000, "B"), "1.24 TB"),
        (wording.amount(999.6, "B"), "1.00 kB"),
        (wording.amount(-2_500, "B"), "-2.50 kB"),
        (wording.amount(4_200_000, "bit/s"), "4.20 Mbit/s"),
        (wording.percent(0.00846), "0.846 %"),
        (wording.percent(0.00001), "< 0.01 %"),
        (wording.milliseconds(1234), "1.23 s"),
        (wording.duration(9.94), "9.9 s"),
        (wording.duration(59.6), "1 min 00 s"),
        (wording.duration(7500), "2 h 05 min"),
        (wording.duration(200_000), "2 d 07 h"),
        (wording.hours(36_360_000), "10,100 h"),
        (wording.count(None), "–"),  # noqa: RUF001
        (wording.count(12345.6), "12,346"),
    ],
)
def test_amounts_are_spelled_for_people(written: str, expected: str) -> None:
    assert written == expected
