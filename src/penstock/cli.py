"""The command line: arguments in, exit status out.

Owns the names of the commands. `up` starts nothing in this version: it says so in one line and ends with status 0,
since nothing that was there to do has failed.
"""

import argparse
import sys
from collections.abc import Sequence

from penstock import __version__

NO_SERVER = "penstock: the live server is not part of this version; its protocol core is (see README.md)\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="penstock", description="A live-video server whose streams are tables.")
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser("up", help="start the server (not part of this version)")
    parser.parse_args(arguments)
    sys.stderr.write(NO_SERVER)
    return 0
