"""Rows of gold.data_quality as `penstock pipeline check` tells them, and the status that it ends with."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import cli
from penstock.pipeline.build.checks import CHECKS, SEVERITIES
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.ops.quality import findings_json, findings_of, findings_text, has_errors
from tests.pipeline.reports.rows import put_gold

NOW = datetime(2026, 11, 15, 20, tzinfo=UTC)
Row = dict[str, Any]


def row(check: str, table: str = "facts", violations: int = 1, subject: str = "edge-1", hours_ago: int = 0) -> Row:
    at = NOW - timedelta(hours=hours_ago)
    return {"at": at, "table": table, "check": check, "subject": subject, "violations": violations, "detail": "so much"}


ERROR = row("view_ends_after_its_start", "silver.views")
WARNINGS = [
    row("facts_are_complete", violations=3, hours_ago=2),
    row("facts_are_complete", violations=5, subject="\x1b"),
]
INFO = row("facts_land_within_an_hour")


def test_a_check_is_one_finding_over_all_its_hours_and_subjects_and_errors_come_first() -> None:
    first, second, third = findings_of([INFO, *WARNINGS, ERROR])
    assert [each.severity for each in (first, second, third)] == ["error", "warning", "info"]
    assert (second.violations, second.subjects) == (8, 2)
    assert (second.first_at, second.last_at) == (NOW - timedelta(hours=2), NOW)
    assert second.example == r"\x1b: so much"


def test_only_an_error_is_one() -> None:
    assert has_errors(findings_of([ERROR]))
    assert not has_errors(findings_of([INFO, *WARNINGS]))


def test_two_rows_of_one_key_are_an_error_whatever_the_table() -> None:
    assert has_errors(findings_of([row("views_have_one_row_each", "silver.views")]))


def test_every_check_has_a_severity_and_what_is_wrong_with_tables_is_an_error() -> None:
    assert set(SEVERITIES) == {check.name for check in CHECKS}
    assert {check.severity for check in CHECKS if check.table in TABLES} == {"error"}
    assert {check.severity for check in CHECKS if check.table not in TABLES} == {"warning", "info"}


def test_findings_are_told_in_words_and_counted() -> None:
    text = findings_text(findings_of([*WARNINGS, ERROR]))
    assert text.splitlines()[0] == (
        "error    view_ends_after_its_start  silver.views  1 violations, 2026-11-15 20:00 to 2026-11-15 20:00 UTC"
    )
    assert text.splitlines()[-1] == "2 checks do not hold: 1 error, 1 warning, 0 info"
    assert findings_text([]) == "All checks hold.\n"


def test_findings_are_told_to_programs() -> None:
    told = json.loads(findings_json(findings_of([ERROR])))
    assert told["has_errors"] is True
    assert told["findings"][0]["first_at"] == "2026-11-15T20:00:00+00:00"
    assert json.loads(findings_json([])) == {"has_errors": False, "findings": []}


@pytest.mark.parametrize(
    ("rows", "words", "told"),
    [
        ([], (), (0, "All checks hold.")),
        ([INFO, *WARNINGS], (), (0, "2 checks do not hold: 0 error, 1 warning, 1 info")),
        ([ERROR], (), (1, "1 checks do not hold: 1 error, 0 warning, 0 info")),
        ([ERROR], ("--days", "1"), (0, "All checks hold.")),
    ],
    ids=["nothing", "warnings", "errors", "errors of earlier days"],
)
def test_the_status_is_1_if_there_are_errors_in_those_days(
    rows: list[Row], words: tuple[str, ...], told: tuple[int, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day = datetime.now(UTC) - timedelta(days=3)
    put_gold(tmp_path / "data/lake", "data_quality", f"{day:%Y-%m-%d}", *({**each, "at": day} for each in rows))
    status = cli.main(["pipeline", "check", "--data", str(tmp_path / "data"), *words])
    assert (status, capsys.readouterr().out.splitlines()[-1]) == told
