"""Those who were let in and break the rules: it costs them their connection at most, and nobody else anything."""

import itertools
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.scenarios.hostile_stage import HANDSHAKE_DEADLINE_S, MIB, SWEEP_S, Stage, hostile_stage
from tests.support.hostile_clients import (
    ABORT,
    AGGREGATE,
    AUDIO,
    COMMAND,
    DATA,
    SET_CHUNK_SIZE,
    VIDEO,
    HostileClient,
    amf,
    basic_header,
    closed_of,
    command,
    connect_command,
    control,
    flood,
    full_header,
    message,
    nested_objects,
)
from tests.support.witness import STREAM_NAME

pytestmark = pytest.mark.alone

REFUSED_S = HANDSHAKE_DEADLINE_S
TOO_FAST_S = 5.0
"""For how long one is slowed down before it is closed."""
BIG_CHUNKS = control(SET_CHUNK_SIZE, (0xFFFFFF).to_bytes(4, "big"))
_numbers = itertools.count()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("peers")) as stage:
        yield stage


def new_name() -> str:
    return f"hostile-{next(_numbers)}"


def test_large_messages_declared_on_thousands_of_chunk_streams_are_refused(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=20 * MIB), HostileClient(stage.port) as client:
        client.publishing(new_name())
        client.push(b"".join(full_header(csid, VIDEO, 0xFFFFFF, stream_id=1) + bytes(128) for csid in range(64, 4064)))
        assert client.is_refused(REFUSED_S)


def test_half_messages_on_every_allowed_chunk_stream_are_bounded_together(stage: Stage) -> None:
    with stage.attack(), HostileClient(stage.port) as client:
        client.publishing(new_name()).send(control(SET_CHUNK_SIZE, (1 << 20).to_bytes(4, "big")))
        for csid in range(64, 164):
            client.push(full_header(csid, VIDEO, 0xFFFFFF, stream_id=1))
            sent = 0
            while sent < 1 << 20 and (taken := _push_patiently(client, bytes((1 << 20) - sent))):
                sent += taken
            if sent < 1 << 20:
                break
        assert client.is_refused(REFUSED_S)


def _push_patiently(client: HostileClient, data: bytes) -> int:
    for _ in range(100):
        if taken := client.push(data):
            return taken
        time.sleep(0.01)
    return 0


def test_one_message_of_16_mib_that_trickles_costs_no_more_than_its_bytes(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=10 * MIB), HostileClient(stage.port) as client:
        client.publishing(new_name()).send(BIG_CHUNKS + full_header(6, VIDEO, 0xFFFFFF, stream_id=1))
        for _ in range(30):
            client.send(bytes(1000))
            time.sleep(0.03)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(message(DATA, amf("onMetaData") + nested_objects(100_000), stream_id=1), id="deep data"),
        pytest.param(
            message(DATA, amf("@setDataFrame", "onMetaData") + nested_objects(100_000), stream_id=1), id="deep metadata"
        ),
        pytest.param(message(DATA, b"\x0a\xff\xff\xff\xff", stream_id=1), id="array of 4 G announced"),
        pytest.param(message(DATA, amf("onMetaData") + b"\x07\x00\x00" * 40_000, stream_id=1), id="references"),
        pytest.param(message(AGGREGATE, b"\x16" + bytes(10) + b"\xff" * 1000, stream_id=1), id="aggregate of itself"),
        pytest.param(message(AUDIO, b"", stream_id=1) + message(VIDEO, b"", stream_id=1), id="empty media"),
        pytest.param(message(VIDEO, b"\xff" * 5000, stream_id=1), id="nonsense as enhanced video"),
        pytest.param(message(AUDIO, b"\x95\x03mp4a" * 500, stream_id=1), id="nonsense as multitrack audio"),
        pytest.param(control(SET_CHUNK_SIZE, (0x7FFFFFFF).to_bytes(4, "big")), id="the largest chunks"),
        pytest.param(control(ABORT, (77).to_bytes(4, "big")), id="abort of nothing"),
    ],
)
def test_strange_things_in_a_publication_do_not_end_it(stage: Stage, data: bytes) -> None:
    with stage.attack(max_growth_bytes=20 * MIB), HostileClient(stage.port) as client:
        client.publishing(new_name()).send(data)
        client.send(command("getStreamLength", 7.0, None, "x"))
        client.until(b"_result")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            command("foo", 1.0) + message(COMMAND, amf("foo", 1.0) + nested_objects(100_000)), id="deep command"
        ),
        pytest.param(connect_command(), id="connect twice"),
        pytest.param(command("publish", 3.0, None, "x", "live", stream_id=7), id="publish on a stream never created"),
        pytest.param(command("play", 3.0, None, "x", stream_id=0xFFFFFFFF), id="play on a stream never created"),
        pytest.param(command("pause", 0.0, None, True, 0.0, stream_id=9), id="pause on a stream never created"),
        pytest.param(control(SET_CHUNK_SIZE, bytes(4)), id="chunks of nothing"),
        pytest.param(control(SET_CHUNK_SIZE, b"\xff\xff\xff\xff"), id="chunks of a negative size"),
        pytest.param(control(SET_CHUNK_SIZE, b"\x01"), id="a torn chunk size"),
        pytest.param(basic_header(2, 50) + bytes(3), id="a short header on a new chunk stream"),
    ],
)
def test_what_breaks_the_protocol_ends_the_connection_at_once(stage: Stage, data: bytes) -> None:
    with stage.attack(max_growth_bytes=20 * MIB), HostileClient(stage.port) as client:
        client.with_stream().push(data)
        assert client.is_refused(REFUSED_S)


STRANGE_NAMES = [
    pytest.param("", id="empty"),
    pytest.param("x" * 60_000, id="60 kB"),
    pytest.param("a\0b", id="NUL"),
    pytest.param("../../../../etc/passwd", id="a way out"),
    pytest.param("/absolute", id="absolute"),
    pytest.param("..", id="parent"),
    pytest.param("\u202egnp.\u00e9\U0001f600", id="unicode"),
    pytest.param("\x1b[2J\r\nforged: line", id="control characters"),
    pytest.param("\udcff\udcfe", id="bytes that are no text"),
    pytest.param("?" * 1000, id="questions"),
]


@pytest.mark.parametrize("name", STRANGE_NAMES)
@pytest.mark.parametrize("verb", ["publish", "play", "FCPublish", "releaseStream", "FCSubscribe", "FCUnpublish"])
def test_strange_names_of_streams_are_taken_or_refused_in_peace(stage: Stage, verb: str, name: str) -> None:
    with HostileClient(stage.port) as client:
        client.with_stream().send(command(verb, 3.0, None, name, stream_id=1))
        client.send(command("getStreamLength", 7.0, None, "x"))
        client.until(b"_result")
    assert stage.witness.testify().faults == []


@pytest.mark.parametrize("app", ["a\0b", "../..", "\u202e\U0001f600", "\x1b[2J\r\n", "\udcff", "a/b/c", "x" * 1024])
def test_strange_names_of_apps_are_taken_in_peace(stage: Stage, app: str) -> None:
    with HostileClient(stage.port) as client:
        client.with_stream(app).send(command("publish", 3.0, None, "x", "live", stream_id=1))
        client.until(b"NetStream.Publish.Start")
    assert stage.witness.testify().faults == []


STATES: list[Callable[[HostileClient], object]] = [
    lambda client: client,
    lambda client: client.push(b"\x03" + bytes(700)),
    lambda client: client.greeted(),
    lambda client: client.greeted().push(connect_command()[:40]),
    lambda client: client.connected(),
    lambda client: client.with_stream(),
    lambda client: client.publishing(new_name()),
    lambda client: client.publishing(new_name()).push(full_header(6, VIDEO, 5000, stream_id=1) + b"\x17\x01"),
    lambda client: client.with_stream().push(command("publish", 3.0, None, STREAM_NAME, "live", stream_id=1)),
    lambda client: client.playing(STREAM_NAME),
    lambda client: client.with_stream().push(command("play", 3.0, None, "nobody", stream_id=1)),
    lambda client: client.playing(STREAM_NAME).push(command("pause", 0.0, None, True, 0.0, stream_id=1)),
]


def test_leaving_by_a_reset_in_every_state_leaves_nothing_behind(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=20 * MIB):
        for _ in range(5):
            for drive in STATES:
                client = HostileClient(stage.port)
                drive(client)
                client.reset()


def test_a_peer_that_closes_its_half_is_closed_in_every_state(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=20 * MIB), ExitStack() as stack:
        crowd = []
        for drive in STATES:
            client = stack.enter_context(HostileClient(stage.port))
            drive(client)
            client.socket.shutdown(socket.SHUT_WR)
            crowd.append(client)
        assert closed_of(crowd, REFUSED_S + SWEEP_S) == len(crowd)


def test_timestamps_without_sense_are_relayed_or_refused_in_peace(stage: Stage) -> None:
    chance = random.Random(7)
    with stage.attack(max_growth_bytes=20 * MIB), ExitStack() as stack:
        for _ in range(20):
            name = new_name()
            client = stack.enter_context(HostileClient(stage.port)).publishing(name)
            viewer = stack.enter_context(HostileClient(stage.port)).playing(name)
            for _ in range(50):
                time_ms = chance.choice((0, 0xFFFFFE, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF))
                key_frame = b"\x17\x01\0\0\0" + bytes(90)
                client.push(message(VIDEO, key_frame, csid=6, stream_id=1, time_ms=time_ms))
                client.push(full_header(7, AUDIO, 5, stream_id=1, time_ms=0xFFFFFFFF) + b"\xaf\x01abc")
                client.push(basic_header(3, 7) + chance.randbytes(4) + b"\xaf\x01abc")
            viewer.push(command("pause", 0.0, None, True, 0.0, stream_id=1))


def test_messages_of_nothing_do_not_hold_up_the_others(stage: Stage) -> None:
    """One byte each is the cheapest message for a peer, and it costs the server as much as any other."""
    with stage.attack(), ExitStack() as stack:
        crowd = [stack.enter_context(HostileClient(stage.port)).publishing(new_name()) for _ in range(4)]
        for client in crowd:
            client.send(full_header(4, AUDIO, 0, stream_id=1))
        flood([(client, basic_header(3, 4) * 10_000) for client in crowd], 4.0)
        assert closed_of(crowd, TOO_FAST_S + REFUSED_S + SWEEP_S) == len(crowd), "so many messages are refused"


def test_an_aggregate_of_many_empty_items_does_not_hold_up_the_others(stage: Stage) -> None:
    with stage.attack(), HostileClient(stage.port) as client:
        client.publishing(new_name()).send(BIG_CHUNKS)
        item = bytes([AUDIO]) + bytes(14)
        client.send(message(AGGREGATE, item * 200_000, csid=6, stream_id=1, chunk_bytes=0xFFFFFF))
        assert client.is_refused(TOO_FAST_S + REFUSED_S + SWEEP_S), "so many messages are refused, also in one"


def test_a_violation_behind_a_request_that_had_to_wait_ends_the_connection(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=20 * MIB), HostileClient(stage.port) as client:
        taken = command("publish", 3.0, None, STREAM_NAME, "live", stream_id=1)
        client.with_stream().push(taken + connect_command())
        assert client.is_refused(REFUSED_S + SWEEP_S)


def test_a_fast_publisher_is_not_slowed_down_because_nobody_watches(stage: Stage) -> None:
    with stage.attack(), HostileClient(stage.port) as client:
        client.publishing(new_name()).send(BIG_CHUNKS)
        started_at = time.monotonic()
        frame = message(VIDEO, b"\x27\x01\0\0\0" + bytes(50_000), csid=6, stream_id=1, chunk_bytes=0xFFFFFF)
        for _ in range(240):
            client.send(frame)
        client.send(command("getStreamLength", 7.0, None, "x"))
        client.until(b"_result")
        assert time.monotonic() - started_at < 3.0


def test_messages_in_chunks_of_one_byte_do_not_hold_up_the_others(stage: Stage) -> None:
    with stage.attack(), HostileClient(stage.port) as client:
        client.publishing(new_name()).send(control(SET_CHUNK_SIZE, (1).to_bytes(4, "big")))
        frames = message(VIDEO, b"\x27\x01\0\0\0" + bytes(50_000), csid=6, stream_id=1, chunk_bytes=1)
        flood([(client, frames)], 2.0)
