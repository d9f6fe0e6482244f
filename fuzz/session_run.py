"""What both roles of a session have in common under test: a shell that feeds, decides and keeps what it heard and sent.

A shell decides by chance, but the same for the same events, so that two runs over differently cut bytes must hear and
send the same. What holds reading back (a connect, a publish) is decided late in one of the runs; a late play is decided
a number of events later, since what comes in between may depend on it.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from tests.support.independent_rtmp import HANDSHAKE_BYTES, OracleMessage, read_messages

from fuzz import corpus
from fuzz.chunks import write_chunks
from fuzz.mutate import mutate
from fuzz.outcome import expect, expect_same, join_input, refusal
from penstock.errors import ProtocolViolation
from penstock.protocol.chunk_reader import ChunkLimits
from penstock.protocol.command_codec import MAX_COMMAND_VALUES
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.events import DataCleared, DataReceived, Event, MediaReceived
from penstock.protocol.message import Message
from penstock.protocol.session import Session
from penstock.protocol.states import ConnectionState
from penstock.protocol.work import WORK_PER_CALL

ACKNOWLEDGEMENT: Final = 3
# A type 0 header on a small chunk stream, an extended time and continuations: more than a sent message ever adds.
_MAX_HEADER_BYTES: Final = 64

# What a peer can make a session send, for each byte of its own. The costliest bytes are a seek that is granted: 8 with
# its header, answered by two statuses that name the stream three times in up to 1024 bytes each.
MAX_OUTPUT_FACTOR: Final = 450
# The handshake, and the answer to connect.
_FREE_OUTPUT_BYTES: Final = HANDSHAKE_BYTES + 1024
_ACKNOWLEDGEMENT_BYTES: Final = 16
# Of one call: the step in hand when the budget is spent is finished, and a command is one step.
_MAX_WORK: Final = WORK_PER_CALL + MAX_COMMAND_VALUES

SETTINGS: Final = ConnectionSettings(chunk_limits=ChunkLimits(max_buffered_bytes=256 * 1024))
_CONNECT: Final = corpus.string("connect")
STREAM_IDS: Final = (0, 1, 1, 1, 2, 3, 33)
MODES: Final = 6
"""Ways to begin: 0 with the input alone, 1 after a handshake, and each further one with more of a session granted."""

SessionT = TypeVar("SessionT", bound=Session)


class Heard(NamedTuple):
    """All that one run shows."""

    events: list[Event]
    sent: list[Message]
    refused: str | None


class Shell(ABC, Generic[SessionT]):
    """Drives one session."""

    def __init__(self, choices: int, delay: random.Random | None) -> None:
        self.mode = mode_of(choices)
        self.chance = random.Random(choices)
        self.sent: list[Message] = []
        self.events: list[Event] = []
        self.media_streams: set[int] = set()
        """Message streams on which media is expected."""
        self.session = self._open()
        self._delay = delay
        self._owed: Callable[[], None] | None = None
        self._feeds_to_wait = 0
        self._voluntary_bytes = 0
        self._output = bytearray()

    @abstractmethod
    def _open(self) -> SessionT: ...

    @abstractmethod
    def _on_event(self, event: Event) -> None: ...

    @abstractmethod
    def _hang_up(self) -> None:
        """End the session as a lost connection would, and hold what must be true then."""

    def trace(self, direction: str, message: Message) -> None:
        """Keep what is sent."""
        if direction == "sent":
            self.sent.append(message)

    def owe(self, decide: Callable[[], None]) -> None:
        """Decide now, or some feeds later."""
        self._owed = decide
        self._feeds_to_wait = 0 if self._delay is None else self._delay.choice((0, 0, 1, 3, 1000))

    def volunteer(self, act: Callable[[], None]) -> None:
        """Send what the peer did not ask for, so that its bytes do not count as an answer."""
        before = len(self.sent)
        act()
        self._voluntary_bytes += sum(len(each.payload) + _MAX_HEADER_BYTES for each in self.sent[before:])

    def drive(self, pieces: Iterable[bytes]) -> Heard:
        """Feed all pieces, decide all that is owed, and hang up."""
        refused = None
        feeds = 0
        try:
            for piece in pieces:
                feeds += 1
                self.session.receive_data(piece)
                self._feeds_to_wait -= 1
                self._pump()
                self._expect_bounded(feeds)
            while self._owed is not None:
                self._feeds_to_wait = 0
                self._pump()
        except ProtocolViolation as fault:
            refused = refusal(fault)
            expect(self.session.state is ConnectionState.CLOSED, "a session goes on after a violation")
            self.session.receive_data(b"\x03" * 100)
        self._expect_bounded(feeds)
        self._hang_up()
        self._flush()
        self._expect_output_readable()
        return Heard(self.events, [each for each in self.sent if each.type_id != ACKNOWLEDGEMENT], refused)

    def _pump(self) -> None:
        while True:
            if self._owed is not None:
                if self._feeds_to_wait > 0:
                    expect(self.session.is_held, "a session is not held although a decision is owed")
                    expect(self.session.next_event() is None, "an event while a decision is owed")
                    return
                decide, self._owed = self._owed, None
                decide()
            event = self._next_event()
            if event is not None:
                self.hear(event)
            elif self.session.is_unfinished:
                self._flush()
            else:
                break
        self._flush()

    def _next_event(self) -> Event | None:
        was_unfinished = self.session.is_unfinished
        before = self.session.work_done
        event = self.session.next_event()
        work = self.session.work_done - before
        expect(work <= _MAX_WORK, f"{work} units of work in one call")
        expect(event is None or was_unfinished, "an event of a session that had nothing left to do")
        is_full = self.session.pending_reply_bytes >= SETTINGS.max_pending_reply_bytes
        gets_on = event is not None or work > 0 or is_full
        expect(gets_on or not self.session.is_unfinished, "an unfinished session gets nowhere")
        return event

    def hear(self, event: Event) -> None:
        """Keep an event and act on it."""
        self.events.append(event)
        if isinstance(event, MediaReceived | DataReceived | DataCleared):
            expect(event.stream_id in self.media_streams, f"media on message stream {event.stream_id}, not expected")
        self._on_event(event)

    def _flush(self) -> None:
        self._output += self.session.data_to_send()

    def _expect_bounded(self, feeds: int) -> None:
        self._flush()
        limit = SETTINGS.chunk_limits.max_buffered_bytes
        expect(self.session.buffered_bytes <= limit, f"{self.session.buffered_bytes} bytes buffered, {limit} allowed")
        received_bytes = self.session.received_bytes
        expect(len(self.events) <= received_bytes + 1, f"{len(self.events)} events from {received_bytes} bytes")
        free_bytes = _FREE_OUTPUT_BYTES + _ACKNOWLEDGEMENT_BYTES * feeds + self._voluntary_bytes
        expect(
            len(self._output) <= MAX_OUTPUT_FACTOR * received_bytes + free_bytes,
            f"{len(self._output)} bytes sent for {received_bytes} received, {free_bytes} of them free",
        )

    def _expect_output_readable(self) -> None:
        if len(self._output) < HANDSHAKE_BYTES:
            return
        understood = [
            Message(each.type_id, each.timestamp, each.stream_id, each.payload, each.csid)
            for each in read_messages(bytes(self._output))
        ]
        expect_same(understood, self.sent, "what an independent reader makes of the output")


def mode_of(choices: int) -> int:
    """How a session begins: the first byte of the choices."""
    return (choices >> 24) % MODES


def make_session(role: str) -> Callable[[random.Random], bytes]:
    """A maker of what a peer in the role sends: mostly messages in any order, written as chunks, some then damaged."""

    def make(chance: random.Random) -> bytes:
        if chance.random() < 0.08:
            return join_input(chance.getrandbits(24), mutate(chance.choice(corpus.captures(role)), chance))
        mode = chance.choice((1, 2, 3, 3, 4, 4, 5, 5))
        pool = corpus.messages(role)
        script: list[OracleMessage] = []
        for _ in range(chance.randint(1, 16)):
            message = _varied(chance.choice(pool), pool, chance)
            # A second connect ends a session, and with it all that follows.
            if mode == 1 or not message.payload.startswith(_CONNECT) or chance.random() < 0.1:
                script += [message] * (1 if chance.random() < 0.9 else chance.randint(2, 60))
        if chance.random() < 0.01:
            script = _burst(pool, chance)
        stream, _ = write_chunks(script, chance)
        if chance.random() < 0.3:
            stream = mutate(stream, chance, (), corpus.CHUNK_TOKENS)
        return join_input(mode << 24 | chance.getrandbits(24), stream)

    return make


def _burst(pool: Sequence[OracleMessage], chance: random.Random) -> list[OracleMessage]:
    """A long message and then thousands of a short one: what the session keeps of the first may cost it each time."""
    long = [each for each in pool if len(each.payload) > 1000]
    short = [each for each in pool if len(each.payload) < 16]
    return [chance.choice(long or pool), *[chance.choice(short)] * 3000]


def _varied(message: OracleMessage, pool: Sequence[OracleMessage], chance: random.Random) -> OracleMessage:
    payload = message.payload
    if chance.random() < 0.1:
        payload = mutate(payload, chance, [chance.choice(pool).payload], corpus.AMF0_TOKENS)
    stream_id = message.stream_id if chance.random() < 0.8 else chance.choice(STREAM_IDS)
    timestamp = message.timestamp
    if chance.random() < 0.1:
        timestamp = chance.choice((0, 0xFFFFFE, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF))
    type_id = message.type_id if chance.random() < 0.99 else chance.randrange(256)
    return OracleMessage(message.csid, timestamp, type_id, stream_id, payload)
