"""Where audio waits for video anyway, a publisher is read when a frame is there: fewer wake-ups, nothing held back."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.protocol.events import MediaReceived
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.settings import AppSettings, FlushPolicy, ServerSettings
from tests.serve.live_server import (
    LiveServer,
    audio_frame,
    inter_frame,
    key_frame,
    live_server,
    settings_without_grace,
    wait_until,
)
from tests.support.rtmp_driver import RtmpClient, rtmp_client, send_sample

pytestmark = pytest.mark.alone

EACH_FRAME = FlushPolicy(adapts=False)
FRAME_BYTES = 8000
LONG_S = 5.0
GRID_S = 0.6
MOST_BYTES = 64 * 1024
AT_ONCE_S = 2.0
"""Far below LONG_S, and above what a busy machine takes."""


class Stage:
    """A publisher, its viewer and the server between them."""

    def __init__(self, live: LiveServer, publisher: RtmpClient, viewer: RtmpClient) -> None:
        self.live = live
        self.publisher = publisher
        self.viewer = viewer

    @property
    def peer(self) -> RtmpConnection:
        return next(peer for peer in self.live.server.broker.connections.values() if peer.publications)

    @property
    def wakes_from_bytes(self) -> int:
        with socket.socket(fileno=os.dup(self.peer.descriptor)) as seen:
            return seen.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)

    def send_frames(self, count: int = 4) -> None:
        """Frames of video at a steady pace, all of which arrive."""
        for number in range(count):
            frame = inter_frame(40 * number, FRAME_BYTES) if number else key_frame(0, FRAME_BYTES)
            self.publisher.send([frame])
            self.wait_for_bytes(FRAME_BYTES)
            time.sleep(0.02)

    def wait_for_bytes(self, size: int) -> None:
        """The next message that the viewer gets has this size."""
        assert len(self.viewer.wait_for(MediaReceived).payload) == size


@contextmanager
def stage(flush: FlushPolicy, max_flush_wait_s: float) -> Iterator[Stage]:
    app = AppSettings(flush=flush, grace_s=0.0)
    settings = ServerSettings(app=lambda _name: app, max_flush_wait_s=max_flush_wait_s)
    with live_server(settings=settings) as live, rtmp_client(live.port) as publisher, rtmp_client(live.port) as viewer:
        publisher.publish("dozing")
        viewer.play("dozing")
        yield Stage(live, publisher, viewer)


def test_audio_after_a_frame_is_read_with_the_next_one() -> None:
    with stage(EACH_FRAME, LONG_S) as on:
        on.send_frames()
        assert FRAME_BYTES // 4 < on.wakes_from_bytes <= FRAME_BYTES // 2
        received_bytes = on.peer.session.received_bytes
        on.publisher.send([audio_frame(170, 300)])
        time.sleep(0.2)
        assert on.peer.session.received_bytes == received_bytes
        on.publisher.send([inter_frame(200, FRAME_BYTES)])
        on.wait_for_bytes(300)
        on.wait_for_bytes(FRAME_BYTES)


def test_audio_does_not_wait_for_longer_than_the_setting_when_no_frame_comes() -> None:
    with stage(EACH_FRAME, 0.5) as on:
        on.send_frames()
        on.publisher.send([audio_frame(170, 300)])
        sent_at = time.monotonic()
        on.wait_for_bytes(300)
        assert time.monotonic() - sent_at < AT_ONCE_S
        assert on.wakes_from_bytes == 1


@pytest.mark.parametrize("first_part", [0.55, 0.95])
def test_the_rest_of_a_frame_is_read_at_once_however_little_it_is(first_part: float) -> None:
    with stage(EACH_FRAME, LONG_S) as on:
        on.send_frames()
        send_sample(on.publisher.session, on.publisher.stream_id, inter_frame(200, FRAME_BYTES))
        data = on.publisher.session.data_to_send()
        cut = int(first_part * len(data))
        sent_at = time.monotonic()
        on.publisher._socket.sendall(data[:cut])
        wait_until(lambda: on.wakes_from_bytes == 1)
        on.publisher._socket.sendall(data[cut:])
        on.wait_for_bytes(FRAME_BYTES)
        assert time.monotonic() - sent_at < AT_ONCE_S


def test_a_frame_of_which_the_end_is_missing_when_the_one_before_it_is_sent_does_not_wait() -> None:
    with stage(EACH_FRAME, LONG_S) as on:
        on.send_frames()
        for timestamp_ms in (200, 240):
            sample = inter_frame(timestamp_ms, FRAME_BYTES)
            send_sample(on.publisher.session, on.publisher.stream_id, sample)
        data = on.publisher.session.data_to_send()
        sent_at = time.monotonic()
        on.publisher._socket.sendall(data[:-500])
        on.wait_for_bytes(FRAME_BYTES)
        on.publisher._socket.sendall(data[-500:])
        on.wait_for_bytes(FRAME_BYTES)
        assert time.monotonic() - sent_at < AT_ONCE_S


def test_a_publisher_that_goes_while_it_is_not_read_is_seen_at_once() -> None:
    with stage(EACH_FRAME, LONG_S) as on:
        on.send_frames()
        on.publisher.end()
        gone_at = time.monotonic()
        on.publisher._socket.shutdown(socket.SHUT_WR)
        wait_until(lambda: not on.live.ask(lambda: on.live.server.broker.streams))
        assert time.monotonic() - gone_at < AT_ONCE_S


def test_on_a_grid_a_publisher_is_read_when_all_of_it_is_sent() -> None:
    with stage(FlushPolicy(grid_s=GRID_S, adapts=False), LONG_S) as on:
        on.send_frames(1)
        assert on.wakes_from_bytes == MOST_BYTES
        received_bytes = on.peer.session.received_bytes
        on.publisher.send([audio_frame(20, 300), inter_frame(40, FRAME_BYTES), audio_frame(43, 301)])
        sent_at = time.monotonic()
        time.sleep(GRID_S / 2)
        assert on.peer.session.received_bytes == received_bytes
        on.wait_for_bytes(300)
        on.wait_for_bytes(FRAME_BYTES)
        on.wait_for_bytes(301)
        assert time.monotonic() - sent_at < GRID_S + AT_ONCE_S
        assert on.wakes_from_bytes == MOST_BYTES


def test_on_a_grid_a_publisher_that_sends_nothing_wakes_nobody() -> None:
    with stage(FlushPolicy(grid_s=GRID_S, adapts=False), LONG_S) as on:
        on.send_frames(1)
        wait_until(lambda: on.wakes_from_bytes == 1)
        channel = next(iter(on.live.server.broker.streams.values()))
        assert channel.look_timer is None
        on.send_frames(1)
        assert on.wakes_from_bytes == MOST_BYTES


def test_what_a_grid_sends_counts_as_a_round_as_well() -> None:
    """Without that a grid that load has forced would stay for ever: nothing would say that the load is over."""
    with stage(FlushPolicy(grid_s=0.02, adapts=False), LONG_S) as on:
        before = sum(on.live.server.flusher.rounds.counts)
        on.send_frames()
        wait_until(lambda: sum(on.live.server.flusher.rounds.counts) >= before + 4)


def test_a_server_with_time_to_spare_reads_every_message_at_once() -> None:
    with stage(FlushPolicy(), 0.040) as on:
        on.send_frames()
        assert on.wakes_from_bytes == 1


def test_a_publisher_is_read_at_once_again_when_audio_does_not_wait_any_more() -> None:
    with stage(EACH_FRAME, LONG_S) as on:
        on.send_frames()
        assert on.wakes_from_bytes > 1
        app = AppSettings(flush=FlushPolicy(grid_s=0.001, adapts=False))
        on.live.ask(lambda: on.live.server.broker.apply(ServerSettings(app=lambda _name: app)))
        on.send_frames(1)
        assert on.wakes_from_bytes == 1


def test_a_publisher_of_two_streams_is_read_at_once() -> None:
    with stage(EACH_FRAME, LONG_S) as on:
        on.send_frames()
        assert on.wakes_from_bytes > 1
        on.live.ask(lambda: on.peer.publications.update({99: next(iter(on.peer.publications.values()))}))
        on.publisher.send([key_frame(400, 2 * FRAME_BYTES)])
        on.wait_for_bytes(2 * FRAME_BYTES)
        time.sleep(0.05)
        assert on.wakes_from_bytes == 1
        on.live.ask(lambda: on.peer.publications.pop(99))


def test_frames_that_are_no_larger_than_audio_are_not_waited_for() -> None:
    with live_server(settings=settings_without_grace()) as live:
        app = AppSettings(flush=EACH_FRAME)
        live.ask(lambda: live.server.broker.apply(ServerSettings(app=lambda _name: app, max_flush_wait_s=LONG_S)))
        with rtmp_client(live.port) as publisher, rtmp_client(live.port) as viewer:
            publisher.publish("tiny")
            viewer.play("tiny")
            on = Stage(live, publisher, viewer)
            for number in range(4):
                publisher.send([key_frame(40 * number, 400)])
                on.wait_for_bytes(400)
            assert on.wakes_from_bytes == 1
