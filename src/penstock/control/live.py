"""What a worker tells web: everything that is open there, and what happens.

Owns the values behind the API, as a worker pushes them. Each is whole whenever it is told, so that the newest one of an
id holds, and web asks for nothing. Names and texts are printable, as in facts; times are microseconds since 1970.
"""

from typing import Any

import msgspec

from penstock.control.messages import HttpConnection, Message


class VideoTrack(msgspec.Struct, frozen=True, array_like=True):
    """What a stream shows. What is not known is None."""

    codec: str
    width: int | None = None
    height: int | None = None


class AudioTrack(msgspec.Struct, frozen=True, array_like=True):
    """What a stream sounds like. What is not known is None."""

    codec: str
    sample_rate_hz: int | None = None
    channels: int | None = None


class LiveConnection(msgspec.Struct, frozen=True, array_like=True):
    """An open connection."""

    conn_id: str
    peer_addr: str
    protocol: str
    client: str | None
    app: str | None
    opened_at_us: int
    received_bytes: int
    sent_bytes: int


class LiveView(msgspec.Struct, frozen=True, array_like=True):
    """A viewer that was let in."""

    view_id: str
    conn_id: str | None
    app: str
    stream: str
    protocol: str
    peer_addr: str
    client: str | None
    auth_subject: str | None
    started_at_us: int
    watched_us: int
    sent_bytes: int
    lag_ms: int | None
    skips: int
    rule: str | None = None
    """What let it in, as rules are called."""


class LeftOutTrack(msgspec.Struct, frozen=True, array_like=True):
    """A track that viewers over HTTP do not get."""

    what: str
    why: str


class LivePublisher(msgspec.Struct, frozen=True, array_like=True):
    """Who publishes a stream."""

    publication_id: str
    conn_id: str
    peer_addr: str
    protocol: str
    client: str | None
    auth_subject: str | None
    rule: str | None = None
    """What let it in, as rules are called."""
    pulled_from: str | None = None
    """The address of the stream at the server that it is pulled from, without keys; None: it is published here."""


class LiveStreamState(msgspec.Struct, frozen=True, array_like=True):
    """A stream that this worker has: published, or waiting for its publisher."""

    app: str
    stream: str
    started_at_us: int
    publisher: LivePublisher | None
    """None: the stream waits for it."""
    video: VideoTrack | None
    audio: AudioTrack | None
    is_recording: bool
    bitrate_bps: int = 0
    fps: float = 0.0
    keyframe_interval_ms: int | None = None
    av_skew_ms: float | None = None
    received_bytes: int = 0
    """Of the publication."""
    left_out: list[LeftOutTrack] = []
    """What the containers cannot carry in which it is watched now, as the worker knows that has the stream."""


class Live(Message, frozen=True):
    """What has changed since the message before. Sent soon after a start or stop, and with samples.

    What is gone may be among what is open in the same message: that is how it ended. Facts are lines of JSON in the
    order in which they happened. Those that the quota of an address keeps from landing are left out here too; the open
    sessions that they would have told of are not.
    """

    is_reset: bool
    """Everything that is open is told anew from here on. What is not among it when it is whole is gone."""
    connections: list[LiveConnection]
    views: list[LiveView]
    streams: list[LiveStreamState]
    gone_connections: list[str]
    gone_views: list[str]
    gone_streams: list[tuple[str, str]]
    facts: list[bytes]
    is_whole: bool = True
    """Everything that is open has been told. False: the rest of it follows, until then what was told before holds."""
    lost_facts: int = 0
    """How many were dropped before these, since web was away or did not keep up."""


class AccessQuestion(Message, frozen=True):
    """Whether somebody may, where the rules need more than the worker knows. Answered by `AccessAnswer`."""

    request: int
    action: str
    """publish or play."""
    app: str
    stream: str
    protocol: str
    peer_addr: str
    app_query: str
    stream_query: str
    user: str | None
    """Whose key was proved by the Adobe challenge."""
    is_held: bool
    """It was let in before, and the rules may have changed."""
    held_rule: str = ""
    """The rule that let it in. Where a callback did, it is not asked again."""
    edition: str = ""
    """Of the policy that the worker goes by. Web answers by the same one, or refuses."""


class AccessAnswer(Message, frozen=True):
    """To `AccessQuestion`, from web."""

    request: int
    is_allowed: bool
    has_credentials: bool
    """Whether there were any, right or wrong."""
    rule: str
    """What let it in, or why it was refused; holds no secret."""
    subject: str | None = None
    stream: str | None = None
    """The name under which it is published instead."""
    expires_at: float | None = None
    """In seconds since 1970; None: it does not expire."""


class Kick(Message, frozen=True):
    """An operator wants somebody gone. One of the two is given."""

    conn_id: str | None
    view_id: str | None


class Blocks(Message, frozen=True):
    """Everybody who is not let in for a while. The whole list, whenever it changes; times in seconds since 1970."""

    addresses: dict[str, float]
    subjects: dict[str, float]


class SetRecording(Message, frozen=True):
    """Record a stream, or stop recording it, within the patterns of the configuration."""

    app: str
    stream: str
    is_recording: bool


class DeleteRecording(Message, frozen=True):
    """A finished file of a recording is to go."""

    recording_id: str
    segment: int


class LivePush(msgspec.Struct, frozen=True, array_like=True):
    """A stream that a worker sends to a target, or would if it might."""

    target: str
    app: str
    stream: str
    state: str
    attempts: int
    last_error: str | None
    sent_bytes: int
    lag_ms: int | None
    skips: int
    started_at_us: int


class LivePushes(Message, frozen=True):
    """All pushes of a worker. Sent soon after a change, and every two seconds while there are any."""

    pushes: list[LivePush]


class NewPush(msgspec.Struct, frozen=True, array_like=True):
    """A target that was added through the API. Its key is as good as a password."""

    name: str
    streams: list[str]
    url: str
    key: str | None


class Pushes(Message, frozen=True):
    """All targets that were added through the API. The whole list, whenever it changes."""

    targets: list[NewPush]


class ViewBeacon(Message, frozen=True):
    """What a viewer saw, as its player tells it; None: not told. Counted from the start of the view."""

    token: str
    """Names the view, to its player and to the worker that has it."""
    startup_ms: int | None = None
    played_ms: int | None = None
    stalls: int | None = None
    stalled_ms: int | None = None
    latency_ms: int | None = None
    dropped_frames: int | None = None


class SentAway(Message, frozen=True):
    """A view without a connection was ended in a worker: its next request may come to any other, which web tells."""

    name: bytes
    """Of the stream."""
    ip: str
    client: str
    subject: str | None


WorkerToWeb = HttpConnection | Live | LivePushes | AccessQuestion | SentAway
WebToWorker = AccessAnswer | Kick | Blocks | SetRecording | DeleteRecording | Pushes | ViewBeacon | SentAway


def to_plain(value: msgspec.Struct) -> dict[str, Any]:
    """A value with the names of its fields, for JSON."""
    return {
        name: to_plain(each) if isinstance(each, msgspec.Struct) else each
        for name, each in msgspec.structs.asdict(value).items()
    }
