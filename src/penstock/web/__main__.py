"""python -m penstock.web FD: the web process, on the supervisor's link that it inherits."""

import asyncio
import signal
import socket
import sys

from penstock.web.process import WebProcess


async def _serve(descriptor: int) -> int:
    return await WebProcess(socket.socket(fileno=descriptor)).run()


def main() -> int:
    """Serve until the supervisor says otherwise, or is gone."""
    # A terminal sends them to every process of the group. What they mean is the supervisor's to say.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return asyncio.run(_serve(int(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
