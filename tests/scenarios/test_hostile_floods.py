"""Floods of requests whose answers nobody reads, and viewers who do not read: bounded memory, and the end in time."""

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.scenarios.hostile_stage import MIB, SWEEP_S, Stage, hostile_stage
from tests.support.hostile_clients import (
    ABORT,
    ACKNOWLEDGEMENT,
    DATA,
    PEER_BANDWIDTH,
    PING_REQUEST,
    SET_BUFFER_LENGTH,
    SET_CHUNK_SIZE,
    USER_CONTROL,
    VIDEO,
    WINDOW_SIZE,
    HostileClient,
    amf,
    closed_of,
    command,
    control,
    flood,
    message,
)
from tests.support.witness import STREAM_NAME

pytestmark = pytest.mark.alone

STALLED_REPLY_S = 10.0
"""How long answers may stay unread."""
FLOOD_S = 4.0
TOO_FAST_S = 5.0
"""For how long one is slowed down before it is closed."""
SLOW_VIEWER_S = 3.0
SLACK_S = 2.0
RECEIVE_BUFFER_BYTES = 4096
ANSWERED = {
    "createStream": command("createStream", 2.0, None),
    "releaseStream": command("releaseStream", 2.0, None, "x"),
    "FCPublish": command("FCPublish", 2.0, None, "x"),
    "FCSubscribe": command("FCSubscribe", 2.0, None, "x"),
    "play and closeStream": command("play", 0.0, None, STREAM_NAME, stream_id=1)
    + command("closeStream", 0.0, None, stream_id=1),
    "play of nothing": command("play", 0.0, None, "nobody", stream_id=1)
    + command("closeStream", 0.0, None, stream_id=1)
    + command("getStreamLength", 2.0, None, "x"),
    "publish and FCUnpublish": command("publish", 0.0, None, "cycle", "live", stream_id=1)
    + command("FCUnpublish", 3.0, None, "cycle"),
    "publish of a name that is taken": command("publish", 0.0, None, STREAM_NAME, "live", stream_id=1),
    "play and pause": command("play", 0.0, None, STREAM_NAME, stream_id=1)
    + command("pause", 0.0, None, True, 0.0, stream_id=1)
    + command("pause", 0.0, None, False, 0.0, stream_id=1),
    "seek": command("play", 0.0, None, STREAM_NAME, stream_id=1) + command("seek", 0.0, None, 1000.0, stream_id=1) * 20,
    "ping": control(USER_CONTROL, struct.pack(">HI", PING_REQUEST, 1)),
    "unknown commands": command("doWhatever", 2.0, None, "x"),
    "getStreamLength": command("getStreamLength", 2.0, None, "x"),
    "windows": b"".join(control(PEER_BANDWIDTH, struct.pack(">IB", size, 0)) for size in (1000, 2000)),
}
ANSWERED_TO_PUBLISHERS = (
    "createStream",
    "releaseStream",
    "FCPublish",
    "FCSubscribe",
    "ping",
    "unknown commands",
    "getStreamLength",
    "windows",
)
"""What does not touch the message stream that they publish on."""
OPEN_STILL = {"publish of a name that is taken"}
"""Who wants it waits until the one who has it gives a sign of life: few answers a second."""
UNANSWERED = {
    "acknowledgements": control(ACKNOWLEDGEMENT, bytes(4)),
    "buffer lengths": control(USER_CONTROL, struct.pack(">HII", SET_BUFFER_LENGTH, 1, 0xFFFFFFFF)),
    "chunk sizes": b"".join(
        # After a size below 4, a message of four bytes would have to come in several chunks.
        control(SET_CHUNK_SIZE, size.to_bytes(4, "big"))
        for size in (4, 128, 65536, 0x7FFFFFFF)
    ),
    "aborts": control(ABORT, (6).to_bytes(4, "big")),
    "window sizes": control(WINDOW_SIZE, (0xFFFFFFFF).to_bytes(4, "big")),
    "stray media": message(VIDEO, b"\x17\x01\0\0\0abc", csid=6, stream_id=5),
    "unknown events": control(USER_CONTROL, b"\x7f\xff" + bytes(20)),
    "unknown messages": message(99, b"abc", csid=6),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("floods")) as stage:
        yield stage


def test_whoever_does_not_read_the_answers_is_read_no_more_and_closed(stage: Stage) -> None:
    with stage.attack(), ExitStack() as stack:
        crowd = {name: stack.enter_context(HostileClient(stage.port, RECEIVE_BUFFER_BYTES)) for name in ANSWERED}
        attacks = [(client.with_stream(), ANSWERED[name]) for name, client in crowd.items()]
        for name in ANSWERED_TO_PUBLISHERS:
            publisher = stack.enter_context(HostileClient(stage.port, RECEIVE_BUFFER_BYTES)).publishing(f"deaf {name}")
            crowd[f"{name} of a publisher"] = publisher
            attacks.append((publisher, ANSWERED[name]))
        flood(attacks, FLOOD_S)
        # Being slowed down, some take a few seconds to ask for more answers than are kept. To look at a client is to
        # read, so nobody looks before.
        time.sleep(TOO_FAST_S + STALLED_REPLY_S + SWEEP_S + SLACK_S)
        open_still = {name for name, client in crowd.items() if not client.is_refused(0.2)}
    assert open_still <= OPEN_STILL


@pytest.mark.parametrize("publishes", [pytest.param(False, id="by others"), pytest.param(True, id="by publishers")])
def test_floods_that_need_no_answer_cost_no_memory(stage: Stage, publishes: bool) -> None:
    with stage.attack(max_growth_bytes=20 * MIB), ExitStack() as stack:
        attacks = []
        for name, request in UNANSWERED.items():
            client = stack.enter_context(HostileClient(stage.port))
            attacks.append((client.publishing(f"flood of {name}") if publishes else client.with_stream(), request))
        taken = flood(attacks, 3.0)
        assert all(taken)


def test_those_who_leave_amid_their_requests_are_granted_nothing(stage: Stage) -> None:
    requests = [*ANSWERED.values(), command("play", 0.0, None, STREAM_NAME, stream_id=1)]
    with stage.attack(max_growth_bytes=30 * MIB), ExitStack() as stack:
        crowd = [stack.enter_context(HostileClient(stage.port, RECEIVE_BUFFER_BYTES)).with_stream() for _ in requests]
        # Enough for the server to have more answers than it sends: what else was asked for waits.
        flood(zip(crowd, requests, strict=True), 1.0)
        for client in crowd:
            client.reset()


def test_plays_in_a_row_of_a_stream_with_large_metadata_are_bounded(stage: Stage) -> None:
    metadata = amf("@setDataFrame", "onMetaData", {f"key {index}": "x" * 1000 for index in range(200)})
    play = command("play", 0.0, None, "fat", stream_id=1)
    with stage.attack(max_growth_bytes=30 * MIB), ExitStack() as stack:
        publisher = stack.enter_context(HostileClient(stage.port)).publishing("fat")
        publisher.send(message(DATA, metadata, stream_id=1))
        publisher.send(message(VIDEO, b"\x17\x01\0\0\0" + bytes(1000), csid=6, stream_id=1))
        crowd = [stack.enter_context(HostileClient(stage.port, RECEIVE_BUFFER_BYTES)).with_stream() for _ in range(5)]
        flood([(client, play) for client in crowd], 3.0)


def test_viewers_who_never_read_are_closed_and_pin_no_memory(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=40 * MIB), ExitStack() as stack:
        publisher = stack.enter_context(HostileClient(stage.port)).publishing("torrent")
        crowd = []
        for _ in range(20):
            viewer = stack.enter_context(HostileClient(stage.port, RECEIVE_BUFFER_BYTES)).with_stream()
            viewer.send(command("play", 0.0, None, "torrent", stream_id=1))
            crowd.append(viewer)
        closed_at = time.monotonic() + SLOW_VIEWER_S + SWEEP_S + SLACK_S + 1.0
        number = 0
        while time.monotonic() < closed_at:
            payload = (b"\x17" if number % 30 == 0 else b"\x27") + b"\x01\0\0\0" + bytes(20_000)
            publisher.send(message(VIDEO, payload, csid=6, stream_id=1, time_ms=33 * number))
            number += 1
            time.sleep(0.02)
        assert closed_of(crowd, 1.0) == len(crowd)
