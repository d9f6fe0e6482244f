"""`penstock serve`: the live server."""

import argparse
from collections.abc import Callable

from penstock.commands.options import add_config_arguments
from penstock.commands.preflight import load_to_serve

HELP = "serve live streams: RTMP in, viewers, recordings and facts out"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)


def run(arguments: argparse.Namespace, on_stop: Callable[[], None] = lambda: None) -> int:
    """`on_stop` is called for each signal that asks the server to stop."""
    loaded = load_to_serve(arguments)
    config = loaded.config
    from penstock.serve.supervisor import run as run_server

    def serve(on_stop: Callable[[], None]) -> int:
        return run_server(loaded, reload=lambda: load_to_serve(arguments), on_stop=on_stop)

    if config.ship.to is None or not config.facts.enabled:
        return serve(on_stop)
    from penstock.commands.shipping import shipping

    with shipping(config, config.ship.to) as stops:
        return serve(stops.ask)
