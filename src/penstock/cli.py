"""The command line: arguments in, exit status out.

Owns the names of the commands and the frame around them: version, help, and one line with status 2 for what the
operator got wrong. A command is a module, or an object in one, with HELP, add_arguments and run; only the module of the
chosen command is imported, so that a command costs what it needs and no more.
"""

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol, cast

from penstock import __version__
from penstock.errors import ConfigError

COMMANDS: Mapping[str, str] = {
    "up": "penstock.commands.up",
    "serve": "penstock.commands.serve",
    "pipeline": "penstock.commands.pipeline",
    "config": "penstock.commands.config",
    "facts": "penstock.commands.facts",
    "key": "penstock.commands.key",
    "sign": "penstock.commands.sign",
    "status": "penstock.commands.api.status",
    "kick": "penstock.commands.api.kick",
    "hooks": "penstock.commands.api.hooks",
    "publish": "penstock.tools.command_line:PUBLISH",
    "play": "penstock.tools.command_line:PLAY",
    "probe": "penstock.tools.command_line:PROBE",
    "bench": "penstock.tools.command_line:BENCH",
}

WRONG_USE = 2


class Command(Protocol):
    """What a command provides."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        # A shortened flag would change its meaning with the next flag that begins like it.
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {' '.join(message.split())} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = _Parser(prog="penstock", description="A live-video server whose streams are tables.")
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    chosen = words[0] if words and words[0] in COMMANDS else None
    wants_list = chosen is None and ("-h" in words or "--help" in words)
    for name in COMMANDS:
        if name == chosen or wants_list:
            command = _command(name)
            command.add_arguments(commands.add_parser(name, help=command.HELP, description=command.HELP))
        else:
            commands.add_parser(name)
    parsed = parser.parse_args(words)
    try:
        return _command(parsed.command).run(parsed)
    except ConfigError as error:
        sys.stderr.write(f"penstock: {error}\n")
        return WRONG_USE


def _command(name: str) -> Command:
    module_name, _, attribute = COMMANDS[name].partition(":")
    module = importlib.import_module(module_name)
    return cast("Command", getattr(module, attribute) if attribute else module)
