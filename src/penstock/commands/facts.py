"""`penstock facts schema`: the telemetry contract as JSON Schema, for other tools that read or check facts."""

import argparse
import json
import sys

from penstock.facts import FACTS

HELP = "print the contract of the facts that the server writes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    text = "print JSON Schema of a line of facts, all kinds or one"
    schema = actions.add_parser("schema", help=text, description=text.capitalize() + ".")
    schema.add_argument("--kind", metavar="KIND", choices=tuple(FACTS), help="this kind alone, such as play_started")


def run(arguments: argparse.Namespace) -> int:
    from penstock.facts_schema import fact_schema, facts_schema

    schema = facts_schema() if arguments.kind is None else fact_schema(arguments.kind)
    sys.stdout.write(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    return 0
