"""`penstock pipeline report`: which days it is about."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.cli import main
from tests.pipeline.reports.rows import put_gold


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


@pytest.mark.parametrize("days", ["0", "-1", "some", "1.5", "10000000000"])
def test_what_is_no_number_of_days_is_refused(capsys: pytest.CaptureFixture[str], days: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["pipeline", "report", "--days", days])
    assert f"argument --days: {days!r} is no number of days, nor all" in capsys.readouterr().err
