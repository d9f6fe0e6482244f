"""A broker, a flusher and a reaper on a fake loop, with clients in memory: the whole media path without a socket."""

from penstock.errors import ProtocolViolation
from penstock.relay.readable_log import Flush
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.settings import AppSettings, ServerSettings
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.flusher import Flusher
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.publisher import Publisher
from penstock.serve.streams.reaper import Reaper
from penstock.serve.streams.viewer import Viewer
from tests.relay.support import CountingStore
from tests.serve.fake_peer import FakePeer
from tests.serve.fakes import FakeFanOut, FakeLoop
from tests.support.lone_worker import NamesHere
from tests.support.session_runs import new_server


class Notes(Observer):
    """Writes down what a test may ask about. A bug of ours fails the test at once."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.limits: list[str] = []
        self.details: list[str] = []
        """Of limits."""
        self.closings: dict[str, str] = {}
        """Why each connection went, by its id."""
        self.skipped_bytes = 0
        self.stalls: list[Viewer] = []
        self.seconds = 0

    def connection_closed(self, connection: MediaConnection, reason: str) -> None:
        self.closings[connection.id] = reason

    def violation(self, connection: MediaConnection, violation: ProtocolViolation) -> None:
        self.heard.append(f"violation: {violation}")

    def limit_hit(self, limit: str, detail: str) -> None:
        self.limits.append(limit)
        self.details.append(detail)

    def publish_started(self, publisher: Publisher, live_stream: LiveStream, publishing_type: str) -> None:
        self.heard.append(f"{live_stream.key} published")

    def publish_refused(self, connection: MediaConnection, key: str, reason: str) -> None:
        self.heard.append(f"{key} refused")

    def publish_stopped(self, publisher: Publisher, live_stream: LiveStream, reason: str) -> None:
        self.heard.append(f"{live_stream.key} stopped: {reason}")

    def stream_arrived(self, live_stream: LiveStream, recording_id: str | None) -> None:
        self.heard.append(f"{live_stream.key} goes on in {recording_id}")

    def stream_closed(self, live_stream: LiveStream) -> None:
        self.heard.append(f"{live_stream.key} closed")

    def codecs_known(self, live_stream: LiveStream, text: str) -> None:
        self.heard.append(f"{live_stream.key} is {text}")

    def play_started(self, viewer: Viewer) -> None:
        self.heard.append(f"{viewer.key} played")

    def play_stopped(self, viewer: Viewer, reason: str) -> None:
        self.heard.append(f"{viewer.key} left: {reason}")

    def viewer_skipped(self, viewer: Viewer, skipped_bytes: int) -> None:
        self.skipped_bytes += skipped_bytes

    def viewer_stalled(self, viewer: Viewer, stalled_s: float) -> None:
        self.stalls.append(viewer)

    def second_passed(self, now: float) -> None:
        self.seconds += 1

    def error(self, connection: MediaConnection | None, error: BaseException) -> None:
        raise AssertionError("a bug of ours") from error


class FlushNotes:
    """Hears of flushes, and writes them down among everything else."""

    def __init__(self, notes: Notes) -> None:
        self.flushes: list[Flush] = []
        self._notes = notes

    def on_flush(self, flush: Flush, now: float) -> None:
        self.flushes.append(flush)
        self._notes.heard.append("flushed")


class Stage:
    """The server's parts, joined as the server joins them."""

    def __init__(
        self,
        settings: ServerSettings | None = None,
        app: AppSettings | None = None,
        names: NamesHere | None = None,
        *,
        loop: FakeLoop | None = None,
        worker: int = 1,
        address: str = "192.0.2.1:1000",
    ) -> None:
        """One of several workers, if it shares its loop and its registry of names with others."""
        if settings is None:
            app = app or AppSettings()
            settings = ServerSettings(app=lambda _name: app)
        self.loop = loop or FakeLoop()
        self.notes = Notes()
        self.store = CountingStore()
        self.fan_out = FakeFanOut(self.loop)
        self.flusher = Flusher(
            self.loop, self.fan_out, settings.max_flush_wait_s, lambda error: self.notes.error(None, error)
        )
        self._others = self.loop.after_events or (lambda: None)
        self.loop.after_events = self._finish_round
        self.broker = Broker(
            settings,
            self.store,
            self.fan_out,
            loop=self.loop,
            observer=self.notes,
            registry=(names or NamesHere()).registry(worker),
            mark=self.flusher.mark,
            show=self.flusher.show,
            wall_clock=lambda: self.loop.now,
        )
        self.reaper = Reaper(self.broker, self.loop)
        self._numbers = 0
        self._worker = worker
        self.address = address
        """Where everybody comes from."""

    def _finish_round(self) -> None:
        self._others()
        self.flusher.flush_dirty()
        self.broker.peers.finish_round()

    def peer(self, *, is_encrypted: bool = False) -> FakePeer:
        """Somebody has connected by TCP, and perhaps TLS."""
        self._numbers += 1
        transport = self.loop.new_transport(can_send_files=not is_encrypted)
        connection = RtmpConnection(
            f"{self._worker}-{self._numbers}",
            self.address,
            transport,
            new_server(),
            loop=self.loop,
            owner=self.broker,
        )
        self.broker.connections[connection.id] = connection
        return FakePeer(self.loop, transport, connection)

    def publisher(self, name: str = "a") -> FakePeer:
        """Somebody publishes."""
        peer = self.peer().with_streams()
        assert peer.publish(name) == ["NetStream.Publish.Start"]
        return peer

    def viewer(self, name: str = "a", *, is_encrypted: bool = False) -> FakePeer:
        """Somebody has asked to play, and hears nothing of it if the stream is not there."""
        peer = self.peer(is_encrypted=is_encrypted).with_streams()
        peer.play(name)
        return peer

    def stream(self, name: str = "a") -> LiveStream:
        return self.broker.streams[f"live/{name}"]

    def viewer_of(self, peer: FakePeer, stream_id: int = 1) -> Viewer:
        viewer = peer.connection.plays[stream_id]
        assert isinstance(viewer, Viewer)
        return viewer

    def is_closed(self, peer: FakePeer) -> bool:
        return peer.connection.is_closed

    def why_closed(self, peer: FakePeer) -> str | None:
        return self.notes.closings.get(peer.connection.id)
