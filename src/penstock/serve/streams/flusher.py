"""Which streams are flushed when: the part of each round of events that sends.

Owns the list of streams that have something to send, and when those are due that are not yet. All streams that are due
in a round are flushed together, so that one call sends for all of them. When a stream is due is the pacer's choice.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from penstock.relay.readable_log import Flush
from penstock.serve.reactor import Loop
from penstock.serve.sending.fan_out import FanOut, Sending
from penstock.serve.sending.pacer import Pacer, Waiting
from penstock.serve.sending.round_times import RoundTimes
from penstock.serve.streams.live_stream import LiveStream, close_lost
from penstock.serve.streams.viewer import Viewer

_NO_HURRY_S: Final = 0.5
_MOST_BYTES: Final = 256 * 1024
_MOST_MESSAGES: Final = 512
"""What is not flushed yet is kept as objects, each of which takes more memory than a tiny message."""
_MOST_PER_ROUND: Final = 128
"""Of those that have waited: publishers that are read together are due together. A flush to nobody takes 30 µs."""


class Flusher:
    """Flushes what is due, once per round of events."""

    def __init__(
        self, loop: Loop, fan_out: FanOut, max_wait_s: float, on_error: Callable[[BaseException], None]
    ) -> None:
        self._loop = loop
        self._fan_out = fan_out
        self._max_wait_s = max_wait_s
        self._on_error = on_error
        self._dirty: list[LiveStream] = []
        self._waiting: dict[LiveStream, float] = {}
        """Streams that are not due yet, and when they are."""
        self.pacer = Pacer()
        self.foreground_share_beside = 0.0
        """Of all other workers, added up, as the supervisor told last."""
        self.rounds = RoundTimes()

    def mark(self, stream: LiveStream) -> None:
        """A stream has something to send."""
        if not stream.is_dirty:
            stream.is_dirty = True
            self._dirty.append(stream)

    def flush_dirty(self) -> None:
        """Send what is due in this round of events; for what is not yet, the loop comes round in time."""
        loop, now = self._loop, self._loop.now
        has_come = now >= loop.flush_at
        if has_come:
            have_waited = (stream for stream, due_at in self._waiting.items() if due_at <= now)
            self._dirty += islice(have_waited, _MOST_PER_ROUND)
        due = self._take_due(now) if self._dirty else []
        if has_come or not self._waiting:
            # Of very many the rest comes in the next round, which begins at once. One that was waited for may have been
            # sent meanwhile: then the loop came round for nothing, but once.
            loop.flush_at = min(self._waiting.values(), default=math.inf)
        if due:
            self._flush(due, now)

    def show(self, flushes: list[tuple[LiveStream, Flush]]) -> None:
        """Send what another worker has made visible, of all these streams together."""
        now = self._loop.now
        self._send([(stream, partial(stream.begin_show, flush)) for stream, flush in flushes], now)

    def _take_due(self, now: float) -> list[LiveStream]:
        dirty, self._dirty = self._dirty, []
        due: list[LiveStream] = []
        for stream in dirty:
            stream.is_dirty = False
            due_at = self._due_at(stream)
            if due_at is None or due_at <= now:
                self._waiting.pop(stream, None)
                if due_at is not None:
                    due.append(stream)
            else:
                self._waiting[stream] = due_at
                self._loop.flush_at = min(self._loop.flush_at, due_at)
        return due

    def _due_at(self, stream: LiveStream) -> float | None:
        log = stream.log
        if log.unflushed_since is None:
            return None
        if not stream.has_viewers or (stream.waits_for_parts_alone and not log.has_unflushed_boundary):
            # Nobody waits for it: fewer and larger writes.
            is_much = log.unflushed_bytes >= _MOST_BYTES or log.unflushed_messages >= _MOST_MESSAGES
            return log.unflushed_since + (0.0 if is_much else _NO_HURRY_S)
        waiting = Waiting(log.unflushed_since, log.has_unflushed_video, log.next_video_at)
        # What a flush costs is paid in all workers in which the stream is watched, so the load of all of them counts.
        busy_share = self._loop.foreground_share + self.foreground_share_beside
        return self.pacer.due_at(stream.app.flush, waiting, self._max_wait_s, busy_share)

    def _flush(self, streams: list[LiveStream], now: float) -> None:
        self._send([(stream, stream.begin_flush) for stream in streams], now)

    def _send(self, beginnings: list[tuple[LiveStream, Callable[[float], Sending | None]]], now: float) -> None:
        """All of them step by step. What one of them meets must not keep the others from being sent."""
        begun: list[tuple[LiveStream, Sending]] = []
        for stream, begin in beginnings:
            try:
                sending = begin(now)
            except Exception as error:
                self._on_error(error)
            else:
                if sending is not None:
                    begun.append((stream, sending))
                    for each in list(stream.encodings.values()):
                        self._begin_encoded(each, begun, now)
        sent = self._fan_out.send([sending for _stream, sending in begun])
        lost: list[Viewer] = []
        for (stream, sending), sent_to_each in zip(begun, sent, strict=True):
            try:
                lost += stream.finish_flush(sending, sent_to_each)
            except Exception as error:
                self._on_error(error)
        close_lost(lost)
        lag_s = self._loop.clock() - now
        self.pacer.observe_round(lag_s, now, self._loop.foreground_share)
        self.rounds.observe(lag_s)

    def _begin_encoded(self, encoded: LiveStream, begun: list[tuple[LiveStream, Sending]], now: float) -> None:
        try:
            sending = encoded.begin_flush(now)
        except Exception as error:
            self._on_error(error)
        else:
            if sending is not None:
                begun.append((encoded, sending))
