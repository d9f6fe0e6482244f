"""Real clients have counted for themselves, and the tables must say the same."""

import pytest

from tests.pipeline.scenarios.day import SAMPLE_S, STREAM, Day
from tests.pipeline.scenarios.stage import facts_of, rows

VIEWERS = ["early", "alice", "again", "leaver"]


def test_there_are_as_many_viewers_as_came(day: Day) -> None:
    audience = [row for row in rows(day.data, "gold.audience") if row["stream"] == STREAM]
    came = len(day.viewers) + 1
    assert sum(row["joins"] for row in audience) == came
    assert sum(row["leaves"] for row in audience) == came
    # All were there at one time, so in one minute, whatever minute it was.
    assert max(row["viewers_peak"] for row in audience) == came
    assert not any(row["is_estimated"] for row in audience)


def test_viewers_are_told_apart_by_name_else_by_address_and_client(day: Day) -> None:
    keys = {name: day.view_of(name)["viewer_key"] for name in VIEWERS}
    assert keys["early"] == keys["again"] == keys["leaver"]
    assert len(set(keys.values())) == 2
    audience = [row for row in rows(day.data, "gold.audience") if row["stream"] == STREAM]
    # Two of ours, and FFmpeg.
    assert max(row["viewers_unique"] for row in audience) == 3


@pytest.mark.parametrize("name", ["early", "alice", "again"])
def test_who_reads_to_the_end_was_sent_what_it_got(day: Day, name: str) -> None:
    assert day.view_of(name)["bytes_sent"] == day.viewers[name].received_bytes


@pytest.mark.parametrize("name", ["early", "alice", "again"])
def test_a_connection_was_sent_what_came_through_its_socket(day: Day, name: str) -> None:
    conn_id = day.view_of(name)["conn_id"]
    (connection,) = [row for row in rows(day.data, "silver.connections") if row["conn_id"] == conn_id]
    assert connection["sent_bytes"] == day.viewers[name].client.received_bytes


def test_who_leaves_early_was_sent_what_it_got_and_what_was_on_its_way(day: Day) -> None:
    view = day.view_of("leaver")
    got = day.viewers["leaver"].received_bytes
    assert 0 < got <= view["bytes_sent"] < day.view_of("early")["bytes_sent"]


@pytest.mark.parametrize("name", VIEWERS)
def test_watch_time_is_what_viewers_measured(day: Day, name: str) -> None:
    assert day.view_of(name)["watch_seconds"] == pytest.approx(day.viewers[name].watched_s, abs=SAMPLE_S)


@pytest.mark.parametrize("name", VIEWERS)
def test_startup_is_what_viewers_measured(day: Day, name: str) -> None:
    assert day.view_of(name)["startup_us"] / 1e6 == pytest.approx(day.viewers[name].startup_s, abs=0.1)


def test_who_asks_for_a_stream_that_never_comes_is_a_failed_start(day: Day) -> None:
    (view,) = [row for row in rows(day.data, "silver.views") if row["app"] == "empty"]
    assert (view["stream"], view["is_failed_start"], view["bytes_sent"], view["watched_us"]) == ("nothing", True, 0, 0)
    quality = [row for row in rows(day.data, "gold.view_quality") if row["dimension"] == "all"]
    failed = {app: sum(row["failed_starts"] for row in quality if row["app"] == app) for app in ("live", "empty")}
    assert failed == {"live": 0, "empty": 1}


def test_usage_is_what_the_server_counted(day: Day) -> None:
    usage = [row for row in rows(day.data, "gold.usage") if row["stream"] == STREAM]
    stops = [fact for fact in facts_of(day.data, "play_stopped") if fact["stream"] == STREAM]
    (publication,) = [fact for fact in facts_of(day.data, "publish_stopped") if fact["stream"] == STREAM]
    assert sum(row["egress_bytes"] for row in usage) == sum(fact["sent_bytes"] for fact in stops)
    assert sum(row["ingress_bytes"] for row in usage) == publication["received_bytes"]
    # The clock is read once for the fact and once for the view.
    watched_us = sum(fact["watched_us"] for fact in stops)
    assert sum(row["watched_us"] for row in usage) == pytest.approx(watched_us, abs=1000 * len(stops))
    assert not any(row["is_estimated"] for row in usage)
