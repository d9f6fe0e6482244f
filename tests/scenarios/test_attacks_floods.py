"""Floods that cause no event in the server, and such as are closed for it: a peer costs its own connection."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.scenarios.hostile_stage import NO_EXEMPTIONS, Stage, hostile_stage
from tests.support.attacks import EVENTLESS, Load, State, begun, connected, crowd, pipelined_opening, publishing
from tests.support.hostile_clients import HostileClient, flood

pytestmark = pytest.mark.alone

ATTACK_S = 3.0
CLOSED_S = 15.0
"""By then whoever sends far too many messages has been slowed down and closed."""
EXPENSIVE = ("interleaved chunks of 1 byte", "unknown commands of 4 bytes")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with hostile_stage(tmp_path_factory.mktemp("attacks"), NO_EXEMPTIONS) as stage:
        yield stage


@pytest.mark.parametrize("what", EVENTLESS)
def test_eight_who_flood_hold_up_nobody(stage: Stage, what: str) -> None:
    assault(stage, 8, connected, EVENTLESS[what])


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("what", EXPENSIVE)
def test_one_and_a_hundred_who_flood_hold_up_nobody(stage: Stage, what: str, size: int) -> None:
    assault(stage, size, connected, EVENTLESS[what])


@pytest.mark.parametrize("what", EXPENSIVE)
def test_eight_publishers_who_flood_hold_up_nobody(stage: Stage, what: str) -> None:
    assault(stage, 8, publishing, EVENTLESS[what])


@pytest.mark.parametrize("size", [1, 100])
def test_one_and_a_hundred_publishers_who_flood_hold_up_nobody(stage: Stage, size: int) -> None:
    assault(stage, size, publishing, EVENTLESS["unknown commands of 4 bytes"])


@pytest.mark.parametrize("state", [connected, publishing])
def test_floods_of_every_kind_together_hold_up_nobody(stage: Stage, state: State) -> None:
    with stage.attack(), ExitStack() as stack:
        attackers = crowd(stage, stack, len(EVENTLESS), state)
        attacks = [begun([client], load)[0] for client, load in zip(attackers, EVENTLESS.values(), strict=True)]
        assert all(flood(attacks, ATTACK_S))


@pytest.mark.parametrize("state", [connected, publishing])
def test_who_floods_on_is_closed_with_a_reason(stage: Stage, state: State) -> None:
    with stage.attack(), ExitStack() as stack:
        (client,) = crowd(stage, stack, 1, state)
        lines_before = len(stage.server.log_lines())
        flood(begun([client], EVENTLESS["unknown commands of 4 bytes"]), CLOSED_S)
        assert client.is_refused(1.0), "the attacker is connected still"
    assert any("limit" in line for line in stage.server.log_lines()[lines_before:]), "the log has no reason"


def test_who_comes_back_whenever_it_is_closed_holds_up_nobody(stage: Stage) -> None:
    load = EVENTLESS["unknown commands of 4 bytes"]
    with stage.attack(), ExitStack() as stack:

        def another() -> HostileClient:
            return stack.enter_context(stage.attacker())

        opening = pipelined_opening() + load.once
        flood([(another(), opening + load.again * 1000) for _ in range(8)], ATTACK_S, reads=True, comes_back=another)


def assault(stage: Stage, size: int, state: State, load: Load) -> None:
    with stage.attack(), ExitStack() as stack:
        assert all(flood(begun(crowd(stage, stack, size, state), load), ATTACK_S))
