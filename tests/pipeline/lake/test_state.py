"""What one run leaves for the next: kept whole, by one writer after the other, and right after any kill."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import LakeBusy, LakeError
from penstock.pipeline.lake.delta import Pinned
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE
from penstock.pipeline.lake.state import Batch, BootHour, BootSpan, OpenSessions, State, StateTable, Touched, _state
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.lake.lake_rows import put_file, rows_of

HOUR, NEXT_HOUR = "2026-11-15T20", "2026-11-15T21"
BOOT = BootSpan(7, "s", "b", 100, 200, 1, 3, 3, is_stopped=False)
TOUCHED = Touched({"play_started": frozenset([HOUR])}, {HOUR: frozenset([HOUR])}, frozenset([HOUR]))
BATCH = Batch(0, 5, ("a.jsonl",), TOUCHED, (BOOT,), (BootHour(7, HOUR, 1, 3, has_streams=True),), {"facts": 3})


class Killed(Exception):
    """As if the process had ended here."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(tmp_path))


def ingest(lake: Lake, batch: Batch = BATCH) -> None:
    """A batch with one row, as a run does it."""
    bronze = lake.table(BRONZE).pin_or_create()
    state = lake.read_state(bronze)
    lake.ingest(bronze, state, batch, [put_file(lake, BRONZE, HOUR, rows_of(BRONZE, {"seq": 1}), kind="play_started")])


def killed_at(lake: Lake, point: str) -> Lake:
    """The same lake for a run that does not get further."""

    def kill(reached: str) -> None:
        if reached == point:
            raise Killed

    return Lake(lake.storage, kill)


def facts_in(lake: Lake) -> int:
    pinned = lake.pin(BRONZE)
    return 0 if pinned is None else sum(file.rows for file in pinned.files)


def test_a_lake_without_a_state_has_an_empty_one(lake: Lake) -> None:
    assert lake.read_state() == State()


def test_everything_in_a_state_is_read_as_it_was_written(lake: Lake) -> None:
    written = State(
        boots={7: BOOT},
        boot_hours={(7, HOUR): BootHour(7, HOUR, 1, 3, has_streams=True)},
        fact_hours={"play_started": frozenset([HOUR, NEXT_HOUR])},
        view_starts={NEXT_HOUR: frozenset([HOUR])},
        pending=TOUCHED,
        spoken=frozenset([7]),
        planned={"silver.views": frozenset([HOUR])},
        sessions={"silver.views": {HOUR: OpenSessions(frozenset("b"), frozenset("c"), NEXT_HOUR)}},
        landed_at_us={"a.jsonl": 5},
        recordings={"x/1.flv": HOUR},
        masked=frozenset(["play_started/2026-11-15"]),
        transforms_version=4,
        counts={"facts": 3},
        under_way=(BATCH,),
    )
    after = lake.state.commit(written)
    assert after == replace(written, version=1, under_way=(replace(BATCH, number=1),))
    assert Lake(lake.storage).read_state() == after


def test_a_boot_in_a_state_from_before_there_were_workers_is_of_none() -> None:
    known = {name: value for name, value in asdict(BOOT).items() if name != "worker"}
    assert _state(1, [("boot", "7", json.dumps(known))]).boots == {7: BOOT}


def test_a_state_is_one_file_and_older_ones_go_with_a_vacuum(lake: Lake) -> None:
    state = State()
    for number in range(5):
        state = lake.state.commit(replace(state, counts={"facts": number}))
    assert lake.read_state() == state
    lake.state.vacuum()
    assert lake.read_state().counts == {"facts": 4}


def test_the_second_of_two_first_states_is_refused(lake: Lake) -> None:
    lake.state.commit(State(counts={"facts": 1}))
    with pytest.raises(LakeBusy, match="another writer"):
        StateTable(lake.storage).commit(State(counts={"facts": 2}))
    assert lake.read_state().counts == {"facts": 1}


@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from(["read", "commit"])), min_size=4, max_size=10))
def test_in_any_interleaving_of_two_writers_nothing_is_lost_and_who_comes_second_is_refused(
    steps: list[tuple[str, str]],
) -> None:
    with TemporaryDirectory() as folder:
        writers = {name: StateTable(Storage(folder)) for name in "AB"}
        held = dict.fromkeys("AB", State())
        committed: dict[str, int] = {}
        newest = -1
        for number, (name, step) in enumerate(steps):
            if step == "read":
                held[name] = writers[name].read(None)
                assert held[name].counts == committed
                continue
            mine = {**held[name].counts, f"{name}{number}": 1}
            is_newest = held[name].version == newest
            try:
                held[name] = writers[name].commit(replace(held[name], counts=mine))
            except LakeBusy:
                assert not is_newest
            else:
                assert is_newest
                committed, newest = mine, held[name].version
        assert writers["A"].read(None).counts == committed


# A batch of facts: the state first, then bronze.


def test_a_batch_counts_once_bronze_has_it(lake: Lake) -> None:
    ingest(lake)
    state = lake.read_state()
    assert (state.under_way, dict(state.counts), facts_in(lake)) == ((), {"facts": 3}, 1)
    assert (state.boots, state.pending, state.spoken) == ({7: BOOT}, TOUCHED, frozenset([7]))
    assert dict(state.landed_at_us) == {"a.jsonl": 5}


@pytest.mark.parametrize("point", ["ingest-written", "ingest-under-way", "bronze.facts-written"])
def test_a_batch_of_a_run_that_was_killed_before_bronze_had_it_comes_again_once(lake: Lake, point: str) -> None:
    with pytest.raises(Killed):
        ingest(killed_at(lake, point))
    state = lake.read_state()
    assert (dict(state.counts), dict(state.landed_at_us), facts_in(lake)) == ({}, {}, 0)
    ingest(lake)
    state = lake.read_state()
    assert (state.under_way, dict(state.counts), facts_in(lake)) == ((), {"facts": 3}, 1)


def test_a_batch_of_a_run_that_was_killed_after_bronze_had_it_counts_and_is_not_taken_again(lake: Lake) -> None:
    with pytest.raises(Killed):
        ingest(killed_at(lake, "bronze.facts-committed"))
    state = lake.read_state()
    assert (dict(state.counts), dict(state.landed_at_us), facts_in(lake)) == ({"facts": 3}, {"a.jsonl": 5}, 1)


@pytest.mark.parametrize("restored", ["of a state before", "of none"])
def test_facts_are_not_taken_again_by_a_state_that_is_older_than_bronze(
    lake: Lake, tmp_path: Path, restored: str
) -> None:
    ingest(lake)
    log = tmp_path / "state/_delta_log"
    for entry in sorted(log.glob("*.json"))[0 if restored == "of none" else 1 :]:
        entry.unlink()
    with pytest.raises(LakeError, match="is older than bronze, which has facts of version 1"):
        ingest(Lake(lake.storage))
    assert facts_in(lake) == 1


def test_of_two_runs_that_ingest_at_once_one_batch_counts_and_its_rows_are_those_in_bronze(lake: Lake) -> None:
    first, second = Lake(lake.storage), Lake(lake.storage)
    pins: list[Pinned] = [each.table(BRONZE).pin_or_create() for each in (first, second)]
    states = [each.read_state(pinned) for each, pinned in zip((first, second), pins, strict=True)]
    added = [put_file(lake, BRONZE, HOUR, rows_of(BRONZE, {"seq": seq}), kind="play_started") for seq in (1, 2)]
    first.ingest(pins[0], states[0], BATCH, [added[0]])
    with pytest.raises(LakeBusy):
        second.ingest(pins[1], states[1], BATCH, [added[1]])
    assert (dict(lake.read_state().counts), facts_in(lake)) == ({"facts": 3}, 1)


# What is known after it.


def test_boots_and_their_hours_grow_with_every_batch() -> None:
    later = BootSpan(7, "s", "b", 150, 300, 4, 9, 2, is_stopped=True)
    hour = BootHour(7, HOUR, 4, 9, has_streams=False)
    state = State().with_batch(BATCH).with_batch(Batch(boots=(later,), boot_hours=(hour,), counts={"facts": 2}))
    assert state.boots[7] == BootSpan(7, "s", "b", 100, 300, 1, 9, 5, is_stopped=True)
    assert state.boots[7].has_gaps
    assert state.boot_hours[7, HOUR] == BootHour(7, HOUR, 1, 9, has_streams=True)
    assert state.counts == {"facts": 5}


def test_new_facts_of_a_day_without_addresses_have_theirs() -> None:
    state = State(masked=frozenset(["play_started/2026-11-15", "play_stopped/2026-11-15"])).with_batch(BATCH)
    assert state.masked == {"play_stopped/2026-11-15"}


def test_what_settles_leaves_nothing_pending_and_keeps_the_open_sessions() -> None:
    is_open, is_over = OpenSessions(frozenset("b"), frozenset(), HOUR), OpenSessions()
    state = State(planned={"silver.views": frozenset([HOUR])}, sessions={"silver.views": {NEXT_HOUR: is_open}})
    settled = state.with_batch(BATCH).settled({"silver.views": {HOUR: is_open, NEXT_HOUR: is_over}}, 4)
    assert (bool(settled.pending), settled.spoken, dict(settled.planned)) == (False, frozenset(), {})
    assert (settled.sessions, settled.transforms_version) == ({"silver.views": {HOUR: is_open}}, 4)
    assert settled.boots == {7: BOOT}


def test_days_that_bronze_has_given_up_are_forgotten() -> None:
    state = State(masked=frozenset(["play_started/2026-11-14"])).with_batch(BATCH)
    assert state.without_days_before("2026-11-15") == replace(state, masked=frozenset())
    later = state.without_days_before("2026-11-16")
    assert (dict(later.fact_hours), dict(later.view_starts), dict(later.boot_hours)) == ({}, {}, {})
    assert later.boots == state.boots
