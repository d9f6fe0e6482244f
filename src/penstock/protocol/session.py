"""What server and client sessions share: a connection, its message streams, and events pulled one at a time.

Owns the states, the media clock of each message stream, and the order of things: an event is handed out before the
bytes after it are looked at, so what the shell decides holds for them. A session never waits and never fails but by
ProtocolViolation, which names the layer, the numbers and the state. A call of `next_event` does a bounded amount of
work, whatever the peer has sent.
"""

from abc import ABC, abstractmethod
from collections import deque

from penstock.errors import MalformedInput, MisuseError, ProtocolViolation
from penstock.protocol.aggregate import AggregateReader
from penstock.protocol.clock import UnwrappingClock
from penstock.protocol.command import Command, Result
from penstock.protocol.command_codec import read_command, write_command
from penstock.protocol.connection import LAST_CONTROL_TYPE, Connection, ConnectionSettings, MessageTrace
from penstock.protocol.control import Acknowledgement, ControlMessage, UserControl, UserControlEvent
from penstock.protocol.data import DataMessage, read_relayed, write_data
from penstock.protocol.events import (
    Acknowledged,
    DataCleared,
    DataReceived,
    Event,
    HandshakeCompleted,
    MediaReceived,
    MessageIgnored,
    PongReceived,
)
from penstock.protocol.handshake import ClientHandshake, HandshakeState, ServerHandshake
from penstock.protocol.message import Message, MessageType
from penstock.protocol.states import (
    CONNECTION_TRANSITIONS,
    STREAM_TRANSITIONS,
    ConnectionSignal,
    ConnectionState,
    StreamSignal,
    StreamState,
)
from penstock.protocol.work import WORK_PER_CALL, WorkMeter

COMMAND_CHUNK_STREAM_ID = 3
STATUS_CHUNK_STREAM_ID = 5
AUDIO_CHUNK_STREAM_ID = 4
VIDEO_CHUNK_STREAM_ID = 6
DATA_CHUNK_STREAM_ID = 7
_MEDIA_TYPES = frozenset((8, 9))
# A tenth of the cost of a media message is looking an enum's member up in its class.
_CLOSED = ConnectionState.CLOSED
# Half the cost of calling MediaReceived: its own constructor is Python code around this.
_new_tuple = tuple.__new__


class MessageStream:
    """A message stream: what it does, under which name, and its clock."""

    __slots__ = ("clock", "name", "sends_large", "state", "stream_id", "takes_media")

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id
        self.state = StreamState.IDLE
        self.name = ""
        self.clock = UnwrappingClock()
        self.takes_media = False
        self.sends_large = False
        """Whether the peer was told that it publishes here, and has not ended it itself."""


class Session(ABC):
    """A session of either role. Feed, ask for events until there is none, send what there is to send."""

    __slots__ = ("_aggregate", "_connection", "_events", "_is_held", "_state", "_streams", "_work")

    def __init__(
        self,
        handshake: ServerHandshake | ClientHandshake,
        settings: ConnectionSettings,
        trace: MessageTrace | None,
    ) -> None:
        self._work = WorkMeter()
        self._connection = Connection(handshake, settings, trace, self._work)
        self._state = ConnectionState.HANDSHAKING
        self._streams: dict[int, MessageStream] = {}
        self._events: deque[Event] = deque()
        self._aggregate: AggregateReader | None = None
        self._is_held = False
        """Set while the shell owes a decision that must act before the next byte is read."""

    @property
    def state(self) -> ConnectionState:
        """Where the connection stands."""
        return self._state

    @property
    def handshake_state(self) -> HandshakeState:
        """How far the handshake is; its deadline is the shell's."""
        return self._connection.handshake_state

    @property
    def received_bytes(self) -> int:
        """All bytes received so far."""
        return self._connection.received_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes held for the peer: unread, in half messages, and in an aggregate that is not taken apart yet."""
        aggregate = self._aggregate
        return self._connection.buffered_bytes + (0 if aggregate is None else len(aggregate.aggregate.payload))

    @property
    def oldest_half_message_at(self) -> float | None:
        """When the oldest message that is not whole began, by the shell's clock; None if there is none.

        Walks the chunk streams: to be asked now and then, not for each message.
        """
        return self._connection.oldest_half_message_at

    @property
    def work_done(self) -> int:
        """Units of work done for the peer so far: `work` says what one is."""
        return self._work.done

    @property
    def is_held(self) -> bool:
        """Whether reading waits for a decision of the shell, which should read no more from the peer until then."""
        return self._is_held

    @property
    def is_unfinished(self) -> bool:
        """Whether `next_event` could go on without more bytes from the peer."""
        if self._events:
            return True
        if self._is_held or self._state is ConnectionState.CLOSED:
            return False
        return self._aggregate is not None or not self._connection.needs_bytes

    @property
    def pending_reply_bytes(self) -> int:
        """Bytes waiting for `data_to_send`. At `max_pending_reply_bytes` reading stops until they are fetched."""
        return self._connection.pending_reply_bytes

    def stream_state(self, stream_id: int) -> StreamState:
        """What a message stream does."""
        stream = self._streams.get(stream_id)
        return StreamState.DELETED if stream is None else stream.state

    def receive_data(self, data: bytes, now: float = 0.0) -> None:
        """Take what the peer sent; `now` is the shell's clock, in seconds from any moment.

        After the end it is dropped, as a peer may not have heard of it yet.
        """
        if self._state is ConnectionState.CLOSED:
            return
        try:
            if self._connection.receive_data(data, now):
                self._move(ConnectionSignal.HANDSHAKE_DONE)
                self._events.append(HandshakeCompleted(self._connection.used_digest))
        except MalformedInput as fault:
            raise self._broken(fault) from fault

    def next_event(self) -> Event | None:
        """The next event. None if more bytes are needed, a decision is owed, or it has done enough for one call.

        In the last case `is_unfinished` is true: it goes on when asked again, after `data_to_send` if that is due.
        """
        if self._events:
            return self._events.popleft()
        if self._is_held or self._state is _CLOSED:
            return None
        connection = self._connection
        if connection.replies_are_due:
            return None
        stop_at = self._work.done + WORK_PER_CALL
        try:
            while True:
                if self._aggregate is None:
                    message = connection.next_message(stop_at)
                    if message is None:
                        return None
                elif (message := self._next_part(self._aggregate, stop_at)) is None:
                    if self._events:
                        return self._events.popleft()
                    if self._aggregate is not None:
                        return None
                    continue
                type_id, timestamp_ms, stream_id, payload, _ = message
                if type_id in _MEDIA_TYPES:
                    stream = self._streams.get(stream_id) or self._stream_for(stream_id)
                    if stream is not None and stream.takes_media:
                        time_ms = stream.clock.unwrap(timestamp_ms)
                        return _new_tuple(MediaReceived, (type_id, stream.stream_id, time_ms, payload))
                    self._on_stray_media(message)
                elif type_id > LAST_CONTROL_TYPE:
                    self._on_message(message)
                elif (control := connection.obey(message)) is not None:
                    self._on_control_of_either_role(control)
                if self._events:
                    return self._events.popleft()
                if self._is_held or connection.replies_are_due:
                    return None
        except MalformedInput as fault:
            raise self._broken(fault) from fault

    def data_to_send(self) -> bytes:
        """What to send now. Asking for it empties it."""
        return self._connection.data_to_send()

    def send_ping(self, timestamp_ms: int) -> None:
        """Ask the peer for a sign of life; it comes back as PongReceived with the same 32 bits."""
        self._connection.send_control(UserControl(UserControlEvent.PING_REQUEST, timestamp_ms & 0xFFFFFFFF))

    def send_media(self, stream_id: int, type_id: int, timestamp_ms: int, payload: bytes) -> None:
        """Send one audio (8) or video (9) message on a message stream."""
        chunk_stream_id = AUDIO_CHUNK_STREAM_ID if type_id == MessageType.AUDIO else VIDEO_CHUNK_STREAM_ID
        self._connection.send_message(Message(type_id, timestamp_ms, stream_id, payload, chunk_stream_id))

    def send_data(self, stream_id: int, timestamp_ms: int, data: DataMessage | bytes) -> None:
        """Send one data message, given as a value or as its AMF0 payload."""
        payload = data if isinstance(data, bytes) else write_data(data)
        self._connection.send_message(
            Message(MessageType.AMF0_DATA, timestamp_ms, stream_id, payload, DATA_CHUNK_STREAM_ID)
        )

    def close(self) -> None:
        """Nothing more is read. What is queued may still be sent."""
        if self._state is not ConnectionState.CLOSED:
            self._move(ConnectionSignal.CLOSE)
        self._is_held = False

    def _send_command(self, command: Command, stream_id: int = 0) -> None:
        chunk_stream_id = COMMAND_CHUNK_STREAM_ID if stream_id == 0 else STATUS_CHUNK_STREAM_ID
        payload = write_command(command)
        self._connection.send_message(Message(MessageType.AMF0_COMMAND, 0, stream_id, payload, chunk_stream_id))

    def _move(self, signal: ConnectionSignal) -> None:
        after = CONNECTION_TRANSITIONS.get((self._state, signal))
        if after is None:
            raise MisuseError(f"{signal.value} is not possible on a connection that is {self._state.value}")
        self._state = after

    def _move_stream(self, stream: MessageStream, signal: StreamSignal) -> None:
        after = STREAM_TRANSITIONS.get((stream.state, signal))
        if after is None:
            raise MisuseError(
                f"{signal.value} is not possible on message stream {stream.stream_id}, which is {stream.state.value}"
            )
        stream.state = after
        if after is StreamState.DELETED:
            del self._streams[stream.stream_id]

    def _stream(self, stream_id: int) -> MessageStream:
        stream = self._streams.get(stream_id)
        if stream is None:
            raise MisuseError(f"there is no message stream {stream_id}")
        return stream

    def _stream_for(self, stream_id: int) -> MessageStream | None:
        """The stream that media on an unknown id is for: some encoders send it on 0."""
        if stream_id != 0:
            return None
        takers = [stream for stream in self._streams.values() if stream.takes_media]
        return takers[0] if len(takers) == 1 else None

    def _next_part(self, aggregate: AggregateReader, stop_at: int) -> Message | None:
        part = aggregate.next_message(stop_at)
        if aggregate.is_done:
            self._aggregate = None
            if aggregate.skipped_parts:
                self._ignore(aggregate.aggregate, f"{aggregate.skipped_parts} parts that are no audio, video or data")
        return part

    def _on_message(self, message: Message) -> None:
        match message.type_id:
            case MessageType.AMF0_COMMAND:
                self._on_command(read_command(message.payload, self._work), message.stream_id)
            case MessageType.AMF3_COMMAND:
                self._on_command(read_command(message.payload[1:], self._work), message.stream_id)
            case MessageType.AMF0_DATA:
                self._on_data(message, message.payload)
            case MessageType.AMF3_DATA:
                self._on_data(message, message.payload[1:])
            case MessageType.AGGREGATE:
                self._on_aggregate(message)
            case MessageType.AMF0_SHARED_OBJECT | MessageType.AMF3_SHARED_OBJECT:
                self._ignore(message, "shared objects are not kept")
            case _:
                self._ignore(message, "unknown message type")

    def _on_aggregate(self, message: Message) -> None:
        stream = self._streams.get(message.stream_id) or self._stream_for(message.stream_id)
        if stream is not None and stream.takes_media:
            self._aggregate = AggregateReader(message, self._work)
        else:
            self._on_stray_media(message)

    def _on_data(self, message: Message, payload: bytes) -> None:
        stream = self._streams.get(message.stream_id) or self._stream_for(message.stream_id)
        if stream is None or not stream.takes_media:
            self._on_stray_media(message)
            return
        try:
            data = read_relayed(payload)
        except MalformedInput as fault:
            # A damaged caption is no reason to end a broadcast.
            self._ignore(message, str(fault))
            return
        # Data travels on the media clock but does not move it: metadata often carries time 0.
        timestamp_ms = stream.clock.peek(message.timestamp_ms)
        if data.clears:
            self._events.append(DataCleared(stream.stream_id, timestamp_ms, data.name))
        else:
            self._events.append(DataReceived(stream.stream_id, timestamp_ms, data.name, data.payload))

    def _on_control_of_either_role(self, control: ControlMessage) -> None:
        match control:
            case Acknowledgement(received_bytes):
                self._events.append(Acknowledged(received_bytes))
            case UserControl(UserControlEvent.PING_RESPONSE, timestamp_ms):
                self._events.append(PongReceived(timestamp_ms))
            case _:
                self._on_control(control)

    def _answer_unknown(self, transaction_id: float) -> None:
        """Peers wait for an answer where they gave a transaction id, and FFmpeg takes an _error for the end."""
        if transaction_id != 0:
            self._send_command(Result(transaction_id, (None,)))

    def _ignore(self, message: Message, reason: str) -> None:
        self._events.append(MessageIgnored(message.type_id, message.stream_id, reason))

    def _broken(self, fault: MalformedInput) -> ProtocolViolation:
        state = self._state.value
        if self._state is ConnectionState.HANDSHAKING:
            state = f"{state}, {self._connection.handshake_state.value}"
        self._state = ConnectionState.CLOSED
        return ProtocolViolation(fault.layer, fault.detail, state)

    @abstractmethod
    def _on_command(self, command: Command, stream_id: int) -> None: ...

    @abstractmethod
    def _on_control(self, control: ControlMessage) -> None: ...

    @abstractmethod
    def _on_stray_media(self, message: Message) -> None: ...
