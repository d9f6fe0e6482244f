"""Whether a publisher is still there, when somebody else wants its name.

Owns the question: a publisher is asked for a sign of life, and whoever wants its name waits meanwhile, so that an
encoder that reconnects is not locked out by its own ghost. The answer is given once, within the call or later.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from penstock.control.messages import Verdict
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.reactor import Loop
from penstock.serve.streams.live_stream import LiveStream

_CHECK_S: Final = 0.1
SILENT_PUBLISHER_S: Final = 3.0
"""A publisher that has sent nothing for this long is replaced by the next one at once."""
LIVENESS_WAIT_S: Final = 2.0
"""How long a second publisher waits while the first is pinged."""
_ASK_INTERVAL_S: Final = 1.0
"""A publisher is pinged no more often, whoever wants its name: FFmpeg reads one message for every ten that it sends, so
a hundred who ask all the time would fill its connection until it is closed for not reading."""

Answer = Callable[[Verdict], None]


class _Question(NamedTuple):
    """When the publisher that is there was asked for a sign of life, and what it had sent by then.

    In bytes, as the answer may come in the same round of events, at the same time by the loop's clock.
    """

    first: RtmpConnection
    asked_at: float
    heard_bytes: int


class Liveness:
    """Judges the publishers of this worker."""

    def __init__(self, loop: Loop, streams: Mapping[str, LiveStream], ping: Callable[[RtmpConnection], None]) -> None:
        self._loop = loop
        self._streams = streams
        self._ping = ping

    def judge(self, key: str, claimant: str, answer: Answer, *, may_replace: bool) -> None:
        """Whether a connection may publish under a name, in the place of whoever does so here."""
        stream = self._streams.get(key)
        first = None if stream is None else stream.publisher
        if stream is None or first is None:
            answer(Verdict.ADMIT)
        elif not isinstance(first, RtmpConnection):
            # Who may publish here has the name rather than what was fetched from elsewhere for lack of a publisher.
            answer(Verdict.REPLACE)
        elif first.id == claimant:
            # One that replaced itself would lose the connection that it wants to publish on.
            answer(Verdict.REFUSE)
        elif may_replace or self._loop.now - stream.last_media_at >= SILENT_PUBLISHER_S:
            answer(Verdict.REPLACE)
        else:
            self._ask_for_life(stream, first)
            self._check_later(key, answer, _Question(first, self._loop.now, first.session.received_bytes))

    def _ask_for_life(self, stream: LiveStream, first: RtmpConnection) -> None:
        if self._loop.now - stream.asked_at >= _ASK_INTERVAL_S:
            stream.asked_at = self._loop.now
            self._ping(first)

    def _check_later(self, key: str, answer: Answer, question: _Question) -> None:
        self._loop.call_later(_CHECK_S, partial(self._check, key, answer, question))

    def _check(self, key: str, answer: Answer, question: _Question) -> None:
        """See if the publisher that is there has given a sign of life since a second one knocked."""
        stream = self._streams.get(key)
        first = None if stream is None else stream.publisher
        if stream is None or first is None:
            answer(Verdict.ADMIT)
        elif first is not question.first or first.session.received_bytes > question.heard_bytes:
            answer(Verdict.REFUSE)
        elif self._loop.now - question.asked_at >= LIVENESS_WAIT_S:
            answer(Verdict.REPLACE)
        else:
            # One who asked just before may have had the answer to a ping already.
            self._ask_for_life(stream, first)
            self._check_later(key, answer, question)
