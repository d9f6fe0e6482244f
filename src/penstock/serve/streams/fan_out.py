"""How what was flushed reaches all viewers that are in step: the same bytes to every socket.

Owns the choice between the system's ways of doing that. No work is done in Python for each of them: the loop is the
kernel's where there is a ring, and `map`'s where one call is made for each socket.
"""

import os
from collections.abc import Callable
from itertools import repeat
from typing import Final

from penstock.relay.log import Flush
from penstock.serve.streams.send_ring import SendRing

_SENDFILE_FROM_BYTES: Final = 2 * 1024
"""Below it one shared bytes object and write are cheaper than sendfile from the log."""
_RING_UP_TO_BYTES: Final = 24 * 1024
"""The ring copies into each socket; sendfile does not, and from here on that is worth more than a call for each."""
_RING_FROM_SOCKETS: Final = 64
"""Below it, laying out the list costs more than the calls that it saves."""


class FanOut:
    """Sends to many sockets at once."""

    def __init__(self, ring: SendRing | None) -> None:
        self._ring = ring

    def send(self, sockets: list[int], flush: Flush) -> list[int]:
        """How many bytes each socket took: 0 if it was full, -1 if it is lost."""
        size = flush.size
        if self._ring is not None and size <= _RING_UP_TO_BYTES and len(sockets) >= _RING_FROM_SOCKETS:
            return self._ring.send(sockets, b"".join(flush.pieces))
        file = flush.segment.buffer.descriptor
        if size < _SENDFILE_FROM_BYTES or file is None:
            return send_to_each(os.write, sockets, b"".join(flush.pieces))
        return send_to_each(os.sendfile, sockets, file, flush.position - flush.segment.start, size)


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
