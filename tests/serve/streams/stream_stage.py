"""One live stream on a fake loop, with viewers that keep what they are sent; nothing decides about anything."""

from penstock.media.frame import Frame, FrameKind
from penstock.relay.encodings.encoding import EncodingKind
from penstock.relay.log import LogBudget
from penstock.relay.readable_log import LogLimits, ReadableLog
from penstock.relay.track_filter import TrackFilter
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.settings import AppSettings
from penstock.serve.streams.encoded_stream import EncodedStream
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.viewer import Viewer
from tests.relay.support import (
    METADATA,
    CountingStore,
    audio_setup,
    encode,
    inter,
    key,
    messages_of,
    metadata,
    new_log,
    video_setup,
)
from tests.serve.fakes import FakeFanOut, FakeLoop, FakeOwner, FakeTransport
from tests.support.independent_rtmp import OracleMessage
from tests.support.session_runs import new_server

KEY = "live/a"
THE_END = "the end"


class StreamNotes:
    """What a stream tells its owner."""

    def __init__(self) -> None:
        self.dirty = 0
        self.codecs: list[str] = []
        self.admitted: list[Viewer] = []
        self.seated: list[Viewer] = []
        self.skips: list[int] = []

    def stream_dirty(self, stream: LiveStream) -> None:
        self.dirty += 1

    def codecs_known(self, stream: LiveStream, text: str) -> None:
        self.codecs.append(text)

    def admit(self, viewer: Viewer) -> None:
        viewer.is_admitted = True
        self.admitted.append(viewer)

    def end_play(self, viewer: Viewer) -> None:
        viewer.finish_in_queue()
        viewer.connection.queue.put(encode(FrameKind.DATA, 0, THE_END.encode()))
        assert viewer.stream is not None
        viewer.stream.remove(viewer)
        del viewer.connection.plays[viewer.stream_id]

    def first_frame_sent(self, viewer: Viewer) -> None:
        self.seated.append(viewer)

    def viewer_skipped(self, viewer: Viewer, skipped_bytes: int) -> None:
        self.skips.append(skipped_bytes)

    def encode(self, stream: LiveStream, kind: EncodingKind, now: float) -> EncodedStream:
        raise AssertionError(f"{stream.key} is to be sent as {kind}")


class Watcher:
    """A viewer, its connection and what it was sent."""

    def __init__(self, transport: FakeTransport, connection: RtmpConnection, viewer: Viewer) -> None:
        self.transport = transport
        self.connection = connection
        self.viewer = viewer
        self._heard = 0

    @property
    def messages(self) -> list[OracleMessage]:
        """All whole messages so far."""
        return messages_of(bytes(self.transport.output))[0]

    @property
    def half_bytes(self) -> int:
        """How much of a message that is not whole came behind them."""
        return messages_of(bytes(self.transport.output))[1]

    def heard(self) -> list[str]:
        """What came since the last time, by the bodies of the messages."""
        new = self.messages[self._heard :]
        self._heard += len(new)
        return [name_of(message) for message in new]


class StreamStage:
    """One stream, published and watched."""

    def __init__(
        self, app: AppSettings | None = None, limits: LogLimits | None = None, log: ReadableLog | None = None
    ) -> None:
        self.loop = FakeLoop()
        self.owner = FakeOwner()
        self.notes = StreamNotes()
        self.store = CountingStore()
        self.budget = LogBudget(1 << 30)
        self.fan_out = FakeFanOut(self.loop)
        self.log = new_log(limits, self.budget, self.store)
        """What is published here, if nothing else is given."""
        self.stream = LiveStream(
            KEY,
            "live",
            app or AppSettings(),
            log=log or self.log,
            fan_out=self.fan_out,
            owner=self.notes,
            now=self.loop.now,
        )

    def connection(self, *, is_encrypted: bool = False) -> tuple[FakeTransport, RtmpConnection]:
        transport = self.loop.new_transport(can_send_files=not is_encrypted)
        connection_id = str(transport.descriptor)
        connection = RtmpConnection(
            connection_id, "192.0.2.1:1000", transport, new_server(), loop=self.loop, owner=self.owner
        )
        self.loop.settle()
        return transport, connection

    def begin(self) -> RtmpConnection:
        """Somebody begins to publish."""
        _, publisher = self.connection()
        self.stream.begin(publisher, self.loop.now)
        return publisher

    def send(self, *frames: Frame, flushes_each: bool = False) -> None:
        """The publisher sends, and everybody is sent what they can take."""
        for frame in frames:
            self.stream.append(frame, self.loop.now)
            if flushes_each:
                self.flush()
        self.flush()

    def flush(self) -> None:
        self.stream.flush(self.loop.now)
        self.loop.settle()

    def watch(self, *, is_encrypted: bool = False, client: str = "", stream_id: int = 1) -> Watcher:
        """Somebody begins to watch."""
        transport, connection = self.connection(is_encrypted=is_encrypted)
        connection.client = client
        return self.add_play(transport, connection, TrackFilter(stream_id))

    def add_play(self, transport: FakeTransport, connection: RtmpConnection, track_filter: TrackFilter) -> Watcher:
        """Somebody begins to watch on a connection that is there."""
        viewer = Viewer(connection, track_filter.stream_id, KEY, None, self.loop.now)
        viewer.track_filter = track_filter
        connection.plays[viewer.stream_id] = viewer
        self.stream.add(viewer, self.loop.now)
        self.loop.settle()
        return Watcher(transport, connection, viewer)

    def leave(self, watcher: Watcher) -> None:
        """Somebody watches no more."""
        watcher.viewer.finish_in_queue()
        self.stream.remove(watcher.viewer)
        del watcher.connection.plays[watcher.viewer.stream_id]


def name_of(message: OracleMessage) -> str:
    """The body of a message, behind the bytes that say what it is."""
    if message.type_id == 18:
        return "metadata" if message.payload.startswith(METADATA) else message.payload.decode()
    return message.payload[5 if message.type_id == 9 else 2 :].rstrip(b"\0").decode()


def published(app: AppSettings | None = None, limits: LogLimits | None = None) -> StreamStage:
    """A stream with its codec configuration and a GOP of two frames."""
    on = StreamStage(app, limits)
    on.begin()
    on.send(metadata(), video_setup(), audio_setup(), key(0, b"k0"), inter(40, b"i1"))
    return on


def in_step(on: StreamStage, *, is_encrypted: bool = False) -> Watcher:
    """A viewer that has everything."""
    watcher = on.watch(is_encrypted=is_encrypted)
    assert watcher.viewer.is_in_step
    watcher.heard()
    return watcher
