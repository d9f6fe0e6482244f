"""The files of a live page."""

import json
from datetime import date
from pathlib import Path
from typing import Any

from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.reports.serving import write_serving
from tests.pipeline.reports.rows import at, put_gold

STAGE = {"app": "live", "stream": "stage"}
OVER = {"app": "live", "stream": "over"}
DAY = "2026-11-15"


def served(lake: Path, name: str) -> Any:
    return json.loads((lake / "serving" / f"{name}.json").read_text(encoding="utf-8"))


def test_an_empty_lake_serves_files_that_say_so(tmp_path: Path) -> None:
    paths = write_serving(Storage(tmp_path), at("20:05"))
    assert sorted(paths) == [
        f"serving/{name}.json" for name in ("audience", "health", "incidents", "now", "quality", "recordings", "usage")
    ]
    assert served(tmp_path, "now") == {
        "as_of": "2026-11-15T20:05:00Z",
        "viewers_peak": 0,
        "streams": [],
        "incidents": [],
    }
    assert served(tmp_path, "audience")["streams"] == []


def test_now_holds_what_is_live_and_the_incidents_of_the_last_hour(tmp_path: Path) -> None:
    put_gold(
        tmp_path,
        "stream_health",
        DAY,
        {**STAGE, "minute": at("20:03"), "bitrate_bps": 1, "verdict": "no data for 9 s"},
        {**STAGE, "minute": at("20:04"), "bitrate_bps": 4_000_000, "verdict": "healthy"},
        {**OVER, "minute": at("19:00"), "verdict": "healthy"},
    )
    put_gold(tmp_path, "audience", DAY, {**STAGE, "minute": at("20:04"), "viewers_peak": 12})
    incident = {**STAGE, "kind": "av_drift", "evidence": "300 ms"}
    put_gold(
        tmp_path,
        "incidents",
        DAY,
        {**incident, "started_at": at("18:00"), "ended_at": at("18:10")},
        {**incident, "started_at": at("18:50"), "ended_at": at("19:30")},
    )
    write_serving(Storage(tmp_path), at("20:05"))
    now = served(tmp_path, "now")
    assert now["viewers_peak"] == 12
    (stream,) = now["streams"]
    assert (stream["stream"], stream["minute"], stream["bitrate_bps"], stream["verdict"], stream["viewers_peak"]) == (
        "stage",
        "2026-11-15T20:04:00Z",
        4_000_000,
        "healthy",
        12,
    )
    assert [incident["started_at"] for incident in now["incidents"]] == ["2026-11-15T18:50:00Z"]


def test_files_are_replaced_and_leave_nothing_beside_them(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    write_serving(storage, at("20:05"))
    put_gold(tmp_path, "usage", DAY, {**STAGE, "day": date(2026, 11, 15), "egress_bytes": 9})
    write_serving(storage, at("20:06"))
    usage = served(tmp_path, "usage")
    assert (usage["as_of"], usage["days"][0]["egress_bytes"]) == ("2026-11-15T20:06:00Z", 9)
    assert len(list((tmp_path / "serving").iterdir())) == 7


def test_charts_are_those_that_the_report_draws_and_incidents_stand_by_themselves(tmp_path: Path) -> None:
    put_gold(tmp_path, "audience", DAY, {**STAGE, "minute": at("20:04"), "viewers_peak": 12, "watched_us": 60_000_000})
    incident = {**STAGE, "kind": "av_drift", "evidence": "300 ms"}
    put_gold(tmp_path, "incidents", DAY, {**incident, "started_at": at("18:00"), "ended_at": at("18:10")})
    write_serving(Storage(tmp_path), at("20:05"))
    (curve,) = served(tmp_path, "audience")["charts"]["audience"]["data"]
    assert (curve["name"], curve["y"]) == ("live/stage", [12, 12])
    assert served(tmp_path, "recordings")["charts"] == {}
    found = served(tmp_path, "incidents")
    assert [each["kind"] for each in found["incidents"]] == ["av_drift"]
    assert found["incidents"] == served(tmp_path, "health")["incidents"]
