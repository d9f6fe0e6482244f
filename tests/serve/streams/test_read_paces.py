"""How soon connections are read: alone, among many publishers, and as settled viewers."""

import pytest

from penstock.serve.coalesced_reads import Pace
from tests.serve.fake_peer import FakePeer, audio, ping, video
from tests.serve.streams.stage import Stage
from tests.support.hostile_clients import command, message

SETTLED_S = 3.1
DATA = 18
TITLE = bytes.fromhex("02 0006 6f6e43756550 02 0002 6869")
"""A data message, as encoders send with a change of scene or title."""


class Crowd(Stage):
    """Publishers of one viewer each, and the reaper that comes round every second."""

    def __init__(self) -> None:
        super().__init__()
        self.reaper.start()
        self.publishers: list[FakePeer] = []
        self.viewers: list[FakePeer] = []

    def grow_to(self, count: int) -> "Crowd":
        for number in range(len(self.viewers), count):
            self.publishers.append(self.publisher(f"s{number}"))
            self.viewers.append(self.viewer(f"s{number}"))
        return self

    def settle(self) -> "Crowd":
        """Nobody asks for anything for a while, and all are there: publishers go on sending."""
        for _ in range(4):
            self.loop.advance(SETTLED_S / 4)
            for publisher in self.publishers:
                if not self.is_closed(publisher):
                    publisher.say(audio())
        return self

    def pace(self, peer: FakePeer) -> Pace:
        return self.loop.paces.get(peer.transport.descriptor, Pace.AT_ONCE)

    def paces(self) -> set[Pace]:
        """Of all publishers that are left."""
        return {self.pace(publisher) for publisher in self.publishers if not self.is_closed(publisher)}


def test_below_a_number_of_watched_publishers_all_are_read_at_once() -> None:
    assert Crowd().grow_to(31).settle().paces() == {Pace.AT_ONCE}


def test_from_a_number_of_watched_publishers_on_they_share_a_tick() -> None:
    on = Crowd().grow_to(31).settle().grow_to(32)
    assert {on.pace(publisher) for publisher in on.publishers[:31]} == {Pace.TICK}
    assert on.pace(on.publishers[31]) is Pace.AT_ONCE, "it has asked for something just now"
    assert on.settle().paces() == {Pace.TICK}


def test_streams_of_other_workers_that_are_watched_here_count_towards_the_tick() -> None:
    on = Crowd().grow_to(20).settle()
    for number in range(12):
        on.broker.peers.followed.follow(f"live/elsewhere{number}", owner=2, epoch=1)
    assert on.settle().paces() == {Pace.TICK}
    for number in range(9):
        on.broker.peers.followed.forget(f"live/elsewhere{number}")
    assert on.settle().paces() == {Pace.AT_ONCE}


@pytest.mark.parametrize("leave", ["viewers", "publishers"])
def test_the_tick_ends_when_a_quarter_of_them_has_gone_and_not_before(leave: str) -> None:
    on = Crowd().grow_to(32).settle()
    leaving = on.viewers if leave == "viewers" else on.publishers
    for peer in leaving[:8]:
        peer.hang_up()
    assert {on.pace(publisher) for publisher in on.publishers[8:]} == {Pace.TICK}
    leaving[8].hang_up()
    assert {on.pace(publisher) for publisher in on.publishers[9:]} == {Pace.AT_ONCE}
    on.viewers[10].close_stream()
    on.viewers[10].play("s10")
    assert {on.pace(publisher) for publisher in on.publishers[9:]} == {Pace.AT_ONCE}, "it does not begin again at once"


def test_publishers_that_nobody_watches_start_no_tick() -> None:
    on = Crowd()
    for number in range(100):
        on.publisher(f"unwatched{number}")
    assert on.grow_to(31).settle().paces() == {Pace.AT_ONCE}


def test_whoever_begins_or_watches_is_read_at_once_while_others_share_a_tick() -> None:
    on = Crowd().grow_to(40).settle()
    assert on.pace(on.peer()) is Pace.AT_ONCE
    assert on.pace(on.peer().with_streams()) is Pace.AT_ONCE
    newcomer = on.publisher("new")
    on.viewer("new")
    assert on.pace(newcomer) is Pace.AT_ONCE
    assert on.pace(on.viewer("s0")) is Pace.AT_ONCE


def test_a_publisher_that_asks_for_something_is_read_at_once_for_a_while() -> None:
    on = Crowd().grow_to(32).settle()
    talker = on.publishers[0]
    talker.say(command("createStream", 5.0, None))
    talker.say(ping())
    on.loop.advance(1.0)
    assert on.pace(talker) is Pace.AT_ONCE
    on.settle()
    assert on.pace(talker) is Pace.TICK


def test_data_is_media_and_asks_for_nothing() -> None:
    on = Crowd().grow_to(32).settle()
    for _ in range(3):
        on.publishers[0].say(message(DATA, TITLE, csid=5, stream_id=1))
        on.loop.advance(1.0)
    assert on.pace(on.publishers[0]) is Pace.TICK


def test_the_answer_to_a_ping_does_not_wait_for_the_tick() -> None:
    on = Crowd().grow_to(32).settle()
    on.broker.ping(on.publishers[0].connection)
    assert on.pace(on.publishers[0]) is Pace.AT_ONCE


def test_one_that_publishes_no_more_is_heard_at_once() -> None:
    on = Crowd()
    publisher = on.publisher()
    publisher.say(video(0, is_key=True))
    assert on.pace(publisher) is Pace.LAZY
    publisher.close_stream()
    assert on.pace(publisher) is Pace.AT_ONCE


def test_connections_that_are_gone_are_counted_no_more() -> None:
    on = Crowd().grow_to(32)
    for peer in [*on.viewers, *on.publishers]:
        peer.reset()
    assert on.broker.read_paces._watched == set()
