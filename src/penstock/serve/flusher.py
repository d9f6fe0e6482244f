"""Which streams are flushed when: the part of each round of events that sends.

Owns the list of streams that have something to send, and the timers of those that are not due yet. When a stream is
due is the pacer's choice.
"""

import time
from collections.abc import Callable
from functools import partial

from penstock.serve.channel import Channel
from penstock.serve.meter import RoundTimes
from penstock.serve.observer import Observer
from penstock.serve.pacer import Pacer, Waiting
from penstock.serve.peer import Peer
from penstock.serve.reactor import Reactor
from penstock.serve.settings import ServerSettings

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
        publisher_of: Callable[[str], Peer | None],
    ) -> None:
        self._reactor = reactor
        self._observer = observer
        self._settings = settings
        self._publisher_of = publisher_of
        self._dirty: list[Channel] = []
        self.pacer = Pacer()
        self.rounds = RoundTimes()

    def mark(self, channel: Channel) -> None:
        """A stream has something to send."""
        if not channel.is_dirty:
            channel.is_dirty = True
            self._dirty.append(channel)

    def flush_dirty(self) -> None:
        """Send what became due in this round of events; what is not due yet gets a timer."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, []
        now = self._reactor.now
        has_flushed = False
        for channel in dirty:
            try:
                has_flushed = self._flush_or_wait(channel, now) or has_flushed
            except Exception as error:
                # What one stream met must not keep the others of this round from being sent.
                self._observer.error(None, error)
        if has_flushed:
            lag_s = time.monotonic() - now
            self.pacer.observe_round(lag_s, now)
            self.rounds.observe(lag_s)

    def _flush_or_wait(self, channel: Channel, now: float) -> bool:
        due = self._due(channel)
        if due is None:
            return False
        if due <= now:
            has_video = channel.log.has_unflushed_video
            channel.flush(now)
            if has_video and channel.viewers:
                self._let_doze(channel, now)
            return True
        timer = channel.flush_timer
        if timer is None or due < timer.due:
            if timer is not None:
                timer.cancel()
            channel.flush_timer = self._reactor.call_at(due, partial(self._on_timer, channel))
        return False

    def _due(self, channel: Channel) -> float | None:
        log = channel.log
        channel.is_dirty = False
        if log.unflushed_since is None:
            return None
        if not channel.viewers:
            # Nobody waits for it: fewer and larger writes.
            return log.unflushed_since + (_UNWATCHED_WAIT_S if log.unflushed_bytes < _UNWATCHED_BYTES else 0.0)
        waiting = Waiting(log.unflushed_since, log.has_unflushed_video, log.next_video_at)
        return self.pacer.due_at(channel.app.flush, waiting, self._settings.max_flush_wait_s, self._reactor.busy_share)

    def _let_doze(self, channel: Channel, now: float) -> None:
        """Where audio waits for video anyway, the publisher is read when a frame is there, and not for each message.

        Every wake-up costs as much as some twenty sends, and of 73 messages a second 43 are audio.
        """
        timer, channel.look_timer = channel.look_timer, None
        if timer is not None:
            timer.cancel()
        publisher, log = self._publisher_of(channel.key), channel.log
        if publisher is None:
            return
        policy, max_wait_s, busy_share = channel.app.flush, self._settings.max_flush_wait_s, self._reactor.busy_share
        least_bytes = min(log.least_video_bytes // 2, _MOST_READ_BYTES)
        if least_bytes >= _LEAST_READ_BYTES and self.pacer.lets_audio_wait(
            policy, log.video_interval_s, max_wait_s, busy_share
        ):
            publisher.doze(least_bytes)
            channel.look_timer = self._reactor.call_at(now + max_wait_s, partial(self._look, channel))
        else:
            publisher.wake_up()

    def _look(self, channel: Channel) -> None:
        """No frame has come for so long that what else came must not wait any longer."""
        channel.look_timer = None
        publisher = self._publisher_of(channel.key)
        if publisher is not None:
            publisher.wake_up()
            publisher.read_now()
            channel.flush(self._reactor.now)

    def _on_timer(self, channel: Channel) -> None:
        channel.flush_timer = None
        self._flush_or_wait(channel, self._reactor.now)
