"""Whatever publishers, viewers, links, the registry and killed workers do, in whatever order: random runs over two."""

import os
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.serve.sending.memfd import MemfdStore
from penstock.serve.settings import AppSettings, ServerSettings
from tests.serve.fake_peer import FakePeer, codes, media, video
from tests.serve.streams.slow_names import SlowNames
from tests.serve.streams.stage import Stage
from tests.serve.streams.two_workers import TwoWorkers
from tests.support.hostile_clients import command

NAMES = ("a", "b")
STARTED = "NetStream.Publish.Start"
PLAYING = "NetStream.Play.Start"
ENDS = {
    "NetStream.Play.UnpublishNotify",
    "NetStream.Play.Stop",
    "NetStream.Play.Complete",
    "NetStream.Play.StreamNotFound",
}
BODY_BYTES = 6000
"""So that segments of 32 kB are filled soon."""


@dataclass
class Somebody:
    worker: int
    name: str
    peer: FakePeer
    is_publisher: bool
    heard: list[str] = field(default_factory=list)
    time_ms: int = 0

    def listen(self) -> None:
        self.heard = codes(self.peer.messages + self.peer.hear())

    @property
    def is_there(self) -> bool:
        return not self.peer.connection.is_closed and not self.peer.transport.is_hung_up


class RandomRun(TwoWorkers):
    """Two workers, and everybody who was ever there."""

    def __init__(self, app: AppSettings) -> None:
        self.slow = SlowNames()
        settings = ServerSettings(app=lambda _name: app, silent_peer_s=1e9, slow_viewer_s=1e9)
        super().__init__(settings=settings, names=self.slow)
        for stage in self.workers.values():
            self._equip(stage)
        self.people: list[Somebody] = []
        self.frames = 0

    def _equip(self, stage: Stage) -> None:
        stage.broker.publishing._store = MemfdStore(1000)
        stage.reaper.start()

    # What may happen.

    def come(self, worker: int, name: str, *, publishes: bool) -> None:
        peer = self.workers[worker].peer().with_streams()
        verb = ("publish", name, "live") if publishes else ("play", name)
        peer.transport.feed(command(verb[0], 3.0, None, *verb[1:], stream_id=1))
        self.people.append(Somebody(worker, name, peer, publishes))

    def _of(self, which: int, *, publishers: bool) -> Somebody | None:
        there = [each for each in self.people if each.is_publisher is publishers and each.is_there]
        return there[which % len(there)] if there else None

    def send(self, which: int, *, is_key: bool) -> None:
        publisher = self._of(which, publishers=True)
        if publisher is None:
            return
        publisher.listen()
        if STARTED not in publisher.heard:
            return
        self.frames += 1
        publisher.time_ms += 40
        body = b"%08d" % self.frames + bytes(BODY_BYTES)
        publisher.peer.transport.feed(video(publisher.time_ms, body, is_key=is_key))

    def close_stream(self, which: int, *, publishers: bool) -> None:
        somebody = self._of(which, publishers=publishers)
        if somebody is not None:
            somebody.peer.transport.feed(command("deleteStream", 4.0, None, 1.0))
            somebody.peer.transport.is_ended = True

    def reset(self, which: int, *, publishers: bool) -> None:
        somebody = self._of(which, publishers=publishers)
        if somebody is not None:
            somebody.peer.transport.is_hung_up = True

    def round(self) -> None:
        """One round of the loop."""
        self.loop.run_events()
        assert self.loop.after_events is not None
        self.loop.after_events()
        self.loop.run_turns()

    def deliver(self, worker: int, *, is_question: bool) -> None:
        if is_question:
            self.slow.deliver_question(worker)
        else:
            self.slow.deliver_answer(worker)

    def pass_time(self, seconds: float) -> None:
        self.loop.advance(seconds)
        self.slow.tick(self.loop.now)

    def hold_up(self, worker: int) -> None:
        self.links[worker].is_held_up = True

    def go_on(self, worker: int) -> None:
        self.links[worker].go_on()

    def cut_link(self) -> None:
        """Both workers give up their link, and are given another."""
        self.links[1].close()
        self._join()

    def kill_and_restart(self, worker: int) -> None:
        dead = self.workers[worker]
        for each in self.people:
            if each.worker == worker and each.is_there:
                each.peer.transport.is_hung_up = True
                self.loop._turns.pop(each.peer.transport.descriptor, None)
        dead.flusher.flush_dirty = lambda: None  # type: ignore[method-assign]
        dead.broker.peers.finish_round = lambda: None  # type: ignore[method-assign]
        dead.broker.streams.clear()
        dead.broker.connections.clear()
        self.links[worker].close()
        self.slow.lose(worker, self.loop.now)
        self.people = [each for each in self.people if each.worker != worker]
        stage = self.workers[worker] = Stage(dead.broker.settings, None, self.slow, loop=self.loop, worker=worker)
        self._equip(stage)
        self._join()

    # What has to hold.

    def rest(self) -> None:
        """Everything that is under way arrives."""
        for worker in (1, 2):
            self.go_on(worker)
        self.loop.settle()
        while self.slow.deliver_all():
            self.loop.settle()

    def calm_down(self, seconds: int) -> None:
        for _ in range(seconds):
            self.pass_time(1.0)
            self.rest()

    def check_viewers(self) -> None:
        for each in self.people:
            if each.is_publisher:
                continue
            each.listen()
            heard = media(each.peer.messages)
            numbers = [int(payload[5:13]) for _, payload in heard]
            assert numbers == sorted(set(numbers)), "in order, and nothing twice"
            times = [time_ms for time_ms, _ in heard]
            assert times == sorted(times), "time never goes back"

    def check_all_see(self) -> None:
        """Whoever still watches a stream that is published gets the next key frame."""
        for name in NAMES:
            publishers = [
                each
                for each in self.people
                if each.is_publisher and each.name == name and each.is_there and 1 in each.peer.connection.publications
            ]
            assert len(publishers) <= 1
            if not publishers:
                continue
            self.send_from(publishers[0])
            for each in self.people:
                if each.is_publisher or each.name != name or not each.is_there:
                    continue
                each.listen()
                if ENDS.intersection(each.heard):
                    continue
                assert PLAYING in each.heard
                numbers = [int(payload[5:13]) for _, payload in media(each.peer.messages)]
                assert numbers[-1:] == [self.frames], f"a viewer in worker {each.worker} of {name}"

    def send_from(self, publisher: Somebody) -> None:
        self.frames += 1
        publisher.time_ms += 40
        publisher.peer.transport.feed(video(publisher.time_ms, b"%08d" % self.frames + bytes(BODY_BYTES), is_key=True))
        for _ in range(3):
            self.pass_time(0.1)
            self.rest()

    def check_nothing_is_left(self) -> None:
        assert len(self.slow.names) == 0
        assert not self.slow.names._challenges
        assert not self.slow.names._waiting
        for stage in self.workers.values():
            broker = stage.broker
            assert not broker.streams
            assert not broker.connections
            assert not broker.table.waiting
            assert not broker.registry._claims
            assert not broker.registry._seats
            assert not broker.peers.followed._places
            assert not broker.peers.followed._changes
            assert not broker.peers.offers._just_ended
            assert broker.budget.used_bytes == 0
            assert broker.budget.returning_bytes == 0
            assert not broker.budget._logs
            assert stage.broker.publishing._store.descriptors == 0  # type: ignore[attr-defined]
            for peer in broker.peers._peers.values():
                assert not peer.offered
                assert not peer.announcer._lent
                assert not peer.announcer._streams
                assert not peer.follows._streams


def _open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


WORKERS = st.sampled_from((1, 2))
WHICH = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("publish"), WORKERS, st.sampled_from(NAMES)),
    st.tuples(st.just("play"), WORKERS, st.sampled_from(NAMES)),
    st.tuples(st.just("live"), WORKERS, st.sampled_from(NAMES)),
    st.tuples(st.just("watched"), WORKERS, st.sampled_from(NAMES)),
    st.tuples(st.just("key"), WHICH),
    st.tuples(st.just("key"), WHICH),
    st.tuples(st.just("inter"), WHICH, st.integers(1, 12)),
    st.tuples(st.just("close"), WHICH, st.booleans()),
    st.tuples(st.just("reset"), WHICH, st.booleans()),
    st.tuples(st.just("round"), st.integers(1, 3)),
    st.tuples(st.just("round"), st.integers(1, 3)),
    st.tuples(st.just("rest")),
    st.tuples(st.just("question"), WORKERS),
    st.tuples(st.just("answer"), WORKERS),
    st.tuples(st.just("time"), st.sampled_from((0.05, 0.5, 2.5, 6.0))),
    st.tuples(st.just("hold up"), WORKERS),
    st.tuples(st.just("go on"), WORKERS),
    st.tuples(st.just("cut")),
    st.tuples(st.just("kill"), WORKERS),
)
Step = tuple[Any, ...]


def _do(on: RandomRun, step: Step) -> None:
    match step:
        case ("publish", worker, name):
            on.come(worker, name, publishes=True)
        case ("play", worker, name):
            on.come(worker, name, publishes=False)
        case ("live", worker, name):
            on.come(worker, name, publishes=True)
            on.rest()
            on.send(-1, is_key=True)
            on.rest()
        case ("watched", worker, name):
            on.come(worker, name, publishes=False)
            on.rest()
        case ("key", which):
            on.send(which, is_key=True)
        case ("inter", which, count):
            for _ in range(count):
                on.send(which, is_key=False)
        case ("close", which, publishers):
            on.close_stream(which, publishers=publishers)
        case ("reset", which, publishers):
            on.reset(which, publishers=publishers)
        case ("round", count):
            for _ in range(count):
                on.round()
        case ("rest",):
            on.rest()
        case ("question", worker):
            on.deliver(worker, is_question=True)
        case ("answer", worker):
            on.deliver(worker, is_question=False)
        case ("time", seconds):
            on.pass_time(seconds)
        case ("hold up", worker):
            on.hold_up(worker)
        case ("go on", worker):
            on.go_on(worker)
        case ("cut",):
            on.cut_link()
        case ("kill", worker):
            on.kill_and_restart(worker)


@settings(max_examples=int(os.environ.get("PENSTOCK_RANDOM_RUNS", "60")))
@given(st.lists(STEPS, min_size=15, max_size=80), st.booleans(), st.sampled_from((0.0, 3.0)))
def test_viewers_are_sent_everything_once_and_in_order_and_nothing_is_left(
    steps: list[Step], may_replace: bool, grace_s: float
) -> None:
    before = _open_descriptors()
    on = RandomRun(AppSettings(may_replace_publisher=may_replace, grace_s=grace_s, play_wait_s=60.0))
    for step in steps:
        _do(on, step)
        on.check_viewers()
    on.rest()
    on.calm_down(12)
    on.check_viewers()
    on.check_all_see()
    on.check_viewers()
    for each in on.people:
        if each.is_there:
            each.peer.transport.is_hung_up = True
    on.calm_down(15)
    on.check_nothing_is_left()
    if not any(step[0] == "kill" for step in steps):
        assert _open_descriptors() == before
