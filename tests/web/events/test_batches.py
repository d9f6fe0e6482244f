"""Pieces of the log as clients are sent them."""

import json

from penstock.web.events.batches import MAX_BYTES, MAX_EVENTS, Batches
from penstock.web.events.event_filter import EventFilter
from penstock.web.events.event_log import EventLog

ALL = EventFilter()


def log_of(*kinds: str, max_events: int = 10_000) -> EventLog:
    log = EventLog("b7", max_events)
    for kind in kinds:
        log.append(kind, "live", "main", b'{"kind":"%b"}' % kind.encode(), 0.0, is_sample=kind.endswith("_sample"))
    return log


def test_a_piece_is_written_as_the_html_standard_has_it() -> None:
    batch = Batches(log_of("play_started", "play_stopped")).after(0, ALL)
    assert batch is not None
    assert batch.sse == (
        b'id: b7:1\nevent: play_started\ndata: {"kind":"play_started"}\n\n'
        b'id: b7:2\nevent: play_stopped\ndata: {"kind":"play_stopped"}\n\n'
    )
    assert (batch.upto, batch.has_more) == (2, False)


def test_the_same_piece_is_encoded_once_until_something_happens() -> None:
    log = log_of("play_started")
    batches = Batches(log)
    first = batches.after(0, ALL)
    assert batches.after(0, EventFilter()) is first
    assert batches.after(0, EventFilter(app="live")) is not first
    log.append("play_stopped", None, None, b"{}", 0.0)
    second = batches.after(0, ALL)
    assert second is not None
    assert [event.number for event in second.events] == [1, 2]


def test_what_a_filter_leaves_out_is_passed_by() -> None:
    batch = Batches(log_of("play_started", "stream_sample")).after(0, EventFilter(app="other"))
    assert batch == (2, b"", (), False)


def test_after_a_gap_there_is_no_piece() -> None:
    batches = Batches(log_of("a", "b", "c", "d", max_events=2))
    assert batches.after(1, ALL) is None
    assert batches.after(9, ALL) is None
    assert batches.after(2, ALL) is not None


def test_one_who_is_far_behind_is_sent_pieces_of_bounded_length() -> None:
    batches = Batches(log_of(*["play_started"] * (MAX_EVENTS + 1)))
    first = batches.after(0, ALL)
    assert first is not None
    assert (len(first.events), first.upto, first.has_more) == (MAX_EVENTS, MAX_EVENTS, True)
    second = batches.after(first.upto, ALL)
    assert second is not None
    assert (len(second.events), second.has_more) == (1, False)


def test_large_events_make_short_pieces() -> None:
    log = EventLog("b7")
    for _ in range(3):
        log.append("k", None, None, b'"%b"' % (b"x" * (MAX_BYTES * 2 // 3)), 0.0)
    batch = Batches(log).after(0, ALL)
    assert batch is not None
    assert (batch.upto, batch.has_more) == (1, True)


def test_many_different_clients_do_not_make_us_keep_everything() -> None:
    batches = Batches(log_of("a"))
    for number in range(1000):
        batches.after(0, EventFilter(app=str(number)))
    assert len(batches._made) <= 257


def test_a_place_has_an_id_and_no_event_and_a_reset_both() -> None:
    batches = Batches(log_of("a", "b"))
    assert batches.sse_place(2000) == b"retry: 2000\nid: b7:2\n\n"
    assert batches.sse_place() == b"id: b7:2\n\n"
    assert batches.sse_reset() == b"id: b7:2\nevent: reset\ndata: {}\n\n"
    assert json.loads(batches.json_reset()) == {"id": "b7:2", "event": "reset", "data": {}}
    assert json.loads(batches.json_place()) == {"id": "b7:2", "event": "keep_alive", "data": {}}


def test_a_message_of_a_websocket_has_id_event_and_data() -> None:
    batches = Batches(log_of("play_started"))
    batch = batches.after(0, ALL)
    assert batch is not None
    assert json.loads(batches.json(batch.events[0])) == {
        "id": "b7:1",
        "event": "play_started",
        "data": {"kind": "play_started"},
    }
