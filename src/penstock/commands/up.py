"""`penstock up`: the server, and the pipeline beside it."""

import argparse
from collections.abc import Iterator

from penstock.commands.options import add_config_arguments
from penstock.commands.preflight import load_to_serve
from penstock.commands.serve import run as serve

HELP = "start everything on this machine: the server, and the pipeline beside it"

_PASSED_ON = ("--data", "--lake", "--master", "--log-format")
"""Flags that the pipeline is given as they were typed; all else it reads from the same file and environment."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument("--master", metavar="URL", dest="--master", help="where the pipeline's Spark runs (local)")
    parser.add_argument(
        "--lake", metavar="LOCATION", dest="--lake", help="where the tables are (lake in the data folder)"
    )
    parser.add_argument("--no-pipeline", action="store_true", help="the server alone")


def run(arguments: argparse.Namespace) -> int:
    config = load_to_serve(arguments).config
    is_wanted = config.pipeline.enabled and config.facts.enabled and not arguments.no_pipeline
    # Facts that are shipped are ingested by the pipeline of the lake that they go to.
    if not is_wanted or config.ship.to is not None:
        return serve(arguments)
    from penstock.commands.pipeline_child import PipelineChild
    from penstock.commands.stopping import Stops
    from penstock.logs import configure_logs

    stops = Stops()
    child = PipelineChild(config.facts_dir, list(_words(arguments, f"{config.pipeline.every_s:g}s")), stops)
    # The server opens its log late and closes it early, and the child has words before and after.
    configure_logs(config.logs.level, config.logs.format)
    child.start()
    try:
        return serve(arguments, on_stop=stops.ask)
    finally:
        last_words = configure_logs(config.logs.level, config.logs.format)
        with stops.heard():
            child.stop()
        last_words.close()


def _words(arguments: argparse.Namespace, every: str) -> Iterator[str]:
    yield from ("--every", every)
    if arguments.config is not None:
        yield from ("--config", str(arguments.config))
    for flag in _PASSED_ON:
        value = getattr(arguments, flag, None)
        if value is not None:
            yield from (flag, str(value))
