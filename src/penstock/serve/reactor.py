"""The event loop of the media path: one epoll, turns, timers, signals and calls from other threads.

An epoll of our own rather than asyncio's: the loop body between two waits is ours, so that everything that became
readable is read before anything is flushed, and a readable socket costs one method call. Callbacks must not block and
must not raise; one that raises is logged by `on_error` and costs what it was about, never the loop.

A round is: whoever has an event, one turn each; timers; what `after_events` flushes; then those who asked for a further
turn, and those who used more time lately than others, each group for at most `SHARE_S`; at last the background, for
half a millisecond or as long as all others took. A callback finds in `turn_ends_at` when it should stop; what it leaves
undone it asks another turn for. So whatever one connection or a hundred make the server do, everybody else waits for a
few milliseconds, and for what is done in the background half a millisecond (decision 0067).
"""

# Long because: whoever waits for the loop waits for all of it.

import contextlib
import heapq
import itertools
import math
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Final, Protocol

from penstock.serve.coalesced_reads import CoalescedReads, Pace, coalesced_reads

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
HANG_UP: Final = select.EPOLLHUP
ERROR: Final = select.EPOLLERR
TURN_S: Final = 0.002
"""How long one callback may take before it should give way."""
SHARE_S: Final = 0.005
"""How long those who have further turns may take in a round, all together."""
BACKGROUND_S: Final = 0.0005
"""What the background has of a round at least, and what those who come meanwhile wait for."""
_BACKGROUND_EVENTS: Final = 32
_BACKGROUND_INTERVAL_S: Final = 0.005
"""To wake up for one request costs as much as to answer it, so those of a busy time are read together."""
_SHORT_TURN_S: Final = 0.0001
"""A turn in a round that is longer than that already: enough for a ping or a frame."""
_MAX_EVENTS: Final = 1024
_LOAD_INTERVAL_S: Final = 0.250
_LOAD_SMOOTHING: Final = 0.25
_MEMORY_S: Final = 0.100
"""The time over which it counts what a callback used."""
_LEAST_HEAVY_S: Final = 0.0003
"""A peer that is pinged fifty times a second uses as much."""
_LONG_ROUND_S: Final = 0.008
_RECOVERY: Final = 1.05
_MAX_FAILURES: Final = 10
_FORGIVEN_AFTER_S: Final = 10.0
_LISTENER_PAUSE_S: Final = 1.0


class Timer:
    """A call to come. Cancelling one that has run does nothing."""

    __slots__ = ("callback", "due")

    def __init__(self, due: float, callback: Callable[[], None] | None) -> None:
        self.due = due
        self.callback = callback

    def cancel(self) -> None:
        """Do not call."""
        self.callback = None


class Turn:
    """Whoever is given turns: a callback, and what it used lately."""

    __slots__ = (
        "callback",
        "descriptor",
        "events",
        "failed_at",
        "failures",
        "is_background",
        "is_listener",
        "is_queued",
        "seen_at",
        "used_s",
    )

    def __init__(
        self,
        callback: Callable[[int], None],
        descriptor: int | None = None,
        *,
        is_listener: bool = False,
        is_background: bool = False,
    ) -> None:
        self.callback = callback
        self.descriptor = descriptor
        self.events = 0
        """Those that came while it waited for its turn."""
        self.is_queued = False
        self.is_listener = is_listener
        self.is_background = is_background
        """Whether it gives way to all who are not."""
        self.used_s = 0.0
        self.seen_at = 0.0
        self.failures = 0
        self.failed_at = 0.0


class Loop(Protocol):
    """What connections and streams ask of the loop; tests have one with a clock of their own."""

    now: float
    """The clock as of the last wake-up: one reading serves a whole round."""
    turn_ends_at: float
    """When the callback that is being called should stop."""
    busy_share: float
    """How much of its time the loop does not wait, over the last second or so."""
    foreground_share: float
    """The same without the background, for which nobody else waits."""
    flush_at: float
    """When a round is to begin though nothing has happened, since something is to be flushed."""

    def clock(self) -> float:
        """The monotonic clock."""

    def add(
        self,
        descriptor: int,
        events: int,
        callback: Callable[[int], None],
        *,
        is_listener: bool = False,
        is_background: bool = False,
    ) -> Turn:
        """Call back with the events that a descriptor has. A listener is never given up, however often it fails."""

    def modify(self, descriptor: int, events: int) -> None:
        """Wait for other events."""

    def set_pace(self, descriptor: int, events: int, pace: Pace) -> None:
        """Look at a descriptor at intervals only, together with all such, or at once again."""

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor, before it is closed."""

    def queue(self, turn: Turn) -> None:
        """Give a further turn, with no events, at the end of this round or in a later one."""

    def call_at(self, due: float, callback: Callable[[], None]) -> Timer:
        """Call once, not before a time."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call once, after a delay."""


class Reactor:
    """Waits for sockets, timers and signals, and calls whoever asked for them."""

    def __init__(
        self,
        on_error: Callable[[BaseException], None],
        clock: Callable[[], float] = time.monotonic,
        processor_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.clock = clock
        self._processor_clock = processor_clock
        """What callbacks used is counted by it: the system may stop this process in the middle of anybody's turn."""
        self._processor_at = processor_clock()
        self._epoll = select.epoll()
        self._coalesced_reads = coalesced_reads()
        self._coalesced: dict[int, CoalescedReads] = {}
        """By descriptor, those that are not read at once."""
        self._turns: dict[int, Turn] = {}
        self._further: deque[Turn] = deque()
        """Those with a further turn due."""
        self._heavy: deque[Turn] = deque()
        """Those who used much lately, and so come last."""
        self._heavy_from_s = TURN_S
        """What one may have used in the last tenth of a second and still be served with everybody."""
        # Inside the other one: it has an event as long as any descriptor of its own has, and tells no more than that.
        self._background_epoll = select.epoll()
        self._background_look_at = math.inf
        """When it is looked at next; infinite: when it has an event."""
        self._background_alone: int | None = None
        """The only descriptor that had an event when there was one last."""
        self._background_for_many: deque[Turn] = deque()
        """Those of the background who have no descriptor, whose turn is due: what they do, many may wait for."""
        self._background: deque[Turn] = deque()
        """Those who have one, whose turn is due."""
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._posted: deque[Callable[[], None]] = deque()
        self._signals: dict[int, Callable[[], None]] = {}
        self._on_error = on_error
        self._is_running = False
        self._is_closed = False
        # A thread that wakes the loop just when it closes must not write to a descriptor that is another's by then.
        self._wake_lock = threading.Lock()
        self.after_events: Callable[[], None] | None = None
        """Called once after each round of events, before further turns."""
        self.flush_at = math.inf
        """When a round is to begin though nothing has happened. Set anew for each stream that waits, it costs no more
        than an assignment, where a timer would be made and mostly cancelled."""
        self.now = clock()
        self.turn_ends_at = self.now
        self.busy_share = 0.0
        """How much of its time the loop does not wait, over the last second or so."""
        self.foreground_share = 0.0
        """The same without the background, for which nobody else waits."""
        self._busy_s = 0.0
        self._background_s = 0.0
        self._load_from = self.now
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.add(self._wake_read, READ, self._on_wake)
        self.add(self._background_epoll.fileno(), READ | select.EPOLLONESHOT, self._on_background_events)

    def add(
        self,
        descriptor: int,
        events: int,
        callback: Callable[[int], None],
        *,
        is_listener: bool = False,
        is_background: bool = False,
    ) -> Turn:
        """Call back with the events that a descriptor has. A listener is never given up, however often it fails."""
        (self._background_epoll if is_background else self._epoll).register(descriptor, events)
        turn = self._turns[descriptor] = Turn(
            callback, descriptor, is_listener=is_listener, is_background=is_background
        )
        return turn

    def modify(self, descriptor: int, events: int) -> None:
        """Wait for other events."""
        self._epoll_of(descriptor).modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor, before it is closed."""
        self._unregister(descriptor)
        turn = self._turns.pop(descriptor)
        turn.descriptor = None
        turn.callback = _nothing

    def forget(self, descriptor: int) -> None:
        """As remove, for one that may have been removed before."""
        if descriptor in self._turns:
            self.remove(descriptor)

    def set_pace(self, descriptor: int, events: int, pace: Pace) -> None:
        """Look at a descriptor at intervals only, together with all such, or at once again."""
        self._unregister(descriptor)
        if pace is Pace.AT_ONCE:
            self._epoll_of(descriptor).register(descriptor, events)
        else:
            reads = self._coalesced[descriptor] = self._coalesced_reads[pace]
            reads.add(descriptor, events)

    def _unregister(self, descriptor: int) -> None:
        reads = self._coalesced.pop(descriptor, None)
        if reads is None:
            self._epoll_of(descriptor).unregister(descriptor)
        else:
            reads.remove(descriptor)

    def _epoll_of(self, descriptor: int) -> select.epoll:
        reads = self._coalesced.get(descriptor)
        if reads is not None:
            return reads.epoll
        return self._background_epoll if self._turns[descriptor].is_background else self._epoll

    def queue(self, turn: Turn) -> None:
        """Give a further turn, with no events, at the end of this round or in a later one."""
        if not turn.is_queued:
            turn.is_queued = True
            if turn.is_background:
                (self._background_for_many if turn.descriptor is None else self._background).append(turn)
            else:
                (self._heavy if self._is_heavy(turn) else self._further).append(turn)

    def call_at(self, due: float, callback: Callable[[], None]) -> Timer:
        """Call once, not before a time."""
        timer = Timer(due, callback)
        heapq.heappush(self._timers, (due, next(self._order), timer))
        return timer

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call once, after a delay."""
        return self.call_at(self.now + delay_s, callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Call on the loop's thread; may be asked for from any other. After `close` nothing is called."""
        self._posted.append(callback)
        with self._wake_lock:
            if not self._is_closed:
                self._wake()

    def on_signal(self, number: int, callback: Callable[[], None]) -> None:
        """Call on the loop when a signal came."""
        self._signals[number] = callback
        # The C handler writes the number to the pipe, so that a signal wakes the wait; Python's own does nothing.
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(number, lambda _number, _frame: None)

    def stop(self) -> None:
        """Leave `run` after this round."""
        self._is_running = False

    def run(self) -> None:
        """Serve until stopped."""
        self._is_running = True
        poll, clock = self._epoll.poll, self.clock
        woke_at = clock()
        while self._is_running:
            waits_from = clock()
            self._busy_s += waits_from - woke_at
            events = poll(self._timeout_s(waits_from), _MAX_EVENTS)
            self.now = woke_at = clock()
            if self.now - self._load_from >= _LOAD_INTERVAL_S:
                self._take_load()
            if self._coalesced:
                for reads in self._coalesced_reads.values():
                    events += reads.poll(self.now)
            self._run_events(events)
            self._finish_round()
            if self._further or self._heavy:
                self._share_out(self._further, self.clock() + SHARE_S)
                # Whoever used least of them first: it may be among them by the load alone.
                self._heavy = deque(sorted(self._heavy, key=_used_s))
                self._share_out(self._heavy, self.clock() + SHARE_S)
                self._finish_round()
            if self._background_for_many or self._background or self.now >= self._background_look_at:
                self._work_in_background()
                self._finish_round()

    def _run_events(self, events: list[tuple[int, int]]) -> None:
        """A turn for whoever has an event, but for those who used much lately."""
        turns = self._turns
        began_at = slice_began_at = at = self.now
        processor_from = self._processor_at = self._processor_clock()
        for descriptor, event in events:
            turn = turns.get(descriptor)
            if turn is None:  # an earlier callback of the same round has closed it
                continue
            if turn.is_queued:
                turn.events |= event
            elif self._is_heavy(turn):
                turn.events |= event
                self.queue(turn)
            else:
                at = self._call(turn, event, at, math.inf if at - began_at < SHARE_S else at + _SHORT_TURN_S)
                if at - slice_began_at > SHARE_S:
                    # A crowd, or many who use a little each: what is due is not to wait for all of them.
                    self.now = at
                    self._finish_round()
                    slice_began_at = at = self.now = self.clock()
                    self._processor_at = self._processor_clock()
        if self._processor_at - processor_from > _LONG_ROUND_S:
            self._heavy_from_s = max(self._heavy_from_s / 2, _LEAST_HEAVY_S)
        elif self._heavy_from_s < TURN_S:
            self._heavy_from_s = min(self._heavy_from_s * _RECOVERY, TURN_S)

    def _finish_round(self) -> None:
        self._run_timers()
        if self.after_events is not None:
            self._guarded(self.after_events)

    def _on_background_events(self, _events: int) -> None:
        self._background_look_at = self.now

    def _work_in_background(self) -> None:
        """A little of it, whatever there is: the loop then looks at once whether anybody else has come."""
        began_at = self.clock()
        if self.now >= self._background_look_at:
            self._look_at_background()
        # As much as the others had, so that these do not starve it.
        ends_at = began_at + min(max(began_at - self.now, BACKGROUND_S), SHARE_S)
        self._share_out(self._background_for_many, ends_at)
        self._share_out(self._background, ends_at)
        self._background_s += self.clock() - began_at

    def _look_at_background(self) -> None:
        """At once if there is something for the first time, then at intervals until there is nothing any more.

        One who comes again and again, alone, is no crowd to be gathered, and would wait for each interval.
        """
        found = self._background_epoll.poll(0, _BACKGROUND_EVENTS)
        for descriptor, events in found:
            turn = self._turns[descriptor]
            turn.events |= events
            self.queue(turn)
        if len(found) == _BACKGROUND_EVENTS:
            # The kernel hands out what is ready in turns: the others are due.
            self._background_look_at = self.now
        elif len(found) == 1 and found[0][0] == self._background_alone:
            self._background_look_at = self.now
        elif found:
            self._background_alone = found[0][0] if len(found) == 1 else None
            self._background_look_at = self.now + _BACKGROUND_INTERVAL_S
        else:
            self._background_look_at = math.inf
            self._epoll.modify(self._background_epoll.fileno(), READ | select.EPOLLONESHOT)

    def _share_out(self, waiting: deque[Turn], ends_at: float) -> None:
        """Turns one after another until the time that they share is over; the rest comes in later rounds."""
        if not waiting:
            return
        at = self.clock()
        self._processor_at = self._processor_clock()
        for _ in range(len(waiting)):
            turn = waiting.popleft()
            turn.is_queued = False
            events, turn.events = turn.events, 0
            at = self._call(turn, events, at, ends_at)
            if at >= ends_at:
                return

    def _call(self, turn: Turn, events: int, at: float, not_after: float = math.inf) -> float:
        """One turn, and what it used is remembered. The time at its end."""
        self.turn_ends_at = min(at + TURN_S, not_after)
        try:
            turn.callback(events)
        except Exception as error:
            self._on_error(error)
            self._blame(turn)
        processor_at, ended_at = self._processor_clock(), self.clock()
        turn.used_s = self._used_lately_s(turn) + processor_at - self._processor_at
        turn.seen_at = ended_at
        self._processor_at = processor_at
        return ended_at

    def _used_lately_s(self, turn: Turn) -> float:
        since_s = self.now - turn.seen_at
        return turn.used_s * (1.0 - since_s / _MEMORY_S) if since_s < _MEMORY_S else 0.0

    def _is_heavy(self, turn: Turn) -> bool:
        # Most are not by far, and need no arithmetic.
        return turn.used_s >= self._heavy_from_s and self._used_lately_s(turn) >= self._heavy_from_s

    def _blame(self, turn: Turn) -> None:
        """A callback that keeps failing would be called again at once, for ever: it is not called any more."""
        descriptor = turn.descriptor
        if descriptor is None:
            return
        if self.now - turn.failed_at > _FORGIVEN_AFTER_S:
            turn.failures = 0
        turn.failures += 1
        turn.failed_at = self.now
        if turn.failures < _MAX_FAILURES:
            return
        if turn.is_listener:
            self.modify(descriptor, 0)
            self.call_later(_LISTENER_PAUSE_S, lambda: self._resume(descriptor, turn))
        else:
            self.forget(descriptor)

    def _resume(self, descriptor: int, turn: Turn) -> None:
        if self._turns.get(descriptor) is turn:
            turn.failures = 0
            self.modify(descriptor, READ)

    def close(self) -> None:
        """Give everything back."""
        if self._signals:
            signal.set_wakeup_fd(-1)
        with self._wake_lock:
            self._is_closed = True
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        self._epoll.close()
        self._background_epoll.close()
        for reads in self._coalesced_reads.values():
            reads.close()

    def _take_load(self) -> None:
        elapsed_s = self.now - self._load_from
        self.busy_share += (self._busy_s / elapsed_s - self.busy_share) * _LOAD_SMOOTHING
        foreground_s = self._busy_s - self._background_s
        self.foreground_share += (foreground_s / elapsed_s - self.foreground_share) * _LOAD_SMOOTHING
        self._busy_s = self._background_s = 0.0
        self._load_from = self.now

    def _timeout_s(self, now: float) -> float:
        if self._further or self._heavy or self._background_for_many or self._background:
            return 0.0
        if self._background_look_at <= now:
            return 0.0
        timers = self._timers
        # A cancelled timer must not wake us.
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        due = min(self.flush_at, self._background_look_at)
        if timers:
            due = min(due, timers[0][0])
        if self._coalesced:
            due = min(due, *(reads.wake_at for reads in self._coalesced_reads.values()))
        if due == math.inf:
            return -1
        # Rounded up to the millisecond that epoll counts in, so that a timer is never just missed.
        return max(0.0, due - now + 0.0005)

    def _run_timers(self) -> None:
        """Those that are due; of very many, the rest in the next round, which begins at once."""
        now = self.now
        ends_at = self.clock() + SHARE_S
        while self._timers and self._timers[0][0] <= now and self.clock() < ends_at:
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is not None:
                self._guarded(callback)

    def _guarded(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            self._on_error(error)

    def _wake(self) -> None:
        # A full pipe wakes the loop as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    def _on_wake(self, _events: int) -> None:
        for number in os.read(self._wake_read, 4096):
            if number in self._signals:
                self._guarded(self._signals[number])
        while self._posted:
            self._guarded(self._posted.popleft())


_used_s = attrgetter("used_s")


def _nothing(_events: int) -> None:
    """The callback of one that was removed while its turn was due."""
