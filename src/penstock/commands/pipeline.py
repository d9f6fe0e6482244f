"""`penstock pipeline …`: facts and recordings to tables, and answers from them.

Owns the arguments, the way from the configuration to the pipeline's settings, and the exit status: 75 when another
writer has the lake, 69 when something is not installed, 130 when it was stopped by a signal, 1 for what else went
wrong, each with one line that says so. Spark and Arrow are imported by the actions that need them.
"""

# Long because: each action of one command is an entry of its arguments and a few lines that call the pipeline.

import argparse
import dataclasses
import errno
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.commands.extra_packages import missing_package
from penstock.commands.options import load_from_arguments
from penstock.errors import ConfigError, LakeBusy, MissingProgram, PipelineError

if TYPE_CHECKING:
    from penstock.config import Config
    from penstock.pipeline.engine.session import SparkSettings
    from penstock.pipeline.ops.cycle import Cycles
    from penstock.pipeline.progress import Progress
    from penstock.pipeline.queries.answers import QueryRunner
    from penstock.pipeline.queries.sql_service import ServiceQueryRunner
    from penstock.pipeline.settings import PipelineSettings

HELP = "make tables of facts and recordings, and ask them"

BUSY = os.EX_TEMPFAIL
NOT_INSTALLED = os.EX_UNAVAILABLE
INTERRUPTED = 128 + signal.SIGINT

_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR)
_WRITING = ("run", "rebuild", "archive", "erase")
_READING = ("status", "check", "report", "view", "sql")
_DEFAULT_REPORT: Final = Path("penstock-report.html")
_REPORT_DAYS = 30
"""A page about years takes long to make, and says little about any day."""
_CHECK_DAYS = 7
_MOST_DAYS = 36_500
_MOST_SIMULATED = 10_000_000
"""They are made in memory."""

_ZONE = ("--timezone", "ZONE", "show times in this zone, such as Europe/Berlin (UTC)")


# The arguments.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)

    def add(name: str, text: str, details: str = "") -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=text, description=f"{text.capitalize()}. {details}".strip())
        action.add_argument("--config", metavar="FILE", type=Path, help="TOML file; see penstock.example.toml")
        action.add_argument("--data", metavar="DIR", dest="--data", help="folder of recordings and facts (./data)")
        action.add_argument("--lake", metavar="LOCATION", dest="--lake", help="where the tables are (lake in DIR)")
        return action

    run_ = add("run", "ingest new facts and bring all tables up to date, once or again and again")
    _add_spark(run_)
    often = run_.add_mutually_exclusive_group()
    often.add_argument("--once", action="store_true", help="run once and end (what happens without --every)")
    often.add_argument("--every", metavar="TIME", help="run this often, such as 10m, and whenever somebody asks")
    often.add_argument("--dry-run", action="store_true", help="print which partitions a run would compute, and why")
    run_.add_argument("--until-eof", action="store_true", help="end when standard input ends, after a last run")

    rebuild = add(
        "rebuild",
        "compute silver, rollup and gold again from bronze, for all days or some (a backfill)",
        "Facts that wait are not ingested; whatever is pending in bronze is computed first. With --table that table"
        " alone is computed, from the tables it is made from as they are; tables made from it stay as they are.",
    )
    _add_spark(rebuild)
    rebuild.add_argument("--table", metavar="TABLE", help="this table alone, such as gold.audience")
    rebuild.add_argument("--from", metavar="DAY", dest="first_day", help="the first UTC day, such as 2026-11-15")
    rebuild.add_argument("--to", metavar="DAY", dest="last_day", help="the last one")

    status = add("status", "print version, rows, files, size and lag of each table, and what waits to be computed")
    _add_format(status, "text", "json")

    check = add("check", "print which data checks failed in the last days; status 1 if one of them is an error")
    _add_days(check, _CHECK_DAYS)
    _add_format(check, "text", "json")

    lineage = add("lineage", "print which tables each table is made from")
    _add_format(lineage, "text", "mermaid")

    report = add("report", "write one page, or JSON, about audience, quality, health, usage and recordings")
    report.add_argument("--out", metavar="FILE", type=Path, help=f"where to write it ({_DEFAULT_REPORT})")
    _add_format(report, "html", "json")
    _add_days(report, _REPORT_DAYS)
    _add_refresh(report)
    report.add_argument(_ZONE[0], metavar=_ZONE[1], default="UTC", help=_ZONE[2])

    view = add("view", "tell what one viewer saw, moment by moment")
    view.add_argument("view_id", metavar="ID", help="the view's id, or how it begins")
    _add_format(view, "table", "json")
    _add_refresh(view)
    view.add_argument(_ZONE[0], metavar=_ZONE[1], default="UTC", help=_ZONE[2])

    sql = add("sql", "ask the tables in SQL; without a query, at a prompt")
    _add_spark(sql, with_wait=False)
    sql.add_argument("query", metavar="QUERY", nargs="?")
    _add_format(sql, "table", "json", "csv")
    _add_refresh(sql)
    sql.add_argument(
        "--limit", metavar="N", type=int, default=1000, help="at most N rows (1000); a running pipeline gives 100,000"
    )
    sql.add_argument("--write", action="store_true", help="allow statements that change something")

    archive = add("archive", "verify all recordings and make MP4, HLS and pictures of them")
    _add_spark(archive)

    erase = add("erase", "forget a viewer or an address")
    _add_spark(erase)
    who = erase.add_mutually_exclusive_group(required=True)
    who.add_argument("--viewer", metavar="KEY", help="a viewer_key, or what a viewer calls itself")
    who.add_argument("--ip", metavar="ADDRESS", help="an IP address")

    migrate = add(
        "migrate",
        "make Delta tables of a lake of an older layout, once",
        "Every fact is carried over, and so are rows whose facts retention has given up; all else is computed again."
        " The older files are removed when that is committed, so the disk needs room for both. It can be called again"
        " if it was interrupted.",
    )
    _add_spark(migrate)

    simulate = add("simulate", "land the facts of a day on an invented platform, for trying things out")
    simulate.add_argument("--viewers", metavar="N", type=_count, default=500, help="how many views (500)")
    simulate.add_argument("--seed", metavar="N", type=_count, default=1, help="another seed is another day (1)")


def _add_spark(action: argparse.ArgumentParser, *, with_wait: bool = True) -> None:
    action.add_argument("--master", metavar="URL", dest="--master", help="where Spark runs (local)")
    action.add_argument("--log-format", metavar="FORMAT", dest="--log-format", help="auto, json or console (auto)")
    if with_wait:
        action.add_argument("--wait", metavar="TIME", help="wait so long for another writer to finish, such as 5m")


def _add_format(action: argparse.ArgumentParser, *formats: str) -> None:
    action.add_argument("--format", choices=formats, default=formats[0], dest="output_format")


def _add_days(action: argparse.ArgumentParser, default: int) -> None:
    action.add_argument("--days", metavar="N", type=_days, default=default, help=f"the last N days, or all ({default})")


def _add_refresh(action: argparse.ArgumentParser) -> None:
    text = "answer from the tables as they are; a running pipeline is not asked to take in what has landed"
    action.add_argument("--no-refresh", action="store_false", dest="is_refreshing", help=text)


def _days(text: str) -> int | None:
    """How many days a report is about; None: all that there are."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days, nor all")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MOST_SIMULATED:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_MOST_SIMULATED:,}")
    return int(text)


# The frame around each action.


def run(arguments: argparse.Namespace) -> int:
    config = load_from_arguments(arguments).config
    # Spark gives its jobs up at a Ctrl-C, and only then. By SIGTERM Java would end in the midst of them, and complain.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    # The way to Java logs every call that was broken off, with its stack, and raises it as well.
    logging.getLogger().addHandler(logging.NullHandler())
    if arguments.action in _READING and config.pipeline.lake is None and not config.server.data_dir.exists():
        return _fail(1, f"pipeline {arguments.action}: there is no data folder {config.server.data_dir}")
    try:
        return _ACTIONS[arguments.action](config, arguments)
    except KeyboardInterrupt:
        if getattr(arguments, "until_eof", False):
            return INTERRUPTED  # it had not begun, and whoever ended it says so in a log of their own
        return _fail(INTERRUPTED, f"pipeline {arguments.action}: stopped{_consequence(arguments.action)}")
    except ModuleNotFoundError as error:
        if (missing := missing_package(error)) is None:
            raise
        return _fail(NOT_INSTALLED, missing)
    except LakeBusy as error:
        return _fail(BUSY, str(error))
    except MissingProgram as error:
        return _fail(NOT_INSTALLED, str(error))
    except PipelineError as error:
        return _fail(1, str(error))
    except OSError as error:
        # A full or read-only disk, or a file where a folder should be, is the operator's to mend; any other is a
        # defect, and its stack is wanted.
        if error.errno not in _OF_THE_DISK:
            raise
        return _fail(1, f"pipeline {arguments.action}: {error}{_consequence(arguments.action)}")


def _consequence(action: str) -> str:
    if action == "migrate":
        return "; nothing is lost, and calling it again does the rest"
    return "; what was committed stays, the next run does the rest" if action in _WRITING else ""


def _fail(status: int, text: str) -> int:
    sys.stderr.write(f"penstock: {text}\n")
    return status


# The configuration as settings.


def settings_of(config: "Config") -> "PipelineSettings":
    """What the pipeline is told."""
    from penstock.pipeline.lake.dimensions import Dimensions
    from penstock.pipeline.ops.retention import RetentionSettings
    from penstock.pipeline.settings import PipelineSettings

    retention, named = config.retention, config.pipeline.dimensions
    return PipelineSettings(
        data=str(config.server.data_dir),
        lake=config.lake_location,
        landing=str(config.facts_dir),
        recordings=str(config.recordings_dir),
        spark=spark_settings_of(config),
        silent_us=round(config.pipeline.silent_s * 1_000_000),
        dimensions=Dimensions(
            parameters=named.parameters,
            country_db=None if named.country_db is None else str(named.country_db.absolute()),
            asn_db=None if named.asn_db is None else str(named.asn_db.absolute()),
            auth_subject=named.auth_subject,
            max_values=named.max_values,
        ),
        retention=RetentionSettings(
            landing_s=retention.landing_s,
            address_s=retention.address_s,
            bronze_s=retention.bronze_s,
            views_s=retention.views_s,
        ),
    )


def spark_settings_of(config: "Config") -> "SparkSettings":
    """What Spark is told."""
    from penstock.pipeline.engine.session import SparkSettings, usable_cores

    pipeline = config.pipeline
    is_shared = pipeline.master == "local"
    return SparkSettings(
        master=None if is_shared else pipeline.master,
        # The other half is the server's.
        cores=max(1, usable_cores() // 2) if is_shared else usable_cores(),
        heap=f"{pipeline.heap_bytes // (1024 * 1024)}m",
        conf=dict(setting.split("=", 1) for setting in pipeline.spark),
    )


def _seconds(flag: str, value: str | None) -> float | None:
    from penstock.config_units import DAY, read_seconds

    try:
        return None if value is None else read_seconds(value, low=0.1, high=DAY)
    except ValueError as error:
        raise ConfigError(f"flag {flag}: {value!r} {error}") from None


def _day(flag: str, value: str | None) -> str | None:
    try:
        return None if value is None else date.fromisoformat(value).isoformat()
    except ValueError:
        raise ConfigError(f"flag {flag}: {value!r} should be a day such as 2026-11-15") from None


def _progress(config: "Config", *, is_beside_server: bool = False) -> "Progress":
    from penstock.logs import is_for_programs
    from penstock.pipeline.progress import LineProgress, progress_for

    is_json = is_for_programs(config.logs.format)
    # A line that changes in place would be torn by the server's.
    return LineProgress(sys.stderr, is_json=is_json) if is_beside_server else progress_for(is_json=is_json)


@contextmanager
def _cycles(
    config: "Config", arguments: argparse.Namespace, progress: "Progress", *, is_migrating: bool = False
) -> Iterator["Cycles"]:
    from penstock.pipeline.ops.cycle import Cycles

    wait_s = _seconds("--wait", arguments.wait)
    cycles = Cycles(settings_of(config), progress, wait_s, is_migrating=is_migrating)
    try:
        yield cycles
    finally:
        cycles.close()


# Actions that write.


def _run(config: "Config", arguments: argparse.Namespace) -> int:
    progress = _progress(config, is_beside_server=arguments.until_eof)
    if arguments.dry_run:
        from penstock.pipeline.ops.cycle import Cycles

        sys.stdout.write(Cycles(settings_of(config), progress).dry_run())
        return 0
    with _cycles(config, arguments, progress) as cycles:
        if arguments.every is None:
            cycles.run_cycle()
            return 0
        every_s = _seconds("--every", arguments.every) or config.pipeline.every_s
        return _run_again_and_again(config, cycles, progress, every_s, is_until_eof=arguments.until_eof)


def _run_again_and_again(
    config: "Config", cycles: "Cycles", progress: "Progress", every_s: float, *, is_until_eof: bool
) -> int:
    from penstock.commands.stopping import hear_each_signal
    from penstock.pipeline.ops.loop import Loop, Rhythm
    from penstock.pipeline.ops.on_demand import Demand, OnDemand
    from penstock.pipeline.queries.sql_service import SqlService

    demand = Demand()
    is_stopping = threading.Event()

    def is_too_many() -> bool:
        if is_stopping.is_set():
            return True
        is_stopping.set()
        # In a thread: it waits while Spark is being closed, and the next signal is to be heard.
        threading.Thread(target=demand.end, name="stopping").start()
        return False

    def stop_at_eof() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        is_stopping.set()
        demand.end()

    hear_each_signal(is_too_many)
    if is_until_eof:
        threading.Thread(target=stop_at_eof, name="end of input", daemon=True).start()
    folder = config.server.data_dir
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with SqlService(OnDemand(cycles, demand), folder):
            # Who runs it by hand has said how often.
            quiet_every_s = config.pipeline.quiet_every_s if is_until_eof else every_s
            rhythm = Rhythm(every_s, config.pipeline.idle_s, quiet_every_s)
            Loop(cycles, rhythm, time.monotonic, demand, progress.say).run()
    except KeyboardInterrupt:
        # A line of the log, beside those of a server.
        progress.say("stopped at once; what was committed stays, the next run does the rest")
        return INTERRUPTED
    return 0


def _rebuild(config: "Config", arguments: argparse.Namespace) -> int:
    first, last = _day("--from", arguments.first_day), _day("--to", arguments.last_day)
    with _cycles(config, arguments, _progress(config)) as cycles:
        cycles.rebuild(first, last, arguments.table)
    return 0


def _archive(config: "Config", arguments: argparse.Namespace) -> int:
    from penstock.pipeline.jobs.archive import ArchiveProgress, run_archive

    progress = _progress(config)

    def tell(at: ArchiveProgress) -> None:
        progress.step(str(at))

    with _cycles(config, arguments, progress) as cycles, cycles.lock("pipeline archive"):
        summary = run_archive(cycles.spark(), str(config.server.data_dir), progress=tell)
    statuses = ", ".join(f"{count} {status}" for status, count in summary.statuses.items()) or "no recordings"
    progress.say(f"archive: {statuses}; worked on {summary.worked_on}")
    return 0


def _erase(config: "Config", arguments: argparse.Namespace) -> int:
    with _cycles(config, arguments, _progress(config)) as cycles:
        cycles.erase(viewer=arguments.viewer, ip=arguments.ip)
    return 0


def _migrate(config: "Config", arguments: argparse.Namespace) -> int:
    with _cycles(config, arguments, _progress(config), is_migrating=True) as cycles:
        cycles.migrate()
    return 0


# Actions that answer.


def _status(config: "Config", arguments: argparse.Namespace) -> int:
    from penstock.pipeline.lake.lake import Lake
    from penstock.pipeline.lake.storage import Storage
    from penstock.pipeline.ops.status import status_json, status_of, status_text

    now = datetime.now(UTC)
    status = status_of(Lake(Storage(config.lake_location)), Storage(config.facts_dir))
    sys.stdout.write(status_json(status, now) if arguments.output_format == "json" else status_text(status, now))
    return 0


def _check(config: "Config", arguments: argparse.Namespace) -> int:
    from penstock.pipeline.lake.arrow_lake import ArrowLake, Span
    from penstock.pipeline.lake.storage import Storage
    from penstock.pipeline.ops.quality import findings_json, findings_of, findings_text, has_errors

    since = None if arguments.days is None else datetime.now(UTC) - timedelta(days=arguments.days)
    rows = ArrowLake(Storage(config.lake_location)).read("gold.data_quality", Span(since=since))
    findings = findings_of(rows.to_pylist())
    sys.stdout.write(findings_json(findings) if arguments.output_format == "json" else findings_text(findings))
    return 1 if has_errors(findings) else 0


def _lineage(_: "Config", arguments: argparse.Namespace) -> int:
    from penstock.pipeline.build.lineage import lineage_mermaid, lineage_text

    sys.stdout.write(lineage_mermaid() if arguments.output_format == "mermaid" else lineage_text())
    return 0


def _report(config: "Config", arguments: argparse.Namespace) -> int:
    from penstock.pipeline.lake.arrow_lake import ArrowLake, Span
    from penstock.pipeline.lake.storage import Storage
    from penstock.pipeline.reports.gather import MAX_ROWS, NEEDED_TABLES, gather
    from penstock.pipeline.reports.page import render
    from penstock.pipeline.reports.report import to_json
    from penstock.pipeline.reports.wording import zone_of

    _refresh(config, arguments)
    zone, now = zone_of(arguments.timezone), datetime.now(UTC)
    since = None if arguments.days is None else now - timedelta(days=arguments.days)
    lake, span = ArrowLake(Storage(config.lake_location)), Span(since=since)
    if (rows := lake.count(NEEDED_TABLES, span)) > MAX_ROWS:
        raise PipelineError(
            f"report: these days have {rows:,} rows, and a report holds at most {MAX_ROWS:,} in memory:"
            " give fewer --days, or ask by `penstock pipeline sql`"
        )
    report = gather(
        lake.tables(NEEDED_TABLES, span),
        now,
        since,
        server_starts=lake.server_starts(span),
        is_being_built=lake.is_being_built(),
    )
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


def _view(config: "Config", arguments: argparse.Namespace) -> int:
    from penstock.pipeline.lake.arrow_lake import ArrowLake
    from penstock.pipeline.lake.storage import Storage
    from penstock.pipeline.reports.timeline import read_timeline, timeline_json, write_timeline
    from penstock.pipeline.reports.wording import zone_of

    _refresh(config, arguments)
    timeline = read_timeline(ArrowLake(Storage(config.lake_location)), arguments.view_id)
    if arguments.output_format == "json":
        sys.stdout.write(timeline_json(timeline) + "\n")
    else:
        write_timeline(timeline, zone_of(arguments.timezone), sys.stdout)
    return 0


def _sql(config: "Config", arguments: argparse.Namespace) -> int:
    service = _running_pipeline(config, arguments)
    if not arguments.write and service.is_there():
        return _answer(service, arguments)
    return _sql_here(config, arguments)


def _sql_here(config: "Config", arguments: argparse.Namespace) -> int:
    """Answer by a Spark of this process, where no pipeline runs."""
    from penstock.pipeline import register
    from penstock.pipeline.engine.packaging import ship_package
    from penstock.pipeline.engine.session import open_session, usable_cores
    from penstock.pipeline.lake.lake import Lake
    from penstock.pipeline.lake.storage import Storage
    from penstock.pipeline.queries.spark_runner import SparkQueryRunner

    lake = Lake(Storage(config.lake_location))
    # Whoever asks waits, so all cores are for the answer.
    spark = open_session(dataclasses.replace(spark_settings_of(config), cores=usable_cores(), is_short_lived=True))
    recordings = str(config.recordings_dir)
    try:
        if arguments.write:
            register(spark, config.server.data_dir, lake=config.lake_location, recordings=recordings)
            return _answer(SparkQueryRunner(spark, is_writing=True), arguments)
        ship_package(spark)
        return _answer(SparkQueryRunner(spark, lake, recordings), arguments)
    finally:
        spark.stop()


def _answer(runner: "QueryRunner", arguments: argparse.Namespace) -> int:
    """One question, or as many as are typed."""
    from penstock.pipeline.queries.answers import write_answer
    from penstock.pipeline.queries.sql import line_history, run_prompt

    if arguments.query is None:
        with line_history():
            run_prompt(runner, sys.stdout, arguments.output_format, arguments.limit)
    else:
        answer = runner.run(arguments.query, arguments.limit)
        write_answer(answer, arguments.output_format, sys.stdout)
        if answer.is_cut and arguments.output_format != "table":
            # Neither JSON nor CSV has a place to say so, and a program would take these rows for all.
            sys.stderr.write(f"penstock: there are more rows than these {len(answer.rows):,}; see --limit\n")
        # What comes after the answer, such as the end of Spark, nobody should have to wait for.
        sys.stdout.flush()
    return 0


def _refresh(config: "Config", arguments: argparse.Namespace) -> None:
    """Have a pipeline that runs here take in what has landed, before tables are read without it."""
    service = _running_pipeline(config, arguments)
    if arguments.is_refreshing and service.is_there():
        service.refresh()


def _running_pipeline(config: "Config", arguments: argparse.Namespace) -> "ServiceQueryRunner":
    from penstock.pipeline.queries.sql_service import ServiceQueryRunner

    def notify(text: str) -> None:
        sys.stderr.write(f"penstock: {text}\n")
        sys.stderr.flush()

    return ServiceQueryRunner(config.server.data_dir, is_refreshing=arguments.is_refreshing, notify=notify)


def _simulate(config: "Config", arguments: argparse.Namespace) -> int:
    from penstock.pipeline.simulator.landing import write_landing
    from penstock.pipeline.simulator.plan import Platform

    day = datetime.now(UTC).date() - timedelta(days=1)
    # Files of ten minutes: a day in files of 10 s would take longer to open than to read.
    platform = Platform(day=day, viewers=arguments.viewers, seed=arguments.seed, landing_s=600)
    truth = write_landing(platform, config.facts_dir)
    sys.stderr.write(f"{truth.facts:,} facts of {day} are in {config.facts_dir}; now: penstock pipeline run\n")
    return 0


_ACTIONS: Final[Mapping[str, Callable[["Config", argparse.Namespace], int]]] = {
    "run": _run,
    "rebuild": _rebuild,
    "archive": _archive,
    "erase": _erase,
    "migrate": _migrate,
    "status": _status,
    "check": _check,
    "lineage": _lineage,
    "report": _report,
    "view": _view,
    "sql": _sql,
    "simulate": _simulate,
}
