"""A viewer: one play of one stream on one connection.

Owns what is particular to it: what it wants, its place in the log while it is not in step, and what telemetry asks. A
viewer in step has no place of its own to keep up to date: it is where the log's head is.
"""

from typing import TYPE_CHECKING

from penstock.relay.cursor import Cursor
from penstock.relay.track_filter import TrackFilter

if TYPE_CHECKING:
    from penstock.serve.connections.rtmp_connection import RtmpConnection
    from penstock.serve.streams.live_stream import LiveStream

_FFMPEG = "LNX 9,0,124,2"
"""What a player made with FFmpeg's libraries calls itself, if it is not told to say something else."""


class Viewer:
    """One play."""

    __slots__ = (
        "connection",
        "cursor",
        "descriptor",
        "first_frame_at",
        "is_in_step",
        "is_paused",
        "is_warned",
        "key",
        "left_off_position",
        "live_stream",
        "looked_back_s",
        "progressed_at",
        "query",
        "sent_base_bytes",
        "skipped_bytes",
        "skips",
        "started_at",
        "stream_id",
        "track_filter",
        "waits_since",
    )

    def __init__(self, connection: "RtmpConnection", stream_id: int, key: str, query: str | None, now: float) -> None:
        self.connection = connection
        self.descriptor = connection.descriptor
        self.stream_id = stream_id
        self.key = key
        self.query = query
        self.track_filter = TrackFilter(stream_id)
        self.live_stream: LiveStream | None = None
        self.cursor: Cursor | None = None
        """Its place in the log; None while it waits for one."""
        self.is_in_step = False
        self.is_paused = False
        self.is_warned = False
        self.left_off_position = 0
        """Where it last was: it never goes back behind it, so nothing is sent twice."""
        self.looked_back_s = 0.0
        """How old the place was at which it began."""
        self.started_at = now
        self.waits_since = now
        self.first_frame_at: float | None = None
        self.progressed_at = now
        self.skips = 0
        self.skipped_bytes = 0
        self.sent_base_bytes = 0
        """What it was sent, less its position while it has a place: a position in step is one number for all."""

    @property
    def is_shared(self) -> bool:
        """Whether it is sent the shared encoding straight from the log."""
        return self.track_filter.is_everything and self.connection.plays == 1

    @property
    def is_ffmpeg(self) -> bool:
        """Whether it is a player made with FFmpeg's libraries."""
        return self.connection.client == _FFMPEG

    @property
    def position(self) -> int:
        """Where it is in the log."""
        if self.cursor is None or self.live_stream is None:
            return self.left_off_position
        return self.live_stream.log.head if self.is_in_step else self.cursor.position

    @property
    def sent_bytes(self) -> int:
        """Encoded media bytes that were handed to the system for it, or passed over by its track_filter."""
        return self.sent_base_bytes if self.cursor is None else self.sent_base_bytes + self.position

    def take_place(self, position: int) -> None:
        """Begin or go on at a position of its live_stream's log."""
        if self.live_stream is None:
            return
        self.leave_place()
        self.cursor = Cursor(self.live_stream.log)
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
