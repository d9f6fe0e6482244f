"""A pusher on a loop with a clock of the test's own, and targets that are written down instead of dialled."""

from typing import cast

from penstock.control.messages import TargetAnswer, name_of
from penstock.protocol.events import Event
from penstock.pushes.address import read_push_address
from penstock.rtmp_address import StreamAddress
from penstock.serve.outgoing.connection import OutgoingConnection, OutgoingOwner
from penstock.serve.outgoing.words import Failure
from penstock.serve.pushing.push import Push, PushListener
from penstock.serve.pushing.pusher import Pusher
from penstock.serve.pushing.target import PushTarget
from tests.relay.support import CHUNK_SIZE
from tests.serve.fakes import FakeLoop
from tests.serve.streams.stream_stage import StreamStage

Sent = tuple[int, int, bytes]
"""Type, time and payload."""


def target(name: str = "b", url: str = "rtmp://b/{app}/{stream}", key: str | None = None) -> PushTarget:
    return PushTarget(name, ("live/*",), read_push_address(url, has_key=key is not None), key)


class FakeTarget:
    """A connection as a push sees it."""

    def __init__(
        self,
        loop: FakeLoop,
        address: StreamAddress,
        owner: OutgoingOwner,
        secrets: tuple[str, ...],
        via: tuple[str, ...],
    ) -> None:
        self.address = address
        self.secrets = secrets
        self.via = via
        self.sent: list[Sent] = []
        self.room = 1000
        """How many messages it takes before it has to read."""
        self.is_ready = False
        self.ended: str | None = None
        self.is_hung_up = False
        self._loop = loop
        self._owner = owner

    @property
    def itself(self) -> OutgoingConnection:
        return cast("OutgoingConnection", self)

    @property
    def has_room(self) -> bool:
        return self.is_ready and self.ended is None and len(self.sent) < self.room

    @property
    def sent_bytes(self) -> int:
        return sum(len(payload) for _, _, payload in self.sent)

    def send_media(self, type_id: int, timestamp_ms: int, payload: bytes) -> None:
        assert self.ended is None
        self.sent.append((int(type_id), timestamp_ms, payload))

    def send_data(self, timestamp_ms: int, data: bytes) -> None:
        self.sent.append((18, timestamp_ms, data))

    def request_turn(self) -> None:
        self._loop.turn_ends_at = self._loop.now + 1
        if self.has_room:
            self._owner.on_room(self.itself)

    def end(self, reason: str) -> None:
        self.ended = reason
        self._owner.on_closed(self.itself, Failure(reason))

    def hang_up(self, reason: str) -> None:
        self.is_hung_up = True
        self.close(Failure(reason))

    def close(self, failure: Failure) -> None:
        self.ended = failure.reason
        self._owner.on_closed(self.itself, failure)

    # What the test has it do.

    def take(self) -> None:
        """Accept the stream."""
        self.is_ready = True
        self._owner.on_ready(self.itself)
        self.request_turn()

    def read(self, messages: int = 1000) -> None:
        """Have room for so many more."""
        self.room = len(self.sent) + messages
        self.request_turn()

    def fail(self, reason: str) -> None:
        self.close(Failure(reason))

    def say(self, event: Event) -> None:
        self._owner.on_event(self.itself, event)

    @property
    def media(self) -> list[tuple[int, bytes]]:
        """Times and bodies of audio and video, sequence headers left out."""
        return [(ms, body[5:] if kind == 9 else body[2:]) for kind, ms, body in self.sent if kind != 18 and body[1]]


class Journal(PushListener):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def push_started(self, push: Push) -> None:
        self.lines.append(f"{push.live_stream.key} to {push.target.name}")

    def push_changed(self, push: Push) -> None:
        self.lines.append(push.state.value)

    def push_stopped(self, push: Push, reason: str) -> None:
        self.lines.append(f"stopped: {reason}")


class PushStage:
    """One stream, and whatever it is pushed to."""

    def __init__(self, *targets: PushTarget) -> None:
        self.on = StreamStage()
        self.loop = self.on.loop
        self.dialled: list[FakeTarget] = []
        self.claims: list[str] = []
        self.journal = Journal()
        self.listeners: list[PushListener] = [self.journal]
        self.bugs: list[Exception] = []
        self.pusher = Pusher(
            self.loop,
            self._open,
            self,
            chunk_size=CHUNK_SIZE,
            listeners=self.listeners,
            on_bug=self.bugs.append,
        )
        self.pusher.configure(targets)

    def _open(
        self, address: StreamAddress, owner: OutgoingOwner, *, secrets: tuple[str, ...], via: tuple[str, ...]
    ) -> OutgoingConnection:
        fake = FakeTarget(self.loop, address, owner, secrets, via)
        self.dialled.append(fake)
        return fake.itself

    def claim_target(self, target: str, key: str) -> None:
        self.claims.append(f"claim {target} for {key}")

    def give_target_back(self, target: str, key: str) -> None:
        self.claims.append(f"give back {target} of {key}")

    def answer(self, target: str, held_by: str | None) -> None:
        held = None if held_by is None else name_of(held_by)
        self.pusher.answered(TargetAnswer(target, name_of(self.on.stream.key), held))

    def publish(self) -> None:
        self.pusher.publish_started(self.on.begin(), self.on.stream, "live")

    @property
    def push(self) -> Push:
        (push,) = self.pusher.pushes
        return push
