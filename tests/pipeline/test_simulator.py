"""The simulated platform: repeatable, and true to the contract of facts."""

import dataclasses
import json
import typing
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.facts import FACTS, Envelope
from penstock.pipeline.simulator import Platform, Truth, write_landing
from penstock.pipeline.simulator.facts import FactsOfPlan
from penstock.pipeline.simulator.story import make_plan

EVENING = Platform(viewers=150, first_hour=20, hours=1)
NULL = type(None)


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    folder = tmp_path_factory.mktemp("simulated")
    return folder, write_landing(EVENING, folder)


def whole_lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)


NOT_SIMULATED = {"push_started", "push_state", "push_stopped", "view_beacon"}
"""No table is made of pushes; beacons come from players over HTTP, and the platform's viewers use RTMP."""


def rows_of(platform: Platform) -> list[list[dict[str, Any]]]:
    hours = FactsOfPlan(make_plan(platform)).hours()
    return [told.table.to_pylist() for hour in hours for told in hour.kinds.values()]


def test_the_same_seed_gives_the_same_facts_and_another_one_does_not() -> None:
    small = replace(EVENING, viewers=20)
    assert rows_of(small) == rows_of(small)
    assert rows_of(small) != rows_of(replace(small, seed=2))


def test_every_kind_of_fact_is_told_with_the_fields_of_its_contract() -> None:
    (hour,) = FactsOfPlan(make_plan(EVENING)).hours()
    assert hour.kinds.keys() == FACTS.keys() - NOT_SIMULATED
    for kind, told in hour.kinds.items():
        fields = (*dataclasses.fields(Envelope), *dataclasses.fields(FACTS[kind]))
        assert told.table.column_names == [field.name for field in fields]
        hints = typing.get_type_hints(Envelope) | typing.get_type_hints(FACTS[kind])
        required = [name for name, hint in hints.items() if NULL not in typing.get_args(hint) and name != "kind"]
        assert [name for name in required if told.table[name].null_count] == []


def test_lines_are_numbered_by_time_without_holes_in_files_named_by_their_first(
    landed: tuple[Path, Truth],
) -> None:
    folder, truth = landed
    by_boot: dict[str, list[dict[str, Any]]] = {}
    for fact in whole_lines(folder):
        assert fact["event_id"] == f"{fact['server_id']}-{fact['boot_id']}-{fact['seq']}"
        by_boot.setdefault(fact["boot_id"], []).append(fact)
    for facts in by_boot.values():
        facts.sort(key=lambda fact: fact["seq"])
        assert [fact["seq"] for fact in facts] == list(range(1, len(facts) + 1))
        assert all(earlier["at_us"] <= later["at_us"] for earlier, later in pairwise(facts))
        assert len({fact["at_us"] - fact["mono_us"] for fact in facts}) == 1
    assert truth.facts == sum(map(len, by_boot.values()))
    for path in folder.rglob("*.jsonl"):
        first = json.loads(path.read_bytes().split(b"\n", 1)[0])
        assert path.name == f"{first['event_id']}.jsonl"
        assert path.parent.name == "hour=20"


def test_counters_of_views_and_publications_never_go_back(landed: tuple[Path, Truth]) -> None:
    counters = ("sent_bytes", "watched_us", "skips", "skipped_bytes", "received_bytes", "video_frames", "keyframes")
    last: dict[tuple[str, str], int] = {}
    for fact in sorted(whole_lines(landed[0]), key=lambda fact: fact["at_us"]):
        name = fact.get("view_id") or fact.get("publication_id")
        for counter in counters:
            if name is not None and counter in fact:
                assert fact[counter] >= last.get((name, counter), 0), (fact, counter)
                last[name, counter] = fact[counter]


def test_a_killed_server_leaves_a_torn_line_and_sessions_without_an_end(landed: tuple[Path, Truth]) -> None:
    folder, _ = landed
    facts = list(whole_lines(folder))
    stopped = {fact["boot_id"] for fact in facts if fact["kind"] == "server_stopped"}
    torn = [path for path in folder.rglob("*.jsonl") if not path.read_bytes().endswith(b"\n")]
    (killed,) = {path.name.split("-")[2] for path in torn}
    assert killed not in stopped
    for start, stop, name in (
        ("play_started", "play_stopped", "view_id"),
        ("publish_started", "publish_stopped", "publication_id"),
    ):
        begun = {fact["event_id"] for fact in facts if fact["kind"] == start and fact["boot_id"] == killed}
        ended = {fact[name] for fact in facts if fact["kind"] == stop}
        assert begun - ended
    # They come back to the next boot of the same server.
    assert sum(fact["kind"] == "server_started" for fact in facts if fact["server_id"] == "edge-2") == 2
