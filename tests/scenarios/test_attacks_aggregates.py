"""Aggregates: one message that holds a million. Its parts count as messages, and only media and data are taken."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.scenarios.hostile_stage import ATTACK_S, NO_EXEMPTIONS, Stage, hostile_stage
from tests.support.attacks import BIG_CHUNKS, MAX_PAYLOAD_BYTES, State, aggregate, connected, crowd, publishing
from tests.support.hostile_clients import ATTACK_BPS, AUDIO, COMMAND, amf, flood

pytestmark = pytest.mark.alone

COMMANDS = (COMMAND, amf("x"))
SUBSCRIPTIONS = (COMMAND, amf("FCSubscribe", 2.0, None, "x"))
TINY_AUDIO = (AUDIO, b"\xaf\x01")
HUGE_S = MAX_PAYLOAD_BYTES * 8 / ATTACK_BPS + 1.0
"""How long the largest message takes to send."""
SMALL_BYTES = 50_000
"""Less than what the server keeps of half a message of anybody."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("attacks"), NO_EXEMPTIONS) as stage:
        yield stage


@pytest.mark.parametrize(
    "content", [pytest.param(COMMANDS, id="commands"), pytest.param(SUBSCRIPTIONS, id="FCSubscribe")]
)
def test_the_largest_aggregate_of_somebody_who_publishes_nothing_is_refused(
    stage: Stage, content: tuple[int, bytes]
) -> None:
    with stage.attack(), ExitStack() as stack:
        (client,) = crowd(stage, stack, 1)
        client.send(BIG_CHUNKS)
        flood([(client, aggregate(*content, MAX_PAYLOAD_BYTES, stream_id=0))], HUGE_S, reads=True)
        is_closed = client.is_refused(1.0)
    assert is_closed, "the attacker is connected still"


@pytest.mark.parametrize(
    "content", [pytest.param(SUBSCRIPTIONS, id="FCSubscribe"), pytest.param(TINY_AUDIO, id="tiny audio")]
)
def test_the_largest_aggregate_of_a_publisher_holds_up_nobody(stage: Stage, content: tuple[int, bytes]) -> None:
    with stage.attack(), ExitStack() as stack:
        (client,) = crowd(stage, stack, 1, publishing)
        client.send(BIG_CHUNKS)
        flood([(client, aggregate(*content, MAX_PAYLOAD_BYTES, stream_id=1))], HUGE_S, reads=True)


@pytest.mark.parametrize(
    ("size", "state", "content"),
    [
        pytest.param(8, connected, COMMANDS, id="commands from eight"),
        pytest.param(100, connected, SUBSCRIPTIONS, id="FCSubscribe from a hundred"),
        pytest.param(8, publishing, TINY_AUDIO, id="tiny audio from eight publishers"),
        pytest.param(100, publishing, TINY_AUDIO, id="tiny audio from a hundred publishers"),
    ],
)
def test_aggregates_one_after_another_hold_up_nobody(
    stage: Stage, size: int, state: State, content: tuple[int, bytes]
) -> None:
    load = aggregate(*content, SMALL_BYTES, stream_id=1)
    with stage.attack(), ExitStack() as stack:
        attackers = crowd(stage, stack, size, state)
        for client in attackers:
            client.send(BIG_CHUNKS)
        assert all(flood([(client, load) for client in attackers], ATTACK_S, reads=True))
