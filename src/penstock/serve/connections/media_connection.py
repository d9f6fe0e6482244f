"""A connection as streams, viewers and telemetry know it, whatever is spoken on it.

Owns the border between who watches and how: what RTMP says by messages, an answer over HTTP says by its status, or by
its end. Whoever publishes is an RTMP connection and known as that.
"""

from collections.abc import Mapping
from typing import Protocol

from penstock.protocol.status import StatusCode
from penstock.serve.coalesced_reads import Pace
from penstock.serve.connections.send_queue import MediaSource, SendQueue


class MediaSink(Protocol):
    """A live stream, as what a connection publishes to."""

    @property
    def key(self) -> str:
        """Its name, APP/STREAM."""

    @property
    def has_viewers(self) -> bool:
        """Whether anybody waits for what is published."""

    def take_media(self, type_id: int, timestamp_ms: int, payload: bytes, now: float) -> None:
        """Take an audio or video message."""


class MediaConnection(Protocol):
    """One connection with viewers on it."""

    id: str
    address: str
    app: str
    client: str
    """What its peer calls itself."""
    descriptor: int
    can_send_files: bool
    """Whether it is sent to past everything else."""
    own_name: str | None
    dimensions: dict[str, str]
    via: tuple[str, ...]
    """The servers that have asked for what it asks for, where one did."""
    opened_at: float
    heard_at: float
    asked_at: float
    round_trip_ms: int | None
    plays: dict[int, MediaSource]
    queue: SendQueue

    @property
    def publications(self) -> Mapping[int, MediaSink]:
        """What it publishes, by message stream."""

    @property
    def is_closed(self) -> bool:
        """Whether it is gone."""

    @property
    def protocol(self) -> str:
        """As facts and decisions call it."""

    @property
    def received_bytes(self) -> int:
        """All that came on it."""

    @property
    def held_bytes(self) -> int:
        """What it makes us hold of messages that are not whole."""

    def request_turn(self) -> None:
        """There is something to do for it."""

    def want_write(self) -> None:
        """Wake up when the peer has read something."""

    def send_now(self, data: bytes) -> int:
        """Send past the queue, which must be empty. How much was taken; -1 if the connection is lost."""

    def charge(self, units: int) -> None:
        """Count work that its peer has caused."""

    def set_pace(self, pace: Pace) -> None:
        """Read at once, or a little later."""

    def close_soon(self, reason: str, within_s: float) -> None:
        """Let the peer hear what is queued for it, and close."""

    def close(self, reason: str) -> None:
        """The end."""

    # What its peer is told.

    def tell_decided(self) -> None:
        """What it asked for last is decided, and it may ask for more."""

    def tell_play_begins(self, stream_id: int) -> None:
        """A play begins."""

    def tell_play_refused(self, stream_id: int, text: str, code: StatusCode) -> None:
        """A play comes to nothing. Sent at once."""

    def tell_play_ended(self, stream_id: int) -> None:
        """The stream is over."""

    def tell_play_revoked(self, stream_id: int, reason: str) -> None:
        """A play may not go on."""

    def tell_goodbye(self, text: str) -> None:
        """The server ends."""
