"""Log lines of a real server on loopback."""

import io
import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import logs
from penstock.logs import LineWriter, configure_logs
from penstock.protocol.events import StreamCreated, StreamRefused
from penstock.protocol.message import Message
from penstock.relay.readable_log import LogLimits
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.observer import ObserverGroup
from penstock.serve.telemetry.address_quota import AddressQuota, QuotaLimits
from penstock.serve.telemetry.log_observer import LogObserver, message_trace
from tests.serve.live_server import (
    AAC_SETUP,
    AVC_SETUP,
    inter_frame,
    key_frame,
    live_server,
    settings_without_grace,
    wait_until,
)
from tests.support.rtmp_driver import LOOPBACK, DriverError, rtmp_client


class Lines:
    """What was logged."""

    def __init__(self, level: logs.Level = "info") -> None:
        self._stream = io.StringIO()
        self._writer: LineWriter = configure_logs(level, "json", self._stream)

    def all(self) -> list[dict[str, Any]]:
        assert self._writer.flush(5)
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    def messages(self) -> list[str]:
        return [line["msg"] for line in self.all()]

    def of(self, text: str) -> list[dict[str, Any]]:
        return [line for line in self.all() if line["msg"].startswith(text)]

    def wait_for(self, text: str, count: int = 1) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.of(text)) >= count)
        return self.of(text)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leaves the logging of this process as it was found."""
    level = logging.root.level
    yield
    if logs._current.writer is not None and logs._current.handler is not None:
        logs._current.writer.close()
        logging.root.removeHandler(logs._current.handler)
    logs._current.__init__()  # type: ignore[misc]
    logging.root.setLevel(level)


@pytest.fixture
def lines() -> Lines:
    return Lines()


class HandClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_life_of_a_stream_reads_as_operators_expect_it(lines: Lines) -> None:
    with live_server(LogObserver(), settings=settings_without_grace()) as live:
        with rtmp_client(live.port) as publisher:
            publisher.publish("test")
            publisher.send([AVC_SETUP, AAC_SETUP, key_frame(0)])
            lines.wait_for("Stream live/test: H.264")
            with rtmp_client(live.port) as viewer:
                viewer.play("test")
                publisher.end()
                lines.wait_for("play stopped: live/test")
        lines.wait_for("Connection closed", 2)
    accepted, handshake, connect, created, published = lines.all()[:5]
    assert accepted["msg"] == f"Connection accepted from {accepted['peer_addr']}"
    assert accepted["peer_addr"].startswith("127.0.0.1:")
    assert handshake["msg"] == "Handshake completed"
    assert (connect["msg"], connect["app"]) == ("connect command from app=live", "live")
    assert (created["msg"], created["msid"]) == ("createStream allocated streamID=1", 1)
    assert published["msg"] == "publish started: live/test"
    assert (published["stream_key"], published["role"]) == ("live/test", "publisher")
    assert {line["conn_id"] for line in (accepted, handshake, connect, created, published)} == {accepted["conn_id"]}
    assert lines.of("Stream live/test: ")[-1]["msg"].startswith("Stream live/test: H.264")
    (played,), (left,) = lines.of("play started: live/test"), lines.of("play stopped: live/test")
    assert (played["role"], left["reason"], left["skips"]) == ("viewer", "stream ended", 0)
    assert played["conn_id"] == left["conn_id"] != accepted["conn_id"]
    assert [line["reason"] for line in lines.of("publish stopped: live/test")] == ["FCUnpublish"]
    assert "Stream live/test ended" in lines.messages()
    assert {line["msg"] for line in lines.of("Connection closed")} <= {
        "Connection closed: closed by the peer",
        "Connection closed: connection lost: Connection reset by peer",
    }
    assert {line["level"] for line in lines.all()} == {"INFO"}


def test_one_address_gets_so_many_lines_and_the_rest_is_counted(lines: Lines) -> None:
    clock = HandClock()
    observer = LogObserver(clock, AddressQuota(QuotaLimits(per_s=1.0, burst=7.0, exempts_loopback=False)))

    def held_back() -> int:
        live.ask(lambda: observer.second_passed(clock.now))
        return sum(line["lines"] for line in lines.of("Log lines held back"))

    with live_server(observer, settings=settings_without_grace()) as live:
        with rtmp_client(live.port) as publisher:
            for _ in range(20):
                publisher.publish("test")
                publisher.end()
                publisher.session.create_stream()
                publisher.stream_id = publisher.wait_for(StreamCreated).stream_id
        # Four lines to begin with, four for each publication, and one at the end.
        wait_until(lambda: held_back() == 4 + 20 * 4 + 1 - 7)
        clock.now = 1.0
        with rtmp_client(live.port):
            pass
        wait_until(lambda: held_back() == 4 + 20 * 4 + 1 - 7 + 4)
    told = lines.of("Log lines held back")
    assert {(line["level"], line["address"], line["addresses"]) for line in told} == {("WARNING", "127.0.0.1", 1)}
    assert all(line["total_lines"] == line["lines"] for line in told)
    assert [line["msg"].split(":")[0] for line in lines.all() if line not in told] == [
        f"Connection accepted from {LOOPBACK}",
        "Handshake completed",
        "connect command from app=live",
        "createStream allocated streamID=1",
        "publish started",
        "publish stopped",
        "Stream live/test ended",
        f"Connection accepted from {LOOPBACK}",
    ]


def test_a_publisher_that_changes_its_codecs_all_the_time_is_not_told_of_each_time(lines: Lines) -> None:
    observer = LogObserver(HandClock(), AddressQuota(QuotaLimits(burst=10.0, exempts_loopback=False)))
    with live_server(observer, settings=settings_without_grace()) as live, rtmp_client(live.port) as publisher:
        publisher.publish("test")
        (live_stream,) = live.ask(lambda: list(live.server.broker.streams.values()))

        def change_codecs() -> None:
            for number in range(100):
                observer.codecs_known(live_stream, f"codec {number}")

        live.ask(change_codecs)
        told = lines.of("Stream live/test: codec")
    # The connection and the publication have had five of its ten lines.
    assert [line["codecs"] for line in told] == [f"codec {number}" for number in range(5)]


def test_violations_are_warned_of_once_a_second_and_counted(lines: Lines) -> None:
    clock = HandClock()
    with live_server(LogObserver(clock)) as live:
        for number in range(1, 4):
            if number == 3:
                clock.now = 1.0
            with socket.create_connection((LOOPBACK, live.port)) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n".ljust(1537, b"\0"))
                assert connection.recv(1) == b""
            lines.wait_for("Connection closed", number)
    first, second = lines.of("Protocol violation")
    assert (first["level"], first["swallowed"], second["swallowed"]) == ("WARNING", 0, 1)
    assert first["reason"].startswith("handshake: ")
    assert {"conn_id", "peer_addr"} <= set(first)


def test_a_viewer_that_does_not_read_is_warned_of(lines: Lines) -> None:
    # The warning comes in the second half of it, and who is slow is looked for once a second.
    settings = ServerSettings(slow_viewer_s=4.0)
    with (
        live_server(LogObserver(), settings=settings) as live,
        rtmp_client(live.port) as publisher,
        rtmp_client(live.port) as viewer,
    ):
        publisher.publish("test")
        viewer.play("test")
        publisher.send((key_frame if each % 10 == 0 else inter_frame)(40 * each, 200_000) for each in range(100))
        (skipped, *_) = lines.wait_for("Slow viewer")
        lines.wait_for("Connection closed: no whole message delivered in 4 s")
    assert (skipped["level"], skipped["stream_key"], skipped["swallowed"]) == ("WARNING", "live/test", 0)
    assert {"conn_id", "peer_addr"} <= set(skipped)
    (stalled,) = lines.of("Slow viewer takes nothing")
    assert stalled["stalled_s"] >= 2.0


def test_a_viewer_that_falls_behind_and_reads_again_is_said_to_have_skipped(lines: Lines) -> None:
    settings = ServerSettings(log_limits=LogLimits(max_gops=1))
    with (
        live_server(LogObserver(), settings=settings) as live,
        rtmp_client(live.port) as publisher,
        rtmp_client(live.port) as viewer,
    ):
        publisher.publish("test")
        viewer.play("test")
        publisher.send((key_frame if each % 10 == 0 else inter_frame)(40 * each, 200_000) for each in range(100))
        with pytest.raises(DriverError):
            viewer.wait_for(StreamRefused, 0.5)
        (skipped, *_) = lines.wait_for("Slow viewer skipped to the newest key frame")
    assert skipped["skipped_bytes"] > 200_000


def test_who_is_turned_away_is_warned_of(lines: Lines) -> None:
    with live_server(LogObserver(), settings=ServerSettings(max_connections=2)) as live:
        with rtmp_client(live.port) as first, rtmp_client(live.port) as second:
            first.publish("test")
            first.send([key_frame(0)])
            second.session.publish(second.stream_id, "test")
            second.flush()
            # The first is asked for a sign of life; reading the question sends the answer.
            with pytest.raises(DriverError):
                first.wait_for(StreamRefused, 0.2)
            second.wait_for(StreamRefused)
            with socket.create_connection((LOOPBACK, live.port)) as third:
                assert third.recv(1) == b""
        lines.wait_for("Limit hit: connections")
    (refused,) = lines.of("Publish refused")
    assert (refused["level"], refused["stream_key"]) == ("WARNING", "live/test")
    assert refused["reason"] == "live/test is being published already."
    (limit,) = lines.of("Limit hit: connections")
    assert (limit["limit"], limit["reason"]) == ("connections", "2 are open")


def test_our_own_bugs_are_errors_with_their_traceback(lines: Lines) -> None:
    class Buggy(LogObserver):
        def handshake_completed(self, connection: MediaConnection) -> None:
            raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError), live_server(Buggy(), LogObserver()) as live, rtmp_client(live.port):
        pass
    (error,) = lines.of("Internal error")
    assert error["level"] == "ERROR"
    assert "ZeroDivisionError: a bug" in error["exception"]


def test_an_error_on_a_connection_names_it_and_repeats_at_most_once_a_second(lines: Lines) -> None:
    observer = LogObserver(HandClock())
    with live_server(ObserverGroup(observer)) as live, rtmp_client(live.port):
        (connection,) = live.ask(lambda: list(live.server.broker.connections.values()))
        for _ in range(3):
            observer.error(connection, ValueError("x"))
    (error,) = lines.of("Internal error")
    assert (error["conn_id"], error["peer_addr"]) == (connection.id, connection.address)


def test_text_of_strangers_cannot_forge_a_line(lines: Lines) -> None:
    with live_server(LogObserver()) as live, rtmp_client(live.port, app="a\nb\x1b[2J") as publisher:
        publisher.publish("x")
    assert "connect command from app=a\\x0ab\\x1b[2J" in lines.messages()


def test_messages_are_traced_at_debug_with_their_first_bytes() -> None:
    lines = Lines("debug")
    trace = message_trace("c-1", 4)
    assert trace is not None
    trace("received", Message(9, 1234, 1, bytes.fromhex("17 01 000000 ff"), 6))
    trace("sent", Message(20, 0, 0, b"", 3))
    received, sent = lines.all()
    del received["time"], sent["time"]
    assert received == {
        "level": "DEBUG",
        "msg": "Message received",
        "conn_id": "c-1",
        "msg_type": 9,
        "csid": 6,
        "msid": 1,
        "timestamp": 1234,
        "length": 6,
        "bytes": "17 01 00 00",
    }
    assert (sent["msg"], sent["length"]) == ("Message sent", 0)


def test_a_trace_without_a_dump_shows_no_bytes() -> None:
    lines = Lines("debug")
    trace = message_trace("c-1", 0)
    assert trace is not None
    trace("received", Message(9, 0, 1, b"\x17", 6))
    assert "bytes" not in lines.all()[0]


def test_commands_are_traced_without_bytes_while_there_are_credentials_in_them() -> None:
    lines = Lines("debug")
    has_rules = True
    trace = message_trace("c-1", 64, lambda: has_rules)
    assert trace is not None
    for type_id in (20, 17, 9):
        trace("received", Message(type_id, 0, 1, b"key", 3))
    has_rules = False
    trace("received", Message(20, 0, 1, b"key", 3))
    assert ["bytes" in line for line in lines.all()] == [False, False, True, True]


def test_above_debug_there_is_no_trace_at_all(lines: Lines) -> None:
    assert message_trace("c-1", 64) is None


def test_ignored_messages_are_told_at_debug() -> None:
    lines = Lines("debug")
    with live_server() as live, rtmp_client(live.port):
        (connection,) = live.ask(lambda: list(live.server.broker.connections.values()))
        LogObserver().message_ignored(connection, 16, "shared objects")
    (ignored,) = lines.of("Message ignored")
    assert (ignored["level"], ignored["msg_type"], ignored["reason"]) == ("DEBUG", 16, "shared objects")
