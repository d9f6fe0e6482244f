"""How a command runs: until it is done or interrupted, with errors in one line.

The exit status is 0 when done, also by Ctrl-C or SIGTERM, by which streams without an end are ended, and 1 when a
server, a file or the network is at fault. A summary is printed after an interruption too.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Final

from penstock.amf import printable
from penstock.errors import PenstockError
from penstock.tools import FAILURE

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_to_status(name: str, main: Coroutine[None, None, int]) -> int:
    """Run the main coroutine of a command and turn its errors into a line on stderr."""
    try:
        return asyncio.run(main)
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
