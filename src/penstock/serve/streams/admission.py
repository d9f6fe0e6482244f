"""Admission: whether a name may be published or played, asked now and answered when it is known.

Owns the question and the answers, and the answer of a server that decides alone: one publisher for each name. A second
one waits while the first is asked for a sign of life, so that an encoder that reconnects is not locked out by its own
ghost. Another process may decide instead: whoever asks copes with an answer that comes later.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Loop
from penstock.serve.settings import AppSettings
from penstock.serve.streams.live_stream import LiveStream

_LIVENESS_CHECK_S: Final = 0.1
SILENT_PUBLISHER_S: Final = 3.0
"""A publisher that has sent nothing for this long is replaced by the next one at once."""
LIVENESS_WAIT_S: Final = 2.0
"""How long a second publisher waits while the first is pinged."""
_ASK_INTERVAL_S: Final = 1.0
"""A publisher is pinged no more often, whoever wants its name: FFmpeg reads one message for every ten that it sends, so
a hundred who ask all the time would fill its connection until it is closed for not reading."""


class Verdict(enum.Enum):
    """What became of a request."""

    ADMIT = "may begin"
    REPLACE = "may begin in the place of whoever publishes under that name"
    REFUSE = "the name is in use"


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody wants to publish or play a stream."""

    connection: RtmpConnection
    key: str
    query: str | None
    app: AppSettings


Answer = Callable[[Verdict], None]


class Admission(Protocol):
    """Whoever decides. The answer comes once, within the call or later, and perhaps when nobody waits for it."""

    def ask_to_publish(self, request: Request, answer: Answer) -> None:
        """Whether a name may be published."""

    def ask_to_play(self, request: Request, answer: Answer) -> None:
        """Whether a name may be played, be it published now or not."""


class _Question(NamedTuple):
    """When the publisher that is there was asked for a sign of life, and what it had sent by then.

    In bytes, as the answer may come in the same round of events, at the same time by the loop's clock.
    """

    first: RtmpConnection
    asked_at: float
    heard_bytes: int


class LocalAdmission:
    """Everybody may play; one may publish under each name."""

    def __init__(self, loop: Loop, streams: Mapping[str, LiveStream], ping: Callable[[RtmpConnection], None]) -> None:
        self._loop = loop
        self._streams = streams
        self._ping = ping

    def ask_to_play(self, request: Request, answer: Answer) -> None:  # noqa: ARG002
        """Whether a name may be played."""
        answer(Verdict.ADMIT)

    def ask_to_publish(self, request: Request, answer: Answer) -> None:
        """Whether a name may be published."""
        stream = self._streams.get(request.key)
        first = None if stream is None else stream.publisher
        if stream is None or first is None:
            answer(Verdict.ADMIT)
        elif first is request.connection:
            # One that replaced itself would lose the connection that it wants to publish on.
            answer(Verdict.REFUSE)
        elif request.app.may_replace_publisher or self._loop.now - stream.last_media_at >= SILENT_PUBLISHER_S:
            answer(Verdict.REPLACE)
        else:
            self._ask_for_life(stream, first)
            self._check_later(request, answer, _Question(first, self._loop.now, first.session.received_bytes))

    def _ask_for_life(self, stream: LiveStream, first: RtmpConnection) -> None:
        if self._loop.now - stream.asked_at >= _ASK_INTERVAL_S:
            stream.asked_at = self._loop.now
            self._ping(first)

    def _check_later(self, request: Request, answer: Answer, question: _Question) -> None:
        self._loop.call_later(_LIVENESS_CHECK_S, partial(self._check, request, answer, question))

    def _check(self, request: Request, answer: Answer, question: _Question) -> None:
        """See if the publisher that is there has given a sign of life since a second one knocked."""
        stream = self._streams.get(request.key)
        first = None if stream is None else stream.publisher
        if stream is None or first is None:
            answer(Verdict.ADMIT)
        elif first is not question.first or first.session.received_bytes > question.heard_bytes:
            answer(Verdict.REFUSE)
        elif self._loop.now - question.asked_at >= LIVENESS_WAIT_S:
            answer(Verdict.REPLACE)
        elif not request.connection.is_closed:
            # One who asked just before may have had the answer to a ping already.
            self._ask_for_life(stream, first)
            self._check_later(request, answer, question)
