"""The page: complete in itself, safe whatever peers call their streams, and true to the time zone."""

import json
import re
from datetime import date
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
    """One row of everything."""
    name = {"app": "live", "stream": stream}
    hour = {**name, "hour_at": at("20:00"), "dimension": "all", "value": "all"}
    tables: dict[str, list[dict[str, Any]]] = {
        "audience": [{**name, "minute": at("20:00"), "watched_us": 120_000_000, "viewers_peak": 3}],
        "view_quality": [
            {**hour, "views": 12, "score": 88.0},
            {**hour, "dimension": "client", "value": stream, "views": 12, "score": 88.0},
        ],
        "histogram_hours": [{**hour, "metric": "startup_us", "bucket": 300, "count": 12}],
        "stream_health": [{**name, "minute": at("20:00"), "verdict": "no data for 9 s", "sampled_us": 60_000_000}],
        "incidents": [
            {**name, "kind": "av_drift", "started_at": at("20:00"), "ended_at": at("20:01"), "evidence": stream}
        ],
        "usage": [{**name, "day": date(2026, 11, 15), "egress_bytes": 1_240_000_000_000}],
        "recordings": [{**name, "path": stream, "started_at": at("19:00"), "video": stream, "status": "closed"}],
        "archive": [{**name, "path": stream, "status": "damaged", "reason": f'"{stream}'}],
        "data_quality": [{"at": at("20:00"), "table": "facts", "check": "lost", "detail": stream, "violations": 3}],
    }
    return gather(tables_of(**tables), at("20:05"))


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
    assert figures["audience"]["data"][0]["x"] == ["2026-11-16 05:00:00"]
    # Usage is billed by UTC days, wherever it is read.
    assert figures["usage"]["data"][0]["x"] == ["2026-11-15"]


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


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (wording.amount(0, "B"), "0 B"),
        (wording.amount(999, "B"), "999 B"),
        (wording.amount(999_600, "B"), "1.00 MB"),
        (wording.amount(1_240_000_000_000, "B"), "1.24 TB"),
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
