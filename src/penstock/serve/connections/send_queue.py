"""A send queue: the order in which bytes go out on one connection.

Owns the rule of output: a half-sent message is finished first, then what was queued for this connection alone, then the
log from where its viewer is. Stops when the socket is full, or when its time is over. What the end of the connection
means, and when to go on, is the connection's matter.
"""

import enum
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from penstock.relay.cursor import KeptRange
from penstock.serve.connections.transport import Transport

FILTERED_BATCH_BYTES: Final = 64 * 1024
FILTERED_QUEUE_BYTES: Final = 128 * 1024
_JOINED_BYTES: Final = 16 * 1024
"""Pieces up to this together are sent by one call; larger ones are not copied for that."""

Piece: TypeAlias = bytes | KeptRange
"""What is queued: bytes, or where they are in a log."""


class Sent(enum.Enum):
    """How far sending came."""

    ALL = "nothing is left"
    BLOCKED = "the peer has to read first"
    UNFINISHED = "the time was over"
    QUEUED = "something was queued that comes first"


class MediaSource(Protocol):
    """One play of a connection, as the source of what is sent."""

    @property
    def is_shared(self) -> bool:
        """Whether it is sent the shared encoding straight from the log."""

    @property
    def log_bytes(self) -> int:
        """What it was sent straight from the log, past the queue."""

    def work(self, now: float) -> None:
        """Do what has come up since the last turn: begin, go on, or end."""

    def finish_message(self, transport: Transport, now: float) -> bool:
        """Send the rest of a half-sent message. False if the peer has to read first."""

    def leave_step(self) -> None:
        """Something else is to be sent first."""

    def send_log(self, transport: Transport, now: float, is_late: Callable[[], bool]) -> Sent:
        """Send the log from its place on, at least a little."""

    def take_filtered(self, max_bytes: int, now: float) -> list[Piece] | None:
        """What comes next, fitted to it: none if it wants nothing of that; None if it has had everything."""


class SendQueue:
    """What waits to be sent on one connection, and how it is sent."""

    __slots__ = ("_pieces", "_plays", "_transport", "queued_bytes", "sent_bytes", "stalled_since")

    def __init__(self, transport: Transport, plays: Mapping[int, MediaSource]) -> None:
        self._transport = transport
        self._plays = plays
        self._pieces: deque[Piece | memoryview] = deque()
        self.queued_bytes = 0
        """Bytes that wait for this connection alone."""
        self.sent_bytes = 0
        """Bytes of the queue that were sent; what is sent from the log is counted by its viewers."""
        self.stalled_since: float | None = None
        """Since when the peer has not read what is queued."""

    def put(self, piece: Piece) -> None:
        """Queue bytes for this connection alone, to be sent at the next boundary between messages."""
        if size := _size_of(piece):
            self._pieces.append(piece)
            self.queued_bytes += size

    def put_first(self, rest: KeptRange) -> None:
        """Queue the rest of a half-sent message: before everything else."""
        self.queued_bytes += rest.size
        if rest.size > FILTERED_BATCH_BYTES:
            self._pieces.appendleft(rest)
        else:
            # A copy of a little holds less memory than the segment that it is in.
            segment, position, size = rest.rest
            self._pieces.appendleft(segment.read(position, size))
            rest.release()

    def clear(self) -> None:
        """Nobody is there any more to be sent anything."""
        for piece in self._pieces:
            if isinstance(piece, KeptRange):
                piece.release()
        self._pieces.clear()
        self.queued_bytes = 0

    def send(self, now: float, is_late: Callable[[], bool]) -> Sent:
        """Send until nothing is left, the peer has to read first, or it is late; at least a little."""
        shared = self._shared_source()
        if shared is not None:
            if not shared.finish_message(self._transport, now):
                return Sent.BLOCKED
            if self._pieces:
                shared.leave_step()
        while True:
            if not self._send_pieces(now):
                return Sent.BLOCKED
            if shared is not None:
                sent = shared.send_log(self._transport, now, is_late)
                if sent is not Sent.QUEUED:
                    return sent
            elif not self._fill_from_filtered(now) and not self._pieces:
                return Sent.ALL
            if is_late():
                return Sent.UNFINISHED

    def _shared_source(self) -> MediaSource | None:
        if len(self._plays) != 1:
            return None
        (source,) = self._plays.values()
        return source if source.is_shared else None

    def _send_pieces(self, now: float) -> bool:
        pieces = self._pieces
        while pieces:
            piece = pieces[0]
            size = _size_of(piece)
            if isinstance(piece, KeptRange):
                # It stays where it is until then: if the connection is lost here, it has to be given back.
                rest = piece.rest
                sent = self._transport.send_from(rest.segment.buffer, rest.offset, size)
                piece.advance(sent)
                pieces.popleft()
            else:
                pieces.popleft()
                while pieces and not isinstance(other := pieces[0], KeptRange) and size + len(other) <= _JOINED_BYTES:
                    piece = b"".join((piece, other))
                    size = len(piece)
                    pieces.popleft()
                sent = self._transport.send(piece)
                # A view, since a slow peer takes a large message in many pieces.
                piece = memoryview(piece)[sent:]
            self.queued_bytes -= sent
            self.sent_bytes += sent
            if sent < size:
                pieces.appendleft(piece)
                if self.stalled_since is None:
                    self.stalled_since = now
                return False
        self.stalled_since = None
        return True

    def _fill_from_filtered(self, now: float) -> bool:
        """Move some of the log into the queue for viewers with wishes of their own. False if all are in step."""
        has_filled = False
        for source in list(self._plays.values()):
            if self.queued_bytes >= FILTERED_QUEUE_BYTES:
                return True
            taken = source.take_filtered(FILTERED_BATCH_BYTES, now)
            if taken is not None:
                for piece in taken:
                    self.put(piece)
                has_filled = True
        return has_filled


def _size_of(piece: Piece | memoryview) -> int:
    return piece.size if isinstance(piece, KeptRange) else len(piece)
