"""Files land, facts are in bronze: once each, whatever else is in the files."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.ingest import landing, quarantine
from penstock.pipeline.ingest.bronze import IngestResult
from penstock.pipeline.ingest.horizon import raise_horizon
from penstock.pipeline.ingest.identity import hashed_key
from penstock.pipeline.ingest.landing import ingest_landed, replay_quarantined
from penstock.pipeline.ingest.salts import read_salts
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE, folder_of
from penstock.pipeline.lake.state import Touched
from tests.pipeline.landing_place import FOLDER, NOON_US, SECOND_US, Place, fact


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:
    return Place(tmp_path, spark)


def test_facts_are_ingested_into_bronze_with_keys_and_what_they_touch(place: Place) -> None:
    next_hour_us = NOON_US + 3600 * SECOND_US
    place.land(
        "edge-1-b1-1.jsonl",
        fact(1, "server_started"),
        fact(2, "play_started"),
        fact(3, "viewer_sample", NOON_US + 5 * SECOND_US, view_id="edge-1-b1-2", watched_us=5 * SECOND_US),
        fact(4, "viewer_sample", next_hour_us, view_id="edge-1-b1-2", watched_us=3600 * SECOND_US),
        fact(5, "connection_closed", next_hour_us, duration_us=3000 * SECOND_US),
        fact(6, "play_stopped", view_id=None, auth_subject="alice"),
        fact(7, "server_stopped", next_hour_us),
        at_us=next_hour_us,
    )
    assert place.ingest() == IngestResult(files=1, facts=7)

    salt = read_salts(place.lake.storage)["2026-11"]
    viewer = hashed_key(salt, "203.0.113.7", "vlc")
    columns = ("seq", "view_seq", "viewer_key", "network", "hour", "landed_at_us")
    network, noon, one = "203.0.113.0/24", "2026-11-15T12", "2026-11-15T13"
    assert place.rows("play_started", *columns) == [(2, 2, viewer, network, noon, next_hour_us)]
    assert place.rows("play_stopped", *columns) == [(6, None, "a:alice", network, noon, next_hour_us)]
    assert place.rows("viewer_sample", *columns) == [
        (3, 2, None, None, noon, next_hour_us),
        (4, 2, None, None, one, next_hour_us),
    ]

    state = place.lake.read_state()
    # Both hours around a start that was reckoned to lie on the edge between them.
    eleven = "2026-11-15T11"
    assert state.pending == Touched(
        hours={
            "server_started": frozenset((noon,)),
            "play_started": frozenset((noon,)),
            "viewer_sample": frozenset((noon, one)),
            "connection_closed": frozenset((one,)),
            "play_stopped": frozenset((noon,)),
            "server_stopped": frozenset((one,)),
        },
        view_starts={noon: frozenset((eleven, noon)), one: frozenset((eleven, noon))},
        session_starts=frozenset((noon,)),
    )
    (boot,) = state.boots.values()
    assert (boot.server_id, boot.boot_id, boot.min_seq, boot.max_seq, boot.facts, boot.is_stopped) == (
        "edge-1",
        "b1",
        1,
        7,
        7,
        True,
    )
    assert state.landed_at_us == {f"{FOLDER}/edge-1-b1-1.jsonl": NOON_US + 60 * SECOND_US}
    bronze = place.lake.pin(BRONZE)
    assert bronze is not None
    samples = [file for file in bronze.files if file.partition == {"kind": "viewer_sample", "date": "2026-11-15"}]
    assert [(file.rows, file.least["hour"], file.most["hour"]) for file in samples] == [(2, noon, one)]


def test_facts_name_their_worker_and_those_of_older_servers_none(place: Place) -> None:
    place.land("edge-1-b1-1.jsonl", fact(1, "server_started"), fact(2, "server_stopped"))
    for worker, boot in ((1, "b2"), (2, "b3")):
        place.land(f"edge-1-{boot}-1.jsonl", fact(1, "server_started", boot=boot, worker=worker))
    assert place.ingest() == IngestResult(files=3, facts=4)
    assert place.rows("server_started", "boot_id", "worker") == [("b1", None), ("b2", 1), ("b3", 2)]
    boots = place.lake.read_state().boots.values()
    assert sorted((boot.boot_id, boot.worker) for boot in boots) == [("b1", None), ("b2", 1), ("b3", 2)]


def test_a_lake_from_before_there_were_workers_takes_facts_that_name_one(place: Place) -> None:
    place.land("edge-1-b1-1.jsonl", fact(1, "server_started"))
    place.ingest()
    forget_column(place, "worker")
    place.land("edge-1-b2-1.jsonl", fact(1, "server_started", boot="b2", worker=1))
    place.lake = Lake(place.lake.storage)
    assert place.ingest() == IngestResult(files=1, facts=1)
    assert place.rows("server_started", "boot_id", "pid", "worker") == [("b1", 1, None), ("b2", 1, 1)]


def forget_column(place: Place, name: str) -> None:
    """Have bronze as a version of the software left it that did not know a column."""
    bronze = DeltaTable(place.lake.storage.uri(folder_of(BRONZE)))
    rows = pa.table(bronze.to_pyarrow_table())
    write_deltalake(bronze, rows.drop_columns([name]), mode="overwrite", schema_mode="overwrite")
    assert name not in {field.name for field in bronze.schema().fields}


KINDS = ("server_started", "server_stopped")
HOSTILE: Mapping[str, dict[str, Any] | bytes] = {
    "malformed 1": b'{"event_id":"edge-1-b1-20","server_id":"edge-1","boot',
    "malformed 2": b"",
    "malformed 3": b"\x00\x00\x00",
    "malformed 4": b"\xff\xfe\x80junk",
    "malformed 5": b"[1]",
    "malformed 6": b"{}",
    "malformed 7": b'{"a":' * 3000,
    "malformed 11": json.dumps(fact(20, "server_started", software_version="?")).encode().replace(b"?", b"\xff"),
    "malformed 8": json.dumps(fact(20, "server_started")).encode() * 2,
    "malformed 9": json.dumps(fact(20, "server_started")).encode() + b" tail",
    "unknown_version 1": fact(20, "server_started", version=2, pid="other"),
    "unknown_version 2": fact(20, "server_started", version=0),
    "unknown_version 3": fact(20, "server_started", version="1"),
    "unknown_kind 1": fact(20, "server_danced"),
    "wrong_type 1": fact(20, "server_started", pid="1"),
    "wrong_type 2": fact(20, "viewer_sample", view_id="edge-1-b1-2", rtt_us=1.5),
    "wrong_type 3": fact(20, "viewer_sample", view_id="edge-1-b1-2", sent_bytes=10**30),
    "missing_field 1": {name: value for name, value in fact(20, "server_started").items() if name != "pid"},
    "missing_field 2": fact(20, "server_started", pid=None),
    "missing_field 3": {name: value for name, value in fact(20, "server_started").items() if name != "mono_us"},
    "wrong_event_id 1": fact(20, "server_started", event_id="edge-1-b1-21"),
    "other_boot 1": fact(20, "viewer_sample", view_id="edge-1-b2-2"),
    "other_boot 2": fact(20, "viewer_sample", view_id="edge-1-b1-x"),
    "other_boot 3": fact(20, "viewer_sample", view_id="edge-1-b1-21"),
    "other_boot 4": fact(20, "viewer_sample", view_id="edge-1-b1-" + "9" * 5000),
    "ahead_of_time 1": fact(20, "server_started", NOON_US + 11 * 60 * SECOND_US + SECOND_US),
    "absurd_value 10": fact(20, "server_started", worker=-1),
    "absurd_value 11": fact(20, "server_started", boot_wall_us=10**17),
    "absurd_value 12": fact(20, "server_started", mono_us=-1),
    "absurd_value 1": fact(-20, "server_started"),
    "absurd_value 2": fact(20, "server_started", at_us=0),
    "absurd_value 3": fact(20, "viewer_sample", view_id="edge-1-b1-2", sent_bytes=2**62),
    "absurd_value 4": fact(20, "viewer_sample", view_id="edge-1-b1-2", watched_us=-(2**63)),
    "malformed 10": json.dumps(fact(20, "stream_sample", fps="?")).replace('"?"', "1e999").encode(),
    "absurd_value 7": fact(20, "play_started", dimensions="[1]"),
    "absurd_value 8": fact(20, "play_started", dimensions='{"campaign":'),
    "absurd_value 9": fact(20, "play_started", dimensions=json.dumps({"campaign": "x" * 4096})),
    "absurd_value 6": fact(20, "stream_sample", viewers_sent_bytes=10**18),
    "wrong_type 4": fact(20, "stream_sample", fps="NaN"),
    "wrong_type 5": fact(20, "play_started", dimensions=5),
    "wrong_type 6": fact(20, "server_started") | {"kind": 5},
    "missing_field 4": fact(20, "server_started") | {"kind": None},
}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["as servers write", "with blanks"])
def test_what_is_no_fact_is_put_aside_with_its_reason_and_keeps_nothing_else_out(
    place: Place, separators: tuple[str, str]
) -> None:
    # Neither is a field of the kind, whatever is in it.
    good = fact(1, "server_started", colour="a field of a newer server", at_us=NOON_US, viewers_watched_us=10**18)
    lines = [
        line if isinstance(line, bytes) else json.dumps(line, separators=separators)
        for line in (good, *HOSTILE.values())
    ]
    place.land("edge-1-b1-1.jsonl", *(line if isinstance(line, bytes) else line.encode() for line in lines))
    endless = b'{"event_id":"' + b"x" * 3_000_000
    place.land_bytes("edge-1-b1-2.jsonl", endless)
    place.land("edge-1-b1-3.jsonl", fact(3, "server_stopped"), endless, fact(4, "server_stopped"))
    empty = place.land_bytes("edge-1-b1-4.jsonl", b"")

    ingested = place.ingest()
    assert f"{FOLDER}/{empty.name}" in place.lake.read_state().landed_at_us
    assert (ingested.facts, ingested.quarantined) == (3, len(HOSTILE) + 2)
    expected = sorted(name.partition(" ")[0] for name in [*HOSTILE, "too_long", "too_long"])
    assert sorted(refusal for refusal, _ in place.refusals()) == expected
    assert place.rows("server_started", "seq") == [(1,)]
    assert place.rows("server_stopped", "seq") == [(3,), (4,)]
    counts = place.lake.read_state().counts
    assert (counts["quarantined"], counts["quarantined_other_boot"]) == (len(HOSTILE) + 2, 4)
    kept = quarantine.read_quarantine(place.spark, place.lake.storage)
    assert kept.agg(F.max(F.length("raw"))).first()[0] == 64 * 1024  # type: ignore[index]


def test_facts_that_come_again_are_in_bronze_once(place: Place) -> None:
    first = [fact(seq, "server_started") for seq in (1, 2, 3)]
    place.land("edge-1-b1-1.jsonl", *first, first[1])
    assert place.ingest() == IngestResult(files=1, facts=3, duplicates=1)
    raise_horizon(place.lake.storage, "2026-11-15T11")
    # The same facts under another name, with a new one, and a fact of another boot with a number that is taken.
    others = [fact(4, "server_started"), fact(2, "server_started", boot="b2")]
    given_up = fact(5, "server_started", NOON_US - 3600 * SECOND_US - 1)
    place.land("edge-1-b1-9.jsonl", first[0], *others, given_up)
    assert place.ingest() == IngestResult(files=1, facts=2, duplicates=1, quarantined=1)
    assert [refusal for refusal, _ in place.refusals()] == ["past_retention"]
    assert place.rows("server_started", "boot_id", "seq") == [("b1", 1), ("b1", 2), ("b1", 3), ("b1", 4), ("b2", 2)]
    assert [boot.facts for boot in place.lake.read_state().boots.values()] == [4, 1]


@pytest.mark.parametrize("seed", range(5))
def test_a_fact_is_in_bronze_once_however_lines_are_cut_and_in_whatever_order_they_come(
    place: Place, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "PIECE_BYTES", 1)
    drawn, told, kept = random.Random(seed), [], 0
    for name in range(12):
        seqs = [drawn.randint(1, 40) for _ in range(drawn.randint(1, 12))]
        place.land(f"edge-1-b1-{name}.jsonl", *(fact(seq, drawn.choice(KINDS)) for seq in seqs))
        told += seqs
        if name in (3, 4, 11):
            kept += place.ingest().facts
    found = sorted(seq for kind in KINDS for (seq,) in place.rows(kind, "seq"))
    assert found == sorted(set(told))
    assert (kept, place.lake.read_state().counts["duplicates"]) == (len(found), len(told) - len(found))


def test_files_that_were_taken_are_left_out_and_others_are_hidden_until_they_are_whole(place: Place) -> None:
    place.land("edge-1-b1-1.jsonl", fact(1, "server_started"), b"junk")
    place.land(".edge-1-b1-2.jsonl", fact(2, "server_started"))
    assert place.ingest() == IngestResult(files=1, facts=1, quarantined=1)
    assert place.ingest() == IngestResult()
    (place.facts / FOLDER / ".edge-1-b1-2.jsonl").rename(place.facts / FOLDER / "edge-1-b1-2.jsonl")
    assert place.ingest() == IngestResult(files=1, facts=1)
    assert place.rows("server_started", "seq") == [(1,), (2,)]
    assert len(place.refusals()) == 1


def test_a_batch_is_bounded_and_a_larger_file_is_one_by_itself(place: Place) -> None:
    sizes = [place.land(f"edge-1-b1-{seq}.jsonl", fact(seq, "server_started")).stat().st_size for seq in (1, 2, 3, 4)]
    place.land("edge-1-b1-5.jsonl", *(fact(seq, "server_started") for seq in (5, 6, 7, 8)))
    seen: list[IngestResult] = []
    ingest_landed(place.lake, place.landing, NOON_US, on_batch=seen.append, max_batch_bytes=2 * max(sizes))
    assert [(total.files, total.facts) for total in seen] == [(2, 2), (4, 4), (5, 8)]


def test_a_run_that_fails_before_its_commit_leaves_nothing_and_the_files_are_taken_again(place: Place) -> None:
    late_us = NOON_US + 3601 * SECOND_US
    place.land("edge-1-b1-1.jsonl", fact(1, "server_started"), fact(7, "server_started"), at_us=late_us)

    def fail(point: str) -> None:
        if point == "ingest-under-way":
            raise OSError("the disk is gone")

    whole, place.lake = place.lake, Lake(place.lake.storage, fail)
    with pytest.raises(OSError, match="the disk is gone"):
        place.ingest()
    place.lake = whole
    assert place.ingest() == IngestResult(files=1, facts=2, late=2), "late facts are ingested, and counted"
    assert place.rows("server_started", "seq") == [(1,), (7,)]


def test_a_viewer_of_a_month_that_is_over_is_hashed_with_the_salt_of_that_month(place: Place) -> None:
    october_us = NOON_US - 30 * 24 * 3600 * SECOND_US
    place.land("edge-1-b1-1.jsonl", fact(1, "play_started", october_us), fact(2, "play_started"))
    assert place.ingest().facts == 2
    salts = read_salts(place.lake.storage)
    assert place.rows("play_started", "viewer_key") == [
        (hashed_key(salts[month], "203.0.113.7", "vlc"),) for month in ("2026-10", "2026-11")
    ]


def test_what_an_older_contract_refused_is_replayed_after_an_upgrade(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.land("edge-1-b1-1.jsonl", fact(1, "server_started"), fact(2, "server_started", version=2), b"junk")
    place.land("edge-1-b1-3.jsonl", b"more junk")
    place.ingest()
    assert replay_quarantined(place.lake, NOON_US) == IngestResult()
    assert sorted(refusal for refusal, _ in place.refusals()) == ["malformed", "malformed", "unknown_version"]

    monkeypatch.setattr("penstock.pipeline.ingest.fact_lines.CONTRACT_VERSION", 2)
    monkeypatch.setattr(quarantine, "CONTRACT_VERSION", 2)
    assert replay_quarantined(place.lake, NOON_US) == IngestResult(facts=1, quarantined=1)
    assert place.rows("server_started", "seq") == [(1,), (2,)]
    assert place.refusals() == [("malformed", "junk"), ("malformed", "more junk")]
    assert replay_quarantined(place.lake, NOON_US) == IngestResult()
