"""What workers tell, as events: in order, with incidents among them, and with ends that nobody told."""

import json
from typing import Any

import pytest

from penstock.control.live import LivePublisher
from penstock.web.events.event_log import Event
from penstock.web.live.happenings import Happenings, Now
from tests.web.live.live_values import PUBLISHER, live, stream, view

SECOND = 1_000_000
NOW = Now(5 * SECOND, 1_794_787_200 * SECOND)


def fact(kind: str, seq: int = 1, **fields: Any) -> bytes:
    envelope = {
        "event_id": f"edge-1-b1-{seq}",
        "server_id": "edge-1",
        "boot_id": "b1",
        "seq": seq,
        "kind": kind,
        "version": 1,
        "at_us": NOW.wall_us + seq * SECOND,
        "mono_us": seq * SECOND,
        "worker": 1,
    }
    return json.dumps({**envelope, **fields}).encode()


def published(seq: int = 1) -> bytes:
    return fact("publish_started", seq, conn_id="c1", app="live", stream="a")


def sampled(seq: int, **fields: Any) -> bytes:
    amounts = dict.fromkeys(("messages", "video_frames", "audio_frames", "keyframes", "timestamp_jumps"), seq)
    values = {
        "publication_id": "edge-1-b1-1",
        "app": "live",
        "stream": "a",
        "interval_us": SECOND,
        "bitrate_bps": 0,
        "fps": 0.0,
        "interval_timestamp_jumps": 0,
        "received_bytes": 100 * seq,
        **amounts,
    }
    return fact("stream_sample", seq, **{**values, **fields})


def kinds(happenings: Happenings, *, with_samples: bool = False) -> list[str]:
    return [event.kind for event in happenings.log.after(0, with_samples=with_samples) or []]


def test_facts_become_events_in_the_order_in_which_they_came() -> None:
    happenings = Happenings("edge-1", "w1")
    line = fact("connection_opened", conn_id="c1")
    happenings.receive(1, live(facts=[line, published(2)]), NOW)
    first, second = happenings.log.after(0) or []
    assert first == Event(1, "connection_opened", None, None, False, line)
    assert (second.kind, second.app, second.stream) == ("publish_started", "live", "a")


def test_samples_are_marked() -> None:
    happenings = Happenings("edge-1", "w1")
    happenings.receive(1, live(facts=[published(), sampled(2, bitrate_bps=5)]), NOW)
    assert kinds(happenings) == ["publish_started"]
    assert kinds(happenings, with_samples=True) == ["publish_started", "stream_sample"]


def test_listeners_hear_of_events_when_the_state_is_there_and_one_that_fails_disturbs_nobody() -> None:
    happenings = Happenings("edge-1", "w1")
    heard: list[tuple[str, bool]] = []

    def fail(_event: Event) -> None:
        raise RuntimeError("for a test")

    happenings.listeners += [fail, lambda event: heard.append((event.kind, ("live", "a") in happenings.state.streams))]
    happenings.receive(1, live(streams=[stream("a")], facts=[published()]), NOW)
    assert heard == [("publish_started", True)]


def test_an_incident_is_told_with_the_envelope_of_facts() -> None:
    happenings = Happenings("edge-1", "w1")
    happenings.receive(1, live(facts=[published(), *(sampled(seq) for seq in range(2, 6))]), NOW)
    happenings.second_passed(Now(60 * SECOND, NOW.wall_us + 60 * SECOND))
    assert kinds(happenings) == ["publish_started", "incident_started", "incident_ended"]
    _, started, ended = (json.loads(event.data) for event in happenings.log.after(0) or [])
    assert (started["event_id"], started["boot_id"], started["seq"], started["worker"]) == (
        "edge-1-w1-1",
        "w1",
        1,
        None,
    )
    assert (started["kind"], started["incident"], started["app"], started["stream"]) == (
        "incident_started",
        "ingest_stalled",
        "live",
        "a",
    )
    assert (started["started_at_us"], started["ended_at_us"]) == (NOW.wall_us + SECOND, None)
    assert (ended["incident_id"], ended["ended_at_us"]) == (started["incident_id"], NOW.wall_us + 5 * SECOND)
    assert ended["evidence"] == "nothing came for 4.0 s"
    assert ended["advice"]
    assert (ended["at_us"], ended["mono_us"]) == (NOW.wall_us + 60 * SECOND, 60 * SECOND)


def test_publications_of_a_worker_that_is_lost_are_told_to_end_with_what_was_last_known() -> None:
    happenings = Happenings("edge-1", "w1")
    heard: list[Event] = []
    happenings.listeners.append(heard.append)
    happenings.receive(1, live(streams=[stream("a")], facts=[published(), sampled(9, bitrate_bps=5)]), NOW)
    happenings.worker_lost(1, NOW)
    told = json.loads(heard[-1].data)
    assert (told["kind"], told["publication_id"], told["reason"]) == ("publish_stopped", "edge-1-b1-1", "worker lost")
    assert (told["conn_id"], told["duration_us"], told["received_bytes"]) == ("c1", 8 * SECOND, 900)
    # Nobody told how connections and views ended.
    assert happenings.log.after(heard[-1].number) is None


def test_a_publication_that_is_older_than_web_is_told_to_end_too_unless_it_has_no_facts() -> None:
    happenings = Happenings("edge-1", "w1")
    heard: list[Event] = []
    happenings.listeners.append(heard.append)
    known = LivePublisher("edge-1-b1-7", "c7", "192.0.2.1:5000", "rtmp", None, None)
    unknown = LivePublisher("b1-u1", "c8", "192.0.2.1:5001", "rtmp", None, None)
    happenings.receive(
        1, live(is_reset=True, streams=[stream("a", publisher=known), stream("b", publisher=unknown)]), NOW
    )
    happenings.worker_lost(1, NOW)
    (told,) = [json.loads(event.data) for event in heard]
    assert (told["publication_id"], told["conn_id"], told["duration_us"]) == ("edge-1-b1-7", "c7", 0)


def test_one_that_was_told_to_end_is_not_told_again() -> None:
    happenings = Happenings("edge-1", "w1")
    stopped = fact("publish_stopped", 2, publication_id="edge-1-b1-1", app="live", stream="a")
    happenings.receive(1, live(facts=[published(), stopped]), NOW)
    happenings.worker_lost(1, NOW)
    assert happenings.log.after(2) is None
    assert happenings.log.newest == 3


def test_facts_that_were_dropped_are_a_gap_and_publications_that_are_gone_are_told_to_end() -> None:
    happenings = Happenings("edge-1", "w1")
    heard: list[Event] = []
    happenings.listeners.append(heard.append)
    here = stream("b", publisher=PUBLISHER)
    happenings.receive(1, live(streams=[stream("a")], facts=[published()]), NOW)
    happenings.receive(1, live(is_reset=True, is_whole=False, lost_facts=3), NOW)
    assert [event.kind for event in heard] == ["publish_started"]
    happenings.receive(1, live(streams=[here], views=[view("v1")]), NOW)
    assert [event.kind for event in heard] == ["publish_started", "publish_stopped"]
    assert happenings.log.after(1) is None


def test_a_publication_that_goes_on_is_not_told_to_end_when_facts_were_dropped() -> None:
    happenings = Happenings("edge-1", "w1")
    heard: list[Event] = []
    happenings.listeners.append(heard.append)
    goes_on = stream("a", publisher=LivePublisher("edge-1-b1-1", "c1", "192.0.2.1:5", "rtmp", None, None))
    happenings.receive(1, live(streams=[goes_on], facts=[published()]), NOW)
    happenings.receive(1, live(lost_facts=1), NOW)
    assert [event.kind for event in heard] == ["publish_started"]


@pytest.mark.parametrize(("publishing_type", "incidents"), [("live", 1), ("pull", 0)])
def test_pulls_that_come_and_go_with_their_viewers_are_no_storm(publishing_type: str, incidents: int) -> None:
    happenings = Happenings("edge-1", "boot")
    starts = [
        fact("publish_started", seq, conn_id="c1", app="live", stream="a", publishing_type=publishing_type)
        for seq in range(1, 6)
    ]
    happenings.receive(1, live(facts=starts), NOW)
    assert kinds(happenings).count("incident_started") == incidents
