"""The order of messages: strict within a stream, free between streams."""

from penstock.web.hooks.lanes import Lanes


def lanes_of(*messages: tuple[int, str]) -> Lanes:
    lanes = Lanes()
    for number, lane in messages:
        lanes.add(number, lane, 0.0)
    return lanes


def test_one_message_of_each_stream_is_under_way_at_a_time() -> None:
    lanes = lanes_of((1, "live/a"), (2, "live/a"), (3, "live/b"))
    assert [lanes.take(0.0), lanes.take(0.0), lanes.take(0.0)] == [(1, "live/a"), (3, "live/b"), None]
    assert lanes.under_way == {1, 3}


def test_the_next_of_a_stream_goes_when_the_one_before_is_done() -> None:
    lanes = lanes_of((1, "live/a"), (2, "live/a"))
    lanes.take(0.0)
    lanes.done("live/a", 5.0)
    assert lanes.take(5.0) == (2, "live/a")
    lanes.done("live/a", 6.0)
    assert (lanes.take(6.0), lanes.count, lanes.next_due_at) == (None, 0, None)


def test_what_is_to_be_tried_again_holds_up_its_own_stream_alone() -> None:
    lanes = lanes_of((1, "live/a"), (2, "live/a"), (3, "live/b"), (4, "live/b"))
    lanes.take(0.0)
    lanes.take(0.0)
    lanes.again("live/a", 30.0)
    lanes.done("live/b", 1.0)
    assert (lanes.take(1.0), lanes.take(1.0), lanes.next_due_at) == ((4, "live/b"), None, 30.0)
    assert (lanes.take(29.9), lanes.take(30.0)) == (None, (1, "live/a"))


def test_a_message_that_is_not_due_waits() -> None:
    lanes = Lanes()
    lanes.add(1, "live/a", 10.0)
    assert (lanes.take(9.0), lanes.next_due_at, lanes.take(10.0)) == (None, 10.0, (1, "live/a"))


def test_what_comes_behind_one_that_waits_does_not_make_it_due() -> None:
    lanes = Lanes()
    lanes.add(1, "live/a", 10.0)
    lanes.add(2, "live/a", 0.0)
    assert (lanes.take(5.0), lanes.count) == (None, 2)


def test_removed_ones_are_not_taken_and_the_next_of_their_stream_is_due() -> None:
    lanes = Lanes()
    for number, due_at in ((1, 10.0), (2, 10.0), (3, 10.0)):
        lanes.add(number, "live/a", due_at)
    lanes.add(4, "live/b", 10.0)
    lanes.remove({1, 2, 4}, 0.0)
    assert (lanes.count, lanes.take(0.0), lanes.take(99.0)) == (1, (3, "live/a"), None)


def test_what_is_under_way_is_not_removed() -> None:
    lanes = lanes_of((1, "live/a"), (2, "live/a"))
    lanes.take(0.0)
    lanes.remove({1, 2}, 0.0)
    assert (lanes.count, lanes.under_way) == (1, {1})
    lanes.done("live/a", 0.0)
    assert lanes.count == 0
