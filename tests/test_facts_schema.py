"""The JSON Schema of facts, judged by a validator that is not ours, on facts that the server and the simulator make."""

import copy
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from penstock import cli
from penstock.facts import CONTRACT_VERSION, FACTS
from penstock.facts_schema import facts_schema
from penstock.pipeline.simulator.landing import write_landing
from penstock.pipeline.simulator.plan import Platform
from tests.serve.live_server import inter_frame, key_frame
from tests.serve.telemetry.telling_server import telling
from tests.support.rtmp_driver import rtmp_client

Line = dict[str, Any]
VALIDATOR = Draft202012Validator(facts_schema())


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Line]:
    """A fact of each kind that the simulator makes."""
    folder = tmp_path_factory.mktemp("facts")
    write_landing(Platform(day=date(2026, 11, 15), viewers=30, landing_s=3600), folder)
    lines = (line for path in folder.rglob("*.jsonl") for line in path.read_bytes().splitlines())
    # The last line of a server that was killed is torn.
    return {fact["kind"]: fact for line in lines if line.endswith(b"}") and (fact := json.loads(line))}


def told_by_a_server() -> Iterator[Line]:
    with telling(sample_s=0.2) as told, rtmp_client(told.port) as publisher, rtmp_client(told.port) as viewer:
        publisher.publish("test")
        viewer.play("test")
        publisher.send([key_frame(0), inter_frame(40)])
        for kind in ("play_first_keyframe", "stream_sample", "viewer_sample"):
            told.wait_for(kind)
        yield from told.all()


def faults(line: object) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(line)]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(facts_schema())
    assert list(facts_schema()["$defs"]) == list(FACTS)


def test_every_field_with_a_unit_or_a_riddle_is_described() -> None:
    play_stopped = facts_schema()["$defs"]["play_stopped"]
    assert play_stopped["properties"]["startup_us"] == {
        "type": ["integer", "null"],
        "description": "From the request to its first key frame; None: it never got one.",
    }
    assert "startup_us" not in play_stopped["required"]
    assert "at_us" in play_stopped["required"]


def test_facts_of_a_server_are_valid() -> None:
    told = list(told_by_a_server())
    assert {"connection_opened", "publish_started", "stream_sample", "viewer_sample"} <= {fact["kind"] for fact in told}
    assert [faults(fact) for fact in told] == [[]] * len(told)


def test_facts_of_the_simulator_are_valid(simulated: dict[str, Line]) -> None:
    assert len(simulated) >= 8
    assert {kind: faults(fact) for kind, fact in simulated.items()} == {kind: [] for kind in simulated}


def test_a_field_that_the_schema_does_not_know_is_no_fault(simulated: dict[str, Line]) -> None:
    assert faults({**simulated["play_started"], "new": 1}) == []


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "play_begun"},
        {"version": CONTRACT_VERSION + 1},
        {"version": 0},
        {"seq": 0},
        {"seq": "1"},
        {"at_us": 1.5},
        {"stream": None},
        {"client": 7},
    ],
    ids=str,
)
def test_a_fact_that_is_wrong_is_refused(simulated: dict[str, Line], change: Line) -> None:
    assert faults({**simulated["play_started"], **change}) != []


def test_a_fact_without_a_field_of_its_kind_is_refused(simulated: dict[str, Line]) -> None:
    line = copy.copy(simulated["play_started"])
    del line["app"]
    assert faults(line) != []


@pytest.mark.parametrize("line", [None, [], "play_started", {}], ids=str)
def test_what_is_no_fact_is_refused(line: object) -> None:
    assert faults(line) != []


def test_the_command_prints_all_kinds_or_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["facts", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == facts_schema()
    assert cli.main(["facts", "schema", "--kind", "limit_hit"]) == 0
    assert json.loads(capsys.readouterr().out) == schema["$defs"]["limit_hit"]
