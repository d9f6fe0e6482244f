"""`penstock hooks dead|replay`: messages of webhooks that were given up, listed and sent again."""

import argparse
import sys
from typing import Any

from penstock.commands.api.client import ApiClient, ApiFailure, add_url_argument

HELP = "list messages of webhooks that were given up, or send them again"
_PATH = "/hooks/dead-letters"
_IDS_AT_ONCE = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    text = "list messages that were given up, the newest first"
    add_url_argument(actions.add_parser("dead", help=text, description=text.capitalize() + "."))
    text = "send messages again that were given up"
    replay = actions.add_parser("replay", help=text, description=text.capitalize() + ".")
    replay.add_argument("ids", metavar="ID", nargs="*", help="webhook-id of a message; none: all of them")
    add_url_argument(replay)


def run(arguments: argparse.Namespace) -> int:
    client = ApiClient(arguments.url)
    try:
        lines = _dead(client) if arguments.action == "dead" else _replay(client, arguments.ids)
    except ApiFailure as failure:
        sys.stderr.write(f"penstock hooks: {failure}\n")
        return 1
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _dead(client: ApiClient) -> list[str]:
    return [
        "\t".join(
            (
                each["id"],
                each["dead_at"],
                each["hook"] or "(no longer configured)",
                each["type"],
                _printable(f"{each['app']}/{each['stream']}") if each["app"] is not None else "",
                f"{each['attempts']} attempts: {_printable(each['reason'])}",
            )
        )
        for each in client.items(_PATH)
    ]


def _replay(client: ApiClient, ids: list[str]) -> list[str]:
    path, parts = f"{_PATH}/replay", range(0, len(ids), _IDS_AT_ONCE)
    orders: list[dict[str, Any]] = [{"ids": ids[first : first + _IDS_AT_ONCE]} for first in parts] or [{"ids": None}]
    replayed = sum(client.post(path, order)["replayed"] for order in orders)
    return [f"{replayed} messages are sent again"]


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)
