"""The state of all workers together: what they tell, take back and lose."""

import pytest

from penstock.web.live.state import LiveState
from tests.web.live.live_values import connection, live, stream, view


def test_what_a_worker_tells_is_there_until_it_says_that_it_is_gone() -> None:
    state = LiveState()
    state.receive(1, live(connections=[connection("c1")], views=[view("v1")], streams=[stream("a")]))
    assert state.connections["c1"].worker == 1
    assert state.views["v1"].value.stream == "a"
    assert state.streams["live", "a"].value.publisher is not None
    state.receive(1, live(gone_connections=["c1"], gone_views=["v1"], gone_streams=[("live", "a")]))
    assert (state.connections, state.views, state.streams, state.audiences) == ({}, {}, {}, {})


def test_the_newest_value_of_an_id_holds() -> None:
    state = LiveState()
    state.receive(1, live(connections=[connection("c1", sent_bytes=1)]))
    state.receive(1, live(connections=[connection("c1", sent_bytes=2)]))
    assert state.connections["c1"].value.sent_bytes == 2


def test_viewers_of_a_stream_are_counted_over_workers_and_by_protocol() -> None:
    state = LiveState()
    state.receive(1, live(streams=[stream("a")], views=[view("v1"), view("v2", protocol="rtmps")]))
    state.receive(2, live(views=[view("v3"), view("v4", "b")]))
    audience = state.audience("live", "a")
    assert (list(audience.views), audience.by_protocol) == (["v1", "v2", "v3"], {"rtmp": 2, "rtmps": 1})
    state.receive(1, live(gone_views=["v2"]))
    assert state.audience("live", "a").by_protocol == {"rtmp": 2}
    assert list(state.audience("live", "nobody").views) == []


def test_what_was_sent_to_those_who_left_counts_while_the_stream_goes_on() -> None:
    state = LiveState()
    state.receive(1, live(streams=[stream("a")], views=[view("v1", sent_bytes=100), view("v2", sent_bytes=10)]))
    state.receive(1, live(views=[view("v1", sent_bytes=150)]))
    state.receive(1, live(views=[view("v1", sent_bytes=160)], gone_views=["v1"]))
    assert state.audience("live", "a").sent_bytes == 170
    state.receive(1, live(gone_views=["v2"]))
    assert state.audience("live", "a").sent_bytes == 170
    state.receive(1, live(gone_streams=[("live", "a")]))
    assert state.audience("live", "a").sent_bytes == 0


def test_a_view_that_came_and_went_between_two_messages_leaves_what_it_was_sent() -> None:
    state = LiveState()
    state.receive(1, live(streams=[stream("a")], views=[view("v1", sent_bytes=7)], gone_views=["v1"]))
    assert (state.views, state.audience("live", "a").sent_bytes) == ({}, 7)


def test_a_stream_that_moves_is_with_the_worker_that_has_its_publisher() -> None:
    state = LiveState()
    state.receive(1, live(streams=[stream("a", is_live=False, started_at_us=9)]))
    state.receive(2, live(streams=[stream("a")]))
    # The one that it left had told this before, and is read after it.
    state.receive(1, live(streams=[stream("a", is_live=False, started_at_us=9)]))
    assert state.streams["live", "a"].worker == 2
    state.receive(1, live(gone_streams=[("live", "a")]))
    assert state.streams["live", "a"].worker == 2
    state.receive(2, live(gone_streams=[("live", "a")]))
    assert state.streams == {}


def test_all_that_a_lost_worker_had_is_gone() -> None:
    state = LiveState()
    state.receive(1, live(streams=[stream("a")], connections=[connection("c1")], views=[view("v1", sent_bytes=5)]))
    state.receive(2, live(connections=[connection("c2")], views=[view("v2", sent_bytes=6)]))
    state.worker_lost(1)
    assert (list(state.connections), list(state.views), state.streams) == (["c2"], ["v2"], {})
    assert state.whole_workers == {2}
    assert state.audience("live", "a").sent_bytes == 11


def test_what_is_told_anew_replaces_what_was_there_once_it_is_whole() -> None:
    state = LiveState()
    state.receive(1, live(streams=[stream("a"), stream("b")], views=[view("v1", sent_bytes=5), view("v2")]))
    state.receive(2, live(views=[view("v9")]))
    state.receive(1, live(is_reset=True, is_whole=False, views=[view("v1", sent_bytes=6)], streams=[stream("a")]))
    assert sorted(state.views) == ["v1", "v2", "v9"]
    assert state.whole_workers == {2}
    state.receive(1, live(views=[view("v3")]))
    assert sorted(state.views) == ["v1", "v3", "v9"]
    assert list(state.streams) == [("live", "a")]
    assert state.audience("live", "a").sent_bytes == 6
    assert state.whole_workers == {1, 2}


def test_what_goes_while_everything_is_told_anew_is_gone_at_once() -> None:
    state = LiveState()
    state.receive(1, live(views=[view("v1"), view("v2")]))
    state.receive(1, live(is_reset=True, is_whole=False, gone_views=["v1"]))
    assert list(state.views) == ["v2"]


def test_pages_of_viewers_can_be_of_one_stream_and_in_any_order() -> None:
    state = LiveState()
    state.receive(1, live(views=[view("v2", sent_bytes=1), view("v1", sent_bytes=2), view("v3", "b", sent_bytes=3)]))
    ids = [each.value.view_id for each in state.page_of_views(10).items]
    assert ids == ["v1", "v2", "v3"]
    largest = state.page_of_views(1, app="live", stream="a", sort="-sent_bytes")
    assert [each.value.view_id for each in largest.items] == ["v1"]
    rest = state.page_of_views(1, largest.next_cursor, app="live", stream="a", sort="-sent_bytes")
    assert ([each.value.view_id for each in rest.items], rest.next_cursor) == (["v2"], None)
    assert [each.value.view_id for each in state.page_of_views(9, stream="b").items] == ["v3"]
    assert state.page_of_views(9, app="other").items == []


def test_pages_of_connections_can_be_of_one_app() -> None:
    state = LiveState()
    state.receive(
        1,
        live(
            connections=[
                connection("c1", app=None, opened_at_us=3),
                connection("c2", opened_at_us=2),
                connection("c3", opened_at_us=1),
            ]
        ),
    )
    found = state.page_of_connections(9, app="live", sort="opened_at").items
    assert [each.value.conn_id for each in found] == ["c3", "c2"]
    assert [each.value.conn_id for each in state.page_of_connections(9, sort="app").items] == ["c2", "c3", "c1"]


def test_pages_of_streams_can_be_sorted_by_their_viewers() -> None:
    state = LiveState()
    state.receive(
        1, live(streams=[stream("a"), stream("b"), stream("c", app="other")], views=[view("v1", "b", sent_bytes=5)])
    )
    names = [each.value.stream for each in state.page_of_streams(9, sort="-viewers").items]
    assert names == ["b", "c", "a"]
    assert [each.value.stream for each in state.page_of_streams(1, sort="-sent_bytes").items] == ["b"]
    assert [each.value.stream for each in state.page_of_streams(9, app="live").items] == ["a", "b"]
    assert [each.value.stream for each in state.page_of_streams(9, stream="c", sort="started_at").items] == ["c"]


def test_a_list_is_not_sorted_by_what_it_has_not() -> None:
    with pytest.raises(ValueError, match="sorted by 'secret'"):
        LiveState().page_of_views(9, sort="-secret")
    with pytest.raises(ValueError, match="sorted by 'view_id'"):
        LiveState().page_of_streams(9, sort="view_id")
