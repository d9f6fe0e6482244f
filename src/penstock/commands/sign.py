"""`penstock sign`: a link that lets its bearer publish or play one stream for a while."""

import argparse
import os
import sys
import time
from pathlib import Path

from penstock.errors import ConfigError

HELP = "sign a URL, so that whoever has it may publish or play for a while"

_MAX_S = 10 * 366 * 86_400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="rtmp://HOST/APP/STREAM or rtmps://HOST/APP/STREAM")
    parser.add_argument("--action", choices=("publish", "play"), required=True, help="what the link is for")
    parser.add_argument("--expires", metavar="DURATION", required=True, help="for how long, such as 10m or 2h")
    parser.add_argument("--ip", metavar="ADDRESS", default="", help="only for this address")
    parser.add_argument("--config", metavar="FILE", type=Path, help="TOML file that has auth.signing")


def run(arguments: argparse.Namespace) -> int:
    from penstock.access.rules import ip_of
    from penstock.access.signing import sign_url
    from penstock.config_secrets import signing_secrets
    from penstock.config_sources import load_config
    from penstock.config_units import read_seconds

    try:
        lasts_s = read_seconds(arguments.expires, low=1, high=_MAX_S)
    except ValueError as error:
        raise ConfigError(f"--expires: {error}") from None
    ip = ip_of(arguments.ip) if arguments.ip else None
    if arguments.ip and ip is None:
        raise ConfigError("--ip: should be an address, such as 192.0.2.1")
    secrets = signing_secrets(load_config(arguments.config, os.environ, {}), os.environ)
    if not secrets:
        raise ConfigError("auth.signing is not set: there is no secret to sign with (--config FILE names the file)")
    expires_at = int(time.time() + lasts_s)
    try:
        url = sign_url(arguments.url, secrets[0], arguments.action, expires_at, "" if ip is None else str(ip))
    except ValueError as error:
        raise ConfigError(f"the URL {error}") from None
    sys.stdout.write(url + "\n")
    return 0
