"""A worker of a live server with any settings: the worker of the product, which tells tests what it is told."""

import json
import socket
import sys
from functools import partial

from penstock.serve.app import Program
from penstock.serve.worker import Worker
from tests.support.live_server import Telling, settings_of


def main() -> int:
    """Settings and the descriptor of the link to the supervisor are the arguments."""
    program = partial(Program, settings=settings_of(json.loads(sys.argv[1])), observers=(Telling(),))
    return Worker(socket.socket(fileno=int(sys.argv[2])), program).run()


if __name__ == "__main__":
    sys.exit(main())
