"""The pusher: which streams of this worker are sent to which targets.

Owns the targets in force and the pushes that come of them: one for each stream that is published here and each target
that takes it. A target whose URL has no `{stream}` takes one stream at a time over all workers: the supervisor says
which, and a stream that comes second is refused for as long as it lasts. What a stream that goes on in another worker
had is over here, and begins there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from penstock.amf import printable
from penstock.control.messages import TargetAnswer, key_of
from penstock.serve.pushing.push import OpenConnection, Push, PushListener
from penstock.serve.pushing.target import PushTarget
from penstock.serve.reactor import Loop
from penstock.serve.streams.observer import Observer

if TYPE_CHECKING:
    from penstock.serve.streams.live_stream import LiveStream
    from penstock.serve.streams.publisher import Publisher

MAX_PUSHES: Final = 1000
"""In one worker: each has a socket."""


class TargetClaims(Protocol):
    """The way to the supervisor, who knows what every target is sent."""

    def claim_target(self, target: str, key: str) -> None:
        """Ask whether a stream may be sent there. Answered by `Pusher.answered`."""

    def give_target_back(self, target: str, key: str) -> None:
        """It is not sent there any more."""


class Pusher(Observer):
    """All pushes of a worker. To be joined to the other observers; its calls belong to the thread of the media path."""

    def __init__(
        self,
        loop: Loop,
        open_connection: OpenConnection,
        claims: TargetClaims,
        *,
        chunk_size: int,
        listeners: Sequence[PushListener] = (),
        on_bug: Callable[[Exception], None],
    ) -> None:
        """`chunk_size` is the one that the server's logs are encoded with."""
        self._loop = loop
        self._open_connection = open_connection
        self._claims = claims
        self._chunk_size = chunk_size
        self._listeners = listeners
        self._on_bug = on_bug
        self._targets: dict[str, PushTarget] = {}
        self._published: dict[str, LiveStream] = {}
        """By key, what is published here or waits here for its publisher."""
        self._pushes: dict[tuple[str, str], Push] = {}
        """By target and stream."""
        self._asked: Counter[tuple[str, str]] = Counter()
        """How many answers of the supervisor are on their way; the last one counts."""
        self._is_closed = False

    @property
    def pushes(self) -> Iterable[Push]:
        """All of them, those that were refused too."""
        return self._pushes.values()

    def configure(self, targets: Iterable[PushTarget]) -> None:
        """These are the targets from now on. One that is another under the same name begins anew."""
        wanted = {target.name: target for target in targets}
        for name, target in list(self._targets.items()):
            if wanted.get(name) != target:
                del self._targets[name]
                for push in [push for push in self._pushes.values() if push.target is target]:
                    self._end(push, "the target was taken out")
        for name, target in wanted.items():
            if name not in self._targets:
                self._targets[name] = target
                for live_stream in list(self._published.values()):
                    self._begin(target, live_stream)

    def close(self) -> None:
        """Nothing is sent any more."""
        self._is_closed = True
        for push in list(self._pushes.values()):
            self._end(push, "server shut down")

    # What the media path tells.

    def publish_started(
        self,
        connection: "Publisher",  # noqa: ARG002
        live_stream: "LiveStream",
        publishing_type: str,  # noqa: ARG002
    ) -> None:
        """A publication began; a stream that is being sent goes on."""
        known = self._published.get(live_stream.key)
        if known is not live_stream:
            if known is not None:
                self._forget(known, "the stream began anew")
            self._published[live_stream.key] = live_stream
        for target in self._targets.values():
            self._begin(target, live_stream)

    def stream_left(self, live_stream: "LiveStream") -> None:
        """It goes on in another worker."""
        self._forget(live_stream, "the stream goes on in another worker", goes_on=True)

    def stream_closed(self, live_stream: "LiveStream") -> None:
        """A stream is over."""
        self._forget(live_stream, "the stream is over")

    def _forget(self, live_stream: "LiveStream", reason: str, *, goes_on: bool = False) -> None:
        if self._published.get(live_stream.key) is live_stream:
            del self._published[live_stream.key]
        for push in [push for push in self._pushes.values() if push.live_stream is live_stream]:
            self._end(push, reason, goes_on=goes_on)

    # Pushes.

    def _begin(self, target: PushTarget, live_stream: "LiveStream") -> None:
        place = target.name, live_stream.key
        if self._is_closed or place in self._pushes or not target.takes(live_stream.key):
            return
        push = Push(
            target,
            live_stream,
            loop=self._loop,
            open_connection=self._open_connection,
            chunk_size=self._chunk_size,
            listeners=self._listeners,
            on_bug=self._on_bug,
        )
        is_full = sum(not each.is_refused for each in self._pushes.values()) >= MAX_PUSHES
        self._pushes[place] = push
        for listener in self._listeners:
            listener.push_started(push)
        if is_full:
            push.refuse(f"this worker sends {MAX_PUSHES} streams to other servers, and has no room for more")
        elif target.address.takes_many:
            push.start()
        else:
            self._asked[place] += 1
            self._claims.claim_target(target.name, live_stream.key)

    def answered(self, answer: TargetAnswer) -> None:
        """The supervisor has said whether a stream may be sent to a target that takes one at a time."""
        key = key_of(answer.name)
        place = answer.target, key
        self._asked[place] -= 1
        if self._asked[place] > 0:
            return  # what it answers was given back, and asked for again
        del self._asked[place]
        push = self._pushes.get(place)
        if push is None or push.is_refused or push.target.address.takes_many:
            # Its target is gone, or another one by now, which needs no leave.
            if answer.held_by is None:
                self._claims.give_target_back(answer.target, key)
        elif answer.held_by is None:
            push.start()
        else:
            held_by = printable(key_of(answer.held_by))
            push.refuse(f"the target takes one stream at a time, and is sent {held_by}")

    def _end(self, push: Push, reason: str, *, goes_on: bool = False) -> None:
        key = push.live_stream.key
        del self._pushes[push.target.name, key]
        if not push.target.address.takes_many and not push.is_refused:
            self._claims.give_target_back(push.target.name, key)
        push.stop(reason, goes_on=goes_on)
