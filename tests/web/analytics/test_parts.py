"""Parts of the report on disk: read, or taken for none."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.web.analytics.parts import MAX_BYTES, Part, folder_of, read_part

AS_OF = datetime(2026, 11, 18, 16, 0, tzinfo=UTC)


def test_a_part_is_its_time_its_figures_and_its_charts(tmp_path: Path) -> None:
    (tmp_path / "usage.json").write_text('{"as_of": "2026-11-18T16:00:00Z", "days": [], "charts": {"usage": {}}}')
    assert read_part(tmp_path, "usage") == Part(AS_OF, {"days": []}, {"usage": {}})
    (tmp_path / "now.json").write_text('{"as_of": "2026-11-18T16:00:00Z", "streams": []}')
    assert read_part(tmp_path, "now") == Part(AS_OF, {"streams": []}, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"as_of": 5}',
        '{"as_of": "yesterday"}',
        '{"as_of": "2026-11-18T16:00:00"}',
        '{"as_of": "2026-11-18T16:00:00Z", "charts": []}',
        pytest.param('{"as_of": "2026-11-18T16:00:00Z", "a": "' + "x" * MAX_BYTES + '"}', id="too large"),
        pytest.param("[" * 100_000, id="too deep"),
    ],
)
def test_what_the_pipeline_does_not_make_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "usage.json").write_text(text)
    assert read_part(tmp_path, "usage") is None
    assert read_part(tmp_path, "audience") is None


def test_a_lake_elsewhere_has_no_folder_here() -> None:
    assert folder_of("s3a://bucket/lake") is None
    assert folder_of("/data/lake") == Path("/data/lake/serving")
