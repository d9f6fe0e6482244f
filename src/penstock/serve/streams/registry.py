"""The registry of names as a worker sees it: what it asks the supervisor, and what it is asked.

Owns the numbers of questions and who waits for which answer. Which worker has a name is decided by the supervisor
alone (`penstock.control.names`), be there one worker or many; an answer may come within the call or much later.
"""

import itertools
from collections.abc import Callable
from typing import Protocol

from penstock.control.messages import (
    NOBODY,
    Begun,
    Challenge,
    Claim,
    ClaimTarget,
    Continuation,
    Ended,
    FromWorker,
    GiveTargetBack,
    LastSeen,
    Missed,
    NotThere,
    Orphaned,
    Over,
    Owner,
    PublishAnswer,
    Recorded,
    SeatAnswer,
    Unwatch,
    Verdict,
    Watch,
    Watched,
    Yielded,
    key_of,
    name_of,
)

RegistryMessage = PublishAnswer | SeatAnswer | Challenge | Owner | Over | Watched | Missed | Orphaned
"""What the supervisor says about names."""
OnGrant = Callable[[PublishAnswer], None]
OnSeat = Callable[[SeatAnswer], None]
OnJudged = Callable[[Verdict, Continuation | None], None]


class NameHolder(Protocol):
    """Whoever has the streams of this worker."""

    def challenged(self, challenge: Challenge, answer: OnJudged) -> None:
        """Somebody wants a name that this worker has."""

    def owner_changed(self, key: str, owner: int, epoch: int) -> None:
        """A stream that is watched here has begun in a worker."""

    def stream_over(self, key: str, epoch: int) -> None:
        """A stream that is watched here is over."""

    def watched(self, key: str, epoch: int, *, is_watched: bool) -> None:
        """Whether anybody watches what is pulled here has changed."""

    def missed(self, key: str) -> None:
        """A stream that is waited for here is nowhere to be had."""

    def orphaned(self, key: str) -> None:
        """A stream that is watched here was pulled by a worker that was lost."""


class Registry:
    """Questions to the supervisor, and its answers."""

    def __init__(self, worker: int, send: Callable[[FromWorker], None]) -> None:
        self.worker = worker
        self.holder: NameHolder | None = None
        """Set by whoever has the streams."""
        self._send = send
        self._numbers = itertools.count(1)
        self._claims: dict[int, OnGrant] = {}
        self._seats: dict[int, OnSeat] = {}
        self._is_closed = False

    def claim_target(self, target: str, key: str) -> None:
        """Ask whether a stream may be pushed to a target that takes one at a time."""
        self._send(ClaimTarget(target, name_of(key)))

    def give_target_back(self, target: str, key: str) -> None:
        """A stream is not pushed there any more."""
        self._send(GiveTargetBack(target, name_of(key)))

    def claim(self, key: str, claimant: str, *, may_replace: bool, grace_s: float, answer: OnGrant) -> None:
        """Ask for a name to publish under. Whoever is granted it says `begun`, or `ended` if nobody wants it now."""
        request = next(self._numbers)
        self._claims[request] = answer
        if self._is_closed:
            self._refuse_all()
        self._send(Claim(request, name_of(key), claimant, may_replace, grace_s))

    def claim_to_pull(self, key: str, claimant: str, *, max_pulls: int, grace_s: float, answer: OnGrant) -> None:
        """Ask for a name to pull a stream under. The same holds, or `not_there` is said of it."""
        request = next(self._numbers)
        self._claims[request] = answer
        if self._is_closed:
            self._refuse_all()
        self._send(Claim(request, name_of(key), claimant, may_replace=False, grace_s=grace_s, max_pulls=max_pulls))

    def not_there(self, key: str, epoch: int) -> None:
        """What was to be pulled is not to be had: whoever waits for it is told so, in all workers."""
        self._send(NotThere(name_of(key), epoch))

    def begun(self, key: str, epoch: int) -> None:
        """The stream can be followed from now on."""
        self._send(Begun(name_of(key), epoch))

    def recorded(self, key: str, epoch: int, recording_id: str | None) -> None:
        """Which recording the stream is in: it goes on in whichever worker the stream does. None: it was stopped."""
        self._send(Recorded(name_of(key), epoch, recording_id))

    def ended(self, key: str, epoch: int) -> None:
        """The stream is over, and its name is free."""
        self._send(Ended(name_of(key), epoch))

    def watch(self, key: str, max_viewers: int, answer: OnSeat) -> None:
        """Ask for room for one more viewer. Whoever is given it says `unwatch` when it goes."""
        request = next(self._numbers)
        self._seats[request] = answer
        if self._is_closed:
            self._refuse_all()
        self._send(Watch(request, name_of(key), max_viewers))

    def unwatch(self, key: str) -> None:
        """A viewer is gone."""
        self._send(Unwatch(name_of(key)))

    def last_seen(self, key: str, epoch: int, continuation: Continuation) -> None:
        """The worker of a stream that is watched here was lost: how far it had come."""
        self._send(LastSeen(name_of(key), epoch, continuation))

    def close(self) -> None:
        """There is nobody to ask any more: everything is refused from now on."""
        self._is_closed = True
        self._refuse_all()

    def _refuse_all(self) -> None:
        for request in list(self._claims):
            self.handle(PublishAnswer(request, Verdict.REFUSE, 0, None))
        for request in list(self._seats):
            self.handle(SeatAnswer(request, is_admitted=False, owner=NOBODY, epoch=0))

    def handle(self, message: RegistryMessage) -> None:
        """Deal with what the supervisor says."""
        holder = self.holder
        match message:
            case PublishAnswer():
                self._claims.pop(message.request)(message)
            case SeatAnswer():
                self._seats.pop(message.request)(message)
            case Challenge() if holder is not None:
                number = message.challenge
                holder.challenged(message, lambda verdict, goes_on: self._send(Yielded(number, verdict, goes_on)))
            case Owner() if holder is not None:
                holder.owner_changed(key_of(message.name), message.owner, message.epoch)
            case Over() if holder is not None:
                holder.stream_over(key_of(message.name), message.epoch)
            case Watched() if holder is not None:
                holder.watched(key_of(message.name), message.epoch, is_watched=message.is_watched)
            case Missed() if holder is not None:
                holder.missed(key_of(message.name))
            case Orphaned() if holder is not None:
                holder.orphaned(key_of(message.name))
