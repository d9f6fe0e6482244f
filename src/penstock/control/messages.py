"""Every message between supervisor, workers and web, as a value.

Owns their names and fields. Each direction is one closed union, with an encoder and a decoder of its own. Names of
streams are bytes: text of peers may hold bytes that are no UTF-8. Times are of the machine's monotonic clock, which all
its processes share. Messages between workers are in `penstock.relay.following`.
"""

# Long because: it is a table.

import enum
from typing import Any, Final

import msgspec

NOBODY: Final = 0
"""The number of no worker. They count from 1."""


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What all have in common."""


def name_of(key: str) -> bytes:
    """A stream's key as messages carry it."""
    return key.encode("utf-8", "surrogateescape")


def key_of(name: bytes) -> str:
    """The key of a name in a message."""
    return name.decode("utf-8", "surrogateescape")


class Verdict(enum.Enum):
    """What became of a request to publish."""

    ADMIT = "may begin"
    REPLACE = "may begin in the place of whoever publishes under that name"
    REFUSE = "the name is in use"
    MISSED = "the origin did not have the stream a moment ago"
    FULL = "there is no room for one more pull"


GRANTED: Final = (Verdict.ADMIT, Verdict.REPLACE)


class Continuation(msgspec.Struct, frozen=True, array_like=True):
    """Where a stream was when its publisher was last seen, for the worker in which it goes on."""

    position: int
    """Of the head of its log."""
    last_timestamp_ms: int
    last_frame_at: float
    numbering: tuple[int, int, int, int, int | None, int] | None = None
    """How far its parts and segments are counted, as `relay.packaging.boundaries.Numbering` has it."""


# From the supervisor to a worker.


class Welcome(Message, frozen=True):
    """The first message to a child: who it is."""

    worker: int
    """NOBODY for the web process."""
    boot_id: str
    """One life of this process."""
    life_id: str
    """One life of the supervisor: the beginning of the boot_id of each of its children."""
    workers: int
    config: dict[str, Any]
    """Values as `Config` validates them."""
    recovers: list[str]
    """Boots whose recordings and facts are this worker's to finish, since they were lost; "*": all but this life's."""
    listening: dict[str, str] = {}
    """Where the server listens, by the names of listeners: HOST:PORT."""
    link_secret: bytes = b""
    """What the server signs its own links by: one for each life of the supervisor, in no file and no log."""

    def __repr__(self) -> str:
        """Without what only the processes of the server are to know."""
        return f"Welcome(worker={self.worker}, boot_id={self.boot_id!r})"


class Accepted(Message, frozen=True):
    """A connection, whose socket is beside it. To be answered by `Left` when it is gone."""

    number: int
    listener: str
    """rtmp, rtmps, http or https."""
    address: str
    """Of the peer, with its port."""


class Linked(Message, frozen=True):
    """A link to another worker, or to the web process (NOBODY), is beside it."""

    peer: int


class PublishAnswer(Message, frozen=True):
    """To `Claim`. Answered by `Begun`, or by `Ended` if nobody waits for it any more."""

    request: int
    verdict: Verdict
    epoch: int
    continuation: Continuation | None
    """None: the stream is new, this worker has it already, or nobody is left who knows how far it had come."""
    recording_id: str | None = None
    """The recording that goes on with its next segment; None: there is none."""
    is_recording_stopped: bool = False
    """Whether the operator has stopped it, for as long as the stream lasts."""


class Challenge(Message, frozen=True):
    """Somebody wants a name that this worker has. Answered by `Yielded`."""

    challenge: int
    name: bytes
    may_replace: bool
    claimant: str
    """The connection that wants it."""


class SeatAnswer(Message, frozen=True):
    """To `Watch`: whether there is room for one more viewer, and who has the stream now."""

    request: int
    is_admitted: bool
    owner: int
    epoch: int


class Owner(Message, frozen=True):
    """A stream that this worker watches has begun in a worker."""

    name: bytes
    owner: int
    epoch: int


class Over(Message, frozen=True):
    """A stream that this worker watches has ended, or its worker was lost and its publisher did not come back.

    Whoever follows its log hears of the end there, behind the last frame, and need not heed this.
    """

    name: bytes
    epoch: int


class TargetAnswer(Message, frozen=True):
    """To `ClaimTarget`."""

    target: str
    name: bytes
    held_by: bytes | None
    """The stream that is pushed there already; None: this one may be."""


class Watched(Message, frozen=True):
    """Whether anybody watches a stream that this worker pulls, in all workers: when that changes."""

    name: bytes
    epoch: int
    is_watched: bool


class Missed(Message, frozen=True):
    """Nobody has a stream that is waited for here: it was asked for at its origin."""

    name: bytes


class Orphaned(Message, frozen=True):
    """The worker that pulled a stream was lost, and it is watched here: it may be pulled by this worker."""

    name: bytes


class Refused(Message, frozen=True):
    """A connection is over a limit after all, by the address that its proxy gave."""

    number: int
    limit: str
    detail: str


class TurnedAway(Message, frozen=True):
    """Connections that the supervisor did not let in since it last told, for one worker to write down as facts."""

    limit: str
    hits: int
    detail: str
    """About the last of them."""


class Decoder(Message, frozen=True):
    """To `WantDecoder`: the link to a process that decodes pictures is beside it, or it could not be started."""


class LoadBeside(Message, frozen=True):
    """Once a second: how busy the loops of all other workers are, without the background, added up."""

    foreground_share: float


class Reload(Message, frozen=True):
    """The configuration may have changed, and certificates are to be read anew."""

    config: dict[str, Any]


class Draining(Message, frozen=True):
    """Nobody new is let in: those who can are to be asked to come back elsewhere."""


class Stop(Message, frozen=True):
    """Say goodbye to everybody and end; at once, if it is asked a second time."""

    is_at_once: bool


# From a worker to the supervisor.


class Ready(Message, frozen=True):
    """The process can be given connections."""

    io_uring: bool = False
    """Whether it sends to many by one system call."""


class Failed(Message, frozen=True):
    """The process cannot start, for a reason that the operator can do something about."""

    reason: str


class Alive(Message, frozen=True):
    """Once a second: the loop comes round. With the figures of the process, for web."""

    figures: dict[str, Any]


class Left(Message, frozen=True):
    """Connections are gone."""

    numbers: list[int]


class FromProxy(Message, frozen=True):
    """The true address of a connection, which its proxy gave."""

    number: int
    address: str


class Unlinked(Message, frozen=True):
    """The link to another worker had to be given up, and both are still there: they want a new one."""

    peer: int


class Claim(Message, frozen=True):
    """A connection wants to publish a stream."""

    request: int
    name: bytes
    claimant: str
    may_replace: bool
    grace_s: float
    max_pulls: int | None = None
    """Nobody publishes it here: it is to be pulled, as one of so many in the server. None: a publisher wants it.

    A pull is granted a name that nobody has or awaits, and is told so at once; it gives way to every publisher.
    """


class Begun(Message, frozen=True):
    """A stream that was claimed can be followed from now on."""

    name: bytes
    epoch: int


class Recorded(Message, frozen=True):
    """The recording that a stream of this worker is in, so that it outlives the worker."""

    name: bytes
    epoch: int
    recording_id: str | None
    """None: the operator has stopped it."""


class Ended(Message, frozen=True):
    """A stream that this worker had is over."""

    name: bytes
    epoch: int


class NotThere(Message, frozen=True):
    """A stream that this worker was to pull is not to be had: its name is free, and it is not asked for a while."""

    name: bytes
    epoch: int


class Yielded(Message, frozen=True):
    """To `Challenge`. If it may begin or replace, the publisher here has ended, and the name may go elsewhere."""

    challenge: int
    verdict: Verdict
    continuation: Continuation | None


class Watch(Message, frozen=True):
    """One more viewer of a stream, be it published now or not."""

    request: int
    name: bytes
    max_viewers: int


class ClaimTarget(Message, frozen=True):
    """A stream of this worker is to be pushed to a target that takes one at a time. Answered by `TargetAnswer`."""

    target: str
    name: bytes


class GiveTargetBack(Message, frozen=True):
    """A stream is not pushed there any more."""

    target: str
    name: bytes


class Unwatch(Message, frozen=True):
    """One viewer fewer."""

    name: bytes


class LastSeen(Message, frozen=True):
    """The worker of a stream that is watched here was lost: how far it had come."""

    name: bytes
    epoch: int
    continuation: Continuation


class WantDecoder(Message, frozen=True):
    """There are pictures to decode: start a process for it. One that this worker had before is to be killed."""


# From the supervisor to web.


class Figures(Message, frozen=True):
    """What a worker told last; None: it was lost."""

    worker: int
    boot_id: str
    pid: int
    figures: dict[str, Any] | None


class Listening(Message, frozen=True):
    """A port of its own, as the operator wants it. The listening socket is beside it."""


class PastFigures(Message, frozen=True):
    """What workers of this server had counted whose life was over before this web process began."""

    figures: dict[str, Any]


class Entrance(Message, frozen=True):
    """What the supervisor counted: those it turned away, by limit, and those it holds."""

    pid: int
    turned_away: dict[str, int]
    connections: int
    is_draining: bool = False
    """Whether nobody new is let in but over HTTP, and the server ends when it is empty."""


class Reloaded(Message, frozen=True):
    """To `AskReload`. The new configuration comes by `Reload`, as for everybody."""

    request: int
    complaint: str | None
    """None: it is in force."""


class Origins(Message, frozen=True):
    """Where each value of the configuration comes from that no default gave, by dotted key."""

    origins: dict[str, str]


# From web to the supervisor.


class Drain(Message, frozen=True):
    """Take no new connections, and end as for SIGTERM when empty or late."""

    within_s: float


class AskReload(Message, frozen=True):
    """Read the configuration anew. Answered by `Reloaded`."""

    request: int


# From a worker to web; what else these two tell each other is in `live`.


class HttpConnection(Message, frozen=True):
    """A connection over HTTP of which nothing was read. Its socket is beside it, or the end of a pair behind TLS."""

    address: str
    """Of the client, with its port."""
    scheme: str


ToWorker = (
    Welcome
    | Accepted
    | Linked
    | PublishAnswer
    | Challenge
    | SeatAnswer
    | Owner
    | Over
    | TargetAnswer
    | Watched
    | Missed
    | Orphaned
    | Refused
    | TurnedAway
    | Decoder
    | LoadBeside
    | Reload
    | Draining
    | Stop
)
FromWorker = (
    Ready
    | Failed
    | Alive
    | Left
    | FromProxy
    | Unlinked
    | Claim
    | Begun
    | Recorded
    | Ended
    | NotThere
    | Yielded
    | Watch
    | Unwatch
    | LastSeen
    | ClaimTarget
    | GiveTargetBack
    | WantDecoder
)
ToWeb = Welcome | Listening | Linked | PastFigures | Figures | Entrance | Origins | Reload | Reloaded | Stop
FromWeb = Ready | Failed | Alive | Drain | AskReload
