"""Who watches the server: logs, facts and figures hear of everything through one set of calls.

The media path calls these and knows nothing of what becomes of them. The base class does nothing, for tests and for
servers that want no telemetry; several observers can be joined.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import ProtocolViolation

if TYPE_CHECKING:
    from penstock.serve.connections.rtmp_connection import RtmpConnection
    from penstock.serve.streams.broker import Broker
    from penstock.serve.streams.live_stream import LiveStream
    from penstock.serve.streams.viewer import Viewer


class Observer:
    """Hears what happens. Nothing here may block or raise."""

    def connection_opened(self, connection: "RtmpConnection") -> None:
        """A socket was accepted."""

    def handshake_completed(self, connection: "RtmpConnection") -> None:
        """The RTMP handshake is done."""

    def connected(self, connection: "RtmpConnection") -> None:
        """A connect was accepted."""

    def stream_created(self, connection: "RtmpConnection", stream_id: int) -> None:
        """A message stream was made."""

    def connection_closed(self, connection: "RtmpConnection", reason: str) -> None:
        """A connection is gone."""

    def violation(self, connection: "RtmpConnection", violation: ProtocolViolation) -> None:
        """A peer broke the protocol; its connection closes next."""

    def limit_hit(self, limit: str, detail: str) -> None:
        """Somebody was turned away."""

    def publish_started(self, connection: "RtmpConnection", live_stream: "LiveStream", publishing_type: str) -> None:
        """A publication began. Whoever wants its frames adds a listener to the live_stream."""

    def publish_refused(self, connection: "RtmpConnection", key: str, reason: str) -> None:
        """A publication was turned away."""

    def publish_stopped(self, connection: "RtmpConnection", live_stream: "LiveStream", reason: str) -> None:
        """A publication ended; the stream may go on."""

    def codecs_known(self, live_stream: "LiveStream", text: str) -> None:
        """What a stream consists of, when it is known and when it changes."""

    def stream_closed(self, live_stream: "LiveStream") -> None:
        """A stream is over; everything was flushed, and its log is closed next."""

    def play_started(self, viewer: "Viewer") -> None:
        """A viewer was let in; media may come later."""

    def first_frame_sent(self, viewer: "Viewer") -> None:
        """A viewer was given its place in the log."""

    def viewer_skipped(self, viewer: "Viewer", skipped_bytes: int) -> None:
        """A viewer fell behind and lost some."""

    def viewer_stalled(self, viewer: "Viewer", stalled_s: float) -> None:
        """A viewer takes nothing and will be closed if that goes on."""

    def play_stopped(self, viewer: "Viewer", reason: str) -> None:
        """A viewer is gone, or its stream is."""

    def message_ignored(self, connection: "RtmpConnection", type_id: int, reason: str) -> None:
        """A message changed nothing."""

    def second_passed(self, broker: "Broker") -> None:
        """Once a second, for samples and deadlines."""

    def error(self, connection: "RtmpConnection | None", error: BaseException) -> None:
        """A bug of ours was caught at the edge of one connection."""


class ObserverGroup(Observer):
    """Several observers as one. An observer that fails is told to the others and costs nothing else."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def tell(self, name: str, *arguments: object) -> None:
        """Pass one call on to everybody."""
        for observer in self._observers:
            try:
                getattr(observer, name)(*arguments)
            except Exception as error:
                for other in self._observers:
                    if other is not observer:
                        other.error(None, error)


def _passing_on(name: str) -> Callable[..., None]:
    def call(self: ObserverGroup, *arguments: object) -> None:
        self.tell(name, *arguments)

    return call


for _name in [name for name in vars(Observer) if not name.startswith("_")]:
    setattr(ObserverGroup, _name, _passing_on(_name))
