"""What the server's parts need to know, as plain values: made from the configuration once, at start or reload."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from penstock.protocol.connection import ConnectionSettings
from penstock.relay.packaging.boundaries import BoundaryRule
from penstock.relay.readable_log import LogLimits


class FileModes(NamedTuple):
    """The permissions of what the server makes in its data folder, which has addresses and stream keys in it.

    A umask takes away from them, as everywhere.
    """

    folder: int = 0o700
    file: int = 0o600

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those missing above it. One that is there is the operator's and keeps its permissions."""
        for each in (*reversed(folder.parents), folder):
            each.mkdir(self.folder, exist_ok=True)


class JoinPolicy(enum.Enum):
    """Where one who joins begins."""

    KEYFRAME = "keyframe"
    NEXT = "next"
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """When what was appended is sent."""

    grid_s: float | None = None
    """At multiples of this; None: with each video frame."""
    adapts: bool = True
    """Whether it follows the load: audio goes at once while there is time to spare, and under load all goes wider."""


@dataclass(frozen=True, slots=True)
class AppSettings:
    """What holds for the streams of one app."""

    join: JoinPolicy = JoinPolicy.KEYFRAME
    flush: FlushPolicy = field(default_factory=FlushPolicy)
    may_replace_publisher: bool = False
    grace_s: float = 10.0
    play_wait_s: float = 30.0
    keyframe_wait_s: float = 3.0
    max_viewers_per_stream: int = 100_000


@dataclass(frozen=True, slots=True)
class HlsSettings:
    """How streams are cut for HLS, and how much of them a playlist names."""

    rule: BoundaryRule | None = field(default_factory=BoundaryRule)
    """None: there is no HLS."""
    playlist_ms: int = 20_000

    @property
    def longest_segment_s(self) -> float:
        """Where no key frame comes."""
        return 0.0 if self.rule is None else self.rule.max_segment_ms / 1000


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What holds for the whole server."""

    app: Callable[[str], AppSettings] = lambda _name: AppSettings()
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    log_limits: LogLimits = field(default_factory=LogLimits)
    max_total_log_bytes: int = 1024 * 1024 * 1024
    max_connections: int = 10_000
    max_connections_per_ip: int = 100
    max_new_connections_per_ip_per_s: int = 20
    exempts_loopback: bool = True
    max_plays_per_connection: int = 8
    max_messages_per_s: int = 1000
    """Of a peer that publishes nothing: messages, chunks that are not joined to others, and values in commands."""
    max_publish_bps: int = 200_000_000
    max_publish_messages_per_s: int = 20_000
    max_half_message_bytes: int = 32 * 1024 * 1024
    """Of all connections together."""
    half_message_deadline_s: float = 10.0
    handshake_deadline_s: float = 5.0
    connect_deadline_s: float = 30.0
    ping_interval_s: float = 10.0
    silent_peer_s: float = 30.0
    slow_viewer_s: float = 10.0
    max_unread_reply_bytes: int = 64 * 1024
    stalled_reply_s: float = 10.0
    notsent_lowat_bytes: int = 128 * 1024
    max_flush_wait_s: float = 0.040
    hls: HlsSettings = field(default_factory=HlsSettings)
    dimension_parameters: tuple[str, ...] = ()
    """The parameters of play and publish URLs that facts tell."""
