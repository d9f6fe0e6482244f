"""Which streams are flushed when: the part of each round of events that sends.

Owns the list of streams that have something to send, and the timers of those that are not due yet. When a stream is
due is the pacer's choice.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.serve.reactor import Loop
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.pacer import Pacer, Waiting
from penstock.serve.streams.round_times import RoundTimes

_UNWATCHED_WAIT_S: Final = 0.5
_UNWATCHED_BYTES: Final = 256 * 1024
_UNWATCHED_MESSAGES: Final = 512
"""What is not flushed yet is kept as objects, each of which takes more memory than a tiny message."""


class Flusher:
    """Flushes what is due, once per round of events."""

    def __init__(self, loop: Loop, max_wait_s: float, on_error: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._max_wait_s = max_wait_s
        self._on_error = on_error
        self._dirty: list[LiveStream] = []
        self._has_flushed = False
        """In this round of events, by a timer or not."""
        self.pacer = Pacer()
        self.rounds = RoundTimes()

    def mark(self, stream: LiveStream) -> None:
        """A stream has something to send."""
        if not stream.is_dirty:
            stream.is_dirty = True
            self._dirty.append(stream)

    def flush_dirty(self) -> None:
        """Send what became due in this round of events; what is not due yet gets a timer."""
        now = self._loop.now
        if self._dirty:
            dirty, self._dirty = self._dirty, []
            for stream in dirty:
                try:
                    self._flush_or_wait(stream, now)
                except Exception as error:
                    # What one stream met must not keep the others of this round from being sent.
                    self._on_error(error)
        if self._has_flushed:
            self._has_flushed = False
            lag_s = self._loop.clock() - now
            self.pacer.observe_round(lag_s, now)
            self.rounds.observe(lag_s)

    def _flush_or_wait(self, stream: LiveStream, now: float) -> None:
        due = self._due(stream)
        if due is None:
            return
        if due <= now:
            self._flush(stream, now)
            return
        timer = stream.flush_timer
        if timer is None or due < timer.due:
            if timer is not None:
                timer.cancel()
            stream.flush_timer = self._loop.call_at(due, partial(self._on_timer, stream))

    def _due(self, stream: LiveStream) -> float | None:
        log = stream.log
        stream.is_dirty = False
        if log.unflushed_since is None:
            return None
        if not stream.viewers:
            # Nobody waits for it: fewer and larger writes.
            is_much = log.unflushed_bytes >= _UNWATCHED_BYTES or log.unflushed_messages >= _UNWATCHED_MESSAGES
            return log.unflushed_since + (0.0 if is_much else _UNWATCHED_WAIT_S)
        waiting = Waiting(log.unflushed_since, log.has_unflushed_video, log.next_video_at)
        return self.pacer.due_at(stream.app.flush, waiting, self._max_wait_s, self._loop.busy_share)

    def _flush(self, stream: LiveStream, now: float) -> None:
        self._has_flushed = True
        stream.flush(now)

    def _on_timer(self, stream: LiveStream) -> None:
        stream.flush_timer = None
        self._flush_or_wait(stream, self._loop.now)
