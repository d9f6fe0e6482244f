"""The page "Read it with …": every block for a tool that is installed here runs, and prints what the page says."""

import contextlib
import io
import re
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.lake.lake_rows import put_hours, rows_of
from tests.pipeline.silver_rows import at
from tests.test_docs import DOCS, text_of

PAGE = text_of(DOCS / "10-read-it-with.md")
BLOCK = re.compile(r"^```py\n(?P<code>.*?)^```\n\n```text\n(?P<printed>.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCKS = [(title, *block) for title, text in SECTION.findall(PAGE) for block in BLOCK.findall(text)]
NOT_RUN = {"Trino", "Databricks"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `data` of the page's examples."""
    folder = tmp_path_factory.mktemp("page")
    lake = Lake(Storage(folder / "data" / "lake"))
    minutes = [("cup", 14, 99), ("cup", 15, 7), ("cup", 15, 3), ("final", 15, 12)]
    for day in (14, 15):
        told = [
            {"stream": stream, "minute": at(f"20:{peak % 60:02d}", day=day), "viewers_peak": peak}
            for stream, of_day, peak in minutes
            if of_day == day
        ]
        put_day(lake, "gold.audience", f"2026-11-{day}", told)
    used = [{"stream": stream, "day": date(2026, 11, 15), "egress_bytes": sent} for stream, sent in USED.items()]
    put_day(lake, "gold.usage", "2026-11-15", used)
    views = [("v-1", "cup", 20, 9.0), ("v-2", "final", 20, 8.0), ("v-3", "final", 21, 20.0), ("v-4", "cup", 21, 5.0)]
    hours = {
        f"2026-11-15T{hour}": rows_of(
            "silver.views",
            *(
                {"view_id": view_id, "stream": stream, "started_at": at(f"{hour}:00"), "watch_seconds": watched}
                for view_id, stream, began, watched in views
                if began == hour
            ),
        )
        for hour in (20, 21)
    }
    put_hours(lake, "silver.views", hours)
    return folder


USED = {"final": 3000, "cup": 1000}


def put_day(lake: Lake, name: str, day: str, rows: list[dict[str, object]]) -> None:
    lake.put_days(name, lake.table(name).pin_or_create(), {day: rows_of(name, *rows)})


@pytest.mark.parametrize("block", BLOCKS, ids=[title for title, *_ in BLOCKS])
def test_a_block_runs_and_prints_what_the_page_says(
    block: tuple[str, str, str], data: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(data)
    title, code, printed = block
    namespace: dict[str, object] = {"__name__": "page"}
    if "spark" in code:
        spark = request.getfixturevalue("spark")
        assert isinstance(spark, SparkSession)
        namespace["spark"] = spark
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(code, f"{title}, docs/10-read-it-with.md", "exec"), namespace)
    assert told.getvalue() == printed


def test_sections_that_are_not_run_say_so_and_all_others_are() -> None:
    sections = dict(SECTION.findall(PAGE))
    assert {title for title, text in sections.items() if text.strip().startswith("Not run here.")} == NOT_RUN
    assert {title for title, *_ in BLOCKS} == {"DuckDB", "Polars", "pandas and pyarrow", "A notebook with Spark"}
    assert PAGE.count("```py\n") == len(BLOCKS), "a block without what it prints"
