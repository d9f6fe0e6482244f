"""Which streams are flushed when: the part of each round of events that sends.

Owns the list of streams that have something to send, and the timers of those that are not due yet. When a stream is
due is the pacer's choice.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Loop
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.pacer import Pacer, Waiting
from penstock.serve.streams.round_times import RoundTimes

_UNWATCHED_WAIT_S: Final = 0.5
_UNWATCHED_BYTES: Final = 256 * 1024
_LEAST_READ_BYTES: Final = 1024
"""Audio that gathers while a frame is waited for is as much: below that there is nothing to wait for."""
_MOST_READ_BYTES: Final = 64 * 1024
"""The kernel makes room for twice what is waited for."""


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
            return log.unflushed_since + (_UNWATCHED_WAIT_S if log.unflushed_bytes < _UNWATCHED_BYTES else 0.0)
        waiting = Waiting(log.unflushed_since, log.has_unflushed_video, log.next_video_at)
        return self.pacer.due_at(stream.app.flush, waiting, self._max_wait_s, self._loop.busy_share)

    def _flush(self, stream: LiveStream, now: float) -> None:
        """Send, and let the publisher doze: every wake-up costs as much as some twenty sends."""
        has_video = stream.log.has_unflushed_video
        self._has_flushed = True
        stream.flush(now)
        publisher = stream.publisher if stream.viewers else None
        if publisher is None:
            return
        tick = self.pacer.next_tick(stream.app.flush, now)
        if tick is not None:
            self._doze(stream, publisher, _MOST_READ_BYTES, tick)
        elif has_video:
            self._doze_until_video(stream, publisher, now)

    def _doze_until_video(self, stream: LiveStream, publisher: RtmpConnection, now: float) -> None:
        """Where audio waits for video anyway, the publisher is read when a frame is there, and not for each message."""
        log, policy, max_wait_s = stream.log, stream.app.flush, self._max_wait_s
        least_bytes = min(log.least_video_bytes // 2, _MOST_READ_BYTES)
        if least_bytes >= _LEAST_READ_BYTES and self.pacer.lets_audio_wait(
            policy, log.video_interval_s, max_wait_s, self._loop.busy_share
        ):
            self._doze(stream, publisher, least_bytes, now + max_wait_s)
        else:
            self._cancel_look(stream)
            publisher.wake_up()

    def _doze(self, stream: LiveStream, publisher: RtmpConnection, least_bytes: int, until: float) -> None:
        self._cancel_look(stream)
        publisher.doze(least_bytes)
        stream.look_timer = self._loop.call_at(until, partial(self._look, stream))

    def _cancel_look(self, stream: LiveStream) -> None:
        timer, stream.look_timer = stream.look_timer, None
        if timer is not None:
            timer.cancel()

    def _look(self, stream: LiveStream) -> None:
        """What has come meanwhile must not wait any longer. If nothing has, whatever comes next is read at once."""
        stream.look_timer = None
        publisher = stream.publisher
        if publisher is None:
            return
        publisher.wake_up()
        publisher.read_now()
        if stream.log.unflushed_since is not None:
            self._flush(stream, self._loop.now)

    def _on_timer(self, stream: LiveStream) -> None:
        stream.flush_timer = None
        self._flush_or_wait(stream, self._loop.now)
