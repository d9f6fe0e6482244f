"""A loop, transports, a fan-out and an owner for unit tests of the media path: no sockets, a clock that tests move.

The loop tells of readable and writable transports as epoll does: by level, by interest, and of a hang-up always.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.protocol.events import Event
from penstock.relay.segment import SegmentBuffer
from penstock.serve.coalesced_reads import Pace
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import HANG_UP, READ, TURN_S, WRITE, Timer, Turn
from penstock.serve.sending.fan_out import FanOut, Sending
from penstock.serve.settings import ServerSettings

START: Final = 1000.0
"""What the clock shows when a test begins."""
_MOST_ROUNDS: Final = 10_000


class FakeTransport:
    """A peer's end of a connection: what it sends is given by the test, what it was sent is kept."""

    def __init__(self, descriptor: int, *, can_send_files: bool = True) -> None:
        self.descriptor = descriptor
        self.can_send_files = can_send_files
        self.output = bytearray()
        self.sends: list[int] = []
        """The size of each piece that was taken."""
        self.room_bytes: float = math.inf
        """How much it takes until the peer reads again."""
        self.most_per_send: float = math.inf
        self.holds_back = False
        """Whether it has taken bytes that it could not pass on yet, as TLS does."""
        self.holds_back_what_is_sent = False
        """Whether it comes to that with the next bytes."""
        self.fault: OSError | None = None
        """Raised by whatever is called next."""
        self.is_hung_up = False
        self.is_ended = False
        """Whether the peer sends no more: read as b"" behind its last byte."""
        self.is_closed = False
        self.receives: list[int] = []
        """The size that was asked for by each call."""
        self._input = bytearray()

    def feed(self, data: bytes) -> None:
        """The peer sends."""
        self._input += data

    @property
    def unread_bytes(self) -> int:
        return len(self._input)

    @property
    def ready(self) -> int:
        """The events that epoll would tell of to one who waits for all of them."""
        is_readable = self._input or self.is_ended or self.is_hung_up
        is_writable = self.room_bytes > 0
        return (READ if is_readable else 0) | (WRITE if is_writable else 0) | (HANG_UP if self.is_hung_up else 0)

    def receive(self, size: int) -> bytes | None:
        self._check()
        self.receives.append(size)
        data = bytes(self._input[:size])
        del self._input[:size]
        if data:
            return data
        return b"" if self.is_ended or self.is_hung_up else None

    def send(self, data: bytes | memoryview) -> int:
        self._check()
        taken = int(min(len(data), self.room_bytes, self.most_per_send))
        self.output += data[:taken]
        self.room_bytes -= taken
        if taken:
            self.sends.append(taken)
            self.holds_back |= self.holds_back_what_is_sent
        return taken

    def send_from(self, buffer: SegmentBuffer, offset: int, size: int) -> int:
        # As the system does: without a copy of what is not taken.
        return self.send(buffer.read(offset, int(min(size, self.room_bytes, self.most_per_send))))

    def flush(self) -> bool:
        self._check()
        return not self.holds_back

    def close(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True

    def _check(self) -> None:
        assert not self.is_closed, "used after it was closed"
        if self.fault is not None:
            raise self.fault


class FakeLoop:
    """The loop's calls, with turns and timers that run when the test says so."""

    def __init__(self) -> None:
        self.now = START
        self.turn_ends_at = START
        self.busy_share = 0.0
        self.foreground_share = 0.0
        self.look_costs_s = 0.0
        """How much time passes before each look at the clock: the work of whoever looks."""
        self.after_events: Callable[[], None] | None = None
        self.interest: dict[int, int] = {}
        """What each descriptor is waited for."""
        self.flush_at = math.inf
        self.paces: dict[int, Pace] = {}
        """Of those that are not read at once."""
        self.modifications = 0
        self._worked_s = 0.0
        self._transports: dict[int, FakeTransport] = {}
        self._turns: dict[int, Turn] = {}
        self._queued: deque[Turn] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    def new_transport(self, *, can_send_files: bool = True) -> FakeTransport:
        """A transport whose events this loop tells of."""
        transport = FakeTransport(len(self._transports) + 1, can_send_files=can_send_files)
        self._transports[transport.descriptor] = transport
        return transport

    # What the media path calls.

    def clock(self) -> float:
        self._worked_s += self.look_costs_s
        return self.now + self._worked_s

    def add(
        self,
        descriptor: int,
        events: int,
        callback: Callable[[int], None],
        *,
        is_listener: bool = False,
        is_background: bool = False,
    ) -> Turn:
        self.interest[descriptor] = events
        turn = self._turns[descriptor] = Turn(
            callback, descriptor, is_listener=is_listener, is_background=is_background
        )
        return turn

    def modify(self, descriptor: int, events: int) -> None:
        assert events != self.interest[descriptor], "a system call that changes nothing"
        self.modifications += 1
        self.interest[descriptor] = events

    def set_pace(self, descriptor: int, events: int, pace: Pace) -> None:
        assert pace is not self.paces.get(descriptor, Pace.AT_ONCE), "system calls that change nothing"
        if pace is Pace.AT_ONCE:
            del self.paces[descriptor]
        else:
            self.paces[descriptor] = pace
        self.interest[descriptor] = events

    def remove(self, descriptor: int) -> None:
        del self.interest[descriptor]
        self.paces.pop(descriptor, None)
        turn = self._turns.pop(descriptor)
        turn.callback = lambda _events: None

    def queue(self, turn: Turn) -> None:
        if not turn.is_queued:
            turn.is_queued = True
            self._queued.append(turn)

    def call_at(self, due: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(due, callback)
        heapq.heappush(self._timers, (due, next(self._order), timer))
        return timer

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self.call_at(self.now + delay_s, callback)

    # What tests call.

    @property
    def queued_turns(self) -> int:
        return len(self._queued)

    @property
    def next_timer_at(self) -> float | None:
        return min((due for due, _, timer in self._timers if timer.callback is not None), default=None)

    @property
    def wakes_at(self) -> float:
        """When it wakes up if nothing happens."""
        return min(self.flush_at, math.inf if self.next_timer_at is None else self.next_timer_at)

    def run_turns(self) -> None:
        """A turn for each that asked for one; what they ask for meanwhile stays for the next call."""
        for _ in range(len(self._queued)):
            turn = self._queued.popleft()
            turn.is_queued = False
            events, turn.events = turn.events, 0
            self._call(turn, events)

    def run_events(self) -> bool:
        """A turn for each whose transport has what it waits for. Whether there was any."""
        ready = [
            (turn, events)
            for descriptor, turn in self._turns.items()
            if descriptor in self._transports
            and (events := self._transports[descriptor].ready & (self.interest[descriptor] | HANG_UP))
        ]
        for turn, events in ready:
            if turn.is_queued:
                turn.events |= events
            else:
                self._call(turn, events)
        return bool(ready)

    def settle(self) -> None:
        """Round after round until nobody has anything left to do at this time."""
        for _ in range(_MOST_ROUNDS):
            has_events = self.run_events()
            has_timers = self._run_timers()
            if self.after_events is not None:
                self.after_events()
            if not (has_events or has_timers or self._queued):
                return
            self.run_turns()
        raise AssertionError("it never comes to rest")

    def advance(self, seconds: float) -> None:
        """Let time pass, with everything that becomes due on the way, and settle each time."""
        until = self.now + seconds
        while (due := self.wakes_at) <= until:
            self.now = max(due, self.now)
            self._worked_s = 0.0
            self.settle()
        self.now = until
        self._worked_s = 0.0
        self.settle()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and run the timers that are due by then; turns stay queued."""
        self.now += seconds
        self._worked_s = 0.0
        self._run_timers()

    def _run_timers(self) -> bool:
        has_run = False
        while self._timers and self._timers[0][0] <= self.now:
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is not None:
                has_run = True
                callback()
        return has_run

    def _call(self, turn: Turn, events: int) -> None:
        self.turn_ends_at = self.now + self._worked_s + TURN_S
        turn.callback(events)


class FakeFanOut(FanOut):
    """Sends to the transports of a loop; what the system would do by one call."""

    def __init__(self, loop: FakeLoop) -> None:
        super().__init__(None)
        self._loop = loop
        self.calls: list[list[int]] = []
        """The sockets of each flush that went to anybody."""
        self.rounds = 0
        """How often it was given flushes, of one stream or of many."""

    def send(self, sendings: Sequence[Sending]) -> list[list[int]]:
        self.rounds += 1
        return [self._send_one(sending.sockets, sending.flush.data) for sending in sendings]

    def _send_one(self, sockets: list[int], data: bytes) -> list[int]:
        if sockets:
            self.calls.append(sockets)
        return [self._send_to(self._loop._transports[descriptor], data) for descriptor in sockets]

    def _send_to(self, transport: FakeTransport, data: bytes) -> int:
        try:
            return transport.send(data)
        except OSError:
            return -1


class FakeOwner:
    """Whoever decides about connections: does what the test says, and writes down what it is told."""

    def __init__(self, settings: ServerSettings | None = None) -> None:
        self.settings = settings or ServerSettings()
        self.decide: Callable[[RtmpConnection, Event], None] = lambda _connection, _event: None
        self.events: list[Event] = []
        self.held_bytes = 0
        self.violations: list[ProtocolViolation] = []
        self.bugs: list[Exception] = []
        self.closings: list[str] = []

    def on_event(self, connection: RtmpConnection, event: Event) -> None:
        self.events.append(event)
        self.decide(connection, event)

    def on_input_held(self, change_bytes: int) -> None:
        self.held_bytes += change_bytes

    def on_violation(self, connection: RtmpConnection, violation: ProtocolViolation) -> None:
        self.violations.append(violation)
        connection.close(str(violation))

    def on_bug(self, connection: RtmpConnection, error: Exception) -> None:
        self.bugs.append(error)
        connection.close("bug")

    def on_closed(self, connection: RtmpConnection, reason: str) -> None:
        self.closings.append(reason)
