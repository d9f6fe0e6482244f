"""Floods that cause no event in the server, and such as are closed for it: a peer costs its own connection."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.scenarios.hostile_stage import ATTACK_S, NO_EXEMPTIONS, Stage, hostile_stage
from tests.support.attacks import EVENTLESS, State, begun, connected, crowd, pipelined_opening, publishing
from tests.support.hostile_clients import HostileClient, flood

pytestmark = pytest.mark.alone

CLOSED_S = 9.0
"""By then whoever sends far too many messages has been slowed down and closed."""
CHUNKS, COMMANDS = "interleaved chunks of 1 byte", "unknown commands of 4 bytes"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("attacks"), NO_EXEMPTIONS) as stage:
        yield stage


@pytest.mark.parametrize(
    ("size", "state", "what"),
    [
        pytest.param(1, connected, CHUNKS, id="chunks from one"),
        pytest.param(8, connected, CHUNKS, id="chunks from eight"),
        pytest.param(100, connected, CHUNKS, id="chunks from a hundred"),
        pytest.param(8, publishing, CHUNKS, id="chunks from eight publishers"),
        pytest.param(8, connected, COMMANDS, id="commands from eight"),
        pytest.param(100, connected, COMMANDS, id="commands from a hundred"),
        pytest.param(8, publishing, COMMANDS, id="commands from eight publishers"),
        pytest.param(100, publishing, COMMANDS, id="commands from a hundred publishers"),
        pytest.param(8, connected, "user control messages", id="user control messages from eight"),
        pytest.param(8, connected, "aborts", id="aborts from eight"),
    ],
)
def test_who_floods_holds_up_nobody(stage: Stage, size: int, state: State, what: str) -> None:
    with stage.attack(), ExitStack() as stack:
        assert all(flood(begun(crowd(stage, stack, size, state), EVENTLESS[what]), ATTACK_S))


@pytest.mark.parametrize("state", [connected, publishing])
def test_floods_of_every_kind_together_hold_up_nobody(stage: Stage, state: State) -> None:
    with stage.attack(), ExitStack() as stack:
        attackers = crowd(stage, stack, len(EVENTLESS), state)
        attacks = [begun([client], load)[0] for client, load in zip(attackers, EVENTLESS.values(), strict=True)]
        assert all(flood(attacks, ATTACK_S))


@pytest.mark.parametrize("state", [connected, publishing])
def test_who_floods_on_is_closed_with_a_reason(stage: Stage, state: State) -> None:
    lines_before = len(stage.server.log_lines())
    with stage.attack(), ExitStack() as stack:
        (client,) = crowd(stage, stack, 1, state)
        flood(begun([client], EVENTLESS[COMMANDS]), CLOSED_S)
        is_closed = client.is_refused(1.0)
    assert is_closed, "the attacker is connected still"
    assert any("limit" in line for line in stage.server.log_lines()[lines_before:]), "the log has no reason"


def test_who_comes_back_whenever_it_is_closed_holds_up_nobody(stage: Stage) -> None:
    load = EVENTLESS[COMMANDS]
    with stage.attack(), ExitStack() as stack:

        def another() -> HostileClient:
            return stack.enter_context(stage.attacker())

        opening = pipelined_opening() + load.once
        flood([(another(), opening + load.again * 1000) for _ in range(8)], ATTACK_S, reads=True, comes_back=another)
