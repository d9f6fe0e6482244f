"""One RTMP connection without a role: handshake, chunks and control messages, in both directions.

Owns byte counts, acknowledgements, windows, chunk sizes and pings, so that a session sees only what it must decide.
Knows no commands. Time and randomness come with the handshake object it is given.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from penstock.protocol.chunk_reader import ChunkLimits, ChunkReader
from penstock.protocol.chunk_writer import ChunkWriter
from penstock.protocol.control import (
    Abort,
    Acknowledgement,
    BandwidthLimit,
    ControlMessage,
    SetBufferLength,
    SetChunkSize,
    SetPeerBandwidth,
    UnknownUserControl,
    UserControl,
    UserControlEvent,
    WindowAcknowledgementSize,
    read_control,
    write_control,
)
from penstock.protocol.handshake import ClientHandshake, HandshakeState, ServerHandshake
from penstock.protocol.message import MAX_MESSAGE_BYTES, Message, MessageType
from penstock.protocol.work import UNLIMITED, WorkMeter

MessageTrace = Callable[[str, Message], None]
"""Called with "received" or "sent" and the message, where every message is to be seen: debugging."""


LAST_CONTROL_TYPE = int(MessageType.SET_PEER_BANDWIDTH)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What we announce, and what one peer may make us hold."""

    window_bytes: int = 2_500_000
    peer_bandwidth_bytes: int = 2_500_000
    chunk_size: int = 4096
    chunk_limits: ChunkLimits = field(default_factory=ChunkLimits)
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_message_bytes_unpublished: int = 64 * 1024
    """Who publishes nothing has no use for large messages; a connect is about 300 bytes."""
    max_message_streams: int = 32
    max_pending_reply_bytes: int = 64 * 1024
    """Bytes waiting to be fetched by `data_to_send` at which no more of the peer's messages are looked at."""


class Connection:
    """Bytes in, messages out one at a time; messages in, bytes out."""

    __slots__ = (
        "_acknowledged_bytes",
        "_handshake",
        "_outgoing",
        "_reader",
        "_receive_window_bytes",
        "_received_bytes",
        "_send_window_bytes",
        "_trace",
        "_writer",
        "next_message",
        "pending_reply_bytes",
        "replies_are_due",
        "settings",
        "used_digest",
    )

    def __init__(
        self,
        handshake: ServerHandshake | ClientHandshake,
        settings: ConnectionSettings,
        trace: MessageTrace | None = None,
        work: WorkMeter | None = None,
    ) -> None:
        self.settings = settings
        self._handshake: ServerHandshake | ClientHandshake | None = handshake
        """None once it is done: its packets are 5 kB that nobody needs any more."""
        self.used_digest = False
        """Whether the handshake was the signed form."""
        self._trace = trace
        self._reader = ChunkReader(settings.chunk_limits, settings.max_message_bytes_unpublished, work)
        self.next_message = self._reader.next_message if trace is None else self._next_traced_message
        """As `ChunkReader.next_message`. Messages up to LAST_CONTROL_TYPE are for `obey`."""
        self._writer = ChunkWriter()
        self._outgoing: list[bytes] = []
        self.pending_reply_bytes = 0
        """Bytes queued since they were last fetched."""
        self.replies_are_due = False
        """Whether they are so many that no more is to be read before they are fetched."""
        self._received_bytes = 0
        self._acknowledged_bytes = 0
        # Until the peer announces its window, the one that our own Set Peer Bandwidth asks it to use.
        self._receive_window_bytes = settings.peer_bandwidth_bytes
        self._send_window_bytes: int | None = None

    @property
    def handshake_state(self) -> HandshakeState:
        """How far the handshake is; its deadline is the shell's."""
        return HandshakeState.DONE if self._handshake is None else self._handshake.state

    @property
    def received_bytes(self) -> int:
        """All bytes received so far, the handshake's with them."""
        return self._received_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes held for the peer: unread, and in half messages."""
        return self._reader.buffered_bytes

    @property
    def needs_bytes(self) -> bool:
        """Whether there is no message before more bytes come."""
        return self._reader.needs_bytes

    @property
    def oldest_half_message_at(self) -> float | None:
        """When the oldest message that is not whole began; None if there is none."""
        return self._reader.oldest_half_message_at

    def receive_data(self, data: bytes, now: float = 0.0) -> bool:
        """Take what the peer sent. True if the handshake ended with it."""
        self._received_bytes += len(data)
        handshake = self._handshake
        if handshake is not None:
            handshake.receive_data(data)
            if not handshake.is_done:
                return False
            self._handshake = None
            self.used_digest = handshake.used_digest
            # Before anything that was queued while the handshake went on.
            self._queue(0, handshake.data_to_send())
            self._reader.receive_data(handshake.trailing_data(), now)
            return True
        self._reader.receive_data(data, now)
        # At half the window: some encoders stop at the full one, waiting for what is under way to them.
        if self._received_bytes - self._acknowledged_bytes >= self._receive_window_bytes // 2:
            self._acknowledged_bytes = self._received_bytes
            self.send_control(Acknowledgement(self._received_bytes & 0xFFFFFFFF))
        return False

    def _next_traced_message(self, stop_at: int = UNLIMITED) -> Message | None:
        message = self._reader.next_message(stop_at)
        if message is not None and self._trace is not None:
            self._trace("received", message)
        return message

    def obey(self, message: Message) -> ControlMessage | None:
        """Do what a control message (1 to 6) says. What is left for the session to hear, if anything."""
        control = read_control(message.type_id, message.payload)
        match control:
            case SetChunkSize(chunk_size):
                self._reader.chunk_size = chunk_size
            case Abort(chunk_stream_id):
                self._reader.abort(chunk_stream_id)
            case WindowAcknowledgementSize(window_bytes):
                self._receive_window_bytes = window_bytes
            case SetPeerBandwidth(window_bytes, limit):
                self._limit_sending(window_bytes, limit)
            case UserControl(UserControlEvent.PING_REQUEST, timestamp_ms):
                self.send_control(UserControl(UserControlEvent.PING_RESPONSE, timestamp_ms))
            case UserControl() | Acknowledgement() | SetBufferLength() | UnknownUserControl():
                return control
            case _:
                assert_never(control)
        return None

    def _limit_sending(self, window_bytes: int, limit: BandwidthLimit) -> None:
        """RTMP 1.0, section 5.4.5: answered with our own window if that changes by it.

        What servers send is DYNAMIC, which the letter of the specification lets a client ignore; it is taken as
        HARD, since all it costs is that answer.
        """
        if limit is BandwidthLimit.SOFT and self._send_window_bytes is not None:
            window_bytes = min(window_bytes, self._send_window_bytes)
        if window_bytes != self._send_window_bytes:
            self.send_control(WindowAcknowledgementSize(window_bytes))

    def allow_large_messages(self, *, is_allowed: bool) -> None:
        """Whether messages that begin from now on may have the full size."""
        settings = self.settings
        self._reader.max_message_bytes = (
            settings.max_message_bytes if is_allowed else settings.max_message_bytes_unpublished
        )

    def send_message(self, message: Message) -> None:
        """Queue a message."""
        if self._trace is not None:
            self._trace("sent", message)
        self._queue(len(self._outgoing), self._writer.write_message(message))

    def _queue(self, index: int, data: bytes) -> None:
        self._outgoing.insert(index, data)
        self.pending_reply_bytes += len(data)
        self.replies_are_due = self.pending_reply_bytes >= self.settings.max_pending_reply_bytes

    def send_control(self, control: ControlMessage) -> None:
        """Queue a control message; a chunk size is our own from the next message on."""
        if isinstance(control, WindowAcknowledgementSize):
            self._send_window_bytes = control.window_bytes
        self.send_message(write_control(control))
        if isinstance(control, SetChunkSize):
            self._writer.chunk_size = control.chunk_size

    def data_to_send(self) -> bytes:
        """What to send now. Asking for it empties it."""
        if self._handshake is not None:
            return self._handshake.data_to_send()
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        self.pending_reply_bytes = 0
        self.replies_are_due = False
        return data
