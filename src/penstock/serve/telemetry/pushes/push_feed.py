"""Pushes as web is told of them: soon when one begins, changes or ends, and all of them every two seconds.

Owns what web does not know yet. Nothing waits for web: while it is away or does not keep up, what changed is told once
it listens.
"""

from collections.abc import Callable, Iterable
from typing import Final

from penstock.control.live import LivePush, LivePushes
from penstock.serve.links.web_link import WebLink
from penstock.serve.pushing.push import Push, PushListener, PushState
from penstock.serve.reactor import Loop, Timer
from penstock.serve.telemetry.told_sessions import names_of, text

_SOON_S: Final = 0.05
_SAMPLE_S: Final = 1.8


class PushFeed(PushListener):
    """Keeps web told of pushes."""

    def __init__(self, web: WebLink, loop: Loop, offset_us: Callable[[], int]) -> None:
        """`offset_us`: between the loop's clock and the wall clock."""
        self._web = web
        self._loop = loop
        self._offset_us = offset_us
        self._timer: Timer | None = None
        self.pushes: Callable[[], Iterable[Push]] = tuple
        """All of them."""
        self.failures = 0
        """How often a try came to nothing or a connection was lost."""
        self.ended_bytes = 0
        """Sent by pushes that are over."""
        web.on_linked.append(self._tell_soon)

    @property
    def live(self) -> int:
        """How many targets take a stream now."""
        return sum(push.state is PushState.LIVE for push in self.pushes())

    @property
    def failing(self) -> int:
        """How many should, and do not."""
        return sum(push.state in (PushState.RETRYING, PushState.STOPPED) for push in self.pushes())

    @property
    def sent_bytes(self) -> int:
        """By all pushes since the start."""
        return self.ended_bytes + sum(push.sent_bytes for push in self.pushes())

    def push_started(self, push: Push) -> None:  # noqa: ARG002
        """A stream is to be sent to a target."""
        self._tell_soon()

    def push_changed(self, push: Push) -> None:
        """Its state is another one."""
        self.failures += push.state is PushState.RETRYING
        self._tell_soon()

    def push_stopped(self, push: Push, reason: str) -> None:  # noqa: ARG002
        """It is over."""
        self.ended_bytes += push.sent_bytes
        self._tell_soon()

    def _tell_soon(self) -> None:
        self._tell_within(_SOON_S)

    def _tell_within(self, seconds: float) -> None:
        due = self._loop.now + seconds
        if self._timer is not None:
            if self._timer.callback is not None and self._timer.due <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._tell)

    def _tell(self) -> None:
        self._timer = None
        if not self._web.is_open:
            return  # the next web process is told everything, and on_linked says when
        if not self._web.is_congested:
            self._web.send(LivePushes([self._value_of(push) for push in self.pushes()]))
        if self._web.is_congested or any(True for _ in self.pushes()):
            self._tell_within(_SAMPLE_S)

    def _value_of(self, push: Push) -> LivePush:
        app, stream = names_of(push.live_stream.app_name, push.live_stream.key)
        return LivePush(
            target=push.target.name,
            app=app,
            stream=stream,
            state=push.state.value,
            attempts=push.attempts,
            last_error=None if push.last_error is None else text(push.last_error),
            sent_bytes=push.sent_bytes,
            lag_ms=push.lag_ms,
            skips=push.skips,
            started_at_us=round(push.started_at * 1_000_000) + self._offset_us(),
        )
