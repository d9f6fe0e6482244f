"""A peer: one RTMP connection, its session, and the order in which bytes go out to it.

Owns reading, the event loop's interest in the socket, and the rule of output: a message that is half out is finished
first, then what was queued for this peer alone, then the log. What events mean is `station`'s matter.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import ProtocolViolation
from penstock.protocol.events import Event, MediaReceived
from penstock.protocol.server_session import ServerSession
from penstock.serve.reactor import READ, WRITE, Timer
from penstock.serve.transport import Transport
from penstock.serve.viewer import Viewer

if TYPE_CHECKING:
    from penstock.serve.channel import Channel
    from penstock.serve.station import Station

_RECEIVE_BYTES = 64 * 1024
_READS_PER_TURN = 4
"""A fast publisher gives way to others after this many reads."""
_QUIET_RECEIVE_BYTES = 8 * 1024
"""Who publishes nothing has little to say; what it asks for in one read is answered before the answers are counted."""
_MEDIA_PER_TURN = 2048
"""A message can be as short as one byte, and an aggregate can hold a million of them: the others come in between."""
_EVENT_COST = 32
"""What other events count as: a play may take as long as so many frames."""
_NEXT_TURN_S = 0.001
_SELECTIVE_BATCH_BYTES = 64 * 1024
_SELECTIVE_QUEUE_BYTES = 128 * 1024
_REST_BYTES = 1024 * 1024


class Peer:
    """One connection."""

    __slots__ = (
        "_events",
        "_has_rest",
        "_is_closed",
        "_is_gathered",
        "_is_reading",
        "_measures",
        "_queue",
        "_queued_bytes",
        "_reactor",
        "_station",
        "_transport",
        "_turn",
        "address",
        "app",
        "app_query",
        "can_send_files",
        "client",
        "close_when_sent",
        "connected_at",
        "descriptor",
        "handshaken_at",
        "heard_at",
        "id",
        "is_encrypted",
        "on_close",
        "opened_at",
        "pinged_at",
        "publications",
        "reply_stalled_since",
        "round_trip_ms",
        "sent_private_bytes",
        "session",
        "viewers",
    )

    def __init__(
        self,
        peer_id: str,
        address: str,
        transport: Transport,
        session: ServerSession,
        station: "Station",
    ) -> None:
        reactor = station.reactor
        self.id = peer_id
        self.address = address
        self.session = session
        self.descriptor = transport.descriptor
        self.can_send_files = transport.can_send_files
        self.is_encrypted = not transport.can_send_files
        self.app = ""
        self.app_query: str | None = None
        self.client = ""
        self.opened_at = self.heard_at = self.pinged_at = reactor.now
        self.handshaken_at: float | None = None
        self.connected_at: float | None = None
        self.round_trip_ms: int | None = None
        self.reply_stalled_since: float | None = None
        self.close_when_sent = False
        self.sent_private_bytes = 0
        self.viewers: dict[int, Viewer] = {}
        self.publications: dict[int, Channel] = {}
        self._transport = transport
        self._station = station
        self._reactor = reactor
        self.on_close: Callable[[], None] | None = None
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._is_closed = False
        self._is_gathered = False
        self._is_reading = True
        self._has_rest = False
        """Whether the session has events that were left for another turn."""
        self._turn: Timer | None = None
        self._measures = ((reactor.now, 0), (reactor.now, 0))
        self._events = READ
        reactor.add(self.descriptor, READ, self._on_ready)

    @property
    def plays(self) -> int:
        """How many streams it watches."""
        return len(self.viewers)

    @property
    def is_closed(self) -> bool:
        """Whether it is gone."""
        return self._is_closed

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for this peer alone."""
        return self._queued_bytes

    def measure_bps(self, now: float) -> float:
        """Bits per second received since the measure before last, so that one burst is not taken for a rate."""
        before = self._measures[0]
        self._measures = (self._measures[1], (now, self.session.received_bytes))
        return 8 * (self.session.received_bytes - before[1]) / max(now - before[0], 1.0)

    # Reading.

    def _on_ready(self, events: int) -> None:
        try:
            if events & WRITE:
                self.flush_output()
            if events & ~WRITE and not self._is_closed:
                self._read()
                # Under TLS reading may leave something to be sent: a step of the handshake, say.
                if self.is_encrypted and not self._is_closed and not self._transport.flush():
                    self.want_write()
            if not events and not self._is_closed:
                self.handle_events()
        except ProtocolViolation as violation:
            self._station.on_violation(self, violation)
        except OSError as error:
            self.close(f"connection lost: {error.strerror or error}")
        except Exception as error:
            self._station.on_bug(self, error)

    def _read(self) -> None:
        size = _RECEIVE_BYTES if self.publications else _QUIET_RECEIVE_BYTES
        for _ in range(_READS_PER_TURN):
            data = self._transport.receive(size)
            if data is None:
                return
            if not data:
                self.close("closed by the peer")
                return
            self.heard_at = self._reactor.now
            self.session.receive_data(data)
            self.handle_events()
            if len(data) < size or self._is_closed or not self._is_reading:
                return

    def handle_events(self) -> None:
        """Deal with the events that are there, at most one turn of them, then send what the session has to say."""
        session = self.session
        next_event = session.next_event
        take_media = self._station.take_media
        left = _MEDIA_PER_TURN
        while left > 0 and (event := next_event()) is not None:
            left -= 1
            if isinstance(event, MediaReceived):
                take_media(self, event)
            else:
                self._station.on_event(self, event)
                if self._is_closed:
                    return
                # What it asks for is as large as the stream's publisher has made it: a play brings set-up.
                left = 0 if self._queued_bytes >= self._max_queued_bytes else left - _EVENT_COST
        self._has_rest = left <= 0
        reply = session.data_to_send()
        if reply:
            self.queue(reply)
            self.flush_output()
        self._update_interest()

    # Sending.

    def queue(self, data: bytes) -> None:
        """Bytes for this peer alone, sent at the next boundary between messages."""
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
            elif viewer.selection.wants(entry.kind):
                self.queue(viewer.selection.fit(piece.segment.read(piece.position, size)))
            cursor.advance(size)

    def send_session_data(self) -> None:
        """Queue and send what the session was told to say."""
        reply = self.session.data_to_send()
        if reply:
            self.queue(reply)
            self.flush_output()

    def send_now(self, data: bytes) -> int:
        """Send past the queue, which must be empty. How much was taken; -1 if the connection is lost."""
        try:
            sent = self._transport.send(data)
            if not self._transport.flush():
                self.want_write()
        except OSError:
            return -1
        return sent

    def flush_output(self) -> None:
        """Send all that can be sent, in order. What is left waits until the peer reads."""
        if self._is_closed:
            return
        try:
            # Again at the end, as TLS may have taken bytes and not passed them on.
            is_done = self._transport.flush() and self._send_all() and self._transport.flush()
        except OSError as error:
            self.close(f"connection lost: {error.strerror or error}")
            return
        if is_done and self.close_when_sent:
            self.close("closed by the server")
            return
        self._want(READ if is_done else READ | WRITE)
        if not self._is_reading:
            self._update_interest()

    def _send_all(self) -> bool:
        viewer = self._shared_viewer()
        if viewer is not None and viewer.cursor is not None:
            if not viewer.is_in_step and viewer.cursor.is_inside_message and not self._finish_message(viewer):
                return False
            if self._queue and viewer.is_in_step and viewer.channel is not None:
                viewer.channel.fall_out(viewer)
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
                queue.append(data[sent:])
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
        sent = self._transport.send(piece.segment.read(piece.position, size))
        if cursor.advance(sent):
            viewer.progressed_at = self._reactor.now
        return sent == size

    def _send_log(self, viewer: Viewer) -> bool:
        """Send the log from the viewer's place. True when it is in step, or waits for a place."""
        channel, cursor = viewer.channel, viewer.cursor
        while channel is not None and cursor is not None:
            piece = cursor.next_range()
            if piece is None:
                if cursor.is_in_step:
                    channel.catch_up(viewer)
                    return True
                if not channel.skip(viewer, self._reactor.now):
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
            channel, cursor = viewer.channel, viewer.cursor
            if channel is None or cursor is None or self._queued_bytes >= _SELECTIVE_QUEUE_BYTES:
                continue
            piece = cursor.next_range()
            if piece is None:
                if not cursor.is_in_step:
                    has_filled = channel.skip(viewer, self._reactor.now) or has_filled
                continue
            entries = piece.segment.entries_from(piece.position, _SELECTIVE_BATCH_BYTES)
            data = viewer.selection.read(piece.segment, entries)
            cursor.advance(sum(entry.encoded_bytes for entry in entries))
            viewer.progressed_at = self._reactor.now
            if data:
                self.queue(data)
            has_filled = True
        return has_filled

    # The socket.

    def want_write(self) -> None:
        """Wake up when the peer has read something."""
        self._want(READ | WRITE)

    def gather(self, *, is_unwatched: bool) -> None:
        """Read at once, or a little later and more at a time."""
        if is_unwatched != self._is_gathered and not self._is_closed:
            self._is_gathered = is_unwatched
            self._reactor.gather(self.descriptor, self._events, is_gathered=is_unwatched)

    def _want(self, events: int) -> None:
        if not self._is_reading:
            events &= ~READ
        if events != self._events and not self._is_closed:
            self._events = events
            self._reactor.modify(self.descriptor, events)

    def _update_interest(self) -> None:
        """Read no more from one who does not read our answers, or whose request is not decided yet."""
        may_go_on = not self.session.is_held and self._queued_bytes < self._max_queued_bytes
        if may_go_on and self._has_rest and self._turn is None:
            self._turn = self._reactor.call_later(_NEXT_TURN_S, self._take_turn)
        is_reading = may_go_on and not self._has_rest
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            self._want((self._events & WRITE) | READ)

    @property
    def _max_queued_bytes(self) -> int:
        limit = self._station.settings.max_unread_reply_bytes
        # Media may stand in the queue of viewers as well, and set-up for those who join.
        return limit + _SELECTIVE_QUEUE_BYTES + _SELECTIVE_BATCH_BYTES if self.viewers else limit

    def _take_turn(self) -> None:
        self._turn = None
        self._on_ready(0)

    def resume(self) -> None:
        """A decision was made: read on, what is buffered first."""
        self._on_ready(0)

    def close(self, reason: str) -> None:
        """The end of the connection, whatever the reason."""
        if self._is_closed:
            return
        self._is_closed = True
        self._reactor.remove(self.descriptor)
        self.session.receive_eof()
        while (event := self.session.next_event()) is not None:
            self._end_with(event)
        self._transport.close()
        if self.on_close is not None:
            self.on_close()
        self._station.on_closed(self, reason)

    def _end_with(self, event: Event) -> None:
        try:
            self._station.on_event(self, event)
        except Exception as error:
            self._station.on_bug(self, error)
