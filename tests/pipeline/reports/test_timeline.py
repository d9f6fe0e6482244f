"""One viewer's time, told from literal facts."""

import io
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from penstock.errors import PipelineError
from penstock.pipeline.lake.arrow_lake import ArrowLake
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.reports import timeline as timeline_module
from penstock.pipeline.reports.timeline import Moment, Timeline, read_timeline, tell, timeline_json, write_timeline
from penstock.pipeline.transforms.rollup import view_minutes
from tests.pipeline.reports.rows import at, commit_files, table_of

SECOND_US = 1_000_000
START_US = int(at("20:00").timestamp()) * SECOND_US
UTC = ZoneInfo("UTC")


def fact(kind: str, seq: int, seconds: float, **values: Any) -> dict[str, Any]:
    at_us = START_US + int(seconds * SECOND_US)
    return {"kind": kind, "boot_key": 7, "view_seq": 10, "seq": seq, "at_us": at_us, **values}


def sample(seq: int, seconds: int, sent_bytes: int, skips: int = 0, lag_ms: int | None = 0) -> dict[str, Any]:
    more = {"skips": skips, "skipped_bytes": 1000 * skips, "lag_ms": lag_ms, "rtt_us": 1500, "retransmits": None}
    return fact("viewer_sample", seq, seconds, watched_us=seconds * SECOND_US, sent_bytes=sent_bytes, **more)


def view(**values: Any) -> dict[str, Any]:
    rows = table_of(
        "silver.views",
        {
            "view_id": "edge-b1-10",
            "boot_key": 7,
            "view_seq": 10,
            "app": "live",
            "stream": "stage",
            "started_at": at("20:00"),
            "last_seen_at": at("20:00:30"),
            "client": "OBS",
            "viewer_key": "v:anna",
            **values,
        },
    )
    row: dict[str, Any] = rows.to_pylist()[0]
    return row


STARTED = fact("play_started", 10, 0, waited_us=0)
PICTURE = fact("play_first_keyframe", 11, 0.25, startup_us=250_000)
STOPPED = fact(
    "play_stopped",
    *(30, 31),
    watched_us=31 * SECOND_US,
    sent_bytes=900,
    skips=1,
    skipped_bytes=1000,
    reason="closed",
)


def test_quiet_samples_are_one_line_and_skips_and_stalls_have_their_own() -> None:
    samples = [
        sample(20, 5, 100),
        sample(21, 10, 200, lag_ms=80),
        sample(22, 15, 200, lag_ms=4000),
        sample(23, 20, 200, lag_ms=None),
        sample(24, 25, 300, skips=1),
        sample(25, 30, 800, skips=1),
    ]
    facts = [STOPPED, *reversed(samples), PICTURE, STARTED, STARTED]
    told = list(tell(view(), facts))
    assert [(moment.what, moment.lasted_us // SECOND_US, moment.samples, moment.sent_bytes) for moment in told] == [
        ("started", 0, 0, 0),
        ("first_picture", 0, 0, 0),
        ("watched", 10, 2, 200),
        ("stalled", 10, 2, 0),
        ("skipped", 5, 1, 100),
        ("watched", 5, 1, 500),
        ("ended", 31, 0, 900),
    ]
    assert (told[2].lag_ms_max, told[4].skips, told[4].skipped_bytes, told[5].skips) == (80, 1, 1000, 0)
    assert (told[-1].detail, told[-1].at) == ("closed", at("20:00:31"))


def test_a_long_view_is_at_most_twenty_stretches_and_a_few() -> None:
    samples = [sample(20 + number, 5 * number, 100 * number) for number in range(1, 2881)]
    told = [moment for moment in tell(view(), samples) if moment.what == "watched"]
    assert 19 <= len(told) <= 21
    assert sum(moment.sent_bytes for moment in told) == 288_000
    assert sum(moment.lasted_us for moment in told) == 14_400 * SECOND_US


def test_a_view_without_its_stop_ends_as_its_row_says() -> None:
    lost = view(is_open=False, end_reason="server_lost", watched_us=5)
    assert list(tell(lost, []))[-1] == Moment(at("20:00:30"), "ended", 5, detail="server_lost")
    assert list(tell(view(is_open=True), []))[-1].what == "open"


def test_a_stall_is_what_the_views_take_for_one() -> None:
    assert timeline_module.STALLED_LAG_MS == view_minutes.STALLED_LAG_MS


def make_lake(folder: Path, *views: dict[str, Any]) -> ArrowLake:
    facts = {
        ("bronze.play_started", "2026-11-15T20"): [STARTED, {**STARTED, "boot_key": 8}],
        ("bronze.viewer_sample", "2026-11-15T20"): [sample(20, 5, 100), {**sample(21, 5, 7), "view_seq": 11}],
        ("bronze.play_stopped", "2026-11-15T20"): [STOPPED],
    }
    tables = {name: pa.Table.from_pylist(rows).drop_columns(["kind"]) for name, rows in facts.items()}
    commit_files(folder, {("silver.views", "2026-11-15T20"): table_of("silver.views", *views), **tables})
    return ArrowLake(Storage(folder))


def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, view(), view(view_id="edge-b2-10"), view(view_id="west-b1-4"))
    timeline = read_timeline(lake, "edge-b1")
    assert timeline.view["view_id"] == "edge-b1-10"
    assert [moment.what for moment in timeline.moments] == ["started", "watched", "ended"]
    assert timeline.moments[1].sent_bytes == 100
    with pytest.raises(PipelineError, match="several ids begin with 'edge': edge-b1-10, edge-b2-10"):
        read_timeline(lake, "edge")
    for nobody in ("north", ""):
        with pytest.raises(PipelineError, match="no view has an id"):
            read_timeline(lake, nobody)


def test_a_failed_start_is_told_by_the_fact_that_it_is_named_after(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, view(view_id="edge-b1-30", view_seq=30, is_failed_start=True))
    assert [moment.what for moment in read_timeline(lake, "edge").moments] == ["ended"]


def test_a_timeline_is_printed_for_people_and_for_programs(tmp_path: Path) -> None:
    timeline = read_timeline(make_lake(tmp_path, view(stream="\x1b[31m[bold]x")), "edge")
    printed = io.StringIO()
    write_timeline(timeline, ZoneInfo("Asia/Tokyo"), printed)
    text = printed.getvalue()
    for words in ("2026-11-16 05:00:05", "live/", "[bold]x", "viewer v:anna", "1 sample over 5.0 s", "watched 31 s"):
        assert words in text, words
    assert "\x1b" not in text
    assert "1 skip of 1 kB" in text
    value = json.loads(timeline_json(timeline))
    assert value["view"]["started_at"] == "2026-11-15T20:00:00Z"
    assert value["moments"][-1]["detail"] == "closed"


def test_the_middle_of_a_story_without_end_is_left_out_on_paper() -> None:
    moments = tuple(Moment(at("20:00"), "skipped", skips=number) for number in range(1, 101))
    printed = io.StringIO()
    write_timeline(Timeline(view(), moments), UTC, printed)
    text = printed.getvalue()
    assert "20 moments more; --format json has them all" in text
    assert [f"{number} skips" in text for number in (40, 41, 60, 61)] == [True, False, False, True]
