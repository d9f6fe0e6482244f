"""Outgoing connections to real servers and to sockets that behave badly."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.certificates import ReloadableTls
from penstock.protocol.data import SetDataFrame
from penstock.protocol.events import DataReceived, MediaReceived, StreamEnded
from penstock.serve.connections.peer_rates import PeerRates
from penstock.serve.outgoing.connection import OutgoingConnection, OutgoingTimeouts, Purpose
from penstock.serve.outgoing.words import Failure
from penstock.serve.settings import ServerSettings
from tests.serve.live_server import AAC_SETUP, AVC_SETUP, key_frame, live_server
from tests.serve.outgoing.stage import KeepingOwner, stage
from tests.support.rtmp_driver import DEADLINE_S
from tests.support.samples import Sample
from tests.support.tls import Files, trusting

QUICK = OutgoingTimeouts(connect_s=1.0, answer_s=0.5, play_answer_s=0.5, stall_s=1.0)


@contextmanager
def listening() -> Iterator[tuple[socket.socket, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, listener.getsockname()[1]


def sending(samples: list[Sample]) -> KeepingOwner:
    """An owner that publishes these as soon as it may."""
    owner = KeepingOwner()

    def send(connection: OutgoingConnection) -> None:
        if samples:
            connection.send_data(0, SetDataFrame("onMetaData", ({"width": 640.0},)))
        while samples:
            type_id, timestamp_ms, payload = samples.pop(0)
            connection.send_media(type_id, timestamp_ms, payload)

    owner.with_room = send
    return owner


def test_what_one_publishes_the_other_plays() -> None:
    samples = [AVC_SETUP, AAC_SETUP, key_frame(40, 200_000)]
    with live_server() as server, stage() as on:
        url = f"rtmp://127.0.0.1:{server.port}/live/test"
        publisher, player = sending(list(samples)), KeepingOwner()
        publishing = on.open(url, Purpose.PUBLISH, publisher)
        on.run_until(lambda: publisher.is_ready)
        playing = on.open(url, Purpose.PLAY, player)
        on.run_until(lambda: sum(isinstance(event, MediaReceived) for event in player.events) == 3)
        media = {(event.type_id, event.payload) for event in player.events if isinstance(event, MediaReceived)}
        assert media == {(sample.type_id, sample.payload) for sample in samples}
        assert [event.name for event in player.events if isinstance(event, DataReceived)][-1] == "onMetaData"
        publishing.end("done")
        on.run_until(lambda: publisher.failures)
        assert publisher.failures == [Failure("done")]
        assert publishing.sent_bytes > 200_000
        playing.close(Failure("enough"))
        assert (player.failures, player.bugs, publisher.bugs) == ([Failure("enough")], [], [])


def test_a_name_that_is_taken_is_refused_in_words_without_the_name() -> None:
    with live_server() as server, stage() as on:
        url = f"rtmp://127.0.0.1:{server.port}/live/sesame"
        first, second = KeepingOwner(), KeepingOwner()
        publishing = on.open(url, Purpose.PUBLISH, first)
        on.run_until(lambda: first.is_ready)
        on.open(url, Purpose.PUBLISH, second, secrets=("sesame",))
        on.run_until(lambda: second.failures)
        (failure,) = second.failures
        assert failure.is_refusal
        assert failure.code == "NetStream.Publish.BadName"
        assert "sesame" not in failure.reason
        publishing.close(Failure("enough"))


def test_nobody_listens() -> None:
    with listening() as (listener, port), stage() as on:
        listener.close()
        owner = KeepingOwner()
        on.open(f"rtmp://127.0.0.1:{port}/live/test", Purpose.PUBLISH, owner)
        on.run_until(lambda: owner.failures)
        assert owner.failures == [Failure("no connection: Connection refused")]


def test_a_name_that_does_not_exist() -> None:
    with stage() as on:
        owner = KeepingOwner()
        on.open("rtmp://nowhere.invalid/live/test", Purpose.PUBLISH, owner)
        on.run_until(lambda: owner.failures)
        assert owner.failures[0].reason.startswith("no connection: ")


def test_a_server_that_never_answers_is_given_up() -> None:
    with listening() as (_, port), stage() as on:
        owner = KeepingOwner()
        on.open(f"rtmp://127.0.0.1:{port}/live/test", Purpose.PUBLISH, owner, QUICK)
        on.run_until(lambda: owner.failures)
        assert owner.failures == [Failure("no handshake in time")]


def test_an_address_that_does_not_answer_is_given_up() -> None:
    # A queue that is full: the kernel answers no further SYN.
    with socket.socket() as listener, stage() as on:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        owner = KeepingOwner()
        on.open(f"rtmp://127.0.0.1:{port}/live/test", Purpose.PUBLISH, owner, QUICK)
        on.run_until(lambda: owner.failures)
        assert owner.failures == [Failure("no connection within 1 s: TCP connects")]
        for filler in fillers:
            filler.close()


def test_a_server_that_hangs_up_at_once() -> None:
    with listening() as (listener, port), stage() as on:
        owner = KeepingOwner()
        on.open(f"rtmp://127.0.0.1:{port}/live/test", Purpose.PUBLISH, owner, QUICK)
        listener.settimeout(5)

        def hang_up() -> bool:
            if not owner.failures and not accepted:
                listener.setblocking(False)
                try:
                    connection, _ = listener.accept()
                except BlockingIOError:
                    return False
                accepted.append(connection)
                connection.close()
            return bool(owner.failures)

        accepted: list[socket.socket] = []
        on.run_until(hang_up)
        assert owner.failures[0].reason in (
            "it closed the connection",
            "the connection broke: Connection reset by peer",
        )


def test_a_server_that_speaks_something_else_breaks_rtmp() -> None:
    with listening() as (listener, port), stage() as on:
        owner = KeepingOwner()
        on.open(f"rtmp://127.0.0.1:{port}/live/test", Purpose.PUBLISH, owner, QUICK)
        on.run_until(lambda: True)
        connection, _ = listener.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        on.run_until(lambda: owner.failures)
        assert owner.failures[0].reason.startswith("it broke RTMP: handshake: ")
        connection.close()


def test_one_that_does_not_read_is_given_up_and_costs_little() -> None:
    with live_server() as server, stage() as on:
        owner = KeepingOwner()
        given: list[int] = []

        def flood(connection: OutgoingConnection) -> None:
            while connection.has_room:
                connection.send_media(9, 40 * len(given), b"\x27\x01" + bytes(50_000))
                given.append(1)

        owner.with_room = flood
        url = f"rtmp://127.0.0.1:{server.port}/live/test"
        connection = on.open(url, Purpose.PUBLISH, owner, QUICK)
        on.run_until(lambda: owner.is_ready)
        # From here on the server's loop does nothing.
        server.server.reactor.call_from_thread(lambda: time.sleep(4))
        on.run_until(lambda: owner.failures)
        assert owner.failures == [Failure("it left what it was sent unread for 1 s")]
        assert connection.queued_bytes == 0


def test_one_that_does_not_read_what_is_sealed_for_it_is_given_up_too(tmp_path: Path) -> None:
    files = Files.made_in(tmp_path)
    with (
        live_server(tls=ReloadableTls(files.cert, files.key, "tls")) as server,
        stage(make_context=lambda: trusting(files.authority)) as on,
    ):
        owner = KeepingOwner()
        sent: list[int] = []

        def send_a_picture(connection: OutgoingConnection) -> None:
            # One at a time and small, as a stream is sent in its own time: TLS takes it whole, the socket does not.
            sent.append(len(sent))
            connection.send_media(9, 40 * len(sent), b"\x27\x01" + bytes(8_000))

        owner.with_room = send_a_picture
        on.open(f"rtmps://localhost:{server.port}/live/test", Purpose.PUBLISH, owner, QUICK)
        on.run_until(lambda: owner.is_ready)
        server.server.reactor.call_from_thread(lambda: time.sleep(4))
        on.run_until(lambda: owner.failures)
        assert owner.failures == [Failure("it left what it was sent unread for 1 s")]


def test_a_target_that_asks_more_than_targets_do_is_given_up_before_it_costs_much() -> None:
    ping = bytes((2, 0, 0, 0, 0, 0, 6, 4, 0, 0, 0, 0)) + b"\x00\x06" + bytes(4)

    def flood(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            hello = connection.recv(1537, socket.MSG_WAITALL)
            connection.sendall(b"\x03" + bytes(1536) + hello[1:])
            connection.recv(1536, socket.MSG_WAITALL)
            connection.settimeout(DEADLINE_S)
            # As many as there is patience for, read or not.
            for _ in range(1000):
                connection.sendall(ping * 1000)

    with listening() as (listener, port), stage() as on:
        owner = KeepingOwner()
        target = threading.Thread(target=flood, args=(listener,))
        target.start()
        rates = PeerRates(ServerSettings(), on.reactor.clock())
        connection = on.open(f"rtmp://127.0.0.1:{port}/live/test", Purpose.PUBLISH, owner, rates=rates)
        held_bytes = [0]

        def is_over() -> bool:
            held_bytes.append(connection.session.buffered_bytes)
            return bool(owner.failures)

        on.run_until(is_over)
        target.join()
    assert owner.failures == [Failure("it asks for more than one that takes a stream may (limits.max_messages_per_s)")]
    assert max(held_bytes) < 1_000_000


def test_an_error_of_the_owner_costs_its_connection() -> None:
    with live_server() as server, stage() as on:
        owner = KeepingOwner()

        def fail(_connection: OutgoingConnection) -> None:
            raise ValueError("a bug")

        owner.with_room = fail
        on.open(f"rtmp://127.0.0.1:{server.port}/live/test", Purpose.PUBLISH, owner)
        on.run_until(lambda: owner.failures)
        assert owner.failures == [Failure("internal error: ValueError")]
        assert [str(bug) for bug in owner.bugs] == ["a bug"]


def test_a_server_takes_one_that_hangs_up_for_lost_and_has_all_that_was_sent() -> None:
    with live_server() as server, stage() as on:
        owner, player = sending([AVC_SETUP, key_frame(40, 50_000)]), KeepingOwner()
        url = f"rtmp://127.0.0.1:{server.port}/live/test"
        connection = on.open(url, Purpose.PUBLISH, owner)
        on.run_until(lambda: connection.sent_bytes > 50_000)
        connection.hang_up("it goes on elsewhere")
        assert owner.failures == [Failure("it goes on elsewhere")]
        playing = on.open(url, Purpose.PLAY, player)
        on.run_until(lambda: sum(isinstance(event, MediaReceived) for event in player.events) == 2)
        assert not any(isinstance(event, StreamEnded) for event in player.events)
        playing.close(Failure("enough"))


def test_one_that_is_closed_while_it_is_dialled_hears_nothing_more() -> None:
    with listening() as (_, port), stage() as on:
        owner = KeepingOwner()
        connection = on.open(f"rtmp://127.0.0.1:{port}/live/test", Purpose.PUBLISH, owner)
        connection.end("not wanted any more")
        connection.close(Failure("again"))
        on.run_until(lambda: True)
        assert owner.failures == [Failure("not wanted any more")]


@pytest.mark.parametrize("is_trusted", [True, False])
def test_rtmps_takes_the_certificates_that_it_trusts_and_no_others(tmp_path: Path, is_trusted: bool) -> None:
    files = Files.made_in(tmp_path)
    with (
        live_server(tls=ReloadableTls(files.cert, files.key, "tls")) as server,
        stage(make_context=lambda: trusting(files.authority) if is_trusted else ssl.create_default_context()) as on,
    ):
        owner = sending([AVC_SETUP, key_frame(0, 100_000)])
        connection = on.open(f"rtmps://localhost:{server.port}/live/test", Purpose.PUBLISH, owner)
        if is_trusted:
            on.run_until(lambda: connection.sent_bytes > 100_000)
            connection.end("done")
        on.run_until(lambda: owner.failures)
        reason = "done" if is_trusted else "no connection: TLS: its certificate is not accepted: "
        assert owner.failures[0].reason.startswith(reason)


def test_the_addresses_of_a_name_are_tried_one_after_another() -> None:
    with live_server() as server, listening() as (dead, dead_port):
        dead.close()
        addresses: list[tuple[int, tuple[Any, ...]]] = [
            (socket.AF_INET, ("127.0.0.1", dead_port)),
            (socket.AF_INET, ("127.0.0.1", server.port)),
        ]
        with stage(look_up=lambda _host, _port: addresses) as on:
            owner = KeepingOwner()
            connection = on.open("rtmp://two.example/live/test", Purpose.PUBLISH, owner)
            on.run_until(lambda: owner.is_ready)
            connection.close(Failure("enough"))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_an_address_that_is_written_out_needs_no_lookup(host: str) -> None:
    def fail(_host: str, _port: int) -> list[tuple[int, tuple[Any, ...]]]:
        raise OSError("nobody answers")

    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.create_server((host.strip("[]"), 0), family=family) as listener, stage(look_up=fail) as on:
        owner = KeepingOwner()
        connection = on.open(f"rtmp://{host}:{listener.getsockname()[1]}/live/test", Purpose.PUBLISH, owner, QUICK)
        on.run_until(lambda: owner.failures)
        assert owner.failures == [Failure("no handshake in time")]
        assert connection.peer_address == f"{host}:{listener.getsockname()[1]}"


def test_a_lookup_that_hangs_is_given_up_and_blocks_nothing() -> None:
    may_end = threading.Event()

    def hang(_host: str, _port: int) -> list[tuple[int, tuple[Any, ...]]]:
        may_end.wait(10)
        return []

    with stage(look_up=hang) as on:
        owner = KeepingOwner()
        on.open("rtmp://slow.example/live/test", Purpose.PUBLISH, owner, QUICK)
        on.run_until(lambda: owner.failures)
        assert owner.failures == [Failure("no connection within 1 s: the name is looked up")]
        may_end.set()
