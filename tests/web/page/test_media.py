"""Pictures on the page that move: live, recorded, and those of charts."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.processes import find_program, running
from tests.web.api.api_server import ApiServer, api_server
from tests.web.page.pages import opened, published, until

SAME_COLOUR = """
(video) => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [16, 9];
  const context = canvas.getContext("2d");
  context.drawImage(video, 0, 0, 16, 9);
  const { data } = context.getImageData(0, 0, 16, 9);
  return new Set(data).size < 4;
}
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("media"), ["--record", "live/kept"]) as served:
        yield served


def moves(page: Page) -> bool:
    video = page.locator("video").first
    before = video.evaluate("video => video.currentTime")
    until(lambda: video.evaluate("video => video.currentTime") > before + 0.5)
    # A seek to the live edge moves the time at once, and a busy machine decodes the frame that belongs to it later.
    return bool(until(lambda: not video.evaluate(SAME_COLOUR)))


def test_a_live_picture_moves_and_its_latency_is_told(api: ApiServer, tmp_path: Path) -> None:
    with published(api, "main", tmp_path), opened(api, "#/streams/live/main") as (seen, page):
        until(
            lambda: page.locator("video").count() and page.locator("video").first.evaluate("video => video.readyState")
        )
        assert moves(page)
        expect(page.locator("[data-figure=latency]")).to_have_text(re.compile(r"^[\d,.]+ m?s behind live$"))
        assert [each["protocol"] for each in api.get("/viewers")["items"]] == ["http-mp4"]
        page.goto(f"{api.url}/#/server")
        until(lambda: api.get("/viewers")["items"] == [])
        assert seen.seen.console_errors == []


def test_sound_alone_is_played_and_said_to_be_alone(api: ApiServer, tmp_path: Path) -> None:
    ffmpeg = (find_program("ffmpeg", "ffmpeg"), "-nostdin", "-loglevel", "error", "-re", "-f", "lavfi")
    tone = [*ffmpeg, "-i", "sine=sample_rate=48000", "-c:a", "aac", "-f", "flv", api.server.url("radio")]
    with running(tone, tmp_path / "tone.log"), opened(api, "#/streams/live/radio") as (seen, page):
        until(lambda: page.evaluate("document.querySelector('video')?.currentTime > 0.5"))
        expect(page.get_by_text("Sound alone")).to_be_visible()
        expect(page.get_by_text("There is no picture in this stream.")).to_be_visible()
        expect(page.locator("[data-figure=fps]")).to_have_text("\u2013")
        assert seen.seen.console_errors == []


def test_a_card_shows_a_picture_of_its_stream(api: ApiServer, tmp_path: Path) -> None:
    with published(api, "main", tmp_path), opened(api) as (seen, page):
        image = page.get_by_role("article").locator("img")
        expect(image).to_be_visible(timeout=30_000)
        assert image.evaluate("image => image.naturalWidth") > 0
        assert seen.seen.console_errors == []


def test_a_recording_plays_from_where_it_is_asked_for(api: ApiServer, tmp_path: Path) -> None:
    with published(api, "kept", tmp_path, "--seconds", "8") as publisher:
        assert publisher.wait_for_exit(60) == 0
    until(lambda: [each for each in api.get("/recordings")["items"] if each["status"] == "closed"])
    with opened(api, "#/recordings") as (seen, page):
        page.get_by_role("link", name="live/kept").click()
        assert moves(page)
        place = page.get_by_role("slider", name="Place in the recording")
        place.evaluate("slider => { slider.value = 5; slider.dispatchEvent(new Event('change')); }")
        expect(page.locator("[data-figure=place]")).to_have_text(re.compile(r"0:0[5-8] of 0:0\d"))
        assert seen.seen.console_errors == []


def test_a_test_stream_is_one_button_away(api: ApiServer) -> None:
    with opened(api, "#/start") as (seen, page):
        page.get_by_role("button", name="Start a test stream").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("live/test", timeout=30_000)
        assert moves(page)
        api.ask("DELETE", "/api/v1/test-stream")
        assert seen.seen.console_errors == []


def test_charts_of_the_report_are_drawn_under_the_strict_policy(api: ApiServer) -> None:
    with opened(api, "#/analytics") as (_, page):
        expect(page.get_by_text("No figures yet")).to_be_visible()
    serving = api.server.program.log_path.parent / "data" / "lake" / "serving"
    serving.mkdir(parents=True)
    trace = {
        "type": "scatter",
        "name": "live/&lt;b&gt;",
        "x": [1, 2],
        "y": [1, 2],
        "line": {"color": "var(--series-1)"},
    }
    chart = {"data": [trace], "layout": {"xaxis": {}, "yaxis": {}}}
    part = {"as_of": datetime.now(UTC).isoformat(), "charts": {"audience": chart}}
    (serving / "audience.json").write_text(json.dumps(part))
    with opened(api, "#/analytics") as (seen, page):
        expect(page.locator(".report-plot .main-svg").first).to_be_attached(timeout=30_000)
        expect(page.get_by_text("live/<b>")).to_be_visible()
        assert (
            page.locator(".report-plot path.js-line").first.evaluate("path => getComputedStyle(path).stroke") != "none"
        )
        assert seen.seen.console_errors == []


def test_usage_and_incidents_are_told_where_there_is_no_chart_of_them(api: ApiServer) -> None:
    serving = api.server.program.log_path.parent / "data" / "lake" / "serving"
    serving.mkdir(parents=True, exist_ok=True)
    name = {"app": "live", "stream": "<b>main"}
    usage = {
        "egress_bytes": 52_344_490_686,
        "viewer_minutes": 1337.99,
        "ingress_bytes": 1000,
        "egress_bps_p95": 1_500_000,
        "days": 1,
        "is_estimated": True,
    }
    incident = {
        "kind": "bitrate_collapse",
        "started_at": "2026-11-18T21:00:00Z",
        "ended_at": "2026-11-18T21:01:30Z",
        "evidence": "bitrate down to 729 kbit/s",
        "affected_viewers": 2,
    }
    parts: dict[str, dict[str, object]] = {
        "usage": {"streams": [name | usage]},
        "incidents": {"incidents": [name | incident]},
        "recordings": {},
    }
    for part, figures in parts.items():
        told = {"as_of": datetime.now(UTC).isoformat(), **figures}
        (serving / f"{part}.json").write_text(json.dumps(told))
    with opened(api, "#/analytics") as (seen, page):
        row = page.get_by_role("region", name="Usage by stream").get_by_role("row").last
        expect(row).to_have_text(re.compile("live/<b>main.*52.3 GB.*1,338.*1.00 kB.*1.50 Mbit/s.*1"))
        row = page.get_by_role("region", name="Incidents").get_by_role("row").last
        expect(row).to_have_text(re.compile("bitrate collapse.*729 kbit/s.*live/<b>main.*1:30.*2"))
        expect(page.get_by_text("Nothing was recorded.")).to_be_visible()
        assert seen.seen.console_errors == []
