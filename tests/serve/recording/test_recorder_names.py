"""File names of recordings: readable for plain names, harmless for any, and never the same for two streams."""

import itertools
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serve.recording.file_names import file_names

STARTED_AT = datetime(2025, 10, 1, 12, 0, 0, tzinfo=UTC)


def name_of(app: str, stream: str) -> str:
    return next(file_names(app, stream, STARTED_AT))


def test_a_plain_name_is_kept() -> None:
    assert name_of("live", "test") == "live_test_20251001_120000.flv"
    assert name_of("live", "cam-1.hd_low") == "live_cam-1.hd_low_20251001_120000.flv"


def test_a_name_that_is_taken_gets_a_number() -> None:
    names = list(itertools.islice(file_names("live", "test", STARTED_AT), 3))
    assert names[1:] == ["live_test_20251001_120000-2.flv", "live_test_20251001_120000-3.flv"]


def test_an_app_with_slashes_stays_one_name() -> None:
    assert name_of("live/eu", "test").startswith("live-eu_test_")


@pytest.mark.parametrize(
    "stream",
    [
        "../../x",
        "a/b",
        "/etc/passwd",
        "nul\0byte",
        "x" * 5000,
        ".hidden",
        "..",
        "",
        "bücher",
        "a b",
        "\ud800",
        "-rf",
        ".-",
        "/x",
    ],
)
def test_no_name_leads_out_of_the_folder_or_hides_or_is_an_option(stream: str, tmp_path: Path) -> None:
    for name in (name_of("live", stream), name_of(stream, "test")):
        path = tmp_path / name
        assert path.parent == tmp_path
        assert path.resolve().parent == tmp_path.resolve()
        assert not name.startswith((".", "-"))
        path.touch(exist_ok=False)


@pytest.mark.parametrize(
    ("first", "second"),
    [("a/b", "a?b"), ("a b", "a-b"), ("x" * 200, "x" * 201), (".a", "a"), ("ä", "ö"), ("\ud800", "\ud801")],
)
def test_names_that_differ_only_in_what_is_left_out_stay_apart(first: str, second: str) -> None:
    assert name_of("live", first) != name_of("live", second)


def test_where_the_slash_is_makes_a_difference() -> None:
    assert name_of("a/b", "c") != name_of("a", "b/c")


@given(app=st.text(max_size=300), stream=st.text(max_size=300))
def test_every_name_is_one_short_path_of_plain_characters(app: str, stream: str) -> None:
    name = list(file_names(app, stream, STARTED_AT))[-1]
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert len(name) <= 255
    assert name[0] not in ".-"
    assert name.endswith("_20251001_120000-1000.flv")
