"""The client's side of an RTMP session (RTMP 1.0, section 7.2): publish to, and play from, any server.

Owns what a client sends and in which order, and what the answers of servers mean. Answers are matched softly, as
servers differ in which message stream and which codes they use.
"""

from penstock.amf import AmfValue
from penstock.errors import MisuseError
from penstock.protocol.capabilities import Capabilities, read_capabilities
from penstock.protocol.command import (
    CloseStream,
    Command,
    Connect,
    CreateStream,
    DeleteStream,
    Error,
    FCPublish,
    FCUnpublish,
    OnStatus,
    Pause,
    Play,
    Publish,
    ReceiveAudio,
    ReceiveVideo,
    ReleaseStream,
    Result,
    Seek,
    UnknownCommand,
)
from penstock.protocol.command_codec import as_number, as_text
from penstock.protocol.connection import ConnectionSettings, MessageTrace
from penstock.protocol.control import ControlMessage, SetBufferLength, SetChunkSize, UserControl, UserControlEvent
from penstock.protocol.data import SetDataFrame
from penstock.protocol.events import (
    CallRefused,
    Connected,
    ConnectRefused,
    PlayStarted,
    PublishStarted,
    ReconnectRequested,
    StatusReceived,
    StreamCreated,
    StreamEnded,
    StreamRefused,
)
from penstock.protocol.handshake import ClientHandshake
from penstock.protocol.message import Message
from penstock.protocol.session import MessageStream, Session
from penstock.protocol.states import (
    STREAM_TRANSITIONS,
    ConnectionSignal,
    ConnectionState,
    StreamSignal,
    StreamState,
)
from penstock.protocol.status import StatusCode

FLASH_VERSION = "FMLE/3.0 (compatible; Penstock)"
"""Servers take FMLE for an encoder."""

_END_CODES = frozenset((StatusCode.PLAY_UNPUBLISH_NOTIFY, StatusCode.PLAY_STOP, StatusCode.PLAY_COMPLETE))
_MAX_STREAM_ID = 0xFFFFFFFF


class ClientSession(Session):
    """One connection to a server."""

    __slots__ = ("_next_transaction_id", "_unanswered")

    def __init__(
        self,
        *,
        nonce: bytes,
        time_ms: int,
        digest: bool = False,
        settings: ConnectionSettings | None = None,
        trace: MessageTrace | None = None,
    ) -> None:
        handshake = ClientHandshake(nonce=nonce, time_ms=time_ms, digest=digest)
        super().__init__(handshake, settings or ConnectionSettings(), trace)
        self._next_transaction_id = 1.0
        self._unanswered: dict[float, Command] = {}

    # What the shell asks for.

    def connect(
        self,
        app: str,
        tc_url: str,
        *,
        capabilities: Capabilities | None = None,
        flash_version: str = FLASH_VERSION,
        more: dict[str, AmfValue] | None = None,
    ) -> None:
        """Ask for an app, once the handshake is done. The answer is Connected or ConnectRefused."""
        self._move(ConnectionSignal.CONNECT)
        self._connection.allow_large_messages(is_allowed=True)
        self._connection.send_control(SetChunkSize(self._connection.settings.chunk_size))
        properties: dict[str, AmfValue] = {
            "app": app,
            "type": "nonprivate",
            "flashVer": flash_version,
            "tcUrl": tc_url,
            "fpad": False,
            "capabilities": 15.0,
            "audioCodecs": 4071.0,
            "videoCodecs": 252.0,
            "videoFunction": 1.0,
            "objectEncoding": 0.0,
            **(capabilities.to_properties() if capabilities is not None else {}),
            **(more or {}),
        }
        self._call(Connect(self._take_transaction_id(), properties))

    def announce_publish(self, name: str) -> None:
        """Say what will be published, as encoders do before they make their stream. Servers may need it or not."""
        self._expect_connected("releaseStream")
        self._call(ReleaseStream(self._take_transaction_id(), name))
        self._call(FCPublish(self._take_transaction_id(), name))

    def create_stream(self) -> None:
        """Ask for a message stream. The answer is StreamCreated or CallRefused."""
        self._expect_connected("createStream")
        self._call(CreateStream(self._take_transaction_id()))

    def publish(self, stream_id: int, name: str, publishing_type: str = "live") -> None:
        """Ask to publish. The answer is PublishStarted or StreamRefused."""
        stream = self._stream(stream_id)
        self._move_stream(stream, StreamSignal.PUBLISH)
        stream.name = name
        self._send_command(Publish(0.0, name, publishing_type), stream_id)

    def play(self, stream_id: int, name: str, *, start: float = -2.0, buffer_ms: int = 3000) -> None:
        """Ask to play. The answer is PlayStarted or StreamRefused; a server may also send nothing yet."""
        stream = self._stream(stream_id)
        self._move_stream(stream, StreamSignal.PLAY)
        stream.name = name
        stream.takes_media = True
        self._send_command(Play(0.0, name, start), stream_id)
        self._connection.send_control(SetBufferLength(stream_id, buffer_ms))

    def send_metadata(self, stream_id: int, timestamp_ms: int, *values: AmfValue) -> None:
        """Publish onMetaData, to be kept by the server for those who join later."""
        self.send_data(stream_id, timestamp_ms, SetDataFrame("onMetaData", values))

    def pause(self, stream_id: int, position_ms: float) -> None:
        """Pause a play."""
        self._move_stream(self._stream(stream_id), StreamSignal.PAUSE)
        self._send_command(Pause(0.0, is_paused=True, position_ms=position_ms), stream_id)

    def unpause(self, stream_id: int, position_ms: float) -> None:
        """Resume a play."""
        self._move_stream(self._stream(stream_id), StreamSignal.UNPAUSE)
        self._send_command(Pause(0.0, is_paused=False, position_ms=position_ms), stream_id)

    def seek(self, stream_id: int, position_ms: float) -> None:
        """Ask to go on from a position."""
        self._stream(stream_id)
        self._send_command(Seek(0.0, position_ms), stream_id)

    def receive_audio(self, stream_id: int, *, is_wanted: bool) -> None:
        """Switch audio on or off."""
        self._stream(stream_id)
        self._send_command(ReceiveAudio(0.0, is_wanted), stream_id)

    def receive_video(self, stream_id: int, *, is_wanted: bool) -> None:
        """Switch video on or off."""
        self._stream(stream_id)
        self._send_command(ReceiveVideo(0.0, is_wanted), stream_id)

    def close_stream(self, stream_id: int) -> None:
        """End what a message stream does, and keep it."""
        self._stop(self._stream(stream_id))
        self._send_command(CloseStream(0.0), stream_id)

    def delete_stream(self, stream_id: int) -> None:
        """End what a message stream does, and give it back; a publish is ended as encoders end it."""
        stream = self._stream(stream_id)
        if stream.state in (StreamState.PUBLISHING, StreamState.PUBLISH_REQUESTED):
            self._call(FCUnpublish(self._take_transaction_id(), stream.name))
        self._stop(stream)
        self._move_stream(stream, StreamSignal.DELETE)
        self._send_command(DeleteStream(0.0, stream_id))

    def _expect_connected(self, command_name: str) -> None:
        if self._state is not ConnectionState.CONNECTED:
            raise MisuseError(f"{command_name} is not possible on a connection that is {self._state.value}")

    def _take_transaction_id(self) -> float:
        transaction_id = self._next_transaction_id
        self._next_transaction_id += 1
        return transaction_id

    def _call(self, command: Command) -> None:
        self._unanswered[command.transaction_id] = command
        self._send_command(command)

    def _stop(self, stream: MessageStream) -> None:
        if (stream.state, StreamSignal.STOP) in STREAM_TRANSITIONS:
            self._move_stream(stream, StreamSignal.STOP)
        stream.takes_media = False

    # What the server answers.

    def _on_command(self, command: Command, stream_id: int) -> None:
        match command:
            case Result():
                self._on_result(command)
            case Error():
                self._on_error(command)
            case OnStatus():
                self._on_status(command.information, stream_id)
            case UnknownCommand():
                self._answer_unknown(command.transaction_id)
            case _:
                pass  # onBWDone, onFCPublish and the like ask for nothing

    def _on_result(self, result: Result) -> None:
        question = self._unanswered.pop(result.transaction_id, None)
        if isinstance(question, Connect):
            self._move(ConnectionSignal.ACCEPT)
            properties, status = _object_at(result.values, 0), _object_at(result.values, 1)
            self._events.append(Connected(properties, status, read_capabilities({**status, **properties})))
        elif isinstance(question, CreateStream):
            stream_id = as_number(result.values[1]) if len(result.values) > 1 else None
            if stream_id is None or not 1 <= stream_id <= _MAX_STREAM_ID or int(stream_id) in self._streams:
                self._events.append(CallRefused("createStream", "", f"the answer has no free stream id: {stream_id}"))
                return
            stream = MessageStream(int(stream_id))
            self._streams[stream.stream_id] = stream
            self._events.append(StreamCreated(stream.stream_id))

    def _on_error(self, error: Error) -> None:
        question = self._unanswered.pop(error.transaction_id, None)
        # Some servers put the information where the properties belong.
        status = _object_at(error.values, 1) or _object_at(error.values, 0)
        code, description = _text(status, "code"), _text(status, "description")
        if isinstance(question, Connect):
            self._move(ConnectionSignal.REJECT)
            self._events.append(ConnectRefused(code, description))
        elif question is not None:
            self._events.append(CallRefused(question.command_name, code, description))

    def _on_status(self, status: dict[str, AmfValue], stream_id: int) -> None:
        level, code, description = _text(status, "level"), _text(status, "code"), _text(status, "description")
        if code == StatusCode.CONNECT_RECONNECT_REQUEST:
            self._events.append(ReconnectRequested(as_text(status.get("tcUrl")), description))
            return
        stream = self._streams.get(stream_id) or self._only_active_stream()
        if stream is None:
            self._events.append(StatusReceived(stream_id, level, code, description))
        elif code == StatusCode.PUBLISH_START and stream.state is StreamState.PUBLISH_REQUESTED:
            self._move_stream(stream, StreamSignal.ACCEPT)
            self._events.append(PublishStarted(stream.stream_id))
        elif code == StatusCode.PLAY_START and stream.state is StreamState.PLAY_REQUESTED:
            self._move_stream(stream, StreamSignal.ACCEPT)
            self._events.append(PlayStarted(stream.stream_id))
        elif level == "error" and stream.state is not StreamState.IDLE:
            self._stop(stream)
            self._events.append(StreamRefused(stream.stream_id, code, description))
        elif code in _END_CODES:
            self._end_play(stream, code)
        else:
            self._events.append(StatusReceived(stream.stream_id, level, code, description))

    def _only_active_stream(self) -> MessageStream | None:
        """The stream that a status on message stream 0 is about: some servers send all of theirs there."""
        active = [stream for stream in self._streams.values() if stream.state is not StreamState.IDLE]
        return active[0] if len(active) == 1 else None

    def _end_play(self, stream: MessageStream, code: str) -> None:
        """Servers tell the end up to three times over; the shell hears it once."""
        if stream.state in (StreamState.PLAYING, StreamState.PAUSED, StreamState.PLAY_REQUESTED):
            self._stop(stream)
            self._events.append(StreamEnded(stream.stream_id, code))

    def _on_control(self, control: ControlMessage) -> None:
        # A StreamEOF is sent on pause as well, so it ends nothing while paused.
        if isinstance(control, UserControl) and control.event is UserControlEvent.STREAM_EOF:
            stream = self._streams.get(control.value)
            if stream is not None and stream.state is StreamState.PLAYING:
                self._end_play(stream, "StreamEOF")

    def _on_stray_media(self, message: Message) -> None:
        self._ignore(message, f"nothing is played on message stream {message.stream_id}")


def _object_at(values: tuple[AmfValue, ...], index: int) -> dict[str, AmfValue]:
    value = values[index] if len(values) > index else None
    return value if isinstance(value, dict) else {}


def _text(status: dict[str, AmfValue], name: str) -> str:
    return as_text(status.get(name)) or ""
