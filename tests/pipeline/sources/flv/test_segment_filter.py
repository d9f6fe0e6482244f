"""Which recorded segments the options of a read leave."""

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipeline.sources.files import find_files
from penstock.pipeline.sources.flv.plan import named_files
from penstock.pipeline.sources.flv.segment_filter import EVERY_SEGMENT, segment_filter_of
from tests.pipeline.sources.recordings import manifest_row, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten minutes each from 20:00 and from 20:10 on, one from 20:20 on that is being written, and one of nobody."""
    for name in ("first", "second", "third", "stray"):
        (tmp_path / f"{name}.flv").touch()
    at = "2026-11-15T20:{}:00Z".format
    rows = [
        manifest_row("first.flv", "news", recording_id="r1", started_at=at("00"), ended_at=at("10")),
        manifest_row("second.flv", "news", recording_id="r2", started_at=at("10"), ended_at=at("20"), app="studio"),
        manifest_row("third.flv", "sport", "open", recording_id="r3", started_at=at("20")),
    ]
    write_manifest(tmp_path, rows)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["first", "second", "stray", "third"]),
        ({"app": "live"}, ["first", "third"]),
        ({"stream": "news"}, ["first", "second"]),
        ({"app": "live", "stream": "news"}, ["first"]),
        ({"since": "2026-11-15T20:15:00Z"}, ["second", "third"]),
        # A segment of no length at the border is in one of two neighbouring intervals, so its end counts.
        ({"since": "2026-11-15T20:10:00Z"}, ["first", "second", "third"]),
        ({"until": "2026-11-15T20:10:00Z"}, ["first"]),
        ({"since": "2026-11-15T20:12:00Z", "until": "2026-11-15T20:13:00Z"}, ["second"]),
        # What is being written has no end yet.
        ({"since": "2026-11-16"}, ["third"]),
        ({"until": "2026-11-15"}, []),
        # Another offset is the same moment, and none is UTC.
        ({"until": "2026-11-15T21:10:00+01:00"}, ["first"]),
        ({"until": "2026-11-15T20:10:00"}, ["first"]),
    ],
)
def test_files_are_chosen_by_their_rows_in_the_manifest(
    folder: Path, options: dict[str, str], names: list[str]
) -> None:
    files = named_files(find_files([str(folder)]), segment_filter_of(options))

    assert [Path(file.location.name).stem for file, _ in files] == names


def test_without_options_every_segment_is_wanted() -> None:
    assert segment_filter_of({"path": "recordings"}) == EVERY_SEGMENT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"since": "yesterday"}, "option since is 'yesterday', not a time such as 2026-11-15T20:00:00Z"),
        (
            {"since": "2026-11-15T20:00:00Z", "until": "2026-11-15T20:00:00Z"},
            "option until is '2026-11-15T20:00:00Z', not after since, which is '2026-11-15T20:00:00Z'",
        ),
    ],
)
def test_times_that_make_no_sense_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        segment_filter_of(options)
