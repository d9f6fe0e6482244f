"""The telemetry contract: what the server tells whoever counts, one frozen dataclass per fact.

A fact is one line of JSON: the fields of `Envelope`, then the fields of its own kind, flat. Owns the names, types and
units of all of them; imports nothing, so that server and pipeline can both rely on it. Refuses nothing and encodes
nothing: who writes lines is `serve.facts_writer`.

Rules of the contract. Fields and kinds may be added under the same version; a field that goes, or changes its meaning,
raises CONTRACT_VERSION. Units are in the names: `_us`, `_ms`, `_bytes`, `_bps`. Absence is null, never 0 or "".
Counters are cumulative from the start of what they count, so that a lost fact loses resolution and not amounts. Text
that peers chose is made printable.

Identities. `event_id` names one fact and is unique for ever. A view is named by the event_id of its play_started, a
publication by that of its publish_started, a connection by its `conn_id`, which the log lines carry too.

Time. `at_us` is the wall clock read once, at the boot, plus the monotonic time since. A wall clock that is set while
the server runs is told by clock_stepped, and followed from that fact on. Nothing spans it: connections, views and
publications that go on are told to end before it, for the reason `clock stepped`, and to begin anew after it. The
`conn_id` of a connection that began anew is that of the log lines with `~` and a number behind it.
"""

# Long because: the whole contract in one place.

# Without slots on purpose: the encoder reads instance dictionaries three times as fast, and facts do not live long.

from dataclasses import dataclass
from typing import ClassVar

CONTRACT_VERSION = 1


@dataclass(frozen=True)
class Envelope:
    """What every line begins with."""

    event_id: str
    """`{server_id}-{boot_id}-{seq}`."""
    server_id: str
    boot_id: str
    """One life of a worker of the server: new at each start. All that began with one server begin alike."""
    seq: int
    """From 1 within a boot. A number that is missing is a fact that was dropped because the disk stalled."""
    kind: str
    version: int
    at_us: int
    """Microseconds since 1970, UTC."""
    mono_us: int
    """The monotonic clock, for differences within a boot."""
    worker: int | None
    """Which worker of the server tells it, from 1; None: told by an older server, which had one."""


@dataclass(frozen=True)
class Fact:
    """What all kinds have in common: a name in the contract."""

    kind: ClassVar[str]


@dataclass(frozen=True)
class ServerStarted(Fact):
    """A boot began: the server's, or that of one of its workers."""

    kind = "server_started"

    software_version: str
    pid: int
    boot_wall_us: int
    """The wall clock as it was read once, on which at_us rests until a clock_stepped."""
    boot_mono_us: int


@dataclass(frozen=True)
class ServerStopped(Fact):
    """A boot ended in order. A boot without it ended by a crash."""

    kind = "server_stopped"

    software_version: str
    uptime_us: int
    wall_us: int
    dropped_facts: int


@dataclass(frozen=True)
class ClockStepped(Fact):
    """The wall clock was set. at_us follows it from this fact on."""

    kind = "clock_stepped"

    wall_us: int
    step_us: int
    """By how much the wall clock jumped, forward if positive."""
    offset_us: int
    """The wall clock minus at_us from now on: 0, but for older servers, whose at_us went on as before."""


@dataclass(frozen=True)
class ConnectionOpened(Fact):
    """A socket was accepted."""

    kind = "connection_opened"

    conn_id: str
    peer_addr: str
    protocol: str
    """rtmp, rtmps, http-flv, ws-flv, http-mp4 or hls."""


@dataclass(frozen=True)
class ConnectionClosed(Fact):
    """A connection is gone."""

    kind = "connection_closed"

    conn_id: str
    peer_addr: str
    protocol: str
    reason: str
    app: str | None
    """None if it never got as far as connect."""
    client: str | None
    duration_us: int
    received_bytes: int
    sent_bytes: int


@dataclass(frozen=True)
class PublishStarted(Fact):
    """A publication began. Its event_id is the publication's name."""

    kind = "publish_started"

    conn_id: str
    peer_addr: str
    protocol: str
    client: str | None
    app: str
    stream: str
    publishing_type: str
    dimensions: str | None
    """The parameters of its URL that the operator named, as a JSON object of strings; None: it has none of them."""
    auth_subject: str | None
    """Whom its key or token names; None: nobody was asked for one."""
    pulled_from: str | None = None
    """The address of the stream at the server that it is pulled from, without keys; None: it is published here."""


@dataclass(frozen=True)
class PublishStopped(Fact):
    """A publication ended; the stream may go on with another one."""

    kind = "publish_stopped"

    publication_id: str
    conn_id: str
    app: str
    stream: str
    reason: str
    duration_us: int
    received_bytes: int
    """Payload bytes of its messages."""
    messages: int
    video_frames: int
    audio_frames: int
    keyframes: int
    timestamp_jumps: int


@dataclass(frozen=True)
class PlayStarted(Fact):
    """A viewer was let in. Its event_id is the view's name."""

    kind = "play_started"

    conn_id: str
    peer_addr: str
    protocol: str
    client: str | None
    app: str
    stream: str
    waited_us: int
    """From the request until the stream was there."""
    viewer: str | None
    """What the viewer calls itself: `viewer` in the query of the stream or of the app."""
    auth_subject: str | None
    """Whom a token names; None: nobody was asked for one."""
    dimensions: str | None
    """The parameters of its URL that the operator named, as a JSON object of strings; None: it has none of them."""


@dataclass(frozen=True)
class PlayFirstKeyframe(Fact):
    """A viewer was given its place in the stream: a key frame, or the live edge where the app's policy says so."""

    kind = "play_first_keyframe"

    view_id: str
    conn_id: str
    app: str
    stream: str
    startup_us: int
    """From the request."""


@dataclass(frozen=True)
class PlayStopped(Fact):
    """A viewer is gone, or its stream is."""

    kind = "play_stopped"

    view_id: str | None
    """None: it waited for a stream and was never let in."""
    conn_id: str
    app: str
    stream: str
    protocol: str
    reason: str
    watched_us: int
    """From when it was let in."""
    startup_us: int | None
    """From the request to its first key frame; None: it never got one."""
    sent_bytes: int
    """Of the stream as all viewers get it; a viewer without audio or video is counted as if it had both."""
    skips: int
    skipped_bytes: int
    peer_addr: str
    client: str | None
    viewer: str | None
    auth_subject: str | None
    dimensions: str | None
    """As in play_started."""


@dataclass(frozen=True)
class StreamSample(Fact):
    """How a publication does, about once a second, also when nothing comes."""

    kind = "stream_sample"

    publication_id: str
    app: str
    stream: str
    viewers: int
    interval_us: int
    """The time that the next four fields are about."""
    bitrate_bps: int
    """Payload bits of all messages."""
    fps: float
    interval_timestamp_jumps: int
    av_skew_ms: float | None
    """How far the video's timestamps are ahead of the audio's, on average over the video frames; None: not both."""
    keyframe_interval_ms: int | None
    """Between the last two key frames."""
    media_ms: int | None
    """How far the newest timestamp has come since frames were first counted; None: no frame yet."""
    wall_ms: int | None
    """How much time passed meanwhile. The two drift apart when an encoder's clock is off, or it cannot keep up."""
    received_bytes: int
    messages: int
    video_frames: int
    audio_frames: int
    keyframes: int
    timestamp_jumps: int
    viewers_sent_bytes: int | None
    """What those who watch now were sent, each since it was let in; None: told by an older server."""
    viewers_watched_us: int | None
    """For how long they have watched in all; None: told by an older server."""


@dataclass(frozen=True)
class ViewerSample(Fact):
    """How a view does, every few seconds."""

    kind = "viewer_sample"

    view_id: str
    conn_id: str
    app: str
    stream: str
    watched_us: int
    sent_bytes: int
    """Handed to the system; counted as in play_stopped."""
    acknowledged_bytes: int | None
    """Of the whole connection, by the peer's TCP."""
    lag_bytes: int
    """Behind the live edge, not counting what the system holds."""
    lag_ms: int | None
    """The same in the stream's time; None: it has no place in the stream now."""
    skips: int
    skipped_bytes: int
    ping_ms: int | None
    """The last RTMP ping's round trip; None: none was answered yet."""
    rtt_us: int | None
    """TCP's smoothed round trip."""
    retransmits: int | None
    """TCP segments sent again since the connection began."""


@dataclass(frozen=True)
class ViewBeacon(Fact):
    """What a viewer saw, as its player tells it, perhaps a little after the view has ended. The word of a stranger.

    What counts does so from the start of the view, and goes on over a clock that was set.
    """

    kind = "view_beacon"

    view_id: str
    app: str
    stream: str
    watched_us: int
    """How long ago the view began when it was told."""
    startup_ms: int | None
    """From the click to the first picture on the screen; None here and below: not told."""
    played_ms: int | None
    """Without stalls and pauses."""
    stalls: int | None
    """How often the picture stood still though nobody had asked for that, after it had first moved."""
    stalled_ms: int | None
    latency_ms: int | None
    """How far behind the live edge it plays now, as the player reckons it."""
    dropped_frames: int | None
    """Pictures that were decoded too late to be shown."""


@dataclass(frozen=True)
class RecordingSegmentClosed(Fact):
    """A file of a recording is finished."""

    kind = "recording_segment_closed"

    recording_id: str
    segment: int
    app: str
    stream: str
    path: str
    """Below the folder of recordings."""
    status: str
    """closed, failed or repaired."""
    reason: str | None
    """Why it failed, or what was repaired."""
    started_at_us: int
    duration_ms: int
    size_bytes: int
    video: str | None
    audio: str | None
    keyframes: int
    gaps: int


@dataclass(frozen=True)
class RecordingGap(Fact):
    """A recording misses some of its stream."""

    kind = "recording_gap"

    recording_id: str
    segment: int
    app: str
    stream: str
    path: str
    reason: str
    gap_at_ms: int
    """Where in the file."""
    gap_ms: int
    dropped_messages: int
    dropped_bytes: int


@dataclass(frozen=True)
class PushStarted(Fact):
    """A stream is to be sent to another server. Its event_id is the push's name."""

    kind = "push_started"

    target: str
    """The name of the target."""
    address: str
    """Of the target, without its key."""
    app: str
    stream: str


@dataclass(frozen=True)
class PushState(Fact):
    """What a push does now. The target's backoff bounds how often this is told."""

    kind = "push_state"

    push_id: str
    target: str
    app: str
    stream: str
    state: str
    """connecting, live, retrying, or stopped for one that was refused."""
    attempts: int
    """How often the target was dialled."""
    last_error: str | None
    """Why the last try or connection came to nothing; holds no key."""
    sent_bytes: int


@dataclass(frozen=True)
class PushStopped(Fact):
    """A push is over: its stream is, or its target was taken out."""

    kind = "push_stopped"

    push_id: str
    target: str
    app: str
    stream: str
    reason: str
    duration_us: int
    attempts: int
    sent_bytes: int
    skips: int
    """How often the target was too far behind and lost some."""


@dataclass(frozen=True)
class ProtocolViolation(Fact):
    """A peer broke RTMP; its connection closes next."""

    kind = "protocol_violation"

    conn_id: str
    peer_addr: str
    layer: str
    detail: str


@dataclass(frozen=True)
class LimitHit(Fact):
    """Somebody was turned away. At most one fact a second for each limit.

    Two limits turn nobody away. `facts per address`: so many connections, views and publications have no facts, since
    their addresses had too many in too short a time. `landed facts`: so many landed files were deleted, the oldest
    first, since there were too many bytes of them.
    """

    kind = "limit_hit"

    limit: str
    hits: int
    """How often since the fact before."""
    detail: str
    """Of the last one."""


FACTS: dict[str, type[Fact]] = {fact.kind: fact for fact in Fact.__subclasses__()}
"""Every kind of the contract."""
