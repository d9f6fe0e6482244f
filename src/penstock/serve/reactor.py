"""The event loop of the media path: one epoll, timers, signals and calls from other threads.

An epoll of our own rather than asyncio's: the loop body between two waits is ours, so that everything that became
readable is read before anything is flushed, and a readable socket costs one method call. Callbacks must not block and
must not raise; one that raises is logged by `on_error` and costs what it was about, never the loop.
"""

import contextlib
import heapq
import itertools
import math
import os
import select
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
_MAX_EVENTS = 1024
_GATHER_INTERVAL_S = 0.100
_GATHER_SLACK_S = 0.050
_LOAD_INTERVAL_S = 0.250
_LOAD_SMOOTHING = 0.25
_MAX_FAILURES = 10


class Timer:
    """A call to come. Cancelling one that has run does nothing."""

    __slots__ = ("callback", "due")

    def __init__(self, due: float, callback: Callable[[], None] | None) -> None:
        self.due = due
        self.callback = callback

    def cancel(self) -> None:
        """Do not call."""
        self.callback = None


class Reactor:
    """Waits for sockets, timers and signals, and calls whoever asked for them."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self._epoll = select.epoll()
        self._gathering_epoll = select.epoll()
        self._gathered: set[int] = set()
        self._failures: Counter[int] = Counter()
        self._gather_at = 0.0
        self._callbacks: dict[int, Callable[[int], None]] = {}
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
        """Called once after each round of events, before the next wait."""
        self.now = time.monotonic()
        """The clock as of the last wake-up: one reading serves a whole round."""
        self.busy_share = 0.0
        """How much of its time the loop does not wait, over the last second or so."""
        self._busy_s = 0.0
        self._load_from = self.now
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.add(self._wake_read, READ, self._on_wake)

    def add(self, descriptor: int, events: int, callback: Callable[[int], None]) -> None:
        """Call back with the events that a descriptor has."""
        self._callbacks[descriptor] = callback
        self._epoll.register(descriptor, events)

    def modify(self, descriptor: int, events: int) -> None:
        """Wait for other events."""
        self._epoll_of(descriptor).modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor, before it is closed."""
        del self._callbacks[descriptor]
        self._epoll_of(descriptor).unregister(descriptor)
        self._gathered.discard(descriptor)
        self._failures.pop(descriptor, None)

    def gather(self, descriptor: int, events: int, *, is_gathered: bool) -> None:
        """Look at a descriptor at intervals only, together with all such, or at once again."""
        self._epoll_of(descriptor).unregister(descriptor)
        (self._gathered.add if is_gathered else self._gathered.discard)(descriptor)
        self._epoll_of(descriptor).register(descriptor, events)

    def _epoll_of(self, descriptor: int) -> select.epoll:
        return self._gathering_epoll if descriptor in self._gathered else self._epoll

    def forget(self, descriptor: int) -> None:
        """As remove, for one that may have been removed before."""
        if descriptor in self._callbacks:
            self.remove(descriptor)

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
        poll = self._epoll.poll
        callbacks = self._callbacks
        while self._is_running:
            waits_from = time.monotonic()
            self._busy_s += waits_from - self.now
            events = poll(self._timeout_s(waits_from), _MAX_EVENTS)
            self.now = time.monotonic()
            if self.now - self._load_from >= _LOAD_INTERVAL_S:
                self._take_load()
            if self._gathered and self.now >= self._gather_at:
                self._gather_at = self.now + _GATHER_INTERVAL_S
                events += self._gathering_epoll.poll(0, _MAX_EVENTS)
            for descriptor, event in events:
                callback = callbacks.get(descriptor)
                # An earlier callback of the same round may have closed it.
                if callback is not None:
                    try:
                        callback(event)
                    except Exception as error:
                        self._on_error(error)
                        self._blame(descriptor)
            self._run_timers()
            if self.after_events is not None:
                self._guarded(self.after_events)

    def _blame(self, descriptor: int) -> None:
        """A callback that keeps failing would be called again at once, for ever: it is not called any more."""
        self._failures[descriptor] += 1
        if self._failures[descriptor] >= _MAX_FAILURES:
            self.forget(descriptor)

    def close(self) -> None:
        """Give everything back."""
        if self._signals:
            signal.set_wakeup_fd(-1)
        with self._wake_lock:
            self._is_closed = True
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        self._epoll.close()
        self._gathering_epoll.close()

    def _take_load(self) -> None:
        share = self._busy_s / (self.now - self._load_from)
        self.busy_share += (share - self.busy_share) * _LOAD_SMOOTHING
        self._busy_s, self._load_from = 0.0, self.now

    def _timeout_s(self, now: float) -> float:
        timers = self._timers
        # A cancelled timer must not wake us: most are, as a video frame comes before the wait for one is over.
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        due = timers[0][0] if timers else math.inf
        if self._gathered:
            # Others wake the loop often enough for most; for those who do not, it is woken.
            due = min(due, self._gather_at + _GATHER_SLACK_S)
        if due == math.inf:
            return -1
        # Rounded up to the millisecond that epoll counts in, so that a timer is never just missed.
        return max(0.0, due - now + 0.0005)

    def _run_timers(self) -> None:
        now = self.now
        while self._timers and self._timers[0][0] <= now:
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
