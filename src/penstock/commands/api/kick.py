"""`penstock kick ID`: end a connection or a view of a running server."""

import argparse
import sys

from penstock.commands.api.client import ApiClient, ApiFailure, add_url_argument

HELP = "end a connection or a view of a running server"
_NOT_FOUND = 404


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="conn_id or view_id, as in the API, logs and facts")
    add_url_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    client = ApiClient(arguments.url)
    try:
        return _kick(client, arguments.id)
    except ApiFailure as failure:
        sys.stderr.write(f"penstock kick: {failure}\n")
        return 1


def _kick(client: ApiClient, identity: str) -> int:
    for kind in ("connections", "viewers"):
        try:
            client.delete(kind, identity)
        except ApiFailure as failure:
            if failure.status != _NOT_FOUND:
                raise
        else:
            sys.stdout.write(f"kicked {identity}\n")
            return 0
    sys.stderr.write(f"penstock kick: no connection and no viewer is called {identity}\n")
    return 1
