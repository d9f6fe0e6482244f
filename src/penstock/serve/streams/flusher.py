"""Which streams are flushed when: the part of each round of events that sends.

Owns the list of streams that have something to send, and the timers of those that are not due yet. When a stream is
due is the pacer's choice.
"""

import time
from collections.abc import Callable
from functools import partial

from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Reactor
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.pacer import Pacer, Waiting
from penstock.serve.telemetry.meter import RoundTimes

_UNWATCHED_WAIT_S = 0.5
_UNWATCHED_BYTES = 256 * 1024
_LEAST_READ_BYTES = 1024
"""Audio that gathers while a frame is waited for is as much: below that there is nothing to wait for."""
_MOST_READ_BYTES = 64 * 1024
"""The kernel makes room for twice what is waited for."""


class Flusher:
    """Flushes what is due, once per round of events."""

    def __init__(
        self,
        reactor: Reactor,
        settings: ServerSettings,
        observer: Observer,
        publisher_of: Callable[[str], RtmpConnection | None],
    ) -> None:
        self._reactor = reactor
        self._observer = observer
        self._settings = settings
        self._publisher_of = publisher_of
        self._dirty: list[LiveStream] = []
        self._has_flushed = False
        """In this round of events, by a timer or not."""
        self.pacer = Pacer()
        self.rounds = RoundTimes()

    def mark(self, live_stream: LiveStream) -> None:
        """A stream has something to send."""
        if not live_stream.is_dirty:
            live_stream.is_dirty = True
            self._dirty.append(live_stream)

    def flush_dirty(self) -> None:
        """Send what became due in this round of events; what is not due yet gets a timer."""
        now = self._reactor.now
        if self._dirty:
            dirty, self._dirty = self._dirty, []
            for live_stream in dirty:
                try:
                    self._flush_or_wait(live_stream, now)
                except Exception as error:
                    # What one stream met must not keep the others of this round from being sent.
                    self._observer.error(None, error)
        if self._has_flushed:
            self._has_flushed = False
            lag_s = time.monotonic() - now
            self.pacer.observe_round(lag_s, now)
            self.rounds.observe(lag_s)

    def _flush_or_wait(self, live_stream: LiveStream, now: float) -> None:
        due = self._due(live_stream)
        if due is None:
            return
        if due <= now:
            self._flush(live_stream, now)
            return
        timer = live_stream.flush_timer
        if timer is None or due < timer.due:
            if timer is not None:
                timer.cancel()
            live_stream.flush_timer = self._reactor.call_at(due, partial(self._on_timer, live_stream))

    def _due(self, live_stream: LiveStream) -> float | None:
        log = live_stream.log
        live_stream.is_dirty = False
        if log.unflushed_since is None:
            return None
        if not live_stream.viewers:
            # Nobody waits for it: fewer and larger writes.
            return log.unflushed_since + (_UNWATCHED_WAIT_S if log.unflushed_bytes < _UNWATCHED_BYTES else 0.0)
        waiting = Waiting(log.unflushed_since, log.has_unflushed_video, log.next_video_at)
        return self.pacer.due_at(
            live_stream.app.flush, waiting, self._settings.max_flush_wait_s, self._reactor.busy_share
        )

    def _flush(self, live_stream: LiveStream, now: float) -> None:
        """Send, and let the publisher doze: every wake-up costs as much as some twenty sends."""
        has_video = live_stream.log.has_unflushed_video
        self._has_flushed = True
        live_stream.flush(now)
        publisher = self._publisher_of(live_stream.key) if live_stream.viewers else None
        if publisher is None:
            return
        tick = self.pacer.next_tick(live_stream.app.flush, now)
        if tick is not None:
            self._doze(live_stream, publisher, _MOST_READ_BYTES, tick)
        elif has_video:
            self._doze_until_video(live_stream, publisher, now)

    def _doze_until_video(self, live_stream: LiveStream, publisher: RtmpConnection, now: float) -> None:
        """Where audio waits for video anyway, the publisher is read when a frame is there, and not for each message."""
        log, policy, max_wait_s = live_stream.log, live_stream.app.flush, self._settings.max_flush_wait_s
        least_bytes = min(log.least_video_bytes // 2, _MOST_READ_BYTES)
        if least_bytes >= _LEAST_READ_BYTES and self.pacer.lets_audio_wait(
            policy, log.video_interval_s, max_wait_s, self._reactor.busy_share
        ):
            self._doze(live_stream, publisher, least_bytes, now + max_wait_s)
        else:
            self._cancel_look(live_stream)
            publisher.wake_up()

    def _doze(self, live_stream: LiveStream, publisher: RtmpConnection, least_bytes: int, until: float) -> None:
        self._cancel_look(live_stream)
        publisher.doze(least_bytes)
        live_stream.look_timer = self._reactor.call_at(until, partial(self._look, live_stream))

    def _cancel_look(self, live_stream: LiveStream) -> None:
        timer, live_stream.look_timer = live_stream.look_timer, None
        if timer is not None:
            timer.cancel()

    def _look(self, live_stream: LiveStream) -> None:
        """What has come meanwhile must not wait any longer. If nothing has, whatever comes next is read at once."""
        live_stream.look_timer = None
        publisher = self._publisher_of(live_stream.key)
        if publisher is None:
            return
        publisher.wake_up()
        publisher.read_now()
        if live_stream.log.unflushed_since is not None:
            self._flush(live_stream, self._reactor.now)

    def _on_timer(self, live_stream: LiveStream) -> None:
        live_stream.flush_timer = None
        self._flush_or_wait(live_stream, self._reactor.now)
