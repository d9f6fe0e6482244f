"""From a command's name to its work: the part of a command that costs nothing to import.

The module that does the work is imported when the command runs, as its packages take their time and may not be
installed.
"""

import argparse
import importlib
import sys
from typing import Final

from penstock.tools.arguments import FAILURE

EXTRA_PACKAGES: Final = frozenset({"av", "rich"})


def run_command(name: str, module_name: str, arguments: argparse.Namespace) -> int:
    """Run `main(arguments)`, a coroutine function of the named module, to its exit status."""
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as fault:
        if fault.name not in EXTRA_PACKAGES:
            raise
        sys.stderr.write(f"penstock {name}: no package {fault.name}; pip install 'penstock[tools]'\n")
        return FAILURE
    from penstock.tools.running import run_to_status  # noqa: PLC0415 - asyncio is not for --help

    return run_to_status(name, module.main(arguments))
