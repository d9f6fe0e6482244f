"""Pairs of connected sockets, whose near ends never block: to be sent to, filled and lost."""

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager

Pair = tuple[socket.socket, socket.socket]


@contextmanager
def socket_pairs(count: int) -> Iterator[list[Pair]]:
    """So many connections, closed at the end."""
    made = [socket.socketpair() for _ in range(count)]
    for pair in made:
        for end in pair:
            end.setblocking(False)
    try:
        yield made
    finally:
        for pair in made:
            for end in pair:
                end.close()


def fill(pair: Pair) -> None:
    """Send until nothing more is taken."""
    with contextlib.suppress(BlockingIOError):
        while True:
            pair[0].send(b"x" * 65536)


def near_ends(pairs: list[Pair]) -> list[int]:
    """The descriptors that are sent to."""
    return [ours.fileno() for ours, _ in pairs]
