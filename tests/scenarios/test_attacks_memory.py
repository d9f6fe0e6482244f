"""Memory and descriptors that attackers make the server hold: half messages, logs of tiny messages, lost streams."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scenarios.hostile_stage import ATTACK_S, NO_EXEMPTIONS, Stage, hostile_stage
from tests.support.attacks import (
    AVC_CONFIG,
    BIG_CHUNK_BYTES,
    BIG_CHUNKS,
    KEY_FRAME_TAG,
    MAX_PAYLOAD_BYTES,
    begun,
    connected,
    crowd,
    publishing,
    repeated,
)
from tests.support.hostile_clients import AUDIO, VIDEO, HostileClient, closed_of, flood, full_header, message
from tests.support.witness import STREAM_NAME

pytestmark = pytest.mark.alone

HOLDERS = 12
FAST_BPS = 200_000_000
"""Memory is what these are about: at 20 Mbit/s they would only take longer."""
FILL_S = 4.0
HALF_MESSAGE_S = 10.0
"""A message that does not end in this time ends its connection."""
SLACK_S = 3.0
TINY_AUDIO = repeated(AUDIO, b"\xaf\x01abc", csid=4, stream_id=1)
DENSE_STREAM_BPS = 900_000
"""19,000 messages a second, just what a publisher may send."""
TINY_STREAMS = 60
TINY_STREAM_BPS = 10_000
TINY_S = 6.0
MAX_DESCRIPTORS = 300
WAVES = 9
WAVE_BYTES = 2_000_000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("attacks"), NO_EXEMPTIONS) as stage:
        yield stage


def hold_half(client: HostileClient) -> None:
    client.send(BIG_CHUNKS + full_header(6, VIDEO, MAX_PAYLOAD_BYTES, stream_id=1))


def test_half_messages_of_those_who_do_not_publish_are_refused(stage: Stage) -> None:
    with stage.attack(), ExitStack() as stack:
        attackers = crowd(stage, stack, HOLDERS, connected)
        for client in attackers:
            hold_half(client)
        flood([(client, bytes(1000)) for client in attackers], ATTACK_S)
        closed = closed_of(attackers, 1.0)
    assert closed == HOLDERS


def test_half_messages_of_publishers_are_bounded_together_and_in_time(stage: Stage) -> None:
    with stage.attack(), ExitStack() as stack:
        attackers = crowd(stage, stack, HOLDERS, publishing)
        for client in attackers:
            hold_half(client)
        flood([(client, bytes(100_000)) for client in attackers], FILL_S, bps=FAST_BPS)
        # A byte in a second keeps them from being silent.
        flood([(client, bytes(1)) for client in attackers], HALF_MESSAGE_S + SLACK_S, bps=8 * HOLDERS)
        closed = closed_of(attackers, 1.0)
    assert closed == HOLDERS


def test_streams_of_tiny_messages_leave_descriptors_for_others(tmp_path: Path) -> None:
    launcher = ["prlimit", f"--nofile={MAX_DESCRIPTORS}"]
    with hostile_stage(tmp_path, NO_EXEMPTIONS, launcher=launcher) as stage:
        with stage.attack(), ExitStack() as stack:
            attackers = crowd(stage, stack, TINY_STREAMS, publishing)
            for client in attackers:
                client.send(message(VIDEO, AVC_CONFIG, csid=6, stream_id=1))
                # One key frame and never another: all that follows is kept for those who join.
                client.send(message(VIDEO, KEY_FRAME_TAG, csid=6, stream_id=1))
            flood(begun(attackers, TINY_AUDIO), TINY_S, bps=TINY_STREAMS * TINY_STREAM_BPS)
            stack.enter_context(HostileClient(stage.port)).playing(STREAM_NAME)
        assert "descriptors" not in stage.limits_hit()


def test_eight_streams_of_tiny_messages_hold_up_nobody(stage: Stage) -> None:
    with stage.attack(), ExitStack() as stack:
        attackers = crowd(stage, stack, 8, publishing)
        flood(begun(attackers, TINY_AUDIO), ATTACK_S, bps=8 * DENSE_STREAM_BPS)


def test_streams_lost_without_a_word_keep_their_names_and_not_their_memory(stage: Stage) -> None:
    frame = message(VIDEO, KEY_FRAME_TAG + bytes(20_000), csid=6, stream_id=1, chunk_bytes=BIG_CHUNK_BYTES)
    opening = BIG_CHUNKS + message(VIDEO, AVC_CONFIG, csid=6, stream_id=1)
    with stage.attack():
        for _ in range(WAVES):
            with ExitStack() as stack:
                attackers = crowd(stage, stack, 8, publishing)
                for client in attackers:
                    client.send(opening)
                flood([(client, frame) for client in attackers], WAVE_BYTES * 8 * 8 / FAST_BPS, bps=FAST_BPS)
                for client in attackers:
                    client.reset()
