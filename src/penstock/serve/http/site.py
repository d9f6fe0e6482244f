"""What answers requests for media, as the front knows it: a site for each kind of address.

Owns the values that pass between the front and its sites. A site is asked for one request at a time, when access has
let it in, and says at once what becomes of it: an `Answer` that is sent as it is, a `Wait` for one that is not there
yet, or a `Stream` that takes the connection over. It is never told of bytes, sockets or other requests.

An answer is laid out once, head and body behind each other, and sent to whoever asks for it; what differs for one of
them (HEAD, an `ETag` that it has, an origin of its own) is the front's matter.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from penstock.access.request import CREDENTIAL_PARAMETERS
from penstock.media_paths import MediaPath
from penstock.relay.cursor import Range, SegmentKeeper
from penstock.relay.readable_log import Flush
from penstock.relay.segment import MemoryBuffer, Segment
from penstock.serve.connections.transport import Transport
from penstock.serve.streams.access.grant import Grant

SIGNED_PARAMETERS: Final = frozenset(("exp", "ip"))
"""They mean nothing without `sig`, and change what it is good for."""
SECRET_PARAMETERS: Final = CREDENTIAL_PARAMETERS | SIGNED_PARAMETERS
"""Nothing that is the same for several viewers is named by these."""
ANSWER_PARAMETERS: Final = frozenset(("ll", "w", "wait_s", "_HLS_msn", "_HLS_part", "_HLS_skip"))
"""Which answer is wanted: all that sites read of a query."""

_MAX_CLIENT_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class MediaRequest:
    """A GET or HEAD that was let in. Holds credentials, so it is shown to nobody."""

    path: MediaPath
    stream: str
    """The name under which it goes on: that of the path, or another by the grant."""
    parameters: Mapping[str, str]
    """Of the query, without credentials."""
    credentials: str = field(repr=False)
    """The part of the query that a playlist repeats, such as `token=…`; empty if there is none."""
    query: str = field(repr=False)
    """All of it, as it came."""
    headers: Mapping[bytes, bytes] = field(repr=False)
    """By their names in lower case; those that came several times are joined by commas."""
    address: str
    """Of the viewer, with its port: a trusted proxy's word, or the connection's."""
    is_encrypted: bool
    is_head: bool
    """Whether only the head is wanted: nothing may begin that would not end by itself."""
    grant: Grant | None
    """None: nobody was asked, see `Site.is_free`."""
    cors: bytes
    """Lines for the head of an answer that pages of other origins may read, as all requesters of this app get them."""
    own_lines: list[bytes] = field(default_factory=list, repr=False)
    """Lines that the site adds for this requester alone, whoever else is sent the same answer."""

    @property
    def key(self) -> str:
        """The stream's name, APP/STREAM."""
        return f"{self.path.app}/{self.stream}"

    @property
    def client(self) -> str:
        """What it calls itself."""
        return client_of(self.headers)

    @property
    def is_websocket(self) -> bool:
        """Whether it wants to go on as a WebSocket."""
        return self.headers.get(b"upgrade", b"").strip().lower() == b"websocket"


def client_of(headers: Mapping[bytes, bytes]) -> str:
    """What a client calls itself, as much of it as is kept."""
    return headers.get(b"user-agent", b"")[:_MAX_CLIENT_BYTES].decode("latin-1")


class _LooseKeeper:
    def unpin(self, segment: Segment) -> None:
        segment.unpin()


_LOOSE: Final = _LooseKeeper()
_NOWHERE: Final = Segment(MemoryBuffer(), 0, 0.0)
_NOWHERE.pin()


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Head and body, laid out behind each other."""

    flush: Flush
    """Where they are, as the fan-out takes it."""
    head: bytes
    """The head alone, a copy: the lines of the status and the headers with the empty line behind them."""
    etag: bytes | None = None
    """As it stands in the head, quotes included."""
    is_last: bool = False
    """Whether the connection is closed behind it; the head then says so."""
    keeper: SegmentKeeper = _LOOSE

    @property
    def size(self) -> int:
        return self.flush.size

    @staticmethod
    def of_bytes(head: bytes, body: bytes = b"", *, etag: bytes | None = None, is_last: bool = False) -> "Answer":
        """Of what is in this process alone: playlists, errors."""
        data = head + body
        return Answer(Flush(_NOWHERE, 0, len(data), [], [data]), head, etag, is_last)

    @staticmethod
    def in_segment(piece: Range, head: bytes, *, etag: bytes | None = None, keeper: SegmentKeeper = _LOOSE) -> "Answer":
        """Of a range of memory, its head included, to be sent from there. Pinned only while it is sent."""
        return Answer(Flush(*piece, []), head, etag, keeper=keeper)


class Rank(enum.IntEnum):
    """In which order answers go out that become ready together."""

    MEDIA = 0
    PLAYLIST = 1


class Waiter(Protocol):
    """A connection whose request waits."""

    @property
    def descriptor(self) -> int:
        """Its socket."""

    @property
    def takes_shared_bytes(self) -> bool:
        """Whether it is sent an answer as it was laid out, past everything else."""

    def take_answer(self, answer: Answer, sent_bytes: int = 0) -> None:
        """The answer is there, and so much of it was sent already; -1: the connection is lost."""


class Wait:
    """An answer that is not there yet, and everybody who waits for it: they are answered together."""

    __slots__ = ("_on_ready", "answer", "late", "rank", "until", "waiters")

    def __init__(self, until: float, late: Answer, rank: Rank = Rank.MEDIA) -> None:
        """`until`: by the clock of the loop; then `late` is the answer."""
        self.until = until
        self.late = late
        self.rank = rank
        self.answer: Answer | None = None
        self.waiters: dict[Waiter, None] = {}
        self._on_ready: Callable[[Wait], None] | None = None

    def fulfil(self, answer: Answer) -> None:
        """The answer is there. What is said later is not heard."""
        if self.answer is None:
            self.answer = answer
            if self.waiters and self._on_ready is not None:
                self._on_ready(self)

    def join(self, waiter: Waiter, on_ready: "Callable[[Wait], None]") -> None:
        """Somebody waits. For the front."""
        self._on_ready = on_ready
        self.waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """Somebody has gone. For the front."""
        self.waiters.pop(waiter, None)


class Taken(NamedTuple):
    """A connection that the front has given away, behind the head of its request."""

    transport: Transport
    address: str
    is_encrypted: bool
    received: bytes
    """What has come behind the head already."""
    on_gone: Callable[[], None]
    """To be called once, when it is closed."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer without an end: whoever gives it has the connection from now on, and all that is said on it."""

    begin: Callable[[Taken], None]


class Site(Protocol):
    """Answers the requests for one kind of address."""

    def is_free(self, path: MediaPath) -> bool:
        """Whether access is not asked about such a path, since its name cannot be guessed."""

    def answer(self, request: MediaRequest) -> Answer | Wait | Stream:
        """What becomes of a request."""
