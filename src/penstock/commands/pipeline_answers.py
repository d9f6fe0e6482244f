"""The actions of `penstock pipeline` that need no Spark: report, view and simulate."""

import argparse
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from penstock.config import Config
from penstock.errors import PipelineError
from penstock.pipeline.reports.arrow_lake import ArrowLake, Span
from penstock.pipeline.reports.gather import NEEDED_TABLES, gather
from penstock.pipeline.reports.page import render
from penstock.pipeline.reports.report import to_json
from penstock.pipeline.reports.timeline import read_timeline, timeline_json, write_timeline
from penstock.pipeline.reports.wording import zone_of
from penstock.pipeline.simulator.landing import write_landing
from penstock.pipeline.simulator.plan import Platform
from penstock.pipeline.storage import Storage

_DEFAULT_REPORT: Final = Path("penstock-report.html")


def _report(config: Config, arguments: argparse.Namespace) -> int:
    zone, now = zone_of(arguments.timezone), datetime.now(UTC)
    since = None if arguments.days is None else now - timedelta(days=arguments.days)
    report = gather(ArrowLake(Storage(config.lake_location)).tables(NEEDED_TABLES, Span(since=since)), now, since)
    is_json = arguments.output_format == "json"
    text = to_json(report) if is_json else render(report, zone)
    if is_json and arguments.out is None:
        sys.stdout.write(text + "\n")
        return 0
    out = arguments.out or _DEFAULT_REPORT
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"report: {out} cannot be written: {error.strerror}") from error
    sys.stderr.write(f"The report is in {out}.\n")
    return 0


def _view(config: Config, arguments: argparse.Namespace) -> int:
    timeline = read_timeline(ArrowLake(Storage(config.lake_location)), arguments.view_id)
    if arguments.output_format == "json":
        sys.stdout.write(timeline_json(timeline) + "\n")
    else:
        write_timeline(timeline, zone_of(arguments.timezone), sys.stdout)
    return 0


def _simulate(config: Config, arguments: argparse.Namespace) -> int:
    day = datetime.now(UTC).date() - timedelta(days=1)
    # Files of ten minutes: a day in files of 30 s would take longer to open than to read.
    platform = Platform(day=day, viewers=arguments.viewers, seed=arguments.seed, landing_s=600)
    truth = write_landing(platform, config.facts_dir)
    sys.stderr.write(f"{truth.facts:,} facts of {day} are in {config.facts_dir}; now: penstock pipeline run\n")
    return 0


ACTIONS: Final[Mapping[str, Callable[[Config, argparse.Namespace], int]]] = {
    "report": _report,
    "view": _view,
    "simulate": _simulate,
}
