"""The streams of one worker: which are there, who waits for one, and how they move between workers and end.

Owns the names that are known here, whether their logs are written here or followed in another worker. Who may publish
or play is not decided here (`publishing`, `playing`), and which worker has a name is told by the registry.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.media.frame import FrameKind
from penstock.protocol.chunk_writer import standalone_writer
from penstock.relay.readable_log import Flush, FrameEncoders, ReadableLog
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Loop
from penstock.serve.sending.fan_out import FanOut
from penstock.serve.settings import AppSettings, ServerSettings
from penstock.serve.streams.live_stream import LiveStream, StreamOwner
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.publisher import NoPulls, Puller
from penstock.serve.streams.read_paces import ReadPaces
from penstock.serve.streams.registry import Registry
from penstock.serve.streams.viewer import Viewer
from penstock.serve.streams.workers.peers import Peers

# Chunk streams of the shared encoding: none of those on which sessions compress headers.
_SHARED_CHUNK_STREAMS: Final = {FrameKind.AUDIO: 4, FrameKind.VIDEO: 6, FrameKind.DATA: 8}


def shared_encoders(chunk_size: int) -> FrameEncoders:
    """The encoding that all viewers share: message stream 1, a full header, absolute time."""
    return {
        kind: standalone_writer(chunk_stream_id, int(kind), 1, chunk_size)
        for kind, chunk_stream_id in _SHARED_CHUNK_STREAMS.items()
    }


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody wants to publish or play a stream."""

    key: str
    app_name: str
    app: AppSettings
    may_be_pulled: bool = True
    """Whether it is fetched from another server for this one."""


class StreamTable:
    """All streams that are published or watched here."""

    def __init__(
        self,
        settings: ServerSettings,
        fan_out: FanOut,
        owner: StreamOwner,
        *,
        loop: Loop,
        observer: Observer,
        registry: Registry,
        show: Callable[[list[tuple[LiveStream, Flush]]], None],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`owner`: whom streams tell. `show`: sends what other workers have made visible."""
        self.settings = settings
        self.loop = loop
        self.wall_clock = wall_clock
        self.observer = observer
        self.registry = registry
        self.is_closing = False
        self.puller: Puller = NoPulls()
        """Given by whoever has one."""
        self.streams: dict[str, LiveStream] = {}
        self.waiting: dict[str, dict[Viewer, float]] = {}
        """Viewers of streams that are not there, and until when they wait."""
        self.encoders = shared_encoders(settings.connection.chunk_size)
        self.peers = Peers(self, show, self.encoders, settings.log_limits)
        self.read_paces = ReadPaces(loop, self.peers.followed.__len__)
        self._fan_out = fan_out
        self._owner = owner

    def apply(self, settings: ServerSettings) -> None:
        """Go on by other settings."""
        self.settings = settings
        for stream in self.streams.values():
            for each in stream.all_encodings:
                each.app = settings.app(stream.app_name)

    def request(self, app_name: str, name: str) -> Request:
        """What somebody wants, by the settings that hold for it."""
        return Request(f"{app_name}/{name}", app_name, self.settings.app(app_name))

    def add_stream(self, key: str, app_name: str, log: ReadableLog) -> LiveStream:
        """A stream that was not here before."""
        stream = self.streams[key] = LiveStream(
            key,
            app_name,
            self.settings.app(app_name),
            log=log,
            fan_out=self._fan_out,
            owner=self._owner,
            now=self.loop.now,
            wall_clock=self.wall_clock,
        )
        return stream

    def seat_waiting(self, stream: LiveStream) -> None:
        """Those who wait for a stream that has come."""
        for viewer in self.waiting.pop(stream.key, {}):
            is_early = viewer.waited_for_stream
            stream.add(viewer, self.loop.now)
            viewer.waited_for_stream = is_early

    def mirror(self, key: str, log: ReadableLog, *, is_same: bool) -> LiveStream | None:
        """A stream of another worker can be followed from now on. None if nobody wants it any more."""
        stream = self.streams.get(key)
        if stream is not None:
            stream.move(log, self.loop.now, is_same=is_same)
        elif key in self.waiting:
            stream = self.add_stream(key, next(iter(self.waiting[key])).connection.app, log)
        if stream is not None:
            self.seat_waiting(stream)
        return stream

    def watched_elsewhere(self, stream: LiveStream) -> None:
        """Whether a stream of this worker is watched in others has changed."""
        self.update_publisher_of(stream.key)
        if stream.log.unflushed_bytes and not stream.is_dirty:
            # It was to be flushed when somebody would come.
            self._owner.stream_dirty(stream)

    def end_stream(self, stream: LiveStream) -> None:
        """A stream is over: its name is free, and everybody who watches it is told in turn."""
        stream.flush(self.loop.now)
        self.streams.pop(stream.key, None)
        self.puller.stream_over(stream.key)
        epoch, stream.epoch = stream.epoch, None
        if epoch is None:
            self.peers.followed.forget(stream.key)
            stream.end()
        else:
            self.observer.stream_closed(stream)
            self.peers.offers.ended(stream, epoch)
            stream.end()
            self.registry.ended(stream.key, epoch)

    def owner_changed(self, key: str, owner: int, epoch: int) -> None:
        """A stream has begun in another worker: viewers here follow it there."""
        stream = self.streams.get(key)
        if stream is not None and stream.epoch is not None:
            stream.epoch = stream.grace_until = None
            self.observer.stream_left(stream)
            self.peers.offers.left(stream)
        self.drop_unwatched(key)
        if (stream is not None and stream.viewers_here) or key in self.waiting:
            self.peers.followed.follow(key, owner, epoch)

    def stream_over(self, key: str, epoch: int) -> None:
        """A stream that is watched here is over. Who follows its log hears of it there, behind its last frame."""
        self.peers.followed.over(key, epoch)

    def drop_unwatched(self, key: str) -> None:
        """Nobody may watch a stream any more that another worker has."""
        stream = self.streams.get(key)
        if stream is not None and stream.epoch is None and not stream.viewers_here:
            del self.streams[key]
            self.peers.followed.forget(key)
            stream.log.close()

    def update_publisher_of(self, key: str) -> None:
        """Who watches a stream has changed: its publisher may be read sooner or later."""
        stream = self.streams.get(key)
        if stream is not None and isinstance(stream.publisher, RtmpConnection):
            self.read_paces.update(stream.publisher)

    def look_after(self, stream: LiveStream, now: float) -> None:
        """A stream whose publisher did not come back is over; viewers do not wait for a key frame for ever."""
        if self.streams.get(stream.key) is not stream:
            return
        if stream.grace_until is not None and now >= stream.grace_until:
            self.end_stream(stream)
        else:
            stream.call_waiting(now)
