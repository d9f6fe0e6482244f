"""Files land, facts are in bronze: once each, whatever else is in the files. Real files, real stream."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.errors import LakeError
from penstock.pipeline import bronze, landing, quarantine
from penstock.pipeline.bronze import Carried
from penstock.pipeline.commits import Snapshot, Touched
from penstock.pipeline.horizon import raise_horizon
from penstock.pipeline.identity import hashed_key
from penstock.pipeline.lake import Lake
from penstock.pipeline.landing import replay_quarantined
from penstock.pipeline.salts import read_salts
from tests.pipeline.landing_place import FOLDER, NOON_US, SECOND_US, Place, fact


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:
    return Place(tmp_path, spark)


def test_facts_are_carried_into_bronze_with_keys_and_what_they_touch(place: Place) -> None:
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
    assert place.carry() == Carried(1, 1, 7, 0, 0, 0, next_hour_us)

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

    snapshot = place.lake.snapshot()
    # Both hours around a start that was reckoned to lie on the edge between them.
    eleven = "2026-11-15T11"
    assert snapshot.pending == Touched(
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
    (boot,) = snapshot.boots.values()
    assert (boot.server_id, boot.boot_id, boot.min_seq, boot.max_seq, boot.facts, boot.is_stopped) == (
        "edge-1",
        "b1",
        1,
        7,
        7,
        True,
    )
    assert snapshot.landed_at_us == {f"{FOLDER}/edge-1-b1-1.jsonl": NOON_US + 60 * SECOND_US}
    assert len(snapshot.files("bronze.viewer_sample")) == 2


HOSTILE: Mapping[str, dict[str, Any] | bytes] = {
    "malformed 1": b'{"event_id":"edge-1-b1-20","server_id":"edge-1","boot',
    "malformed 2": b"",
    "malformed 3": b"\x00\x00\x00",
    "malformed 4": b"\xff\xfe\x80junk",
    "malformed 5": b"[1]",
    "malformed 6": b"{}",
    "malformed 7": b'{"a":' * 3000,
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
    "ahead_of_time 1": fact(20, "server_started", NOON_US + 11 * 60 * SECOND_US + SECOND_US),
    "absurd_value 1": fact(-20, "server_started"),
    "absurd_value 2": fact(20, "server_started", at_us=0),
    "absurd_value 3": fact(20, "viewer_sample", view_id="edge-1-b1-2", sent_bytes=2**62),
    "absurd_value 4": fact(20, "viewer_sample", view_id="edge-1-b1-2", watched_us=-(2**63)),
    "absurd_value 5": json.dumps(fact(20, "server_started", fps="?")).replace('"?"', "1e999").encode(),
    "absurd_value 6": fact(20, "server_started", viewers_sent_bytes=10**18),
    "wrong_type 4": fact(20, "server_started", fps="NaN"),
}


def test_what_is_no_fact_is_put_aside_with_its_reason_and_keeps_nothing_else_out(place: Place) -> None:
    # A crowd has watched for longer than anybody can.
    good = fact(1, "server_started", colour="a field of a newer server", at_us=NOON_US, viewers_watched_us=10**16)
    place.land("edge-1-b1-1.jsonl", good, *HOSTILE.values())
    endless = b'{"event_id":"' + b"x" * 3_000_000
    place.land_bytes("edge-1-b1-2.jsonl", endless)
    place.land("edge-1-b1-3.jsonl", fact(3, "server_stopped"), endless, fact(4, "server_stopped"))
    empty = place.land_bytes("edge-1-b1-4.jsonl", b"")
    # Spark lists no file of such a name.
    place.land("_edge-1-b1-5.jsonl", fact(5, "server_stopped"))

    carried = place.carry()
    assert f"{FOLDER}/{empty.name}" in place.lake.snapshot().landed_at_us
    assert (carried.facts, carried.quarantined) == (4, len(HOSTILE) + 2)
    expected = sorted(name.partition(" ")[0] for name in [*HOSTILE, "too_long", "too_long"])
    assert sorted(refusal for refusal, _ in place.refusals()) == expected
    assert place.rows("server_started", "seq") == [(1,)]
    assert place.rows("server_stopped", "seq") == [(3,), (4,), (5,)]
    counts = place.lake.snapshot().counts
    assert (counts["quarantined"], counts["quarantined_other_boot"]) == (len(HOSTILE) + 2, 3)
    kept = quarantine.read_quarantine(place.spark, place.lake.storage)
    assert kept.agg(F.max(F.length("raw"))).first()[0] == 64 * 1024  # type: ignore[index]


def test_facts_that_come_again_are_in_bronze_once(place: Place) -> None:
    first = [fact(seq, "server_started") for seq in (1, 2, 3)]
    place.land("edge-1-b1-1.jsonl", *first, first[1])
    assert place.carry() == Carried(1, 1, 3, 1, 0, 0, NOON_US)
    raise_horizon(place.lake.storage, "2026-11-15T11")
    # The same facts under another name, with a new one, and a fact of another boot with a number that is taken.
    others = [fact(4, "server_started"), fact(2, "server_started", boot="b2")]
    given_up = fact(5, "server_started", NOON_US - 3600 * SECOND_US - 1)
    place.land("edge-1-b1-9.jsonl", first[0], *others, given_up)
    assert place.carry() == Carried(1, 1, 2, 1, 1, 0, NOON_US)
    assert [refusal for refusal, _ in place.refusals()] == ["past_retention"]
    assert place.rows("server_started", "boot_id", "seq") == [("b1", 1), ("b1", 2), ("b1", 3), ("b1", 4), ("b2", 2)]
    assert [boot.facts for boot in place.lake.snapshot().boots.values()] == [4, 1]


def test_a_file_that_was_committed_is_left_out_though_the_stream_forgot_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.land("edge-1-b1-1.jsonl", fact(1, "server_started"), b"junk")
    place.carry()
    # As if the process had died between the commit and the stream's note of it, or the checkpoint were lost.
    place.checkpoint.delete_folder("")
    place.land("edge-1-b1-2.jsonl", fact(2, "server_started"))
    assert place.carry() == Carried(1, 1, 1, 0, 0, 0, NOON_US)
    assert place.rows("server_started", "seq") == [(1,), (2,)]
    assert len(place.refusals()) == 1

    monkeypatch.setattr(landing, "_RENEW_AFTER_BATCHES", 0)
    assert place.carry() == Carried()
    assert place.rows("server_started", "seq") == [(1,), (2,)]


def test_a_failure_keeps_its_name_and_the_batch_is_done_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    late_us = NOON_US + 3601 * SECOND_US
    place.land("edge-1-b1-1.jsonl", fact(1, "server_started"), fact(7, "server_started"), at_us=late_us)
    with monkeypatch.context() as broken:

        def snapshot_fails(lake: Lake) -> Snapshot:
            raise LakeError("the disk is gone")

        broken.setattr(Lake, "snapshot", snapshot_fails)
        with pytest.raises(LakeError, match="the disk is gone"):
            place.carry()
    assert place.carry() == Carried(1, 1, 2, 0, 0, 2, NOON_US), "late facts are carried, and counted"
    (boot,) = place.lake.snapshot().boots
    stats = bronze.joined_stats(place.lake.snapshot().files("bronze.server_started"))
    assert stats == {"seqs": {str(boot): [1, 7]}}


def test_what_an_older_contract_refused_is_replayed_after_an_upgrade(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.land("edge-1-b1-1.jsonl", fact(1, "server_started"), fact(2, "server_started", version=2), b"junk")
    place.land("edge-1-b1-3.jsonl", b"more junk")
    place.carry()
    assert replay_quarantined(place.spark, place.lake, NOON_US) == Carried()
    assert sorted(refusal for refusal, _ in place.refusals()) == ["malformed", "malformed", "unknown_version"]

    monkeypatch.setattr("penstock.pipeline.fact_lines.CONTRACT_VERSION", 2)
    monkeypatch.setattr(quarantine, "CONTRACT_VERSION", 2)
    assert replay_quarantined(place.spark, place.lake, NOON_US) == Carried(1, 0, 1, 0, 1, 0, NOON_US)
    assert place.rows("server_started", "seq") == [(1,), (2,)]
    assert place.refusals() == [("malformed", "junk"), ("malformed", "more junk")]
    assert replay_quarantined(place.spark, place.lake, NOON_US) == Carried()
