"""A viewer: one play of one stream on one connection.

Owns what is particular to it: what it wants, its place in the log while it is not in step, how it is sent to from
there, and what telemetry asks. A viewer in step has no place of its own to keep up to date: it is where the log's head
is, and its stream sends to it. Where it begins is its stream's choice.
"""

from collections.abc import Callable
from typing import Final, Protocol

from penstock.relay.cursor import Cursor
from penstock.relay.encodings.encoding import EncodingKind
from penstock.relay.readable_log import ReadableLog
from penstock.relay.segment import Entry, Segment
from penstock.relay.track_filter import FITTED_BYTES, TrackFilter
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.connections.send_queue import Piece, Sent
from penstock.serve.connections.transport import Transport
from penstock.serve.streams.access.grant import Grant
from penstock.serve.streams.publisher import Publisher

_FFMPEG: Final = "LNX 9,0,124,2"
"""What a player made with FFmpeg's libraries calls itself, if it is not told to say something else."""
_SEND_BYTES: Final = 256 * 1024
"""Sent by one call to one that catches up: about 0.1 ms on loopback."""


class ViewedStream(Protocol):
    """A live stream as those who watch it know it."""

    @property
    def log(self) -> ReadableLog:
        """What is sent."""

    @property
    def publisher(self) -> Publisher | None:
        """Whoever publishes it now."""

    def attend(self, viewer: "Viewer", now: float) -> None:
        """Do what has come up for a viewer: admit it, give it a place, or tell it the end."""

    def skip(self, viewer: "Viewer", now: float) -> bool:
        """A viewer has lost its place: it goes on at the newest key frame. False if it has to wait for one."""

    def catch_up(self, viewer: "Viewer") -> bool:
        """Nothing is left to send to a viewer: it is in step from now on. False if its stream is over instead."""

    def fall_out(self, viewer: "Viewer") -> None:
        """A viewer in step has something else to be sent first."""

    def change_filter(self, viewer: "Viewer") -> None:
        """What a viewer wants has changed, or whether it is alone on its connection."""

    def wait(self, viewer: "Viewer", now: float) -> None:
        """A viewer without a place waits for the next one."""

    def unseat(self, viewer: "Viewer") -> None:
        """A viewer gives up its place and is sent nothing until it is seated again."""

    def remove(self, viewer: "Viewer") -> None:
        """A viewer goes."""


class Viewer:
    """One play."""

    takes_log = True
    """Whether it is sent the log, as it comes; else what is made of the log part by part."""
    __slots__ = (
        "connection",
        "cursor",
        "descriptor",
        "dimensions",
        "encoding",
        "first_frame_at",
        "grant",
        "has_seat",
        "is_admitted",
        "is_in_step",
        "is_paused",
        "is_warned",
        "key",
        "left_off_position",
        "own_name",
        "progressed_at",
        "sent_base_bytes",
        "skipped_bytes",
        "skips",
        "started_at",
        "stream",
        "stream_id",
        "track_filter",
        "waited_for_stream",
        "waits_from",
        "waits_since",
    )

    def __init__(
        self,
        connection: MediaConnection,
        stream_id: int,
        key: str,
        own_name: str | None,
        now: float,
        *,
        dimensions: str | None = None,
        grant: Grant | None = None,
        encoding: EncodingKind | None = None,
    ) -> None:
        self.connection = connection
        self.descriptor = connection.descriptor
        self.stream_id = stream_id
        self.key = key
        self.own_name = own_name
        """What it calls itself in its query."""
        self.dimensions = dimensions
        """As facts tell them, see `dimensions`."""
        self.grant = grant
        """What let it in."""
        self.encoding = encoding
        """As what it is sent the stream; None: as RTMP has it."""
        self.track_filter = TrackFilter(stream_id)
        self.stream: ViewedStream | None = None
        self.cursor: Cursor | None = None
        """Its place in the log; None while it waits for one."""
        self.has_seat = False
        """Whether it counts among the viewers of its stream, in all workers."""
        self.is_admitted = False
        """Whether its peer was told that the play has begun."""
        self.waited_for_stream = False
        """Whether it was there before the publication began, and so gets it from its very first message."""
        self.is_in_step = False
        self.is_paused = False
        self.is_warned = False
        self.left_off_position = 0
        """Where it last was: it never goes back behind it, so nothing is sent twice."""
        self.started_at = now
        self.waits_since = now
        self.waits_from = 0
        """Where the log's head was when it began to wait."""
        self.first_frame_at: float | None = None
        self.progressed_at = now
        self.skips = 0
        self.skipped_bytes = 0
        self.sent_base_bytes = 0
        """What it was sent, less its position while it has a place: a position in step is one number for all."""

    @property
    def auth_subject(self) -> str | None:
        """Who it is, as far as that was proved."""
        return None if self.grant is None else self.grant.subject

    @property
    def is_shared(self) -> bool:
        """Whether it is sent the shared encoding straight from the log."""
        return self.track_filter.is_everything and len(self.connection.plays) == 1

    @property
    def is_ffmpeg(self) -> bool:
        """Whether it is a player made with FFmpeg's libraries."""
        return self.connection.client == _FFMPEG

    @property
    def position(self) -> int:
        """Where it is in the log."""
        if self.cursor is None or self.stream is None:
            return self.left_off_position
        return self.stream.log.head if self.is_in_step else self.cursor.position

    @property
    def sent_bytes(self) -> int:
        """Encoded media bytes that were handed to the system for it, or passed over by its filter."""
        return self.sent_base_bytes if self.cursor is None else self.sent_base_bytes + self.position

    @property
    def log_bytes(self) -> int:
        """What it was sent straight from the log; what passes through its connection's queue is counted there."""
        # Asked also when the play is over, and not among those of its connection any more.
        is_alone = all(other is self for other in self.connection.plays.values())
        return self.sent_bytes if self.track_filter.is_everything and is_alone else 0

    def take_place(self, position: int) -> None:
        """Begin or go on at a position of its stream's log."""
        if self.stream is None:
            return
        self.leave_place()
        self.cursor = Cursor(self.stream.log)
        self.cursor.position = position
        self.sent_base_bytes -= position

    def leave_place(self) -> None:
        """Be nowhere, and remember where it was."""
        if self.cursor is None:
            return
        self.left_off_position = self.position
        self.sent_base_bytes = self.sent_bytes
        self.cursor.release()
        self.cursor = None
        self.is_in_step = False

    # What its connection's turn does.

    def work(self, now: float) -> None:
        """Do what has come up since the last turn."""
        if self.stream is not None:
            self.stream.attend(self, now)

    def finish_message(self, transport: Transport, now: float) -> bool:
        """Send the rest of a half-sent message. False if the peer has to read first."""
        cursor = self.cursor
        if cursor is None or self.is_in_step or (rest := cursor.rest_of_message()) is None:
            return True
        # Not a copy of the rest: of a large picture it would be made anew for each little that a slow peer takes.
        sent = transport.send_from(rest.segment.buffer, rest.offset, rest.size)
        if cursor.advance(sent):
            self.progressed_at = now
        return sent == rest.size

    def leave_step(self) -> None:
        """Something else is to be sent first."""
        if self.is_in_step and self.stream is not None:
            self.stream.fall_out(self)

    def send_log(self, transport: Transport, now: float, is_late: Callable[[], bool]) -> Sent:
        """Send the log from its place on. All is sent when it is in step, or waits for a place."""
        stream, cursor = self.stream, self.cursor
        if stream is None or cursor is None or self.is_in_step:
            return Sent.ALL
        while (piece := cursor.next_range()) is not None:
            size = min(piece.size, _SEND_BYTES)
            sent = transport.send_from(piece.segment.buffer, piece.offset, size)
            if cursor.advance(sent):
                self.progressed_at = now
                self.is_warned = False
            if sent < size:
                return Sent.BLOCKED
            if is_late():
                return Sent.UNFINISHED
        if cursor.is_in_step:
            # At the end of its stream it is told so instead.
            return Sent.ALL if stream.catch_up(self) else Sent.QUEUED
        return Sent.QUEUED if stream.skip(self, now) else Sent.ALL

    def take_filtered(self, max_bytes: int, now: float) -> list[Piece] | None:
        """What comes next, fitted to it."""
        stream, cursor = self.stream, self.cursor
        if stream is None or cursor is None:
            return None
        piece = cursor.next_range()
        if piece is None:
            if cursor.is_in_step:
                stream.catch_up(self)
                return None
            return [] if stream.skip(self, now) else None
        self.progressed_at = now
        entries = piece.segment.entries_from(piece.position, max_bytes)
        if entries[0].encoded_bytes > max_bytes:
            return self._take_large(cursor, piece.segment, entries[0])
        data = self.track_filter.read(piece.segment, entries)
        cursor.advance(sum(entry.encoded_bytes for entry in entries))
        return [data]

    def _take_large(self, cursor: Cursor, segment: Segment, entry: Entry) -> list[Piece]:
        """One message that is not copied for each viewer: all but its beginning stays in the log until it is sent."""
        if not self.track_filter.wants(entry.kind):
            cursor.advance(entry.encoded_bytes)
            return []
        head = self.track_filter.fit(segment.read(entry.position, FITTED_BYTES))
        cursor.advance(FITTED_BYTES)
        rest = cursor.keep_rest_of_message()
        return [head] if rest is None else [head, rest]

    # Leaving a place.

    def finish_in_queue(self) -> None:
        """Whatever is said to the peer next must come behind the message that is half out."""
        if self.cursor is None or self.is_in_step or self.connection.is_closed:
            return
        rest = self.cursor.keep_rest_of_message()
        if rest is not None:
            self.connection.queue.put_first(rest)
