"""Two workers that pull, on one fake loop, and origins in memory that say what a test says."""

from penstock.media.frame import FrameKind
from penstock.protocol.events import DataReceived, Event, MediaReceived
from penstock.pulls.origins import PullRule
from penstock.rtmp_address import StreamAddress, read_address
from penstock.serve.outgoing.connection import OutgoingOwner
from penstock.serve.outgoing.words import Failure
from penstock.serve.pulls.pull import Pull
from penstock.serve.pulls.pulls import Pulls
from penstock.serve.settings import AppSettings
from tests.serve.fake_peer import FakePeer, codes
from tests.serve.streams.stage import Stage
from tests.serve.streams.two_workers import TwoWorkers

KEY = b"\x17\x01\x00\x00\x00"
INTER = b"\x27\x01\x00\x00\x00"
NOT_FOUND = "NetStream.Play.StreamNotFound"
SERVER_ID = "here"
RULE = PullRule(("live/*",), read_address("rtmp://origin/{app}/{stream}"), idle_s=10.0)
REFUSED = Failure("it refused play", is_refusal=True, code=NOT_FOUND)


class FakeSource:
    """A connection to an origin."""

    def __init__(self, worker: int, address: StreamAddress, owner: OutgoingOwner, via: tuple[str, ...]) -> None:
        self.worker = worker
        self.address = address
        self.peer_address = "192.0.2.9:1935"
        self.via = via
        self.received_bytes = 0
        self.server_via: tuple[str, ...] = ("there",)
        self.ended: str | None = None
        """Why it is over."""
        self._owner = owner

    def end(self, reason: str) -> None:
        self.close(Failure(reason))

    def close(self, failure: Failure) -> None:
        if self.ended is None:
            self.ended = failure.reason
            self._owner.on_closed(self, failure)  # type: ignore[arg-type]

    # What the origin does.

    def say(self, *events: Event) -> None:
        for event in events:
            self._owner.on_event(self, event)  # type: ignore[arg-type]

    def picture(self, time_ms: int, body: bytes = b"picture", *, is_key: bool = True) -> None:
        self.received_bytes += len(body)
        self.say(MediaReceived(int(FrameKind.VIDEO), 1, time_ms, (KEY if is_key else INTER) + body))

    def data(self, name: str, payload: bytes) -> None:
        self.say(DataReceived(1, 0, name, payload))

    def lose(self, reason: str = "it closed the connection") -> None:
        self.close(Failure(reason))

    def refuse(self, failure: Failure = REFUSED) -> None:
        self.close(failure)


class PullStage:
    """Two workers."""

    def __init__(self, app: AppSettings | None = None, rule: PullRule = RULE, max_pulls: int = 5) -> None:
        self.on = TwoWorkers(app)
        self.loop = self.on.loop
        self.sources: list[FakeSource] = []
        """Every connection that was opened, the oldest first."""
        self.pulls = {number: self._pulls_of(number, stage) for number, stage in self.on.workers.items()}
        for pulls in self.pulls.values():
            pulls.rules = (rule,)
            pulls.max_pulls = max_pulls

    def _pulls_of(self, number: int, stage: Stage) -> Pulls:
        def open_connection(address: StreamAddress, owner: OutgoingOwner, pull: Pull) -> FakeSource:
            self.sources.append(FakeSource(number, address, owner, pull.via))
            return self.sources[-1]

        return Pulls(stage.broker, open_connection, SERVER_ID, f"w{number}")

    @property
    def source(self) -> FakeSource:
        """The newest."""
        return self.sources[-1]

    def viewer(self, worker: int = 1, name: str = "a") -> FakePeer:
        return self.on.viewer(worker, name)

    def watched(self, worker: int = 1) -> tuple[FakePeer, FakeSource]:
        """A viewer of a stream that is pulled, with one picture."""
        viewer = self.viewer(worker)
        self.source.picture(1000, b"p0")
        self.loop.settle()
        return viewer, self.source

    def pass_time(self, seconds: float) -> None:
        """With the supervisor's clock, and what is due once a second."""
        whole = int(seconds)
        for step in (*([1.0] * whole), seconds - whole):
            self.loop.advance(step)
            self.on.names.tick(self.loop.now)
            for stage in self.on.workers.values():
                for stream in list(stage.broker.streams.values()):
                    stage.broker.look_after(stream, self.loop.now)
                for connection in list(stage.broker.connections.values()):
                    stage.reaper.look_at(connection, self.loop.now)
            self.loop.settle()

    def heard(self, worker: int = 1) -> list[str]:
        return self.on.workers[worker].notes.heard


def all_codes(peer: FakePeer) -> list[str]:
    """Everything that a viewer was told since its connect."""
    peer.hear()
    return codes(peer.messages)[2:]
