"""Facts as they should not be, through whole cycles: all of them are told, and none of them spoils a table."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.errors import PipelineError
from penstock.pipeline.build import gold
from penstock.pipeline.ingest import fact_lines, quarantine
from penstock.pipeline.ingest.fact_lines import MAX_AHEAD_US
from penstock.pipeline.lake.tables import TRANSFORMS_VERSION
from penstock.pipeline.ops import cycle
from tests.pipeline.landing_place import FOLDER, NOON_US, SECOND_US, fact
from tests.pipeline.scenarios_lake.runs import MINUTE_US, DataFolder

VIEW = "edge-1-b1-2"
HOUR_US = 60 * MINUTE_US
NOW_US = NOON_US + 3 * HOUR_US


def sample(seq: int, watched_s: int, **fields: Any) -> dict[str, Any]:
    """A sample of the one view, which began at noon."""
    at_us = NOON_US + watched_s * SECOND_US
    return fact(
        seq,
        "viewer_sample",
        at_us,
        view_id=VIEW,
        watched_us=watched_s * SECOND_US,
        sent_bytes=1000 * watched_s,
        **fields,
    )


GOOD = [fact(1, "server_started"), fact(2, "play_started"), sample(3, 10), sample(4, 20)]
LATE = [sample(7, 50)]
REFUSED = {
    "absurd_value": json.dumps(sample(8, 60, skips=-1)),
    "ahead_of_time": json.dumps(fact(9, "play_started", NOON_US + 5 * MINUTE_US + MAX_AHEAD_US + MINUTE_US)),
    "malformed": '{"event_id": "edge-1-b1-10", "server_id": "ed',
    "missing_field": json.dumps({name: value for name, value in sample(11, 60).items() if name != "sent_bytes"}),
    "other_boot": json.dumps(sample(12, 60) | {"view_id": "edge-9-b9-2"}),
    "unknown_version": json.dumps(sample(13, 60) | {"version": 2}),
    "wrong_event_id": json.dumps(sample(14, 60) | {"event_id": "edge-1-b1-1"}),
    "wrong_type": json.dumps(sample(15, 60) | {"sent_bytes": "'; DROP TABLE gold.usage; --"}),
}
CLOCK_OFF = fact(16, "clock_stepped", NOON_US + 70 * SECOND_US, wall_us=0, step_us=2_000_000, offset_us=2_000_000)


def land(data: DataFolder, name: str, lines: list[str], at_us: int, *, end: str = "\n") -> None:
    path = data.facts / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + end)
    os.utime(path, (at_us / 1e6, at_us / 1e6))


def told(data: DataFolder) -> dict[tuple[str, str], tuple[int, str]]:
    """Rows of gold.data_quality: check and subject to how many and in which words."""
    return {
        (row["check"], row["subject"]): (row["violations"], row["detail"]) for row in data.rows("gold.data_quality")
    }


def test_bad_facts_are_told_and_an_upgrade_takes_up_what_it_understands(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataFolder(tmp_path / "data", spark)
    good = [json.dumps(each) for each in GOOD]
    land(data, "good.jsonl", good, NOON_US + MINUTE_US)
    land(data, "good-again.jsonl", good, NOON_US + 2 * MINUTE_US)
    land(data, "late.jsonl", [json.dumps(each) for each in LATE], NOON_US + 2 * HOUR_US)
    # The line that was torn is the last one.
    bad = sorted(REFUSED.items(), key=lambda each: each[0] == "malformed")
    land(data, "bad.jsonl", [json.dumps(CLOCK_OFF), *(line for _, line in bad)], NOON_US + 5 * MINUTE_US, end="")

    data.cycles(NOW_US).run_cycle()
    refused = {("lines_are_understood", name): (1, "1 lines refused") for name in REFUSED}
    facts = {
        ("facts_are_complete", "edge-1-b1"): (10, "10 of 16 facts are missing"),
        ("facts_land_within_an_hour", "edge-1-b1"): (1, "1 facts landed late, at most by 119 minutes"),
        ("server_clock_is_right", "edge-1-b1"): (1, "the clock is at least 2000 ms off"),
    }
    assert told(data) == refused | facts
    (view,) = data.rows("silver.views")
    assert (view["view_id"], view["watched_us"], view["bytes_sent"]) == (VIEW, 50 * SECOND_US, 50_000)
    (usage,) = data.rows("gold.usage")
    assert usage["egress_bytes"] == 50_000
    counts = data.lake.read_state().counts
    assert (counts["facts"], counts["duplicates"], counts["quarantined"]) == (6, 4, 8)

    # Software that knows the version, and makes the tables another way.
    for module in (fact_lines, quarantine):
        monkeypatch.setattr(module, "CONTRACT_VERSION", 2)
    for module in (cycle, gold):
        monkeypatch.setattr(module, "TRANSFORMS_VERSION", TRANSFORMS_VERSION + 1)
    data.cycles(NOW_US + MINUTE_US).run_cycle()
    versions = f"version {TRANSFORMS_VERSION}, and this is {TRANSFORMS_VERSION + 1}"
    assert f"made by transforms of {versions}: 1 days are made anew" in data.said.getvalue()
    assert data.lake.read_state().transforms_version == TRANSFORMS_VERSION + 1
    (view,) = data.rows("silver.views")
    assert (view["watched_us"], view["bytes_sent"]) == (60 * SECOND_US, 60_000)
    assert ("lines_are_understood", "unknown_version") not in told(data)
    assert told(data)["facts_are_complete", "edge-1-b1"] == (9, "9 of 16 facts are missing")
    assert len(told(data)) == len(REFUSED) + 2


def test_what_spark_fails_with_is_told_with_its_heap_and_the_next_run_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataFolder(tmp_path / "data", spark)
    land(data, "good.jsonl", [json.dumps(each) for each in GOOD], NOON_US + MINUTE_US)

    def fail(_: object) -> None:
        jvm: Any = spark._jvm
        jvm.java.util.Objects.requireNonNull(None, "no room for this")

    def overflow(_: object) -> None:
        spark.sql(f"SELECT id + {2**63 - 1} FROM range(1, 2)").collect()

    for broken, reason in ((fail, "no room"), (overflow, "overflow")):
        with monkeypatch.context() as patched:
            patched.setattr(cycle, "build", broken)
            with pytest.raises(
                PipelineError, match=rf"Spark failed with a heap of 1g \(pipeline\.heap_bytes\): {reason}"
            ):
                data.cycles(NOW_US).run_cycle()
    data.cycles(NOW_US).run_cycle()
    assert [row["view_id"] for row in data.rows("silver.views")] == [VIEW]
