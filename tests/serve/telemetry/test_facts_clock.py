"""Facts of a server whose wall clock is set while it serves: right times from then on, and nothing spans the step."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.serve.telemetry.address_quota import AddressQuota, QuotaLimits
from penstock.serve.telemetry.facts_writer import FactClock
from tests.serve.live_server import inter_frame, key_frame, settings_without_grace, wait_until
from tests.serve.telemetry.telling_server import Told, telling
from tests.support.rtmp_driver import rtmp_client

YEAR_S = 365 * 86_400
NEAR_US = 10_000_000


class WrongClock:
    """A wall clock that is off until it is set right."""

    def __init__(self, off_s: float) -> None:
        self.off_s = off_s

    def wall_ns(self) -> int:
        return time.time_ns() + round(self.off_s * 1e9)


@contextmanager
def telling_with(wrong: WrongClock, **options: Any) -> Iterator[Told]:
    with telling(settings_without_grace(), clock=FactClock(wall_ns=wrong.wall_ns), **options) as told:
        yield told


def look_at_clock(told: Told) -> None:
    told.live.ask(lambda: told.observer.second_passed(time.monotonic()))


def off_s(fact: dict[str, Any]) -> float:
    """By how much the time of a fact that was told just now is off."""
    return float((fact["at_us"] - time.time_ns() // 1000) / 1e6)


@pytest.mark.parametrize("wrong_s", [-YEAR_S, -2.0, 2.0, YEAR_S])
def test_a_clock_that_is_set_right_is_told_once_and_facts_have_right_times_from_then_on(wrong_s: float) -> None:
    wrong = WrongClock(wrong_s)
    with telling_with(wrong) as told:
        told.observer.open()
        look_at_clock(told)
        assert told.of("clock_stepped") == []
        (before,) = told.of("server_started")
        wrong.off_s = 0.0
        look_at_clock(told)
        look_at_clock(told)
        told.observer.close()
        (stepped,), (after,) = told.of("clock_stepped"), told.of("server_stopped")
    assert off_s(before) == pytest.approx(wrong_s, abs=0.9)
    assert (stepped["step_us"], stepped["offset_us"]) == (pytest.approx(-wrong_s * 1e6, abs=0.2e6), 0)
    assert stepped["at_us"] == pytest.approx(stepped["wall_us"], abs=0.2e6)
    assert off_s(after) == pytest.approx(0.0, abs=0.9)
    assert before["mono_us"] <= stepped["mono_us"] <= after["mono_us"]


def test_a_clock_that_is_slewed_by_less_than_half_a_second_is_left_alone() -> None:
    wrong = WrongClock(0.0)
    with telling_with(wrong) as told:
        wrong.off_s = 0.4
        look_at_clock(told)
        assert told.of("clock_stepped") == []


def spans(told: Told, began: str, ended: str, name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Beginnings with the ends that name them, in order."""
    ends = {fact[name]: fact for fact in told.of(ended)}
    key = "conn_id" if name == "conn_id" else "event_id"
    assert len(ends) == len(told.of(began)) == len(told.of(ended))
    return [(fact, ends[fact[key]]) for fact in told.of(began)]


def test_what_goes_on_is_told_to_end_and_to_begin_anew_and_all_is_counted_once() -> None:
    wrong = WrongClock(YEAR_S)
    with telling_with(wrong, sample_s=0.2) as told:
        with rtmp_client(told.port) as publisher, rtmp_client(told.port) as viewer:
            publisher.publish("test")
            publisher.send([key_frame(0, 10_000)])
            viewer.play("test")
            told.wait_for("play_first_keyframe")
            wait_until(lambda: told.of("viewer_sample"))
            wrong.off_s = 0.0
            look_at_clock(told)
            publisher.send([inter_frame(40, 20_000), inter_frame(80, 20_000)])
            wait_until(lambda: told.of("stream_sample")[-1]["video_frames"] == 2)
            wait_until(lambda: told.of("viewer_sample")[-1]["sent_bytes"] >= 40_000)
            late_stream, late_view = told.of("stream_sample")[-1], told.of("viewer_sample")[-1]
            publisher.end()
            told.wait_for("play_stopped", 2)
        told.wait_for("connection_closed", 4)
        views = spans(told, "play_started", "play_stopped", "view_id")
        publications = spans(told, "publish_started", "publish_stopped", "publication_id")
        connections = spans(told, "connection_opened", "connection_closed", "conn_id")
        (stepped,) = told.of("clock_stepped")
        facts = told.all()
    # Before the step all times are of one clock, behind it of the other.
    assert [fact["at_us"] > stepped["at_us"] + NEAR_US for fact in facts] == [
        fact["seq"] < stepped["seq"] for fact in facts
    ]
    for (first, first_end), (second, second_end) in (views, publications):
        assert first["at_us"] <= first_end["at_us"]
        assert second["at_us"] <= second_end["at_us"]
        assert first_end["reason"] == "clock stepped" != second_end["reason"]
    (_, left), (_, left_again) = views
    assert (left["sent_bytes"] > 10_000, left_again["sent_bytes"] > 40_000) == (True, True)
    assert left["sent_bytes"] + left_again["sent_bytes"] < 51_000
    assert left["watched_us"] + left_again["watched_us"] < NEAR_US
    (_, stopped), (_, stopped_again) = publications
    assert [(end["video_frames"], end["received_bytes"]) for end in (stopped, stopped_again)] == [
        (1, 10_000),
        (2, 40_000),
    ]
    assert late_stream["viewers_sent_bytes"] == late_view["sent_bytes"]
    assert late_stream["received_bytes"] == 40_000
    names = [began["conn_id"] for began, _ in connections]
    assert sorted(names[2:]) == sorted(f"{name}~1" for name in names[:2])
    assert {late_view["conn_id"], left_again["conn_id"]} == {views[1][0]["conn_id"]}
    assert views[1][0]["conn_id"] in names[2:]
    of_viewer = [end for _, end in connections if end["conn_id"].startswith(views[0][0]["conn_id"])]
    assert 10_000 < of_viewer[0]["sent_bytes"] < 20_000
    assert 40_000 < of_viewer[1]["sent_bytes"] < 50_000


def test_what_was_not_told_to_begin_is_not_told_after_a_step_either() -> None:
    wrong = WrongClock(YEAR_S)
    quota = AddressQuota(QuotaLimits(per_s=0.0, burst=1.0, exempts_loopback=False))
    with telling_with(wrong, quota=quota) as told, rtmp_client(told.port) as publisher:
        publisher.publish("test")
        wrong.off_s = 0.0
        look_at_clock(told)
        kinds = [fact["kind"] for fact in told.all() if fact["kind"] != "limit_hit"]
    assert kinds[:4] == ["connection_opened", "connection_closed", "clock_stepped", "connection_opened"]
    assert set(kinds[4:]) <= {"connection_closed"}
