"""How soon each connection is read: at once, at a tick of many publishers, or when nobody waits for it.

Owns the rules and the number of publishers that are watched, from which on these share a tick. Streams of other workers
that are watched here count too, as each of their flushes wakes this loop. The tick depends on that number alone, not on
the load, which strangers can make. Whoever has asked for something lately may ask for more, and is heard at once.
"""

from collections.abc import Callable
from typing import Final

from penstock.serve.coalesced_reads import Pace
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.reactor import Loop

_SETTLED_S: Final = 2.0
_TICK_FROM: Final = 32
"""Watched publishers. To read every message of fewer as it comes takes an eighth of a core."""
_TICK_DOWN_TO: Final = 24


class ReadPaces:
    """Sets the pace of every connection."""

    def __init__(self, loop: Loop, followed_streams: Callable[[], int]) -> None:
        """`followed_streams`: how many of other workers are watched here."""
        self._loop = loop
        self._followed_streams = followed_streams
        self._watched: set[MediaConnection] = set()
        """Connections that publish something that is watched."""
        self._is_ticking = False

    def update(self, connection: MediaConnection) -> None:
        """What a connection publishes or plays, or who watches it, has changed; or a second has passed."""
        if any(stream.has_viewers for stream in connection.publications.values()):
            self._watched.add(connection)
        else:
            self._watched.discard(connection)
        self._count()
        connection.set_pace(self._pace_of(connection))

    def forget(self, connection: MediaConnection) -> None:
        """A connection is gone."""
        self._watched.discard(connection)
        self._count()

    def _count(self) -> None:
        watched = len(self._watched) + self._followed_streams()
        is_ticking = watched >= (_TICK_DOWN_TO if self._is_ticking else _TICK_FROM)
        if is_ticking != self._is_ticking:
            self._is_ticking = is_ticking
            for connection in self._watched:
                connection.set_pace(self._pace_of(connection))

    def _pace_of(self, connection: MediaConnection) -> Pace:
        is_settled = self._loop.now - connection.asked_at >= _SETTLED_S
        if connection in self._watched:
            return Pace.TICK if self._is_ticking and is_settled else Pace.AT_ONCE
        if connection.publications:
            return Pace.LAZY
        # What a settled viewer sends is acknowledgements, each of which would wake the loop for nothing.
        return Pace.LAZY if connection.plays and is_settled else Pace.AT_ONCE
