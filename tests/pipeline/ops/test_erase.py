"""A viewer and an address are forgotten wherever they were, and nothing that was counted changes."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.errors import PipelineError
from penstock.pipeline.ops.erase import Erased, erase
from tests.pipeline.landing_place import LIKE_A_GLOB, NOON_US, Place, fact
from tests.pipeline.reports.rows import commit_files, put_gold, table_of

NOON = "2026-11-15T12"


def write_views(place: Place) -> None:
    """A row of silver.views for each play in bronze: what the test needs of it, and zeros."""
    names = ("viewer_key", "auth_subject", "client", "app", "stream", "boot_key", "view_seq")
    plays = [dict(zip(names, row, strict=True)) for row in place.rows("play_started", *names)]
    commit_files(Path(place.lake.storage.root), {("silver.views", NOON): table_of("silver.views", *plays)})


def texts_below(folder: Path) -> bytes:
    """All bytes of all files, and all columns of those that may be compressed."""
    found = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        found += [path.as_posix().encode(), path.read_bytes()]
        if path.suffix == ".parquet":
            found.append(repr(pq.ParquetFile(path).read().to_pylist()).encode())
    return b"\n".join(found)


def test_an_address_and_a_viewer_are_forgotten_and_counts_stay(tmp_path: Path, spark: SparkSession) -> None:
    data = tmp_path / LIKE_A_GLOB
    place = Place(data, spark)
    elsewhere: dict[str, Any] = {"peer_addr": "203.0.113.77:1"}
    landed = place.land(
        "edge-1-b1-1.jsonl",
        fact(1, "play_started"),
        fact(2, "play_started", client="obs"),
        fact(3, "play_started", **elsewhere),
        fact(4, "play_started", auth_subject="alice", **elsewhere),
        fact(5, "play_stopped", view_id="edge-1-b1-1"),
        fact(6, "limit_hit"),
        b'{"torn": "203.0.113.7:5',
    )
    place.ingest()
    write_views(place)
    columns = ("seq", "viewer_key", "peer_addr", "network", "auth_subject")
    before = {row[0]: row for row in place.rows("play_started", *columns)}

    erased = erase(spark, place.lake, place.landing, NOON_US, ip="::ffff:203.0.113.7")
    assert erased == Erased(4, 2, publications=0, gold_rows=0, landed_lines=5, quarantined_lines=1, hours=(NOON,))
    after = {row[0]: row for row in place.rows("play_started", *columns)}
    assert (after[3], after[4]) == (before[3], before[4])
    assert [after[1][2:4], after[2][2:4]] == [(None, "203.0.113.0/24")] * 2
    assert len({row[1] for row in after.values()}) == 4, "as many different viewers as before"
    assert after[1][1].startswith("erased:")
    assert place.rows("play_stopped", "viewer_key") == [(after[1][1],)]
    assert place.rows("limit_hit", "detail") == [("somebody has 5",)]
    views = place.lake.read(spark, place.lake.pin("silver.views"), "silver.views").orderBy("view_seq")
    assert [row.viewer_key for row in views.select("viewer_key").collect()] == [after[seq][1] for seq in (1, 2, 3, 4)]
    texts = texts_below(data)
    keys = [before[seq][1].encode() for seq in (1, 2)]
    assert [name for name in (b"203.0.113.7:", b"203.0.113.7 ", *keys) if name in texts] == []
    assert before[3][1].encode() in texts

    erased = erase(spark, place.lake, place.landing, NOON_US, viewer="alice")
    assert erased == Erased(1, 1, publications=0, gold_rows=0, landed_lines=1, quarantined_lines=0, hours=(NOON,))
    assert [row[4] for row in place.rows("play_started", *columns)] == [None] * 4
    assert b"alice" not in texts_below(data)
    assert b'"203.0.113.77:1"' in landed.read_bytes()
    lines = [json.loads(line) for line in (data / "lake/_notes/erasures.jsonl").read_text().splitlines()]
    assert [(line["what"], line["facts"]) for line in lines] == [("address", 4), ("viewer", 1)]

    rows = place.rows("play_started", *columns)
    assert erase(spark, place.lake, place.landing, NOON_US, viewer="nobody").facts == 0
    assert place.rows("play_started", *columns) == rows


def test_a_subject_is_forgotten_where_it_published_and_what_it_used_is_still_counted(
    tmp_path: Path, spark: SparkSession
) -> None:
    place = Place(tmp_path, spark)
    place.land("edge-1-b1-1.jsonl", fact(1, "play_started"))
    place.ingest()
    folder = Path(place.lake.storage.root)
    alice, bob = ({"publication_id": name, "auth_subject": name, "country": "DE"} for name in ("alice", "bob"))
    commit_files(folder, {("silver.publications", NOON): table_of("silver.publications", alice, bob)})
    for table in ("usage_dimensions", "audience_dimensions"):
        put_gold(
            folder,
            table,
            NOON[:10],
            {"dimension": "auth_subject", "value": "alice", "egress_bytes": 5},
            {"dimension": "auth_subject", "value": "bob", "egress_bytes": 6},
            {"dimension": "campaign", "value": "alice", "egress_bytes": 7},
        )

    def told(table: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = place.lake.read(spark, place.lake.pin(table), table).select(*columns)
        return sorted((tuple(row) for row in rows.collect()), key=repr)

    erased = erase(spark, place.lake, place.landing, NOON_US, viewer="a:alice")
    assert (erased.publications, erased.gold_rows) == (1, 2)
    assert told("silver.publications", "auth_subject", "country") == [("bob", "DE"), (None, None)]
    for table in ("gold.usage_dimensions", "gold.audience_dimensions"):
        by_subject, by_bob, by_campaign = told(table, "egress_bytes", "dimension", "value")
        assert (by_bob, by_campaign) == ((6, "auth_subject", "bob"), (7, "campaign", "alice"))
        assert by_subject[:2] == (5, "auth_subject")
        assert by_subject[2].startswith("erased:")


def test_a_name_is_found_however_a_line_spells_it(tmp_path: Path, spark: SparkSession) -> None:
    name = 'J\u00f6rg "the\\zebra"'
    place = Place(tmp_path, spark)
    told = [fact(seq, "play_started", viewer=name, auth_subject="bob", version=seq) for seq in (1, 2, 3)]
    plain, escaped, torn = (json.dumps(each, ensure_ascii=each["seq"] == 2).encode() for each in told)
    place.land("edge-1-b1-1.jsonl", plain, escaped, torn[:-1])
    assert place.ingest().quarantined == 2

    erased = erase(spark, place.lake, place.landing, NOON_US, viewer=name)
    assert (erased.facts, erased.landed_lines, erased.quarantined_lines) == (1, 3, 2)
    texts = texts_below(tmp_path)
    assert [word for word in (b"rg \\", b'rg "', b"zebra") if word in texts] == []


def test_of_addresses_that_begin_alike_one_is_forgotten(tmp_path: Path, spark: SparkSession) -> None:
    place = Place(tmp_path, spark)
    peers = ("fe80::1%eth0:50123", "fe80::1:50124", "fe80::1:5:50125", "fe80::1:5%eth0:50126")
    landed = place.land(
        "edge-1-b1-1.jsonl", *(fact(seq, "play_started", peer_addr=peer) for seq, peer in enumerate(peers, 1))
    )
    place.ingest()
    erased = erase(spark, place.lake, place.landing, NOON_US, ip="fe80::1")
    assert (erased.facts, erased.landed_lines) == (2, 2)
    assert place.rows("play_started", "peer_addr") == [(None,), (None,), (peers[2],), (peers[3],)]
    kept = [json.loads(line)["peer_addr"] for line in landed.read_text().splitlines()]
    assert kept == ["0.0.0.0:0", "0.0.0.0:0", *peers[2:]]


@pytest.mark.parametrize(
    ("viewer", "ip", "complaint"),
    [
        (None, None, "name either"),
        ("a:alice", "203.0.113.7", "name either"),
        ("v:", None, "no name"),
        (None, "203.0.113", "is no address"),
    ],
)
def test_whom_to_erase_has_to_be_clear(
    tmp_path: Path, spark: SparkSession, viewer: str | None, ip: str | None, complaint: str
) -> None:
    place = Place(tmp_path, spark)
    with pytest.raises(PipelineError, match=complaint):
        erase(spark, place.lake, place.landing, NOON_US, viewer=viewer, ip=ip)
