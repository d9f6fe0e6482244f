"""What the shell of a server decides, and what the client then hears (RTMP 1.0, section 7.2).

Owns the answers to connect, publish, play and seek, and the notices that a server sends by itself. Which commands
lead here is `server_session`'s matter. The texts and their order are those that OBS, FFmpeg, librtmp, GStreamer and
VLC were seen to need; onFCPublish is for hardware encoders that are said to wait for it.
"""

from collections.abc import Mapping

from penstock.amf import AmfValue
from penstock.errors import MisuseError
from penstock.protocol.capabilities import RELAY_CAPABILITIES, Capabilities, read_capabilities
from penstock.protocol.command import (
    Connect,
    Error,
    OnStatus,
    Result,
)
from penstock.protocol.command_codec import as_number
from penstock.protocol.connection import ConnectionSettings, MessageTrace
from penstock.protocol.control import (
    BandwidthLimit,
    SetChunkSize,
    SetPeerBandwidth,
    UserControl,
    UserControlEvent,
    WindowAcknowledgementSize,
)
from penstock.protocol.data import SampleAccess
from penstock.protocol.events import (
    EndReason,
    PlayEnded,
    PublishEnded,
)
from penstock.protocol.handshake import ServerHandshake
from penstock.protocol.session import MessageStream, Session
from penstock.protocol.states import (
    STREAM_TRANSITIONS,
    ConnectionSignal,
    StreamSignal,
    StreamState,
)
from penstock.protocol.status import StatusCode, information

SERVER_VERSION = "FMS/3,5,7,7009"
"""What clients look for: some enable H.264 only for a server that calls itself FMS 3 or later."""


class ServerDecisions(Session):
    """The half of a server session that the shell calls."""

    __slots__ = ("_capabilities", "_connect", "_undecided_publish")

    def __init__(
        self,
        *,
        nonce: bytes,
        time_ms: int,
        settings: ConnectionSettings | None = None,
        capabilities: Capabilities = RELAY_CAPABILITIES,
        trace: MessageTrace | None = None,
    ) -> None:
        handshake = ServerHandshake(nonce=nonce, time_ms=time_ms)
        super().__init__(handshake, settings or ConnectionSettings(), trace)
        self._capabilities = capabilities
        self._connect: Connect | None = None
        self._undecided_publish: MessageStream | None = None

    def accept_connect(self, more: Mapping[str, AmfValue] | None = None) -> None:
        """Answer a ConnectRequested: control burst, then _result, which may have more properties."""
        connect = self._decide_connect(ConnectionSignal.ACCEPT)
        settings = self._connection.settings
        for control in (
            WindowAcknowledgementSize(settings.window_bytes),
            SetPeerBandwidth(settings.peer_bandwidth_bytes, BandwidthLimit.DYNAMIC),
            SetChunkSize(settings.chunk_size),
        ):
            self._connection.send_control(control)
        enhanced: dict[str, AmfValue] = {}
        if read_capabilities(connect.properties).is_enhanced:
            enhanced = self._capabilities.to_properties()
        properties: dict[str, AmfValue] = {
            "fmsVer": SERVER_VERSION,
            "capabilities": 31.0,
            "mode": 1.0,
            **enhanced,
            **(more or {}),
        }
        status = information(
            StatusCode.CONNECT_SUCCESS,
            "Connection succeeded.",
            objectEncoding=float(object_encoding_of(connect)),
            **enhanced,
        )
        self._send_command(Result(connect.transaction_id, (properties, status)))

    def reject_connect(self, description: str, code: StatusCode = StatusCode.CONNECT_REJECTED) -> None:
        """Answer a ConnectRequested with _error. The shell sends what is queued and closes."""
        connect = self._decide_connect(ConnectionSignal.REJECT)
        self._send_command(Error(connect.transaction_id, (None, information(code, description))))

    def accept_publish(self, stream_id: int) -> None:
        """Answer a PublishRequested: media may come from now on."""
        stream = self._decide_publish(stream_id, StreamSignal.ACCEPT)
        stream.takes_media = True
        stream.sends_large = True
        self._size_messages()
        self._send_stream_event(UserControlEvent.STREAM_BEGIN, stream)
        self._send_status(stream, StatusCode.PUBLISH_START, f"Publishing {stream.name}.", details=stream.name)

    def reject_publish(self, stream_id: int, description: str, code: StatusCode = StatusCode.PUBLISH_BAD_NAME) -> None:
        """Answer a PublishRequested with an error that OBS and FFmpeg show."""
        stream = self._decide_publish(stream_id, StreamSignal.REJECT)
        self._send_status(stream, code, description, details=stream.name)

    def end_publish(self, stream_id: int, description: str, code: StatusCode = StatusCode.UNPUBLISH_SUCCESS) -> None:
        """End a publish from our side. What the client still sends on it is ignored."""
        stream = self._stream(stream_id)
        if stream.state is not StreamState.PUBLISHING:
            raise MisuseError(f"message stream {stream_id} is not publishing but {stream.state.value}")
        self._stop(stream)
        self._send_status(stream, code, description, details=stream.name)

    def accept_play(self, stream_id: int, *, is_reset: bool = False, is_recorded: bool = False) -> None:
        """Answer a PlayRequested: media may be sent from now on."""
        stream = self._stream(stream_id)
        self._move_stream(stream, StreamSignal.ACCEPT)
        self._send_stream_event(UserControlEvent.STREAM_BEGIN, stream)
        if is_recorded:
            self._send_stream_event(UserControlEvent.STREAM_IS_RECORDED, stream)
        if is_reset:
            self._send_status(
                stream, StatusCode.PLAY_RESET, f"Playing and resetting {stream.name}.", details=stream.name
            )
        self._send_status(stream, StatusCode.PLAY_START, f"Started playing {stream.name}.", details=stream.name)
        self.send_data(stream_id, 0, SampleAccess(allows_audio=True, allows_video=True))

    def reject_play(
        self, stream_id: int, description: str, code: StatusCode = StatusCode.PLAY_STREAM_NOT_FOUND
    ) -> None:
        """Answer a PlayRequested with an error; FFmpeg and librtmp end on it."""
        stream = self._stream(stream_id)
        self._move_stream(stream, StreamSignal.REJECT)
        self._send_status(stream, code, description, details=stream.name)

    def notify_published(self, stream_id: int) -> None:
        """Tell a waiting viewer that its stream has begun."""
        stream = self._stream(stream_id)
        description = f"{stream.name} is now published."
        self._send_status(stream, StatusCode.PLAY_PUBLISH_NOTIFY, description, details=stream.name)

    def end_play(self, stream_id: int) -> None:
        """Tell a viewer that the stream is over. FFmpeg and librtmp end on it, so not while it may come back."""
        stream = self._stream(stream_id)
        self._move_stream(stream, StreamSignal.STOP)
        description = f"{stream.name} is now unpublished."
        self._send_status(stream, StatusCode.PLAY_UNPUBLISH_NOTIFY, description, details=stream.name)
        self._send_stream_event(UserControlEvent.STREAM_EOF, stream)
        self._send_status(stream, StatusCode.PLAY_STOP, f"Stopped playing {stream.name}.", details=stream.name)

    def revoke_play(self, stream_id: int, description: str) -> None:
        """End a play that may not go on, with an error; FFmpeg and librtmp end on it."""
        stream = self._stream(stream_id)
        self._move_stream(stream, StreamSignal.STOP)
        self._send_status(stream, StatusCode.PLAY_FAILED, description, details=stream.name)

    def accept_seek(self, stream_id: int, position_ms: int) -> None:
        """Answer a SeekRequested: what follows starts at the position."""
        stream = self._stream(stream_id)
        self._send_status(stream, StatusCode.SEEK_NOTIFY, f"Seeking {position_ms}.", details=stream.name)
        self._send_status(stream, StatusCode.PLAY_START, f"Started playing {stream.name}.", details=stream.name)

    def reject_seek(self, stream_id: int, description: str) -> None:
        """Answer a SeekRequested that cannot be met, as in a live stream."""
        stream = self._stream(stream_id)
        self._send_status(stream, StatusCode.SEEK_FAILED, description, details=stream.name)

    def request_reconnect(self, description: str, tc_url: str | None = None) -> None:
        """Ask the client to come back, elsewhere if an address is given. Only for those who announced it."""
        target: dict[str, AmfValue] = {} if tc_url is None else {"tcUrl": tc_url}
        status = information(StatusCode.CONNECT_RECONNECT_REQUEST, description, **target)
        self._send_command(OnStatus(0.0, status))

    def announce_shutdown(self, description: str) -> None:
        """Tell the client that the server ends; FFmpeg shows the description."""
        self._send_command(OnStatus(0.0, information(StatusCode.CONNECT_APP_SHUTDOWN, description)))

    def receive_eof(self) -> None:
        """The peer is gone: what it did ends, by the same events as if it had said so."""
        self.close()
        for stream in list(self._streams.values()):
            self._end(stream, EndReason.CONNECTION_LOST)

    def hold(self) -> None:
        """Read no further: what comes next depends on what the shell has yet to learn about a play."""
        self._is_held = True

    def go_on(self) -> None:
        """Read on after `hold`."""
        self._is_held = False

    def _decide_connect(self, signal: ConnectionSignal) -> Connect:
        if self._connect is None:
            raise MisuseError(f"no connect is to be decided on a connection that is {self._state.value}")
        self._move(signal)
        connect, self._connect = self._connect, None
        self._is_held = False
        return connect

    def _decide_publish(self, stream_id: int, signal: StreamSignal) -> MessageStream:
        stream = self._undecided_publish
        if stream is None or stream.stream_id != stream_id:
            raise MisuseError(f"no publish is to be decided on message stream {stream_id}")
        self._move_stream(stream, signal)
        self._undecided_publish = None
        self._is_held = False
        return stream

    def _end(self, stream: MessageStream, reason: EndReason) -> None:
        """What the client did on the stream ends, as the client wants it or is gone."""
        stream.sends_large = False
        self._size_messages()
        before = stream.state
        if (before, StreamSignal.STOP) not in STREAM_TRANSITIONS:
            return
        self._stop(stream)
        if before in (StreamState.PUBLISHING, StreamState.PUBLISH_REQUESTED):
            self._events.append(PublishEnded(stream.stream_id, stream.name, reason))
        else:
            self._events.append(PlayEnded(stream.stream_id, stream.name, reason))

    def _stop(self, stream: MessageStream) -> None:
        self._move_stream(stream, StreamSignal.STOP)
        stream.takes_media = False
        if stream is self._undecided_publish:
            self._undecided_publish = None
            self._is_held = False

    def _size_messages(self) -> None:
        # One whose publish we ended goes on sending until it hears of it, and should hear of it.
        is_allowed = any(stream.sends_large for stream in self._streams.values())
        self._connection.allow_large_messages(is_allowed=is_allowed)

    def _refuse(self, stream: MessageStream, description: str) -> None:
        self._send_status(stream, StatusCode.STREAM_FAILED, description, details=stream.name)

    def _send_status(self, stream: MessageStream, code: StatusCode, description: str, **more: AmfValue) -> None:
        self._send_command(OnStatus(0.0, information(code, description, **more)), stream.stream_id)

    def _send_stream_event(self, event: UserControlEvent, stream: MessageStream) -> None:
        self._connection.send_control(UserControl(event, stream.stream_id))


def object_encoding_of(connect: Connect) -> int:
    """The AMF version that the client asked for: 0 or 3."""
    return 3 if as_number(connect.properties.get("objectEncoding")) == 3 else 0
