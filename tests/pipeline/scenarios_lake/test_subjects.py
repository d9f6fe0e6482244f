"""Who it was that published and watched, from the facts of servers that tell it and of one that does not yet."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from penstock.pipeline.lake.layout import folder_of
from penstock.pipeline.lake.tables import TRANSFORMS_VERSION
from tests.pipeline.landing_place import NOON_US, PEER, PLACE, SECOND_US, Place, fact
from tests.pipeline.scenarios_lake.runs import DataFolder

PUBLICATIONS = "silver.publications"
PUBLISHED: dict[str, Any] = {**PLACE, **PEER, "publishing_type": "live", "dimensions": None}


def told_by(
    boot: str, received_bytes: int, sent_bytes: int, publisher: dict[str, Any], viewer: str | None
) -> list[Any]:
    view = {"view_id": f"edge-1-{boot}-3", "watched_us": SECOND_US, "sent_bytes": sent_bytes, "auth_subject": viewer}
    received = {
        "publication_id": f"edge-1-{boot}-2",
        "received_bytes": received_bytes,
        "bitrate_bps": received_bytes * 8,
    }
    return [
        fact(1, "server_started", boot=boot),
        fact(2, "publish_started", boot=boot, **PUBLISHED, **publisher),
        fact(3, "play_started", boot=boot, auth_subject=viewer),
        fact(4, "stream_sample", NOON_US + SECOND_US, boot=boot, **received),
        fact(5, "play_stopped", NOON_US + SECOND_US, boot=boot, **view),
    ]


def forget_subjects(data: DataFolder) -> None:
    """Have the lake as the version before left it, whose publications had no such column."""
    table = DeltaTable(data.lake.storage.uri(folder_of(PUBLICATIONS)))
    rows = pa.table(table.to_pyarrow_table())
    write_deltalake(table, rows.drop_columns(["auth_subject"]), mode="overwrite", schema_mode="overwrite")
    data.lake.state.commit(replace(data.lake.read_state(), transforms_version=4))


def test_a_lake_from_before_there_were_subjects_tells_usage_by_them(tmp_path: Path, spark: SparkSession) -> None:
    place, data = Place(tmp_path, spark), DataFolder(tmp_path, spark)
    now_us = NOON_US + 60 * SECOND_US
    place.land("edge-1-b1-1.jsonl", *told_by("b1", 1000, 10, {}, None), at_us=now_us)
    data.cycles(now_us).run_cycle()
    forget_subjects(data)

    place.land("edge-1-b2-1.jsonl", *told_by("b2", 300, 7, {"auth_subject": "studio"}, "anna"), at_us=now_us)
    data.cycles(now_us + SECOND_US).run_cycle()
    assert f"version 4, and this is {TRANSFORMS_VERSION}: 1 days are made anew" in data.said.getvalue()
    assert {row["boot_id"]: row["auth_subject"] for row in data.rows(PUBLICATIONS)} == {"b1": None, "b2": "studio"}
    used = {
        row["value"]: (row["ingress_bytes"], row["egress_bytes"], row["watched_us"])
        for row in data.rows("gold.usage_dimensions")
        if row["dimension"] == "auth_subject"
    }
    assert used == {"studio": (300, 0, 0), "anna": (0, 7, SECOND_US), "unknown": (1000, 10, SECOND_US)}
