"""The server's side of an RTMP session (RTMP 1.0, section 7.2): what the client asks.

Owns which commands lead to an answer at once and which to a decision. Whether a connect, publish or play is granted
is the shell's decision: it comes up as an event and goes down as a call (`server_decisions`). Reading stops while a
connect or publish is undecided, since what follows depends on it; a play may be decided later, as viewers wait for
streams.
"""

from penstock.amf import UNDEFINED, AmfValue
from penstock.errors import ProtocolViolation
from penstock.protocol.capabilities import read_capabilities
from penstock.protocol.command import (
    CheckBandwidth,
    CloseStream,
    Command,
    Connect,
    CreateStream,
    DeleteStream,
    Error,
    FCPublish,
    FCSubscribe,
    FCUnpublish,
    FCUnsubscribe,
    GetStreamLength,
    OnFCPublish,
    OnFCSubscribe,
    OnFCUnpublish,
    Pause,
    PauseRaw,
    Play,
    Play2,
    Publish,
    ReceiveAudio,
    ReceiveVideo,
    ReleaseStream,
    Result,
    Seek,
    UnknownCommand,
)
from penstock.protocol.command_codec import as_text
from penstock.protocol.control import (
    ControlMessage,
    SetBufferLength,
    UserControlEvent,
)
from penstock.protocol.events import (
    BufferLengthSet,
    ConnectRequested,
    EndReason,
    PauseChanged,
    PlayRequested,
    PlayStart,
    PublishRequested,
    ReceiveChanged,
    SeekRequested,
    StreamOpened,
)
from penstock.protocol.message import Message, MessageType
from penstock.protocol.names import (
    MAX_APP_NAME_BYTES,
    MAX_STREAM_NAME_BYTES,
    MAX_TEXT_CHARACTERS,
    cut_name,
    name_fault,
    split_app,
    split_query,
    unquoted,
)
from penstock.protocol.server_decisions import ServerDecisions, object_encoding_of
from penstock.protocol.session import MessageStream
from penstock.protocol.states import (
    ConnectionSignal,
    ConnectionState,
    StreamSignal,
    StreamState,
)
from penstock.protocol.status import StatusCode, information
from penstock.protocol.via import PROPERTY, read_via


class ServerSession(ServerDecisions):
    """One client of a server."""

    __slots__ = ()

    def _on_command(self, command: Command, stream_id: int) -> None:
        if isinstance(command, Connect):
            self._on_connect(command)
            return
        if self._state is not ConnectionState.CONNECTED:
            self._on_early_command(command)
            return
        match command:
            case CreateStream():
                self._on_create_stream(command)
            case Publish() | Play() | Play2() | Pause() | PauseRaw() | Seek() | ReceiveAudio() | ReceiveVideo():
                self._on_stream_command(command, self._stream_of(command, stream_id))
            case CloseStream():
                if (stream := self._streams.get(stream_id)) is not None:
                    self._end(stream, EndReason.CLOSE_STREAM)
            case DeleteStream():
                if (stream := self._streams.get(command.stream_id)) is not None:
                    self._end(stream, EndReason.DELETE_STREAM)
                    self._move_stream(stream, StreamSignal.DELETE)
            case FCUnpublish():
                self._on_fc_unpublish(command)
            case FCSubscribe():
                self._send_command(Result(command.transaction_id, (None, UNDEFINED)))
                status = information(StatusCode.PLAY_START, f"Started playing {cut_name(command.stream_name)}.")
                self._send_command(OnFCSubscribe(0.0, status))
            case GetStreamLength():
                # A live stream has no length; FFmpeg asks before each play and takes 0 for "unknown".
                self._send_command(Result(command.transaction_id, (None, 0.0)))
            case ReleaseStream() | FCPublish():
                self._on_announcement(command)
            case CheckBandwidth() | FCUnsubscribe() | UnknownCommand():
                self._answer_unknown(command.transaction_id)
            case _:
                pass  # answers and notices that a client has no business to send mean nothing

    def _on_connect(self, connect: Connect) -> None:
        if self._state is not ConnectionState.OPEN:
            raise ProtocolViolation("session", "a second connect on the same connection")
        self._move(ConnectionSignal.CONNECT)
        self._connect = connect
        self._is_held = True
        properties = connect.properties
        app, app_query = split_app(as_text(properties.get("app")) or "")
        fault = name_fault("An app", app, app_query, MAX_APP_NAME_BYTES)
        if fault is not None:
            app, app_query = "", None
        tc_url = _short_text(properties.get("tcUrl")) or _short_text(properties.get("tcurl"))
        self._events.append(
            ConnectRequested(
                app=app,
                app_query=app_query,
                tc_url=None if tc_url is None else unquoted(tc_url),
                flash_version=_short_text(properties.get("flashVer")),
                object_encoding=object_encoding_of(connect),
                capabilities=read_capabilities(properties),
                fault=fault,
                via=read_via(properties.get(PROPERTY)),
            )
        )

    def _on_early_command(self, command: Command) -> None:
        """Announcements are answered in any order; what would have an effect is not."""
        if isinstance(command, ReleaseStream | FCPublish):
            self._on_announcement(command)
        elif isinstance(command, Publish | Play | Play2):
            raise ProtocolViolation("session", f"{command.command_name} before connect")
        elif command.transaction_id != 0:
            status = information(StatusCode.CALL_FAILED, "Not connected.")
            self._send_command(Error(command.transaction_id, (None, status)))

    def _on_announcement(self, command: ReleaseStream | FCPublish) -> None:
        self._send_command(Result(command.transaction_id, (None, UNDEFINED)))
        if isinstance(command, FCPublish):
            # Some hardware encoders go on only after this.
            status = information(StatusCode.PUBLISH_START, f"FCPublish to stream {cut_name(command.stream_name)}.")
            self._send_command(OnFCPublish(0.0, status))

    def _on_create_stream(self, command: CreateStream) -> None:
        limit = self._connection.settings.max_message_streams
        # The smallest free id, so that a client that makes its stream anew gets 1 again: the id that the encoding
        # shared by all viewers carries.
        stream_id = next(number for number in range(1, limit + 2) if number not in self._streams)
        if stream_id > limit:
            status = information(StatusCode.CALL_FAILED, f"At most {limit} message streams per connection.")
            self._send_command(Error(command.transaction_id, (None, status)))
            return
        self._streams[stream_id] = MessageStream(stream_id)
        self._send_command(Result(command.transaction_id, (None, float(stream_id))))
        self._events.append(StreamOpened(stream_id))

    def _stream_of(self, command: Command, stream_id: int) -> MessageStream:
        stream = self._streams.get(stream_id)
        if stream is None and stream_id == 0 and len(self._streams) == 1:
            # Some encoders send publish on message stream 0 after createStream.
            (stream,) = self._streams.values()
        if stream is None:
            raise ProtocolViolation("session", f"{command.command_name} on message stream {stream_id}, never created")
        return stream

    def _on_stream_command(self, command: Command, stream: MessageStream) -> None:
        match command:
            case Publish():
                self._on_publish(command, stream)
            case Play():
                self._on_play(command, stream)
            case Play2():
                name = as_text(command.parameters.get("streamName")) or ""
                self._on_play(Play(command.transaction_id, name), stream)
            case Pause() | PauseRaw():
                self._on_pause(command, stream)
            case Seek():
                if stream.state in (StreamState.PLAYING, StreamState.PAUSED):
                    self._events.append(SeekRequested(stream.stream_id, int(command.position_ms)))
                else:
                    self._refuse(stream, f"seek on a stream that is {stream.state.value}")
            case ReceiveAudio():
                self._events.append(ReceiveChanged(stream.stream_id, MessageType.AUDIO, command.is_wanted))
            case ReceiveVideo():
                self._events.append(ReceiveChanged(stream.stream_id, MessageType.VIDEO, command.is_wanted))

    def _on_publish(self, publish: Publish, stream: MessageStream) -> None:
        self._end(stream, EndReason.REPLACED)
        stream.name, query = split_query(publish.stream_name)
        self._move_stream(stream, StreamSignal.PUBLISH)
        self._undecided_publish = stream
        self._is_held = True
        if (fault := _stream_fault(stream.name, query)) is not None:
            stream.name = ""
            self.reject_publish(stream.stream_id, fault)
            return
        publishing_type = publish.publishing_type[:MAX_TEXT_CHARACTERS]
        self._events.append(PublishRequested(stream.stream_id, stream.name, query, publishing_type))

    def _on_play(self, play: Play, stream: MessageStream) -> None:
        self._end(stream, EndReason.REPLACED)
        stream.name, query = split_query(play.stream_name)
        self._move_stream(stream, StreamSignal.PLAY)
        if (fault := _stream_fault(stream.name, query)) is not None:
            stream.name = ""
            self.reject_play(stream.stream_id, fault)
            return
        start, start_ms = _play_start(play.start)
        duration_ms = None if play.duration is None or play.duration < 0 else int(play.duration)
        self._events.append(
            PlayRequested(
                stream.stream_id, stream.name, query, start, start_ms, duration_ms, is_reset=play.reset is True
            )
        )

    def _on_pause(self, pause: Pause | PauseRaw, stream: MessageStream) -> None:
        if stream.state not in (StreamState.PLAYING, StreamState.PAUSED):
            self._refuse(stream, f"pause on a stream that is {stream.state.value}")
            return
        is_paused = stream.state is StreamState.PAUSED
        if pause.is_paused == is_paused:
            return
        if pause.is_paused:
            self._move_stream(stream, StreamSignal.PAUSE)
            self._send_status(stream, StatusCode.PAUSE_NOTIFY, f"Pausing {stream.name}.", details=stream.name)
            self._send_stream_event(UserControlEvent.STREAM_EOF, stream)
        else:
            self._move_stream(stream, StreamSignal.UNPAUSE)
            self._send_status(stream, StatusCode.UNPAUSE_NOTIFY, f"Unpausing {stream.name}.", details=stream.name)
            self._send_stream_event(UserControlEvent.STREAM_BEGIN, stream)
        self._events.append(PauseChanged(stream.stream_id, pause.is_paused, int(pause.position_ms)))

    def _on_fc_unpublish(self, command: FCUnpublish) -> None:
        name = cut_name(split_query(command.stream_name).name)
        publishing = [stream for stream in self._streams.values() if stream.state is StreamState.PUBLISHING]
        named = [stream for stream in publishing if stream.name == name]
        ended = named or (publishing if len(publishing) == 1 else [])
        status = information(StatusCode.UNPUBLISH_SUCCESS, f"Stopped publishing {name}.")
        self._send_command(OnFCUnpublish(0.0, status))
        if command.transaction_id != 0:
            self._send_command(Result(command.transaction_id, (None, UNDEFINED)))
        for stream in ended:
            self._end(stream, EndReason.FC_UNPUBLISH)
            self._send_status(stream, StatusCode.UNPUBLISH_SUCCESS, f"Stopped publishing {name}.", details=name)

    def _on_control(self, control: ControlMessage) -> None:
        if isinstance(control, SetBufferLength):
            self._events.append(BufferLengthSet(control.stream_id, control.buffer_ms))

    def _on_stray_media(self, message: Message) -> None:
        if self._state is not ConnectionState.CONNECTED:
            raise ProtocolViolation("session", f"a media or data message (type {message.type_id}) before connect")
        self._ignore(message, f"nothing is published on message stream {message.stream_id}")


def _stream_fault(name: str, query: str | None) -> str | None:
    """Why a stream cannot be asked for by this name and query; None if it can."""
    return name_fault("A stream", name, query, MAX_STREAM_NAME_BYTES) if name else "A stream must have a name."


def _short_text(value: AmfValue) -> str | None:
    text = as_text(value)
    return None if text is None else text[:MAX_TEXT_CHARACTERS]


def _play_start(start: float | None) -> tuple[PlayStart, int | None]:
    """The wished start. FFmpeg sends -2 and -1 as milliseconds: -2000 and -1000."""
    if start is None or start in (-2, -2000):
        return PlayStart.LIVE_OR_RECORDED, None
    if start < 0:
        return PlayStart.LIVE, None
    return PlayStart.RECORDED, int(start)
