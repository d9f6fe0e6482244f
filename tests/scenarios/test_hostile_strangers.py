"""Those who are not let in: what comes before a connect is refused in time and costs the others nothing."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.scenarios.hostile_stage import (
    CONNECT_DEADLINE_S,
    HANDSHAKE_DEADLINE_S,
    MIB,
    SWEEP_S,
    Stage,
    hostile_stage,
)
from tests.support.hostile_clients import (
    AMF3_COMMAND,
    AMF3_DATA,
    AUDIO,
    COMMAND,
    DATA,
    GREETING,
    VIDEO,
    HostileClient,
    amf,
    basic_header,
    closed_of,
    command,
    connect_command,
    full_header,
    hostile_crowd,
    message,
    nested_objects,
)

pytestmark = pytest.mark.alone

SLACK_S = 1.0
HANDSHAKE_CLOSED_S = HANDSHAKE_DEADLINE_S + SWEEP_S + SLACK_S
CONNECT_CLOSED_S = CONNECT_DEADLINE_S + SWEEP_S + SLACK_S
TLS_GREETING = bytes.fromhex("160301 00f1 010000ed 0303") + bytes(236)
HTTP_GREETING = b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: browser\r\n\r\n"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("strangers")) as stage:
        yield stage


def test_hundreds_who_shake_hands_byte_by_byte_are_closed_at_the_deadline(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=30 * MIB), hostile_crowd(stage.port, 300) as crowd:
        opened_at = time.monotonic()
        for byte in GREETING[:4]:
            for client in crowd:
                client.push(bytes([byte]))
            time.sleep(0.5)
        assert closed_of(crowd, HANDSHAKE_CLOSED_S - (time.monotonic() - opened_at)) == len(crowd)


def test_hundreds_who_say_nothing_are_closed_at_the_deadline(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=30 * MIB), hostile_crowd(stage.port, 300) as crowd:
        assert closed_of(crowd, HANDSHAKE_CLOSED_S) == len(crowd)


def test_those_who_shake_hands_and_never_connect_are_closed_at_the_deadline(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=30 * MIB), hostile_crowd(stage.port, 100) as crowd:
        for client in crowd:
            client.greeted()
        assert closed_of(crowd, CONNECT_CLOSED_S) == len(crowd)


def test_answers_before_connect_do_not_put_off_the_deadline(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=10 * MIB), HostileClient(stage.port) as client:
        client.greeted()
        give_up_at = time.monotonic() + CONNECT_CLOSED_S
        while client.push(command("createStream", 2.0, None)) and time.monotonic() < give_up_at:
            time.sleep(0.1)
        assert time.monotonic() < give_up_at


def test_random_bytes_are_refused_in_every_state(stage: Stage) -> None:
    chance = random.Random(20)
    with stage.attack(max_growth_bytes=30 * MIB), ExitStack() as stack:
        crowd = []
        for index in range(60):
            client = stack.enter_context(HostileClient(stage.port))
            if index % 3 == 1:
                client.greeted()
            if index % 3 == 2:
                client.connected()
            client.push(chance.randbytes(32 * 1024))
            client.push(chance.randbytes(32 * 1024))
            crowd.append(client)
        # One in connected state may wait for the rest of a message that chance declared: it is closed when silent.
        strangers = [client for index, client in enumerate(crowd) if index % 3 < 2]
        assert closed_of(strangers, CONNECT_CLOSED_S) == len(strangers)


@pytest.mark.parametrize(
    "greeting",
    [
        pytest.param(TLS_GREETING, id="TLS"),
        pytest.param(HTTP_GREETING, id="HTTP"),
        pytest.param(b"\x00" + GREETING[1:], id="version 0"),
        pytest.param(b"\x02" + GREETING[1:], id="version 2"),
        pytest.param(b"\x06" + GREETING[1:], id="version 6, encrypted RTMP"),
        pytest.param(b"\x1f" + GREETING[1:], id="version 31"),
        pytest.param(b"\x20" + GREETING[1:], id="version 32"),
        pytest.param(b"\xff" * 4096, id="version 255"),
    ],
)
def test_other_greetings_end_at_the_deadline_at_the_latest(stage: Stage, greeting: bytes) -> None:
    with stage.attack(max_growth_bytes=10 * MIB), HostileClient(stage.port) as client:
        client.push(greeting)
        assert client.is_refused(CONNECT_CLOSED_S)


@pytest.mark.parametrize(
    "early",
    [
        pytest.param(message(AUDIO, b"\xaf\x01abc", stream_id=1), id="audio"),
        pytest.param(message(VIDEO, b"\x17\x01\0\0\0abc", stream_id=1), id="video"),
        pytest.param(message(DATA, amf("@setDataFrame", "onMetaData", {}), stream_id=1), id="metadata"),
        pytest.param(message(AMF3_DATA, b"\0" + amf("onMetaData", {}), stream_id=1), id="metadata as AMF3"),
        pytest.param(command("publish", 3.0, None, "x", "live", stream_id=1), id="publish"),
        pytest.param(command("play", 3.0, None, "witness", stream_id=1), id="play"),
        pytest.param(message(COMMAND, amf("connect", 1.0) + nested_objects(100_000))[:400_000], id="deep connect"),
        pytest.param(
            message(COMMAND, amf("connect", 1.0) + nested_objects(15_000)), id="connect as deep as a message may be"
        ),
        pytest.param(message(AMF3_COMMAND, b"\0" + amf("connect", 1.0) + nested_objects(15_000)), id="deep AMF3"),
        pytest.param(message(COMMAND, b"\x0c\xff\xff\xff\xff"), id="text of 4 GB announced"),
        pytest.param(message(COMMAND, b"\x0a\xff\xff\xff\xff"), id="array of 4 G announced"),
        pytest.param(message(COMMAND, b""), id="empty command"),
        pytest.param(full_header(3, COMMAND, 0xFFFFFF), id="16 MiB declared"),
        pytest.param(basic_header(3, 65599), id="a continuation of nothing"),
        pytest.param(
            b"".join(full_header(csid, AUDIO, 100) + b"x" * 100 for csid in range(64, 364)), id="chunk streams"
        ),
        pytest.param(connect_command() * 2, id="connect twice"),
        pytest.param(connect_command(""), id="no app"),
        pytest.param(connect_command("x" * 60_000), id="an app of 60 kB"),
    ],
)
def test_what_must_not_come_before_or_as_connect_is_refused_at_once(stage: Stage, early: bytes) -> None:
    with stage.attack(max_growth_bytes=10 * MIB), HostileClient(stage.port) as client:
        client.greeted().push(early)
        assert client.is_refused(HANDSHAKE_DEADLINE_S)


def test_thousands_who_come_and_go_are_forgotten(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=30 * MIB):
        for index in range(3000):
            client = HostileClient(stage.port)
            if index % 3 == 0:
                client.push(GREETING)
            if index % 2:
                client.reset()
            else:
                client.socket.close()
