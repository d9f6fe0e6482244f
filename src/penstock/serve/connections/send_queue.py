"""A send queue: the order in which bytes go out to one connection.

Owns the rule of output: a half-sent message is finished first, then what was queued for this connection, then
the log from where its viewer is. Whether the socket can take more, and what its end means, is `connection`'s matter.
"""

from collections import deque

from penstock.serve.connections.transport import Transport
from penstock.serve.reactor import Reactor
from penstock.serve.streams.viewer import Viewer

SELECTIVE_BATCH_BYTES = 64 * 1024
SELECTIVE_QUEUE_BYTES = 128 * 1024
_REST_BYTES = 1024 * 1024


class SendQueue:
    """What waits to be sent to one connection, and how it is sent."""

    __slots__ = (
        "_is_closed",
        "_queue",
        "_queued_bytes",
        "_reactor",
        "_transport",
        "reply_stalled_since",
        "sent_private_bytes",
        "viewers",
    )

    def __init__(self, transport: Transport, reactor: Reactor) -> None:
        self._transport = transport
        self._reactor = reactor
        self._queue: deque[bytes | memoryview] = deque()
        self._queued_bytes = 0
        self._is_closed = False
        self.reply_stalled_since: float | None = None
        self.sent_private_bytes = 0
        self.viewers: dict[int, Viewer] = {}

    @property
    def plays(self) -> int:
        """How many streams it watches."""
        return len(self.viewers)

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for this connection alone."""
        return self._queued_bytes

    def queue(self, data: bytes) -> None:
        """Bytes for this connection alone, sent at the next boundary between messages."""
        self._queue.append(data)
        self._queued_bytes += len(data)

    def queue_first(self, data: bytes) -> None:
        """The rest of a message that is half out: before everything else."""
        self._queue.appendleft(data)
        self._queued_bytes += len(data)

    def queue_rest(self, viewer: Viewer) -> None:
        """Queue what a viewer has yet to be sent, at the end of its stream; of one far behind, the message in hand."""
        cursor = viewer.cursor
        if cursor is None or viewer.is_in_step or self._is_closed:
            return
        wants_all = cursor.lag_bytes <= _REST_BYTES
        while (piece := cursor.next_range()) is not None and (wants_all or cursor.is_inside_message):
            entry = piece.segment.entry_at(piece.position)
            size = entry.position + entry.encoded_bytes - piece.position
            if entry.position < piece.position:
                self.queue_first(piece.segment.read(piece.position, size))
            elif viewer.track_filter.wants(entry.kind):
                self.queue(viewer.track_filter.fit(piece.segment.read(piece.position, size)))
            cursor.advance(size)

    def _send_all(self) -> bool:
        """Send until nothing is left, or the connection has to read first: False."""
        viewer = self._shared_viewer()
        if viewer is not None and viewer.cursor is not None:
            if not viewer.is_in_step and viewer.cursor.is_inside_message and not self._finish_message(viewer):
                return False
            if self._queue and viewer.is_in_step and viewer.live_stream is not None:
                viewer.live_stream.fall_out(viewer)
        while True:
            if not self._send_queue():
                return False
            if viewer is not None and viewer.cursor is not None:
                return viewer.is_in_step or self._send_log(viewer)
            if not self._fill_from_selective():
                return True

    def _shared_viewer(self) -> Viewer | None:
        if len(self.viewers) != 1:
            return None
        (viewer,) = self.viewers.values()
        return viewer if viewer.is_shared else None

    def _send_queue(self) -> bool:
        queue = self._queue
        while queue:
            data = queue[0] if len(queue) == 1 else b"".join(queue)
            sent = self._transport.send(data)
            queue.clear()
            self._queued_bytes -= sent
            self.sent_private_bytes += sent
            if sent < len(data):
                # A view, since a slow connection takes a large message in many pieces.
                queue.append(memoryview(data)[sent:])
                if self.reply_stalled_since is None:
                    self.reply_stalled_since = self._reactor.now
                return False
        self.reply_stalled_since = None
        return True

    def _finish_message(self, viewer: Viewer) -> bool:
        cursor = viewer.cursor
        if cursor is None or (piece := cursor.next_range()) is None:
            return True
        entry = piece.segment.entry_at(piece.position)
        size = entry.position + entry.encoded_bytes - piece.position
        # Not a copy of the rest: of a large picture it would be made anew for each little that a slow connection takes.
        sent = self._transport.send_from(piece.segment.buffer, piece.position - piece.segment.start, size)
        if cursor.advance(sent):
            viewer.progressed_at = self._reactor.now
        return sent == size

    def _send_log(self, viewer: Viewer) -> bool:
        """Send the log from the viewer's place. True when it is in step, or waits for a place."""
        live_stream, cursor = viewer.live_stream, viewer.cursor
        while live_stream is not None and cursor is not None:
            piece = cursor.next_range()
            if piece is None:
                if cursor.is_in_step:
                    live_stream.catch_up(viewer)
                    return True
                if not live_stream.skip(viewer, self._reactor.now):
                    return True
                if not self._send_queue():
                    return False
                cursor = viewer.cursor
                continue
            sent = self._transport.send_from(piece.segment.buffer, piece.position - piece.segment.start, piece.size)
            if cursor.advance(sent):
                viewer.progressed_at = self._reactor.now
                viewer.is_warned = False
            if sent < piece.size:
                return False
        return True

    def _fill_from_selective(self) -> bool:
        """Move some of the log into the queue for viewers with wishes of their own. False if all are in step."""
        has_filled = False
        for viewer in list(self.viewers.values()):
            live_stream, cursor = viewer.live_stream, viewer.cursor
            if live_stream is None or cursor is None or self._queued_bytes >= SELECTIVE_QUEUE_BYTES:
                continue
            piece = cursor.next_range()
            if piece is None:
                if not cursor.is_in_step:
                    has_filled = live_stream.skip(viewer, self._reactor.now) or has_filled
                continue
            entries = piece.segment.entries_from(piece.position, SELECTIVE_BATCH_BYTES)
            data = viewer.track_filter.read(piece.segment, entries)
            cursor.advance(sum(entry.encoded_bytes for entry in entries))
            viewer.progressed_at = self._reactor.now
            if data:
                self.queue(data)
            has_filled = True
        return has_filled
