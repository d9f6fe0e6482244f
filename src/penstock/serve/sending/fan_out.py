"""How what was flushed reaches all viewers that are in step: the same bytes to every socket of a stream.

Owns the choice between the system's ways of doing that. What all streams of a round send in small flushes goes by one
call where there is a ring. No work is done in Python for each viewer: the loop is the kernel's there, and `map`'s where
one call is made for each socket.
"""

import os
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from penstock.relay.readable_log import Flush
from penstock.serve.sending.send_ring import SendRing

_SENDFILE_FROM_BYTES: Final = 2 * 1024
"""Below it one shared bytes object and write are cheaper than sendfile from the log."""
_RING_UP_TO_BYTES: Final = 24 * 1024
"""The ring copies into each socket; sendfile does not, and from here on that is worth more than a call for each."""
_RING_FROM_SOCKETS: Final = 16
"""Below it, laying out the list costs more than the calls that it saves."""


class Sending(NamedTuple):
    """What a stream has flushed, and the sockets of its viewers in step."""

    flush: Flush
    sockets: list[int]


class FanOut:
    """Sends to many sockets at once."""

    def __init__(self, ring: SendRing | None) -> None:
        self._ring = ring

    def send(self, sendings: Sequence[Sending]) -> list[list[int]]:
        """For each sending, how many bytes each socket took: 0 if it was full, -1 if it is lost."""
        small = [each for each in sendings if _suits_ring(each)]
        if self._ring is None or sum(len(each.sockets) for each in small) < _RING_FROM_SOCKETS:
            return [_send(each) for each in sendings]
        by_ring = iter(self._ring.send([(each.sockets, each.flush.data) for each in small]))
        return [next(by_ring) if _suits_ring(each) else _send(each) for each in sendings]


def _suits_ring(sending: Sending) -> bool:
    return sending.flush.size <= _RING_UP_TO_BYTES and bool(sending.sockets)


def _send(sending: Sending) -> list[int]:
    flush, sockets = sending
    if not sockets:
        return []
    buffer, offset = flush.segment.buffer, flush.position - flush.segment.start
    file = buffer.descriptor
    if file is None and flush.pieces is None:
        with buffer.view(offset, flush.size) as view:
            return send_to_each(os.write, sockets, view)
    if file is None or flush.size < _SENDFILE_FROM_BYTES:
        return send_to_each(os.write, sockets, flush.data)
    return send_to_each(os.sendfile, sockets, file, offset, flush.size)


def send_to_each(send: Callable[..., int], sockets: list[int], *arguments: object) -> list[int]:
    """One call for each socket. The loop is in C: an interpreted one would cost a tenth more for each viewer."""
    sent: list[int] = []
    left = iter(sockets)
    while len(sent) < len(sockets):
        try:
            # What was sent before an error stays in the list.
            sent.extend(map(send, left, *map(repeat, arguments)))
        except OSError as error:
            sent.append(0 if isinstance(error, BlockingIOError) else -1)
    return sent
