"""Facts of a real server on loopback: what clients do is what is told."""

import socket
from dataclasses import replace
from typing import Any

import pytest

from penstock import __version__
from penstock.protocol.events import PublishStarted, StreamRefused
from penstock.serve.settings import AppSettings, ServerSettings
from penstock.serve.telemetry.told_sessions import MAX_TEXT_CHARACTERS
from tests.serve.live_server import (
    AAC_SETUP,
    AVC_SETUP,
    audio_frame,
    inter_frame,
    key_frame,
    settings_without_grace,
    wait_until,
)
from tests.serve.telemetry.telling_server import telling
from tests.support.rtmp_driver import LOOPBACK, rtmp_client


def test_the_life_of_a_publication_and_a_view_is_told() -> None:
    with telling(settings_without_grace()) as told:
        with rtmp_client(told.port) as publisher, rtmp_client(told.port) as viewer:
            publisher.publish("test")
            publisher.send([AVC_SETUP, AAC_SETUP, key_frame(0)])
            viewer.play("test")
            told.wait_for("play_first_keyframe")
            publisher.send([audio_frame(10), inter_frame(40)])
            publisher.end()
            told.wait_for("play_stopped")
        told.wait_for("connection_closed", 2)
        opened, closed = told.of("connection_opened"), told.of("connection_closed")
        (started,), (stopped,) = told.of("publish_started"), told.of("publish_stopped")
        (played,), (first,), (left,) = (
            told.of(kind) for kind in ("play_started", "play_first_keyframe", "play_stopped")
        )
        facts = told.all()
    assert [fact["seq"] for fact in facts] == list(range(1, len(facts) + 1))
    assert {fact["conn_id"] for fact in opened} == {fact["conn_id"] for fact in closed}
    assert all(fact["peer_addr"].startswith("127.0.0.1:") and fact["protocol"] == "rtmp" for fact in opened + closed)
    for fact in (started, stopped, played, first, left):
        assert (fact["app"], fact["stream"]) == ("live", "test")
    assert (stopped["publication_id"], stopped["reason"]) == (started["event_id"], "FCUnpublish")
    assert (stopped["messages"], stopped["video_frames"], stopped["audio_frames"], stopped["keyframes"]) == (5, 2, 1, 1)
    assert stopped["received_bytes"] == 2100 + len(AVC_SETUP.payload) + len(AAC_SETUP.payload)
    assert first["view_id"] == left["view_id"] == played["event_id"]
    assert left["reason"] == "stream ended"
    assert 0 <= left["startup_us"] == first["startup_us"] < 5_000_000
    assert left["watched_us"] > 0
    assert left["sent_bytes"] > 2000
    by_id = {fact["conn_id"]: fact for fact in closed}
    assert by_id[played["conn_id"]]["sent_bytes"] > 3073 + left["sent_bytes"]
    assert by_id[started["conn_id"]]["received_bytes"] > 3073 + 2100
    assert by_id[started["conn_id"]]["app"] == "live"


def test_a_stream_is_sampled_also_while_nothing_comes() -> None:
    with telling(sample_s=0.2) as told, rtmp_client(told.port) as publisher, rtmp_client(told.port) as viewer:
        publisher.publish("test")
        viewer.play("test")
        publisher.send([key_frame(0), audio_frame(0), inter_frame(40), audio_frame(20), key_frame(80)])
        first, second, *_ = told.wait_for("stream_sample", 2)
        (started,) = told.of("publish_started")
    assert first["publication_id"] == started["event_id"]
    assert (first["viewers"], first["messages"], first["received_bytes"]) == (1, 5, 3200)
    # The interval is told in whole microseconds, and the rate was taken before that.
    assert first["bitrate_bps"] == pytest.approx(3200 * 8 / (first["interval_us"] / 1e6), abs=1)
    assert first["fps"] == pytest.approx(3 / (first["interval_us"] / 1e6), abs=0.01)
    assert (first["keyframe_interval_ms"], first["av_skew_ms"]) == (80, 50.0)
    assert (second["bitrate_bps"], second["messages"]) == (0, 5)
    assert second["interval_us"] == pytest.approx(200_000, rel=0.5)


def test_a_viewer_is_sampled_with_what_tcp_knows() -> None:
    with telling(sample_s=0.2) as told, rtmp_client(told.port) as publisher, rtmp_client(told.port) as viewer:
        publisher.publish("test")
        viewer.play("test")
        publisher.send([key_frame(0), inter_frame(40)])
        first, second, *_ = told.wait_for("viewer_sample", 2)
        (played,) = told.of("play_started")
    assert first["view_id"] == played["event_id"]
    assert (first["lag_bytes"], first["lag_ms"], first["skips"]) == (0, 0, 0)
    assert first["sent_bytes"] > 2000
    assert first["acknowledged_bytes"] > first["sent_bytes"]
    assert (first["rtt_us"] > 0, first["retransmits"] >= 0) == (True, True)
    assert second["watched_us"] > first["watched_us"]


def test_a_viewer_that_does_not_read_is_seen_to_lag() -> None:
    with telling(sample_s=0.2) as told, rtmp_client(told.port) as publisher, rtmp_client(told.port) as viewer:
        publisher.publish("test")
        viewer.play("test")
        publisher.send([key_frame(0, 200_000), *(inter_frame(40 * each, 200_000) for each in range(1, 80))])
        wait_until(lambda: told.of("viewer_sample") and told.of("viewer_sample")[-1]["lag_bytes"] > 0)
        wait_until(lambda: (told.of("viewer_sample")[-1]["lag_ms"] or 0) > 0)
        sample = told.of("viewer_sample")[-1]
    assert sample["lag_ms"] <= 40 * 80
    assert sample["acknowledged_bytes"] < 80 * 200_000


def test_a_stream_tells_what_those_who_watch_now_were_sent() -> None:
    with (
        telling(sample_s=0.2) as told,
        rtmp_client(told.port) as publisher,
        rtmp_client(told.port) as slow,
        rtmp_client(told.port) as leaver,
        rtmp_client(told.port) as late,
    ):
        publisher.publish("test")
        publisher.send([key_frame(0)])
        slow.play("test")
        leaver.play("test")
        told.wait_for("play_first_keyframe", 2)
        publisher.send([inter_frame(40 * each, 200_000) for each in range(1, 80)])
        leaver.end()
        (left,) = told.wait_for("play_stopped")
        publisher.send([key_frame(4000)])
        # Sixteen megabytes lie between the two key frames: who comes before the second one begins at the first.
        wait_until(lambda: any(fact["keyframes"] == 2 for fact in told.of("stream_sample")))
        late.play("test")
        told.wait_for("play_first_keyframe", 3)

        def those_there() -> list[dict[str, Any]]:
            last = {fact["view_id"]: fact for fact in told.of("viewer_sample") if fact["view_id"] != left["view_id"]}
            return list(last.values())

        def is_the_sum() -> bool:
            of_views = sum(fact["sent_bytes"] for fact in those_there())
            return len(those_there()) == 2 and told.of("stream_sample")[-1]["viewers_sent_bytes"] == of_views

        # A while after the last frame, when neither can be sent more.
        wait_until(is_the_sum)
        stream, (slowly, quickly) = told.of("stream_sample")[-1], those_there()
    assert left["sent_bytes"] > 0
    assert (slowly["lag_bytes"] > 0, quickly["lag_bytes"]) == (True, 0)
    since_us = 2 * stream["mono_us"] - slowly["mono_us"] - quickly["mono_us"]
    watched_us = slowly["watched_us"] + quickly["watched_us"] + since_us
    assert stream["viewers_watched_us"] == pytest.approx(watched_us, abs=5000)


def test_a_viewer_that_pauses_has_no_lag_that_can_be_named() -> None:
    with telling(sample_s=0.2) as told, rtmp_client(told.port) as publisher, rtmp_client(told.port) as viewer:
        publisher.publish("test")
        viewer.play("test")
        publisher.send([key_frame(0)])
        told.wait_for("play_first_keyframe")
        (live_stream,) = told.live.ask(lambda: list(told.live.server.broker.streams.values()))
        (view,) = live_stream.viewers
        told.live.ask(lambda: live_stream.unseat(view))
        first, *_ = told.wait_for("viewer_sample")
    assert (first["lag_bytes"], first["lag_ms"]) == (0, None)


def test_a_view_that_never_began_has_no_name() -> None:
    with telling(settings_without_grace()) as told, rtmp_client(told.port) as viewer:
        viewer.session.play(viewer.stream_id, "nothing")
        viewer.wait_for(StreamRefused)
        (left,) = told.wait_for("play_stopped")
        assert told.of("play_started") == []
    assert (left["view_id"], left["stream"], left["reason"]) == (None, "nothing", "stream not found")
    assert (left["watched_us"], left["startup_us"], left["sent_bytes"]) == (0, None, 0)


def test_a_peer_that_breaks_the_protocol_is_told() -> None:
    with telling() as told:
        with socket.create_connection((LOOPBACK, told.port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n".ljust(1537, b"\0"))
            assert connection.recv(1) == b""
        (violation,) = told.wait_for("protocol_violation")
        (closed,) = told.wait_for("connection_closed")
    assert violation["layer"] == "handshake"
    assert violation["conn_id"] == closed["conn_id"]
    assert violation["detail"] in closed["reason"]
    assert (closed["app"], closed["client"]) == (None, None)


def test_a_limit_is_told_once_a_second_with_the_number_of_hits() -> None:
    with telling(ServerSettings(max_connections=0)) as told:
        for _ in range(5):
            with socket.create_connection((LOOPBACK, told.port)) as connection:
                assert connection.recv(1) == b""
        assert sum(fact["hits"] for fact in told.wait_for("limit_hit")) == 5
        assert len(told.of("limit_hit")) <= 2
        assert told.of("limit_hit")[0]["limit"] == "connections"


def test_names_of_strangers_are_made_printable() -> None:
    with telling() as told, rtmp_client(told.port, app="a/b\x7f") as publisher:
        publisher.publish("x/\x1b[31m\n")
        (started,) = told.wait_for("publish_started")
    assert (started["app"], started["stream"]) == ("a/b\\x7f", "x/\\x1b[31m\\x0a")


def test_long_text_is_cut() -> None:
    with telling() as told:
        told.live.ask(lambda: told.observer.limit_hit("connections", "y" * 5000))
        (hit,) = told.wait_for("limit_hit")
    assert hit["detail"] == "y" * (MAX_TEXT_CHARACTERS - 1) + "…"


def test_a_publication_that_a_shutdown_ends_is_told_to_have_ended() -> None:
    with telling() as told, rtmp_client(told.port) as publisher:
        publisher.publish("test")
        publisher.send([key_frame(0)])
        (live_stream,) = told.live.ask(lambda: list(told.live.server.broker.streams.values()))
        wait_until(lambda: live_stream.log.unflushed_bytes or live_stream.log.head)
        told.live.server.reactor.call_from_thread(told.live.server.shut_down)
        (stopped,) = told.wait_for("publish_stopped")
    assert (stopped["reason"], stopped["messages"]) == ("ended by the server", 1)


def test_a_takeover_ends_one_publication_and_begins_another() -> None:
    replacing = AppSettings(may_replace_publisher=True)
    settings = ServerSettings(app=lambda _name: replacing)
    with telling(settings) as told, rtmp_client(told.port) as first, rtmp_client(told.port) as second:
        first.publish("test")
        first.send([key_frame(0)])
        (live_stream,) = told.live.ask(lambda: list(told.live.server.broker.streams.values()))
        wait_until(lambda: live_stream.log.unflushed_bytes or live_stream.log.head)
        second.session.publish(second.stream_id, "test")
        second.wait_for(PublishStarted)
        (stopped,) = told.wait_for("publish_stopped")
        one, two = told.wait_for("publish_started", 2)
    assert (stopped["publication_id"], stopped["messages"]) == (one["event_id"], 1)
    assert one["conn_id"] != two["conn_id"]


def test_a_boot_has_a_first_and_a_last_fact() -> None:
    with telling() as told:
        told.observer.open()
        told.observer.limit_hit("connections", "full")
        told.observer.close()
        started, hit, stopped = told.all()
    assert (started["kind"], started["software_version"]) == ("server_started", __version__)
    assert (hit["kind"], hit["hits"]) == ("limit_hit", 1)
    assert (stopped["kind"], stopped["dropped_facts"]) == ("server_stopped", 0)
    assert started["boot_wall_us"] <= started["at_us"] <= stopped["at_us"]
    assert stopped["uptime_us"] == pytest.approx(stopped["mono_us"] - started["boot_mono_us"], abs=1000)


def test_parameters_that_the_operator_named_are_told_and_no_others() -> None:
    settings = replace(settings_without_grace(), dimension_parameters=("campaign", "region"))
    with telling(settings) as told:
        with (
            rtmp_client(told.port, app="live?region=eu&campaign=app") as publisher,
            rtmp_client(told.port) as viewer,
        ):
            publisher.publish("test?key=s3cret&campaign=studio")
            publisher.send([AVC_SETUP, key_frame(0)])
            viewer.play("test?campaign=spring&token=s3cret")
            told.wait_for("play_first_keyframe")
        told.wait_for("play_stopped")
        told.wait_for("connection_closed", 2)
        facts = told.all()
    dimensions = {fact["kind"]: fact["dimensions"] for fact in facts if "dimensions" in fact}
    assert dimensions == {
        "publish_started": '{"campaign":"studio","region":"eu"}',
        "play_started": '{"campaign":"spring"}',
        "play_stopped": '{"campaign":"spring"}',
    }
    assert [fact for fact in facts if "s3cret" in repr(fact)] == []


def test_no_parameter_is_told_of_a_server_on_which_none_is_named() -> None:
    with telling() as told, rtmp_client(told.port) as publisher:
        publisher.publish("test?campaign=spring")
        (started,) = told.wait_for("publish_started")
    assert started["dimensions"] is None
