"""The eleven questions of the guide, asked of a small lake and answered as written here."""

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.queries.spark_runner import SparkQueryRunner
from tests.pipeline.reports.rows import at, commit_files, put_gold, table_of

GUIDE = Path(__file__).parents[3] / "docs" / "6-pipeline.md"
QUESTION = re.compile(r"^### (?P<question>.+?)$(?:(?!^#).)*?^```sql\n(?P<query>.*?)^```$", re.MULTILINE | re.DOTALL)
DAY = "2026-11-15"
STAGE = {"app": "live", "stream": "stage"}
RADIO = {"app": "radio", "stream": "jazz"}

ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "Who is watching now?": [("live", "stage", 2, 1, "2026-11-15T20:10:00Z")],
    "When did each stream have most viewers?": [
        ("live", "stage", 9, "2026-11-15T20:04:00Z", 1.5),
        ("radio", "jazz", 2, "2026-11-15T20:00:00Z", 0.0),
    ],
    "How long do people wait for the first picture, and with which client?": [
        ("VLC", 1, 900.0, 900.0),
        ("OBS", 2, 150.0, 195.0),
    ],
    "Who had the worst evening?": [
        ("v-3", "stage", None, 700.0, 20.0, 3, 4000),
        ("v-2", "stage", None, 90.0, 0.0, 0, None),
    ],
    "Why do views end?": [("closed", 2, 0, 360.0), ("server_lost", 1, 1, 90.0)],
    "How long do people stay?": [("live", "stage", 4, 0.5, 0.25)],
    "What do we bill?": [("live", 6.0, 1.0, 30.0, 4.0, True), ("radio", 1.0, 0.0, 0.0, 0.0, False)],
    "Who used how much?": [
        ("anna", 4.0, 0.0, 40.0, True),
        ("studio", 0.0, 2.0, 0.0, False),
        ("unknown", 0.0, 1.0, 0.0, False),
    ],
    "Which streams were not well, and what was wrong?": [
        ("live", "stage", "no data for 9 s", 2, "2026-11-15T20:05:00Z", "2026-11-15T20:06:00Z", 9)
    ],
    "What did an incident cost us?": [("stage", "ingest_stalled", "2026-11-15T20:05:10Z", "no bytes for 9 s", 9, 4)],
    "Is anything missing?": [
        ("facts", "edge-b1", "12 are missing"),
        ("recording", "b.flv", "repaired, 70 ms missing"),
    ],
}


def views() -> list[dict[str, Any]]:
    def view(number: int, **values: Any) -> dict[str, Any]:
        row = {**STAGE, "view_id": f"v-{number}", "viewer_key": "v:anna", "started_at": at("20:00")}
        return row | {"last_seen_at": at("20:10"), **values}

    return [
        view(0, is_open=True, client="OBS", startup_ms=100, watch_seconds=10.0),
        view(1, is_open=True, client="OBS", startup_ms=200, watch_seconds=20.0, last_seen_at=at("20:09")),
        view(2, end_reason="server_lost", is_exit_before_picture=True, watch_seconds=90.0),
        view(
            3,
            end_reason="closed",
            client="VLC",
            startup_ms=900,
            watch_seconds=700.0,
            stalled_us=20_000_000,
            skips=3,
            lag_ms_max=4000,
        ),
        view(4, end_reason="closed", is_failed_start=True, watch_seconds=20.0),
    ]


def put_day(folder: Path) -> None:
    minutes = [("20:00", 3), ("20:04", 9), ("20:16", 4)]
    put_gold(
        folder,
        "audience",
        DAY,
        *({**STAGE, "minute": at(minute), "viewers_peak": most, "watch_seconds": 1800.0} for minute, most in minutes),
        {**RADIO, "minute": at("20:00"), "viewers_peak": 2},
    )
    used = {"egress_bytes": 3_000_000_000, "ingress_bytes": 500_000_000, "viewer_minutes": 15.0}
    put_gold(folder, "usage", "2026-11-14", {**STAGE, **used, "day": date(2026, 11, 14), "is_estimated": True})
    put_gold(
        folder,
        "usage",
        DAY,
        {**STAGE, **used, "egress_bps_p95": 4_000_000},
        {**RADIO, "egress_bytes": 1_000_000_000},
    )
    anna = {"dimension": "auth_subject", "value": "anna", "egress_bytes": 2_000_000_000, "viewer_minutes": 20.0}
    put_gold(
        folder,
        "usage_dimensions",
        DAY,
        {**STAGE, **anna},
        {**RADIO, **anna, "is_estimated": True},
        {**STAGE, **anna, "dimension": "country", "value": "DE"},
        {**STAGE, "dimension": "auth_subject", "value": "studio", "ingress_bytes": 2_000_000_000},
        {**STAGE, "dimension": "auth_subject", "value": "unknown", "ingress_bytes": 1_000_000_000},
    )
    sick = {**STAGE, "verdict": "no data for 9 s", "viewers": 9}
    put_gold(
        folder,
        "stream_health",
        DAY,
        {**STAGE, "minute": at("20:04"), "verdict": "healthy"},
        {**sick, "minute": at("20:05")},
        {**sick, "minute": at("20:06")},
    )
    incident = {"kind": "ingest_stalled", "started_at": at("20:05:10"), "ended_at": at("20:06:20")}
    put_gold(folder, "incidents", DAY, {**STAGE, **incident, "evidence": "no bytes for 9 s"})
    put_gold(
        folder,
        "recordings",
        None,
        {**STAGE, "path": "a.flv", "status": "closed"},
        {**STAGE, "path": "b.flv", "status": "repaired", "gap_ms": 70},
    )
    put_gold(folder, "data_quality", DAY, {"table": "facts", "subject": "edge-b1", "detail": "12 are missing"})


@pytest.fixture(scope="module")
def runner(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkQueryRunner:
    folder = tmp_path_factory.mktemp("guide") / "lake"
    put_day(folder)
    commit_files(folder, {("silver.views", "2026-11-15T20"): table_of("silver.views", *views())})
    return SparkQueryRunner(spark, Lake(Storage(folder)))


def questions() -> dict[str, str]:
    return {found["question"]: found["query"] for found in QUESTION.finditer(GUIDE.read_text(encoding="utf-8"))}


def test_there_are_eleven_questions_and_each_has_an_answer_here() -> None:
    assert list(questions()) == list(ANSWERS)
    assert len(ANSWERS) == 11


@pytest.mark.parametrize("question", ANSWERS)
def test_the_query_of_the_guide_answers_its_question(runner: SparkQueryRunner, question: str) -> None:
    assert list(runner.run(questions()[question], 100).rows) == ANSWERS[question]
