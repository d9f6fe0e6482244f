"""`penstock pipeline report`: which days it is about."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.cli import main
from penstock.pipeline.reports import gather
from tests.pipeline.reports.rows import commit_files, put_gold


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Today, three weeks ago and a year ago, each with as many bytes as days have passed."""
    today = datetime.now(UTC).date()
    for ago in (0, 21, 365):
        day = today - timedelta(days=ago)
        put_gold(tmp_path, "usage", day.isoformat(), {"app": "live", "stream": "x", "day": day, "egress_bytes": ago})
    return tmp_path


@pytest.mark.parametrize(
    ("words", "days_ago"), [([], [0, 21]), (["--days", "7"], [0]), (["--days", "all"], [0, 21, 365])]
)
def test_a_report_is_about_a_month_unless_it_is_told_otherwise(
    lake: Path, capsys: pytest.CaptureFixture[str], words: list[str], days_ago: list[int]
) -> None:
    assert main(["pipeline", "report", "--lake", str(lake), "--format", "json", *words]) == 0
    usage = json.loads(capsys.readouterr().out)["usage"]
    assert sorted(day["egress_bytes"] for day in usage["days"]) == days_ago


def test_a_report_of_more_rows_than_it_may_hold_is_refused_and_one_of_fewer_days_is_made(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "MAX_ROWS", 2)
    words = ["pipeline", "report", "--lake", str(lake), "--format", "json", "--days"]
    assert main([*words, "all"]) == 1
    assert (
        "these days have 3 rows, and a report holds at most 2 in memory: give fewer --days" in capsys.readouterr().err
    )
    assert main([*words, "30"]) == 0


def test_the_start_of_a_server_is_read_from_its_fact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started_at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
    minute = started_at.replace(second=0)
    row = {"app": "live", "stream": "x", "minute": minute, "viewers_peak": 1}
    put_gold(tmp_path, "audience", f"{minute:%Y-%m-%d}", row)
    fact = {"version": 1, "at_us": int(started_at.timestamp() * 1_000_000)}
    commit_files(tmp_path, {("bronze.server_started", f"{started_at:%Y-%m-%dT%H}"): pa.Table.from_pylist([fact])})
    assert main(["pipeline", "report", "--lake", str(tmp_path), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["started_at"]
    assert told == f"{started_at:%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("days", ["0", "-1", "some", "1.5", "10000000000"])
def test_what_is_no_number_of_days_is_refused(capsys: pytest.CaptureFixture[str], days: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["pipeline", "report", "--days", days])
    assert f"argument --days: {days!r} is no number of days, nor all" in capsys.readouterr().err
