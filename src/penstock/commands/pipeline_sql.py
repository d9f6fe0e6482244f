"""`penstock pipeline sql`, asked of a pipeline that runs here. It loads no Spark, so that it answers at once."""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final

from penstock.config import Config
from penstock.pipeline.reports.answers import Asker, write_answer
from penstock.pipeline.reports.sql import line_history, run_prompt
from penstock.pipeline.reports.sql_service import ServiceAsker


def ask_running_pipeline(config: Config, arguments: argparse.Namespace) -> int | None:
    """Let a pipeline that runs here answer; None: none does, or the question is not for it."""
    service = ServiceAsker(config.server.data_dir)
    return ask(service, arguments) if not arguments.write and service.is_there() else None


def ask(asker: Asker, arguments: argparse.Namespace) -> int:
    """One question, or as many as are typed."""
    if arguments.query is None:
        with line_history():
            run_prompt(asker, sys.stdout, arguments.output_format, arguments.limit)
    else:
        write_answer(asker.ask(arguments.query, arguments.limit), arguments.output_format, sys.stdout)
        # What comes after the answer, such as the end of Spark, nobody should have to wait for.
        sys.stdout.flush()
    return 0


ACTIONS: Final[Mapping[str, Callable[[Config, argparse.Namespace], int | None]]] = {"sql": ask_running_pipeline}
