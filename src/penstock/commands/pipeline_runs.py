"""The actions of `penstock pipeline` that need Spark: run, rebuild, archive and erase; sql is in `pipeline_spark`.

Owns the way from the configuration to the pipeline's settings. Importing this imports Spark.
"""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

from penstock.commands.pipeline import INTERRUPTED
from penstock.commands.pipeline_spark import spark_settings_of
from penstock.config import Config
from penstock.config_units import DAY, read_seconds
from penstock.errors import ConfigError
from penstock.pipeline.cycle import Cycles
from penstock.pipeline.jobs.archive import ArchiveProgress, run_archive
from penstock.pipeline.loop import Loop, Rhythm
from penstock.pipeline.progress import LineProgress, Progress, progress_for
from penstock.pipeline.retention import RetentionSettings
from penstock.pipeline.settings import PipelineSettings
from penstock.serve.logs import is_for_programs


def settings_of(config: Config) -> PipelineSettings:
    """What the pipeline is told."""
    retention = config.retention
    return PipelineSettings(
        data=str(config.server.data_dir),
        lake=config.lake_location,
        landing=str(config.facts_dir),
        recordings=str(config.recordings_dir),
        spark=spark_settings_of(config),
        silent_us=round(config.pipeline.silent_s * 1_000_000),
        retention=RetentionSettings(
            landing_s=retention.landing_s,
            address_s=retention.address_s,
            bronze_s=retention.bronze_s,
            views_s=retention.views_s,
        ),
    )


def _run(config: Config, arguments: argparse.Namespace) -> int:
    progress = _progress(config, is_beside_server=arguments.until_eof)
    cycles = Cycles(settings_of(config), progress, wait_s=_seconds("--wait", arguments.wait))
    if arguments.every is None:
        try:
            cycles.run_cycle()
        finally:
            cycles.close()
        return 0
    rhythm = Rhythm(_seconds("--every", arguments.every) or config.pipeline.every_s, config.pipeline.idle_s)
    stopping = threading.Event()

    def stop(*_: object) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if arguments.until_eof:
        threading.Thread(target=_stop_at_eof, args=(stopping,), name="end of input", daemon=True).start()
    try:
        Loop(cycles, rhythm, time.monotonic, stopping.wait, progress.say).run()
    except KeyboardInterrupt:
        # A line of the log, beside those of a server.
        progress.say("stopped at once; what was committed stays, the next run does the rest")
        return INTERRUPTED
    finally:
        cycles.close()
    return 0


def _stop_at_eof(stopping: threading.Event) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    stopping.set()


def _rebuild(config: Config, arguments: argparse.Namespace) -> int:
    first, last = _day("--from", arguments.first_day), _day("--to", arguments.last_day)
    cycles = Cycles(settings_of(config), _progress(config), wait_s=_seconds("--wait", arguments.wait))
    try:
        cycles.rebuild(first, last)
    finally:
        cycles.close()
    return 0


def _archive(config: Config, arguments: argparse.Namespace) -> int:
    progress = _progress(config)

    def tell(at: ArchiveProgress) -> None:
        progress.step(str(at))

    cycles = Cycles(settings_of(config), progress, wait_s=_seconds("--wait", arguments.wait))
    try:
        with cycles.lock("pipeline archive"):
            summary = run_archive(cycles.spark(), str(config.server.data_dir), progress=tell)
    finally:
        cycles.close()
    statuses = ", ".join(f"{count} {status}" for status, count in summary.statuses.items()) or "no recordings"
    progress.say(f"archive: {statuses}; worked on {summary.worked_on}")
    return 0


def _erase(config: Config, arguments: argparse.Namespace) -> int:
    cycles = Cycles(settings_of(config), _progress(config), wait_s=_seconds("--wait", arguments.wait))
    try:
        cycles.erase(viewer=arguments.viewer, ip=arguments.ip)
    finally:
        cycles.close()
    return 0


def _progress(config: Config, *, is_beside_server: bool = False) -> Progress:
    is_json = is_for_programs(config.logs.format)
    # A line that changes in place would be torn by the server's.
    return LineProgress(sys.stderr, is_json=is_json) if is_beside_server else progress_for(is_json=is_json)


def _seconds(flag: str, value: str | None) -> float | None:
    try:
        return None if value is None else read_seconds(value, low=0.1, high=DAY)
    except ValueError as error:
        raise ConfigError(f"flag {flag}: {value!r} {error}") from None


def _day(flag: str, value: str | None) -> str | None:
    try:
        return None if value is None else date.fromisoformat(value).isoformat()
    except ValueError:
        raise ConfigError(f"flag {flag}: {value!r} should be a day such as 2026-11-15") from None


ACTIONS: Final[Mapping[str, Callable[[Config, argparse.Namespace], int]]] = {
    "run": _run,
    "rebuild": _rebuild,
    "archive": _archive,
    "erase": _erase,
}
