"""What a run says of itself."""

import io
import json

from rich.console import Console

from penstock.pipeline.progress import LineProgress, LiveProgress, RunFigures, progress_for

FIGURES = RunFigures(files=3, facts=12_000, quarantined=2, partitions=40, seconds=4.0, behind_s=31.4)
SUM = "3 files, 12,000 facts, 2 in quarantine, 40 partitions in 4.0 s (3,000 facts/s), 31 s behind live"


def test_a_run_is_told_by_files_rows_rate_and_lag() -> None:
    assert str(FIGURES) == SUM
    assert str(RunFigures()) == "0 files, 0 facts, 0 partitions in 0.0 s (0 facts/s)"


def test_lines_are_plain_or_json() -> None:
    plain, as_json = io.StringIO(), io.StringIO()
    for stream, is_json in ((plain, False), (as_json, True)):
        progress = LineProgress(stream, is_json=is_json)
        progress.step("bronze")
        progress.say("hello")
        progress.done(FIGURES)
    assert plain.getvalue() == f"pipeline: hello\npipeline: run done: {SUM}\n"
    said, done = map(json.loads, as_json.getvalue().splitlines())
    assert said["msg"] == "pipeline: hello"
    assert (done["msg"], done["facts"], done["behind_s"]) == (f"pipeline: run done: {SUM}", 12_000, 31.4)


def test_a_terminal_shows_the_step_and_keeps_the_sum() -> None:
    stream = io.StringIO()
    progress = LiveProgress(Console(file=stream, force_terminal=True, width=200))
    progress.step("bronze: 3 files")
    progress.step("silver")
    progress.say("[not markup]")
    progress.done(FIGURES)
    assert SUM in stream.getvalue()
    assert "[not markup]" in stream.getvalue()


def test_what_is_no_terminal_gets_lines() -> None:
    assert isinstance(progress_for(io.StringIO()), LineProgress)
