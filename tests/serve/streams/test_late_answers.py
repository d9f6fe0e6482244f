"""Two workers whose registry answers late: what a link says and what the supervisor says come in any order."""

import errno

import pytest

from penstock.serve.sending.memfd import MemfdStore
from penstock.serve.settings import AppSettings
from tests.serve.fake_peer import FakePeer, codes, media, video
from tests.serve.streams.slow_names import SlowNames
from tests.serve.streams.two_workers import TwoWorkers
from tests.support.hostile_clients import command

STARTED = "NetStream.Publish.Start"
ENDS = ("NetStream.Play.UnpublishNotify", "NetStream.Play.Stop", "NetStream.Play.Complete")


class Slow(TwoWorkers):
    """Two workers, and a registry that answers when it is told to."""

    def __init__(self, app: AppSettings | None = None) -> None:
        self.slow = SlowNames()
        super().__init__(app, names=self.slow)

    def asks(self, worker: int, verb: str, name: str = "a") -> FakePeer:
        """Somebody wants to publish or play, and is not answered yet."""
        peer = self.workers[worker].peer().with_streams()
        peer.say(command(verb, 3.0, None, name, stream_id=1))
        return peer

    def answer(self) -> None:
        """Everything that is under way arrives."""
        while self.slow.deliver_all():
            self.loop.settle()


def pictures(peer: FakePeer) -> list[bytes]:
    peer.hear()
    return [payload[5:][:2] for _, payload in media(peer.messages)]


def heard_codes(peer: FakePeer) -> list[str]:
    peer.hear()
    return codes(peer.messages)


def test_a_stream_that_was_over_before_it_could_be_followed_leaves_no_place() -> None:
    on = Slow()
    publisher = on.asks(1, "publish")
    on.answer()
    viewer = on.asks(2, "play")
    on.slow.deliver_question(2)
    publisher.close_stream()
    on.slow.deliver_answer(2)
    on.loop.settle()
    assert on.workers[2].broker.peers.followed._places == {}
    viewer.reset()
    on.answer()
    assert len(on.slow.names) == 0


def test_a_viewer_that_leaves_before_its_stream_is_followed_leaves_no_place() -> None:
    on = Slow()
    on.asks(1, "publish")
    on.answer()
    viewer = on.asks(2, "play")
    on.slow.deliver_question(2)
    on.links[1].is_held_up = True
    on.slow.deliver_answer(2)
    viewer.reset()
    assert on.workers[2].broker.peers.followed._places == {}
    on.links[1].go_on()
    on.answer()
    assert on.workers[1].stream().viewers_elsewhere == {}


def test_news_that_come_with_the_end_of_the_last_view_give_their_memory_back() -> None:
    on = Slow()
    for stage in on.workers.values():
        stage.broker.publishing._store = MemfdStore(100)
    publisher = on.asks(1, "publish")
    on.answer()
    viewer = on.asks(2, "play")
    on.answer()
    on.links[2].is_held_up = True
    publisher.say(video(0, b"k0" + bytes(40_000), is_key=True), video(40, b"k1" + bytes(40_000), is_key=True))
    on.links[2].is_held_up = False
    on.links[2]._receive(0)
    viewer.reset()
    publisher.reset()
    on.answer()
    on.loop.advance(1.0)
    lent = on.workers[1].broker.peers._peers[2].announcer.lent_segments
    assert lent == 0


def test_a_publisher_that_comes_back_to_its_worker_is_shown_once_though_the_registry_is_late_to_tell() -> None:
    on = Slow()
    publisher = on.asks(1, "publish")
    on.answer()
    viewer = on.asks(2, "play")
    on.answer()
    publisher.say(video(0, b"k0", is_key=True))
    publisher.reset()
    again = on.asks(1, "publish")
    on.slow.deliver_question(1)
    on.slow.deliver_answer(1)
    on.slow.deliver_question(1)
    on.slow.deliver_answer(1)
    on.loop.settle()
    assert heard_codes(again)[-1] == STARTED
    again.say(video(0, b"k1", is_key=True), video(40, b"i2"))
    assert pictures(viewer) == [b"k0", b"k1", b"i2"]
    on.answer()
    again.say(video(80, b"i3"), video(120, b"k4", is_key=True))
    assert pictures(viewer) == [b"k0", b"k1", b"i2", b"i3", b"k4"]


def test_a_stream_that_ended_and_began_anew_in_its_worker_is_followed_anew() -> None:
    on = Slow()
    publisher = on.asks(1, "publish")
    on.answer()
    viewer = on.asks(2, "play")
    on.answer()
    publisher.say(video(0, b"k0", is_key=True))
    on.links[2].is_held_up = True
    publisher.close_stream()
    again = on.asks(1, "publish")
    on.answer()
    later = on.asks(2, "play")
    on.answer()
    again.say(video(0, b"k1", is_key=True))
    on.links[2].go_on()
    on.answer()
    on.loop.settle()
    again.say(video(40, b"i2"))
    assert pictures(later) == [b"k1", b"i2"]
    assert pictures(viewer) == [b"k0"]
    assert heard_codes(viewer)[-1] in ENDS


def test_a_worker_that_was_out_of_descriptors_asks_for_another_link_and_shows_nothing_twice() -> None:
    on = Slow()
    asked: list[int] = []
    for stage in on.workers.values():
        stage.broker.publishing._store = MemfdStore(100)
        stage.broker.peers.ask_for_link = asked.append
    publisher = on.asks(1, "publish")
    on.answer()
    viewer = on.asks(2, "play")
    on.answer()
    publisher.say(video(0, b"k0", is_key=True), video(40, b"i1" + bytes(40_000)))
    on.links[2].has_descriptors_left = False
    publisher.say(video(80, b"i2"))
    on.loop.advance(0.9)
    assert asked == []
    on.loop.advance(0.1)
    assert asked == [1]
    on._join()
    on.answer()
    publisher.say(video(120, b"i3"), video(160, b"k4", is_key=True), video(200, b"i5"))
    assert pictures(viewer) == [b"k0", b"i1", b"k4", b"i5"]
    assert on.workers[1].stream().all_viewers == 1


def test_so_does_one_that_has_no_descriptor_left_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    on = Slow()
    asked: list[int] = []
    for stage in on.workers.values():
        stage.broker.publishing._store = MemfdStore(100)
        stage.broker.peers.ask_for_link = asked.append
    publisher = on.asks(1, "publish")
    on.answer()
    viewer = on.asks(2, "play")
    on.answer()

    def fail(_descriptor: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as none_left:
        none_left.setattr("penstock.serve.streams.workers.peers.read_only_copy", fail)
        publisher.say(video(0, b"k0", is_key=True))
    on.loop.advance(1.0)
    assert asked == [2]
    on._join()
    on.answer()
    publisher.say(video(40, b"i1"))
    assert pictures(viewer) == [b"k0", b"i1"]


def test_a_stream_of_a_killed_worker_goes_on_here_before_the_registry_heard_how_far_it_was() -> None:
    on = Slow(AppSettings(may_replace_publisher=True))
    publisher = on.asks(1, "publish")
    on.answer()
    viewer = on.asks(2, "play")
    on.answer()
    publisher.say(video(0, b"k0", is_key=True), video(5000, b"i1"))
    again = on.asks(2, "publish")
    on.slow.deliver_question(2)
    on.kill(1)
    assert not on.slow.deliver_answer(2), "the registry waits for its word for a moment"
    on.loop.advance(0.5)
    on.slow.tick(on.loop.now)
    assert on.slow.deliver_answer(2)
    on.loop.settle()
    again.say(video(0, b"k2", is_key=True))
    assert pictures(viewer) == [b"k0", b"i1", b"k2"]
    times = [time_ms for time_ms, _ in media(viewer.messages)]
    assert times == sorted(times)


def test_a_stream_that_comes_here_before_it_could_be_followed_elsewhere_is_written_here() -> None:
    on = Slow(AppSettings(may_replace_publisher=True))
    on.asks(1, "publish")
    on.answer()
    on.links[1].is_held_up = True
    viewer = on.asks(2, "play")
    on.answer()
    again = on.asks(2, "publish")
    on.slow.deliver_question(2)
    on.slow.deliver_answer(1)
    on.slow.deliver_question(1)
    on.links[1].go_on()
    on.loop.run_turns()
    on.slow.deliver_answer(2)
    on.loop.settle()
    on.answer()
    again.say(video(0, b"k1", is_key=True))
    assert pictures(viewer) == [b"k1"]
    assert on.workers[2].broker.peers.followed._places == {}


def test_who_asks_for_another_name_while_the_first_is_undecided_publishes_under_the_other() -> None:
    on = Slow()
    peer = on.asks(1, "publish", "a")
    peer.say(command("closeStream", 4.0, None, stream_id=1))
    peer.say(command("publish", 5.0, None, "b", stream_id=1))
    on.answer()
    assert heard_codes(peer)[-1] == STARTED
    assert list(on.workers[1].broker.streams) == ["live/b"]
    assert len(on.slow.names) == 1


def test_a_viewer_is_not_seated_at_a_stream_that_has_gone_elsewhere() -> None:
    on = Slow(AppSettings(may_replace_publisher=True))
    first = on.asks(1, "publish")
    on.answer()
    first.say(video(0, b"k0", is_key=True))
    # It takes the name, and is gone before it hears of it.
    taker = on.asks(2, "publish")
    taker.reset()
    on.answer()
    second = on.asks(2, "publish")
    on.answer()
    assert heard_codes(second)[-1] == STARTED
    viewer = on.asks(1, "play")
    on.answer()
    second.say(video(0, b"k1", is_key=True))
    assert pictures(viewer) == [b"k1"]
