"""`penstock pipeline …`: facts and recordings to tables, and answers from them.

Owns the arguments and the exit status: 75 when another writer has the lake, 69 when something is not installed, 130
when it was stopped by a signal, 1 for what else went wrong, each with one line that says so.
"""

import argparse
import importlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.commands.options import load_from_arguments
from penstock.errors import LakeBusy, MissingProgram, MisuseError, PipelineError

if TYPE_CHECKING:
    from penstock.config import Config

HELP = "make tables of facts and recordings, and ask them"

BUSY = os.EX_TEMPFAIL
NOT_INSTALLED = os.EX_UNAVAILABLE
INTERRUPTED = 128 + signal.SIGINT

_WRITING = ("run", "rebuild", "archive", "erase")
_MODULES = {
    **dict.fromkeys(("report", "view", "simulate"), ("pipeline_answers",)),
    **dict.fromkeys(_WRITING, ("pipeline_runs",)),
    "sql": ("pipeline_sql", "pipeline_spark"),
}
"""Who does what; the second one if the first has nothing to say."""

_REPORT_DAYS = 30
"""A page about years takes long to make, and says little about any day."""
_MOST_DAYS = 36_500

_ZONE = ("--timezone", "ZONE", "show times in this zone, such as Europe/Berlin (UTC)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=text, description=text.capitalize() + ".")
        action.add_argument("--config", metavar="FILE", type=Path, help="TOML file; see penstock.example.toml")
        action.add_argument("--data", metavar="DIR", dest="--data", help="folder of recordings and facts (./data)")
        action.add_argument("--lake", metavar="LOCATION", dest="--lake", help="where the tables are (lake in DIR)")
        return action

    run_ = add("run", "carry new facts into all tables, once or again and again")
    _add_spark(run_)
    often = run_.add_mutually_exclusive_group()
    often.add_argument("--once", action="store_true", help="run once and end (what happens without --every)")
    often.add_argument("--every", metavar="TIME", help="look for new facts this often, such as 60s")
    run_.add_argument("--until-eof", action="store_true", help="end when standard input ends, after a last run")

    rebuild = add("rebuild", "make silver and gold anew from bronze, for all days or some")
    _add_spark(rebuild)
    rebuild.add_argument("--from", metavar="DAY", dest="first_day", help="the first UTC day, such as 2026-11-15")
    rebuild.add_argument("--to", metavar="DAY", dest="last_day", help="the last one")

    report = add("report", "write one page, or JSON, about audience, quality, health, usage and recordings")
    report.add_argument("--out", metavar="FILE", type=Path, help="where to write it (penstock-report.html)")
    report.add_argument("--format", choices=("html", "json"), default="html", dest="output_format")
    report.add_argument(
        "--days", metavar="N", type=_days, default=_REPORT_DAYS, help=f"the last N days, or all ({_REPORT_DAYS})"
    )
    report.add_argument(_ZONE[0], metavar=_ZONE[1], default="UTC", help=_ZONE[2])

    view = add("view", "tell what one viewer saw, moment by moment")
    view.add_argument("view_id", metavar="ID", help="the view's id, or how it begins")
    view.add_argument("--format", choices=("table", "json"), default="table", dest="output_format")
    view.add_argument(_ZONE[0], metavar=_ZONE[1], default="UTC", help=_ZONE[2])

    sql = add("sql", "ask the tables in SQL; without a query, at a prompt")
    _add_spark(sql, with_wait=False)
    sql.add_argument("query", metavar="QUERY", nargs="?")
    sql.add_argument("--format", choices=("table", "json", "csv"), default="table", dest="output_format")
    sql.add_argument("--limit", metavar="N", type=int, default=1000, help="at most N rows (1000)")
    sql.add_argument("--write", action="store_true", help="allow statements that change something")

    archive = add("archive", "verify all recordings and make MP4, HLS and pictures of them")
    _add_spark(archive)

    erase = add("erase", "forget a viewer or an address")
    _add_spark(erase)
    who = erase.add_mutually_exclusive_group(required=True)
    who.add_argument("--viewer", metavar="KEY", help="a viewer_key, or what a viewer calls itself")
    who.add_argument("--ip", metavar="ADDRESS", help="an IP address")

    simulate = add("simulate", "land the facts of a day on an invented platform, for trying things out")
    simulate.add_argument("--viewers", metavar="N", type=int, default=500, help="how many views (500)")
    simulate.add_argument("--seed", metavar="N", type=int, default=1, help="another seed is another day (1)")


def _add_spark(action: argparse.ArgumentParser, *, with_wait: bool = True) -> None:
    action.add_argument("--master", metavar="URL", dest="--master", help="where Spark runs (local)")
    action.add_argument("--log-format", metavar="FORMAT", dest="--log-format", help="auto, json or console (auto)")
    if with_wait:
        action.add_argument("--wait", metavar="TIME", help="wait so long for another writer to finish, such as 5m")


def _days(text: str) -> int | None:
    """How many days a report is about; None: all that there are."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days, nor all")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    config = load_from_arguments(arguments).config
    # Spark gives its jobs up at a Ctrl-C, and only then. By SIGTERM Java would end in the midst of them, and complain.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    # The way to Java logs every call that was broken off, with its stack, and raises it as well.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        return _act(config, arguments)
    except KeyboardInterrupt:
        if getattr(arguments, "until_eof", False):
            return INTERRUPTED  # it had not begun, and whoever ended it says so in a log of their own
        return _fail(INTERRUPTED, f"pipeline {arguments.action}: stopped{_consequence(arguments.action)}")
    except LakeBusy as error:
        return _fail(BUSY, str(error))
    except MissingProgram as error:
        return _fail(NOT_INSTALLED, str(error))
    except PipelineError as error:
        return _fail(1, str(error))


def _act(config: "Config", arguments: argparse.Namespace) -> int:
    for name in _MODULES[arguments.action]:
        status = _module(name).ACTIONS[arguments.action](config, arguments)
        if status is not None:
            return int(status)
    raise MisuseError(f"nobody does {arguments.action}")


def _module(name: str) -> Any:
    """Imported when it is needed: Spark's modules take a while, and come with the extra `pipeline` alone."""
    try:
        return importlib.import_module(f"penstock.commands.{name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "penstock":
            raise
        raise MissingProgram(f"{missing} is not installed; it comes with: pip install 'penstock[pipeline]'") from None


def _consequence(action: str) -> str:
    return "; what was committed stays, the next run does the rest" if action in _WRITING else ""


def _fail(status: int, text: str) -> int:
    sys.stderr.write(f"penstock: {text}\n")
    return status
