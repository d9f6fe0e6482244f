"""The registry of stream names: who has a name, who wants it, who watches it. One for all workers of a server.

Owns which worker may publish under a name, and how many viewers a stream has over all workers. It decides who is asked;
whether a publisher gives way is decided by the worker that has the stream, which knows its publisher. What a message
leads to is given back as messages to workers, in the order in which they are to be sent. Knows no sockets and no clock.

What a lost worker published goes on where those who followed it last saw it: a claim waits for a moment until all of
them have said so. Its recording goes on too, by the id that its worker had told, and stays stopped where the operator
had stopped it.

A name that is pulled from another server is owned like any other, but gives way to every publisher, and its owner is
told whether anybody watches. That an origin did not have a stream is remembered for a while, so that a crowd who asks
for it asks the origin once.

A name is forgotten when nobody has, wants, watches or waits for it, so there are never more of them than connections.
"""

# Long because: every message about a name changes the same few facts about it.

import itertools
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, assert_never

from penstock.control.messages import (
    NOBODY,
    Begun,
    Challenge,
    Claim,
    Continuation,
    Ended,
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
)
from penstock.control.misses import Misses

LAST_WORD_S: Final = 0.5
"""How long a claim waits at most for those who followed a stream of a lost worker. Their links end with it, so most say
within milliseconds how far it had come; one may have gone before it noticed."""

AboutNames: TypeAlias = Claim | Begun | Recorded | Ended | NotThere | Yielded | Watch | Unwatch | LastSeen
Answer: TypeAlias = PublishAnswer | Challenge | SeatAnswer | Owner | Over | Watched | Missed | Orphaned
Outgoing: TypeAlias = tuple[int, Answer]
"""A message and the worker that it is for."""


class _Claimant(NamedTuple):
    worker: int
    claim: Claim


@dataclass(slots=True)
class _Challenge:
    """The worker that has a name was asked for it, and has not answered."""

    name: bytes
    challenged: int
    claimant: _Claimant | None
    """None: it was lost while its challenge was on the way."""


@dataclass(slots=True)
class _Stream:
    name: bytes
    owner: int = NOBODY
    epoch: int = 0
    """Of the newest grant. Kept when the owner is gone, for those who followed it."""
    is_begun: bool = False
    is_pulled: bool = False
    """Whether it was granted to a pull; kept when that is lost, since another pull may go on with it."""
    former_owner: int = NOBODY
    """Whoever yielded it to the owner, and is to hear when it has begun there."""
    grace_s: float = 0.0
    waits_until: float | None = None
    """How long it may be without an owner, after one was lost; None: it does not wait for one."""
    continuation: Continuation | None = None
    """For the next owner; kept until that has begun, as it may be lost before."""
    continuation_epoch: int = 0
    last_seen_at: dict[int, float] = field(default_factory=dict)
    """When workers that follow it said how far it had come, which may be before its loss is noticed here."""
    awaited: set[int] = field(default_factory=set)
    """Those who have yet to say so, now that its owner is lost."""
    awaited_until: float = 0.0
    recording_id: str | None = None
    """As its owner told; kept when that is lost."""
    is_recording_stopped: bool = False
    """The same of the operator's order."""
    claims: deque[_Claimant] = field(default_factory=deque)
    challenge: int | None = None
    viewers: dict[int, int] = field(default_factory=dict)
    """By worker."""
    viewers_in_all: int = 0

    @property
    def is_over(self) -> bool:
        return not (self.owner or self.waits_until is not None or self.claims or self.challenge or self.viewers)

    def forget_past(self) -> None:
        """Whatever is published under the name next is another stream."""
        self.continuation = self.recording_id = None
        self.is_recording_stopped = self.is_pulled = False


class Names:
    """All names that somebody has, wants, watches or waits for."""

    def __init__(self) -> None:
        self._streams: dict[bytes, _Stream] = {}
        self._challenges: dict[int, _Challenge] = {}
        self._waiting: set[bytes] = set()
        self._pulls: set[bytes] = set()
        """Names that a pull has."""
        self._misses = Misses()
        self._epochs = itertools.count(1)
        self._challenge_numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._streams)

    def owner_of(self, name: bytes) -> int:
        """The worker that may publish it; NOBODY if none may."""
        stream = self._streams.get(name)
        return stream.owner if stream is not None else NOBODY

    def viewers_of(self, name: bytes) -> int:
        """Over all workers."""
        stream = self._streams.get(name)
        return stream.viewers_in_all if stream is not None else 0

    @property
    def pulls_for_somebody(self) -> bool:
        """Whether anything that is pulled is watched, in any worker."""
        return any(self.viewers_of(name) for name in self._pulls)

    def receive(self, worker: int, message: AboutNames, now: float) -> list[Outgoing]:
        """What a message of a worker leads to."""
        match message:
            case Claim() if message.max_pulls is not None:
                return list(self._claim_to_pull(worker, message, message.max_pulls, now))
            case Claim():
                stream = self._stream(message.name)
                stream.claims.append(_Claimant(worker, message))
                return list(self._decide(stream))
            case Yielded():
                return list(self._yielded(worker, message, now))
            case Begun():
                return list(self._begun(worker, message))
            case Recorded():
                self._recorded(worker, message)
            case Ended():
                return list(self._ended(worker, message))
            case NotThere():
                return list(self._not_there(worker, message, now))
            case Watch():
                return list(self._watch(worker, message))
            case Unwatch():
                return list(self._unwatch(worker, message.name))
            case LastSeen():
                return list(self._last_seen(worker, message, now))
            case _:
                assert_never(message)
        return []

    def worker_lost(self, worker: int, now: float) -> list[Outgoing]:
        """Its viewers and claims are gone, and what it published waits for its publishers to come back."""
        for challenge in self._challenges.values():
            if challenge.claimant is not None and challenge.claimant.worker == worker:
                challenge.claimant = None
        found: list[Outgoing] = []
        for stream in list(self._streams.values()):
            if stream.former_owner == worker:
                stream.former_owner = NOBODY
            stream.claims = deque(each for each in stream.claims if each.worker != worker)
            were_watching = stream.viewers_in_all
            stream.viewers_in_all -= stream.viewers.pop(worker, 0)
            stream.awaited.discard(worker)
            if stream.owner == worker:
                self._withdraw_challenge(stream)
                if stream.is_begun:
                    self._await_last_words(stream, now)
                self._wait_for_owner(stream, now)
                if stream.is_pulled and stream.viewers:
                    found.append((next(iter(stream.viewers)), Orphaned(stream.name)))
            elif were_watching and not stream.viewers_in_all:
                found += self._tell_watched(stream)
            found += self._decide(stream)
        return found

    def tick(self, now: float) -> list[Outgoing]:
        """Wait no longer for who does not say how far a stream had come, or for publishers that do not come back."""
        found: list[Outgoing] = []
        self._misses.forget_old(now)
        for stream in [self._streams[name] for name in self._waiting]:
            if stream.awaited and now >= stream.awaited_until:
                stream.awaited.clear()
                found += self._decide(stream)
            # One that came in time is not too late for having had to wait.
            if stream.waits_until is not None and now >= stream.waits_until and not stream.claims:
                self._stop_waiting(stream)
                stream.forget_past()
                found += _over(stream)
                self._forget_if_over(stream)
        return found

    def _stream(self, name: bytes) -> _Stream:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream(name)
        return stream

    def _forget_if_over(self, stream: _Stream) -> None:
        if stream.is_over:
            del self._streams[stream.name]

    def _decide(self, stream: _Stream) -> Iterator[Outgoing]:
        """Grant a free name to the first who wants it, and ask its owner for whoever comes next."""
        while stream.claims and stream.challenge is None:
            if stream.owner == NOBODY:
                if stream.awaited:
                    return
                yield self._grant(stream, stream.claims.popleft(), Verdict.ADMIT)
                if not stream.viewers_in_all:
                    yield from self._tell_watched(stream)
                continue
            claimant = stream.claims.popleft()
            if claimant.claim.max_pulls is not None:
                yield _refused(claimant, Verdict.REFUSE)
                continue
            stream.challenge = next(self._challenge_numbers)
            self._challenges[stream.challenge] = _Challenge(stream.name, stream.owner, claimant)
            claim = claimant.claim
            yield stream.owner, Challenge(stream.challenge, stream.name, claim.may_replace, claim.claimant)
        self._forget_if_over(stream)

    def _grant(self, stream: _Stream, claimant: _Claimant, verdict: Verdict) -> Outgoing:
        stream.former_owner, stream.owner = stream.owner or stream.former_owner, claimant.worker
        stream.epoch = next(self._epochs)
        stream.is_begun = False
        stream.is_pulled = claimant.claim.max_pulls is not None
        (self._pulls.add if stream.is_pulled else self._pulls.discard)(stream.name)
        stream.grace_s = claimant.claim.grace_s
        stream.last_seen_at.clear()
        self._stop_waiting(stream)
        return claimant.worker, PublishAnswer(
            claimant.claim.request,
            verdict,
            stream.epoch,
            stream.continuation,
            stream.recording_id,
            stream.is_recording_stopped,
        )

    def _yielded(self, worker: int, message: Yielded, now: float) -> Iterator[Outgoing]:
        challenge = self._challenges.get(message.challenge)
        if challenge is None or challenge.challenged != worker:
            return  # the stream ended by itself before it was asked for
        del self._challenges[message.challenge]
        stream = self._streams[challenge.name]
        stream.challenge = None
        claimant = challenge.claimant
        if message.verdict is Verdict.REFUSE:
            # Its publisher is alive: whoever else has asked for the name meanwhile need not ask again.
            refused, stream.claims = stream.claims, deque()
            for each in (claimant, *refused):
                if each is not None:
                    yield _refused(each, Verdict.REFUSE)
        else:
            is_elsewhere = claimant is None or claimant.worker != worker
            stream.continuation = message.continuation if is_elsewhere else None
            stream.continuation_epoch = stream.epoch
            if claimant is None:
                stream.former_owner = worker
                self._wait_for_owner(stream, now)
            else:
                yield self._grant(stream, claimant, message.verdict)
        yield from self._decide(stream)

    def _begun(self, worker: int, message: Begun) -> Iterator[Outgoing]:
        stream = self._owned(worker, message.name, message.epoch)
        if stream is None or stream.is_begun:
            return
        stream.is_begun = True
        stream.continuation = None
        for interested in {*stream.viewers, stream.former_owner} - {worker, NOBODY}:
            yield interested, Owner(stream.name, worker, stream.epoch)
        stream.former_owner = NOBODY

    def _recorded(self, worker: int, message: Recorded) -> None:
        stream = self._owned(worker, message.name, message.epoch)
        if stream is not None:
            stream.recording_id = message.recording_id
            stream.is_recording_stopped = message.recording_id is None

    def _ended(self, worker: int, message: Ended) -> Iterator[Outgoing]:
        stream = self._owned(worker, message.name, message.epoch)
        if stream is None:
            return
        yield from self._free(stream, _over(stream))

    def _free(self, stream: _Stream, told: Iterator[Outgoing]) -> Iterator[Outgoing]:
        self._withdraw_challenge(stream)
        stream.forget_past()
        yield from told
        stream.owner = NOBODY
        stream.is_begun = False
        self._pulls.discard(stream.name)
        yield from self._decide(stream)

    def _claim_to_pull(self, worker: int, claim: Claim, max_pulls: int, now: float) -> Iterator[Outgoing]:
        stream = self._stream(claim.name)
        claimant = _Claimant(worker, claim)
        is_awaited = stream.waits_until is not None and not stream.is_pulled
        if stream.owner or stream.claims or stream.challenge is not None or is_awaited:
            yield _refused(claimant, Verdict.REFUSE)
        elif self._misses.has(claim.name, now):
            yield _refused(claimant, Verdict.MISSED)
        elif len(self._pulls) >= max_pulls:
            yield _refused(claimant, Verdict.FULL)
        else:
            stream.claims.append(claimant)
        yield from self._decide(stream)

    def _not_there(self, worker: int, message: NotThere, now: float) -> Iterator[Outgoing]:
        stream = self._owned(worker, message.name, message.epoch)
        if stream is None:
            return
        self._misses.add(message.name, now)
        # Where a publisher is about to have the name, those who wait are about to have the stream.
        self._withdraw_challenge(stream)
        told = [] if stream.claims else [*_over(stream), *((each, Missed(stream.name)) for each in stream.viewers)]
        yield from self._free(stream, iter(told))

    def _tell_watched(self, stream: _Stream) -> Iterator[Outgoing]:
        if stream.is_pulled and stream.owner:
            yield stream.owner, Watched(stream.name, stream.epoch, stream.viewers_in_all > 0)

    def _owned(self, worker: int, name: bytes, epoch: int) -> _Stream | None:
        """The stream, if it is still this worker's: a message may have been on its way when the name went elsewhere."""
        stream = self._streams.get(name)
        return stream if stream is not None and (stream.owner, stream.epoch) == (worker, epoch) else None

    def _withdraw_challenge(self, stream: _Stream) -> None:
        """The owner that was asked is gone: who wants the name is the first to be decided about."""
        if stream.challenge is None:
            return
        claimant = self._challenges.pop(stream.challenge).claimant
        stream.challenge = None
        if claimant is not None:
            stream.claims.appendleft(claimant)

    def _wait_for_owner(self, stream: _Stream, now: float) -> None:
        stream.owner = NOBODY
        stream.is_begun = False
        self._pulls.discard(stream.name)
        stream.waits_until = now + stream.grace_s
        self._waiting.add(stream.name)

    def _await_last_words(self, stream: _Stream, now: float) -> None:
        """Of those who watch it elsewhere, but for who has said just now how far it had come."""
        stream.awaited = {
            worker for worker in stream.viewers if now - stream.last_seen_at.get(worker, -math.inf) >= LAST_WORD_S
        }
        stream.awaited_until = now + LAST_WORD_S

    def _stop_waiting(self, stream: _Stream) -> None:
        stream.waits_until = None
        stream.awaited.clear()
        self._waiting.discard(stream.name)

    def _watch(self, worker: int, message: Watch) -> Iterator[Outgoing]:
        stream = self._stream(message.name)
        is_admitted = stream.viewers_in_all < message.max_viewers
        if is_admitted:
            stream.viewers[worker] = stream.viewers.get(worker, 0) + 1
            stream.viewers_in_all += 1
            if stream.viewers_in_all == 1:
                yield from self._tell_watched(stream)
        self._forget_if_over(stream)
        owner, epoch = (stream.owner, stream.epoch) if stream.is_begun else (NOBODY, 0)
        yield worker, SeatAnswer(message.request, is_admitted, owner, epoch)

    def _unwatch(self, worker: int, name: bytes) -> Iterator[Outgoing]:
        stream = self._streams.get(name)
        if stream is None or worker not in stream.viewers:
            return
        stream.viewers_in_all -= 1
        stream.viewers[worker] -= 1
        if not stream.viewers[worker]:
            del stream.viewers[worker]
        if not stream.viewers_in_all:
            yield from self._tell_watched(stream)
        self._forget_if_over(stream)

    def _last_seen(self, worker: int, message: LastSeen, now: float) -> Iterator[Outgoing]:
        """Those who followed a lost stream may have come differently far: the furthest knows best where to go on."""
        stream = self._streams.get(message.name)
        # It may come before the loss of the worker is noticed here.
        if stream is None or message.epoch > stream.epoch or (stream.owner and message.epoch != stream.epoch):
            return
        known = stream.continuation
        is_newer = known is None or (message.epoch, message.continuation.position) > (
            stream.continuation_epoch,
            known.position,
        )
        if is_newer:
            stream.continuation = message.continuation
            stream.continuation_epoch = message.epoch
        if message.epoch == stream.epoch:
            stream.last_seen_at[worker] = now
            stream.awaited.discard(worker)
            yield from self._decide(stream)


def _over(stream: _Stream) -> Iterator[Outgoing]:
    return ((worker, Over(stream.name, stream.epoch)) for worker in stream.viewers if worker != stream.owner)


def _refused(claimant: _Claimant, verdict: Verdict) -> Outgoing:
    return claimant.worker, PublishAnswer(claimant.claim.request, verdict, 0, None)
