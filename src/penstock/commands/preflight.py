"""What is checked of a configuration before a server is started with it, or goes on with it.

`penstock config check` does none of this: it is to say the same on a machine that has neither secrets nor extras.
"""

import argparse
import os
from typing import TYPE_CHECKING

from penstock.commands.extra_packages import web_complaint
from penstock.commands.options import load_from_arguments
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config_sources import LoadedConfig


def load_to_serve(arguments: argparse.Namespace) -> "LoadedConfig":
    """The configuration, every secret of which can be read and every package of which is there; else ConfigError."""
    from penstock.config_secrets import check_secrets

    loaded = load_from_arguments(arguments)
    complaint = web_complaint(loaded.config)
    if complaint is not None:
        raise ConfigError(complaint)
    check_secrets(loaded.config, os.environ)
    return loaded
