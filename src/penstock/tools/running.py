"""How a command runs: until it is done or interrupted, with errors in one line.

Owns the exit status: 0 when done, also by Ctrl-C or SIGTERM, by which streams without an end are ended; 1 when a
server, a file or the network is at fault; 2 when the arguments are. A summary is printed after an interruption too.
"""

import argparse
import asyncio
import importlib
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Final

from penstock.amf import printable
from penstock.errors import PenstockError

FAILURE: Final = 1
WRONG_USE: Final = 2
EXTRA_PACKAGES: Final = frozenset({"av", "rich"})
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_command(name: str, module_name: str, arguments: argparse.Namespace) -> int:
    """Run `main(arguments)` of a module and turn its errors into a line on stderr.

    The module is imported here, not with the command: its packages cost time, and may not be installed.
    """
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as fault:
        if fault.name not in EXTRA_PACKAGES:
            raise
        sys.stderr.write(f"penstock {name}: no package {fault.name}; pip install 'penstock[tools]'\n")
        return FAILURE
    main: Callable[[argparse.Namespace], Coroutine[None, None, int]] = module.main
    try:
        return asyncio.run(main(arguments))
    except BrokenPipeError:
        # The reader of our output has seen enough, as `head` does. Python would complain when it flushes at exit.
        sys.stdout = None
        return 0
    except (PenstockError, OSError) as fault:
        sys.stderr.write(f"penstock {name}: {printable(str(fault))}\n")
        return FAILURE


async def until_interrupted(work: Coroutine[None, None, None]) -> bool:
    """Run `work` until it ends or a signal comes, by which it is cancelled. Says whether it was interrupted."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupt)
    try:
        await task
    except asyncio.CancelledError:
        if not interrupted:
            raise
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    return interrupted
