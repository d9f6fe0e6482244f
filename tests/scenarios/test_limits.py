"""Limits on how many, how much and how fast: the one too many is turned away, and all who were there go on."""

import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scenarios.hostile_stage import SHORT_DEADLINES, STAGE_CONNECTIONS, SWEEP_S, Stage, hostile_stage, judge
from tests.support.hostile_clients import (
    AUDIO,
    SET_CHUNK_SIZE,
    VIDEO,
    HostileClient,
    basic_header,
    closed_of,
    command,
    control,
    flood,
    full_header,
    hostile_crowd,
    message,
)
from tests.support.memory_of import family_of, processor_s, wait_for_holdings
from tests.support.witness import STREAM_NAME, VIEWERS

pytestmark = pytest.mark.alone

MAX_CONNECTIONS = 20
MAX_VIEWERS = 6
MAX_PUBLISH_BPS = 4_000_000
MAX_MESSAGE_BYTES = 100_000
AT_ONCE_S = 1.0
TOO_FAST_S = 5.0
"""For how long one is slowed down before it is closed."""
SLACK_S = 3.0
KERNEL_BYTES = 8_000_000
"""What is in the buffers of both sockets, and was never read by the server."""
MEASURED_S = 2.0

LIMITS = SHORT_DEADLINES.replace(
    "[limits]",
    f"""[limits]
max_connections = {MAX_CONNECTIONS}
max_viewers_per_stream = {MAX_VIEWERS}
max_publish_bps = {MAX_PUBLISH_BPS}
max_message_bytes = {MAX_MESSAGE_BYTES}""",
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("limits"), LIMITS) as stage:
        yield stage


def limits_hit(stage: Stage) -> set[object]:
    return {line["limit"] for line in stage.server.log_lines() if "limit" in line}


def test_one_connection_too_many_is_closed_at_once(stage: Stage) -> None:
    free = MAX_CONNECTIONS - STAGE_CONNECTIONS
    with stage.attack(max_growth_bytes=10_000_000), hostile_crowd(stage.port, free) as crowd:
        crowd[-1].connected()
        with HostileClient(stage.port) as late:
            assert late.is_refused(AT_ONCE_S)
        crowd[0].socket.close()
        crowd[1].connected()
        # Those who left are told of to the supervisor together.
        time.sleep(0.2)
        with HostileClient(stage.port) as next_one:
            next_one.connected()
    assert "connections" in limits_hit(stage)


def test_one_viewer_too_many_is_told_so(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=10_000_000), ExitStack() as stack:
        for _ in range(MAX_VIEWERS - VIEWERS):
            stack.enter_context(HostileClient(stage.port)).playing(STREAM_NAME)
        late = stack.enter_context(HostileClient(stage.port)).with_stream()
        late.send(command("play", 0.0, None, STREAM_NAME, stream_id=1))
        late.until(b"NetStream.Play.Failed")
    assert "viewers per stream" in limits_hit(stage)


def test_who_publishes_too_fast_is_slowed_down_and_closed(stage: Stage) -> None:
    frame = message(VIDEO, b"\x27\x01\0\0\0" + bytes(20_000), csid=6, stream_id=1)
    with stage.attack(max_growth_bytes=70_000_000), HostileClient(stage.port) as client:
        client.publishing("fast")
        (taken,) = flood([(client, frame)], TOO_FAST_S + SLACK_S)
        assert client.is_refused(1.0)
        allowed_bytes = MAX_PUBLISH_BPS // 8 * (2.0 + TOO_FAST_S + 1.0)
        assert taken < allowed_bytes + KERNEL_BYTES, "more was taken than the limit says"
    assert "publish bandwidth" in limits_hit(stage)


def test_who_publishes_too_many_messages_is_slowed_down_and_closed(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=70_000_000), HostileClient(stage.port) as client:
        client.publishing("many").send(full_header(4, AUDIO, 0, stream_id=1))
        flood([(client, basic_header(3, 4) * 1000)], TOO_FAST_S + SLACK_S)
        assert client.is_refused(1.0)
    assert "publish messages" in limits_hit(stage)


def test_who_publishes_below_the_limit_goes_on(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=10_000_000), HostileClient(stage.port) as client:
        client.publishing("moderate")
        for number in range(60):
            payload = b"\x27\x01\0\0\0" + bytes(MAX_PUBLISH_BPS // 8 // 20 * 3 // 4)
            client.send(message(VIDEO, payload, csid=6, stream_id=1, time_ms=50 * number))
            time.sleep(0.05)
        client.send(command("getStreamLength", 7.0, None, "x"))
        client.until(b"_result")


def test_a_message_may_be_as_large_as_the_limit_and_no_larger(stage: Stage) -> None:
    with stage.attack(max_growth_bytes=10_000_000), HostileClient(stage.port) as client:
        client.publishing("large").send(control(SET_CHUNK_SIZE, (1 << 20).to_bytes(4, "big")))
        client.send(message(VIDEO, b"\x17\x01" + bytes(MAX_MESSAGE_BYTES - 2), stream_id=1, chunk_bytes=1 << 20))
        client.send(command("getStreamLength", 7.0, None, "x"))
        client.until(b"_result").push(full_header(6, VIDEO, MAX_MESSAGE_BYTES + 1, stream_id=1))
        assert client.is_refused(AT_ONCE_S)


def test_one_address_may_have_so_many_connections(tmp_path: Path) -> None:
    limits = "max_connections_per_ip = 10\nexempts_loopback = false"
    with hostile_stage(tmp_path, SHORT_DEADLINES.replace("[limits]", f"[limits]\n{limits}")) as stage:
        with stage.attack(max_growth_bytes=10_000_000), hostile_crowd(stage.port, 10 - STAGE_CONNECTIONS) as crowd:
            crowd[-1].connected()
            with HostileClient(stage.port) as late:
                assert late.is_refused(AT_ONCE_S)
            with HostileClient(stage.port, source="127.0.0.2") as other:
                other.connected()
        with HostileClient(stage.port) as later:
            later.connected()
        assert "connections per address" in limits_hit(stage)


def test_out_of_descriptors_accepting_pauses_without_spinning_and_resumes(tmp_path: Path) -> None:
    patient = SHORT_DEADLINES.replace("handshake_deadline_s = 2.0", "handshake_deadline_s = 60")
    with hostile_stage(tmp_path, patient) as stage:
        pid = stage.server.program.pid
        used = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        first_free = next(number for number in range(len(used) + 1) if number not in used)
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (first_free, before[1]))
        stage.witness.testify()
        with hostile_crowd(stage.port, 50) as crowd:
            wait_for_holdings(pid, lambda now: "descriptors" in limits_hit(stage), AT_ONCE_S)
            # Of the process that accepts, without its workers, which serve the witness meanwhile.
            started_s = processor_s(pid)
            time.sleep(MEASURED_S)
            assert processor_s(pid) - started_s < 0.2 * MEASURED_S
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            # Those who waited in line come to their turn.
            crowd[0].connected()
            crowd[-1].connected()
        judge(stage.witness.testify())
        assert "descriptors" in limits_hit(stage)


def test_workers_out_of_descriptors_turn_newcomers_away_and_serve_the_others(tmp_path: Path) -> None:
    patient = SHORT_DEADLINES.replace("handshake_deadline_s = 2.0", "handshake_deadline_s = 60")
    with hostile_stage(tmp_path, patient) as stage:
        for worker in family_of(stage.server.program.pid)[1:]:
            most = max(int(entry.name) for entry in Path(f"/proc/{worker}/fd").iterdir()) + 12
            resource.prlimit(worker, resource.RLIMIT_NOFILE, (most, most))
        stage.witness.testify()
        with hostile_crowd(stage.port, 80) as crowd:
            assert closed_of(crowd, AT_ONCE_S) > 0
        judge(stage.witness.testify())
        assert "descriptors" in limits_hit(stage)
        time.sleep(SWEEP_S)
        with HostileClient(stage.port) as later:
            later.connected()
