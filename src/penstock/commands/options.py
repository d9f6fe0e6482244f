"""The options of all commands that need the configuration, and the way from parsed arguments to it.

Importing this costs nothing: the configuration is imported when it is asked for.
"""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.config_sources import LoadedConfig

# Name of the flag, what to write after it, help. Values are judged with those of all other sources, not by argparse.
_FLAGS = (
    ("--rtmp", "HOST:PORT", "where to serve RTMP (127.0.0.1:1935)"),
    ("--rtmps", "HOST:PORT", "where to serve RTMPS; needs --cert and --key"),
    ("--cert", "FILE", "certificate chain for RTMPS, PEM"),
    ("--key", "FILE", "private key for RTMPS, PEM"),
    ("--http", "HOST:PORT", "where to serve HTTP, or none (127.0.0.1:8080)"),
    ("--data", "DIR", "folder of recordings and facts (./data)"),
    ("--workers", "N|auto", "how many processes serve media; auto: one for each core that may be used (1)"),
    ("--log-level", "LEVEL", "debug, info, warning or error (info)"),
    ("--log-format", "FORMAT", "auto, json or console (auto: text on a terminal, else JSON)"),
)


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", type=Path, help="TOML file; see penstock.example.toml")
    for flag, metavar, text in _FLAGS:
        parser.add_argument(flag, metavar=metavar, dest=flag, help=text)
    parser.add_argument(
        "--record",
        metavar="PATTERN",
        dest="--record",
        nargs="+",
        help="record all, none, or streams like these patterns of APP/STREAM (none)",
    )


def load_from_arguments(arguments: argparse.Namespace) -> "LoadedConfig":
    """The configuration of file, environment and these arguments; ConfigError if it is wrong."""
    from penstock.config_sources import FLAGS, load_with_origins

    given = {flag: value for flag, value in vars(arguments).items() if flag in FLAGS and value is not None}
    return load_with_origins(arguments.config, os.environ, given)
