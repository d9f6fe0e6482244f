"""What web is told by a real server on loopback: clients in, values as facts name and count them out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.control.live import AudioTrack, VideoTrack
from penstock.serve.reactor import Reactor
from penstock.serve.settings import AppSettings, ServerSettings
from penstock.serve.streams.observer import Observer
from penstock.serve.telemetry.address_quota import AddressQuota, QuotaLimits
from penstock.serve.telemetry.facts_observer import FactsObserver
from penstock.serve.telemetry.facts_writer import FactClock, FactsWriter
from penstock.serve.telemetry.live_feed import LiveFeed
from penstock.serve.telemetry.live_values import LiveValues
from penstock.serve.telemetry.meter import Meters
from tests.serve.live_server import (
    AAC_SETUP,
    AVC_SETUP,
    LiveServer,
    inter_frame,
    key_frame,
    live_server,
    settings_without_grace,
    wait_until,
)
from tests.serve.telemetry.fed_web import FedWeb
from tests.serve.telemetry.telling_server import BOOT
from tests.support.rtmp_driver import rtmp_client

NOTHING_TOLD = QuotaLimits(per_s=0.0, burst=0.0, exempts_loopback=False)


class Fed:
    """A server that feeds web."""

    def __init__(self, live: LiveServer, web: FedWeb) -> None:
        self.live = live
        self.port = live.port
        self.web = web

    def told_stream(self, name: str = "a") -> Any:
        each = self.web.state.streams.get(("live", name))
        return None if each is None else each.value

    def wait_for_stream(self, **fields: Any) -> Any:
        def is_so() -> bool:
            told = self.told_stream()
            return told is not None and all(getattr(told, name) == value for name, value in fields.items())

        wait_until(is_so)
        return self.told_stream()

    def wait_for_view(self, count: int = 1) -> Any:
        wait_until(lambda: len(self.web.state.views) == count)
        return [each.value for each in self.web.state.views.values()]

    def kinds(self) -> list[str]:
        return [fact.split(b'"kind":"')[1].split(b'"')[0].decode() for fact in self.web.facts]


@contextmanager
def feeding(
    settings: ServerSettings | None = None,
    quota: AddressQuota | None = None,
    clock: FactClock | None = None,
    recorded: tuple[str, ...] = (),
) -> Iterator[Fed]:
    web = FedWeb()
    # As where facts are not enabled: nothing lands, and web hears of them all the same.
    writer = FactsWriter(Path("never opened"), "edge-1", BOOT, clock=clock, is_landing=False)

    def observers_on(reactor: Reactor) -> tuple[Observer, ...]:
        meters = Meters()
        facts = FactsObserver(writer, meters, reactor, quota, stream_sample_s=0.2)
        values = LiveValues(facts, meters, writer.clock, BOOT.boot_id, recorded.__contains__)
        feed = LiveFeed(web, values, meters, reactor)
        writer.on_fact = feed.on_fact
        return meters, feed, facts

    with live_server(settings=settings, observers_on=observers_on) as live:
        yield Fed(live, web)


def test_a_publication_is_told_with_its_codecs_its_figures_and_who_publishes_it() -> None:
    with feeding(recorded=("live/a",)) as fed, rtmp_client(fed.port) as publisher:
        publisher.publish("a")
        publisher.send([AVC_SETUP, AAC_SETUP, key_frame(0), inter_frame(40)])
        told = fed.wait_for_stream(received_bytes=2000 + len(AVC_SETUP.payload) + len(AAC_SETUP.payload))
        (connection,) = [each.value for each in fed.web.state.connections.values()]
    assert told.video == VideoTrack("H.264 AVC")
    assert told.audio == AudioTrack("AAC", 44100, 2)
    assert told.is_recording
    assert told.publisher.conn_id == connection.conn_id
    assert told.publisher.publication_id == "edge-1-b0a7-2"
    assert (connection.app, connection.protocol) == ("live", "rtmp")
    assert connection.peer_addr == told.publisher.peer_addr
    assert connection.received_bytes > 2000


def test_bitrate_and_frames_of_a_stream_are_those_of_its_last_sample() -> None:
    with feeding() as fed, rtmp_client(fed.port) as publisher:
        publisher.publish("a")
        publisher.send([key_frame(0), inter_frame(40), key_frame(80)])
        wait_until(lambda: fed.told_stream() is not None and fed.told_stream().bitrate_bps > 0)
        told = fed.told_stream()
    assert told.fps == pytest.approx(told.bitrate_bps / 8000, rel=0.01)
    assert told.keyframe_interval_ms == 80


def test_a_view_is_told_under_the_name_of_its_fact_and_gone_with_its_last_figures() -> None:
    with feeding(settings_without_grace()) as fed, rtmp_client(fed.port) as publisher, rtmp_client(fed.port) as viewer:
        publisher.publish("a")
        publisher.send([AVC_SETUP, key_frame(0)])
        viewer.play("a")
        (told,) = fed.wait_for_view()
        publisher.send([inter_frame(40)])
        publisher.end()
        fed.wait_for_view(0)
        wait_until(lambda: fed.told_stream() is None)
        (last,) = [each for live in fed.web.told for each in live.views if each.view_id in live.gone_views]
        wait_until(lambda: "play_stopped" in fed.kinds())
        (started,) = [fact for fact in fed.web.facts if b'"kind":"play_started"' in fact]
        (stopped,) = [fact for fact in fed.web.facts if b'"kind":"play_stopped"' in fact]
    assert b'"event_id":"%b"' % told.view_id.encode() in started
    assert (told.app, told.stream, told.protocol, told.auth_subject, told.skips) == ("live", "a", "rtmp", None, 0)
    assert b'"sent_bytes":%d,' % last.sent_bytes in stopped
    assert last.sent_bytes > 2000


def test_a_stream_whose_publisher_was_lost_waits() -> None:
    app = AppSettings(grace_s=30.0)
    with feeding(ServerSettings(app=lambda _name: app)) as fed:
        with rtmp_client(fed.port) as publisher:
            publisher.publish("a")
            publisher.send([AVC_SETUP, key_frame(0)])
            fed.wait_for_stream(video=VideoTrack("H.264 AVC"))
        told = fed.wait_for_stream(publisher=None)
        wait_until(lambda: not fed.web.state.connections)
    assert (told.bitrate_bps, told.fps, told.video) == (0, 0.0, VideoTrack("H.264 AVC"))


def test_those_that_facts_leave_out_are_told_under_names_of_their_own() -> None:
    with feeding(quota=AddressQuota(NOTHING_TOLD)) as fed:
        with rtmp_client(fed.port) as publisher, rtmp_client(fed.port) as viewer:
            publisher.publish("a")
            publisher.send([AVC_SETUP, key_frame(0), inter_frame(40)])
            viewer.play("a")
            (view,) = fed.wait_for_view()
            told = fed.wait_for_stream(video=VideoTrack("H.264 AVC"))
            assert fed.live.ask(lambda: "publish_started" in fed.kinds()) is False
            wait_until(lambda: fed.told_stream().bitrate_bps > 0)
        fed.wait_for_view(0)
        wait_until(lambda: not fed.web.state.connections)
    assert {view.view_id, told.publisher.publication_id} == {"b0a7-u1", "b0a7-u2"}


def test_when_the_wall_clock_is_set_what_is_open_goes_on_under_the_new_names_of_facts() -> None:
    step_ns = [0]
    real = FactClock()
    clock = FactClock(wall_ns=lambda: real.wall_us() * 1000 + step_ns[0])
    with feeding(clock=clock) as fed, rtmp_client(fed.port) as publisher, rtmp_client(fed.port) as viewer:
        publisher.publish("a")
        publisher.send([AVC_SETUP, key_frame(0)])
        viewer.play("a")
        (before,) = fed.wait_for_view()
        fed.live.ask(lambda: step_ns.__setitem__(0, 3_600_000_000_000))
        wait_until(lambda: before.view_id not in fed.web.state.views)
        wait_until(lambda: len(fed.web.state.connections) == 2)
        (after,) = fed.wait_for_view()
        # Looked at before they leave.
        views = len(fed.web.state.audience("live", "a").views)
    assert after.started_at_us - before.started_at_us > 3_600_000_000
    assert after.conn_id == f"{before.conn_id}~1"
    assert views == 1
