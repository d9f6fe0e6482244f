"""`penstock key make`: a new key, shown once, and the line by which the server knows it."""

import argparse
import json
import secrets
import sys

from penstock.access.keys import (
    KEY_BYTES,
    NAME,
    NAME_ALLOWED,
    ROLES,
    SALT_BYTES,
    key_line,
    make_key,
    make_salt,
    role_line,
)
from penstock.errors import ConfigError

HELP = "make a key for publishing, playing or the API"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    text = "make a key and print it once, with the line for the configuration"
    make = actions.add_parser("make", help=text, description=text.capitalize() + ".")
    make.add_argument("name", metavar="NAME", help="whose it is: the subject in facts, and the user for --adobe")
    kind = make.add_mutually_exclusive_group()
    kind.add_argument("--role", choices=ROLES, help="for the API, with this role; without it, for publish and play")
    kind.add_argument(
        "--adobe",
        action="store_true",
        help="also for user and password in OBS and FFmpeg; the line then holds a weaker verifier too",
    )
    make.add_argument("--json", action="store_true", help="print name, key and line as JSON")


def run(arguments: argparse.Namespace) -> int:
    name = arguments.name
    if not NAME.fullmatch(name):
        raise ConfigError(f"the name of a key {NAME_ALLOWED}")
    key = make_key(secrets.token_bytes(KEY_BYTES))
    if arguments.role is not None:
        line, place = role_line(name, arguments.role, key), "keys of [api]"
    else:
        salt = make_salt(secrets.token_bytes(SALT_BYTES)) if arguments.adobe else None
        line, place = key_line(name, key, salt), "keys of [access.APP]"
    if arguments.json:
        sys.stdout.write(json.dumps({"name": name, "key": key, "line": line}) + "\n")
    else:
        sys.stdout.write(f"{key}\n\nThis is the key of {name}, shown once. For {place}:\n\n{json.dumps(line)}\n")
    return 0
