"""A server that fell silent and speaks again: the tables are those that a rebuild makes of the same facts."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.lake.layout import stored_tables
from tests.pipeline.landing_place import NOON_US, PEER, PLACE, SECOND_US, Place, fact
from tests.pipeline.scenarios_lake.runs import DataFolder

MINUTE_US = 60 * SECOND_US
NOTHING_YET: dict[str, Any] = {
    **dict.fromkeys(("fps", "bitrate_bps", "interval_timestamp_jumps", "timestamp_jumps", "audio_frames"), 0),
    **dict.fromkeys(("av_skew_ms", "keyframe_interval_ms", "media_ms", "wall_ms")),
}


def minutes(after_noon: float) -> int:
    return NOON_US + int(after_noon * MINUTE_US)


def stream_sample(seq: int, after_noon: float) -> dict[str, Any]:
    grown = dict.fromkeys(("received_bytes", "messages", "video_frames", "keyframes"), seq)
    named = {"publication_id": "edge-1-b1-2", "app": "live", "stream": "cam"}
    both = {"viewers": 2, "viewers_sent_bytes": 100 * seq, "viewers_watched_us": 2 * (minutes(after_noon) - NOON_US)}
    told: dict[str, Any] = {**named, **NOTHING_YET, **grown, **both, "interval_us": SECOND_US}
    return fact(seq, "stream_sample", minutes(after_noon), **told)


def viewer_sample(seq: int, after_noon: float, view: int, conn_id: str) -> dict[str, Any]:
    """Of a view that began at noon."""
    told: dict[str, Any] = {"view_id": f"edge-1-b1-{view}", "conn_id": conn_id, "sent_bytes": seq}
    return fact(seq, "viewer_sample", minutes(after_noon), **told, watched_us=minutes(after_noon) - NOON_US)


BEFORE = [
    fact(1, "connection_opened", conn_id="c1", peer_addr=PEER["peer_addr"], protocol="rtmp"),
    fact(2, "publish_started", NOON_US, **PLACE, **PEER, publishing_type="live"),
    fact(3, "play_started", conn_id="c3"),
    fact(4, "play_started", conn_id="c4"),
    stream_sample(5, 20.5),
    viewer_sample(6, 20.5, 3, "c3"),
    viewer_sample(7, 20.5, 4, "c4"),
    stream_sample(8, 70.5),
    viewer_sample(9, 70.5, 3, "c3"),
]
# One of the views goes on and nothing is told of the other; an hour passes without a fact.
AFTER = [stream_sample(10, 190.5), viewer_sample(11, 190.5, 3, "c3")]


DERIVED = [table for table in stored_tables() if not table.startswith("bronze.")]
REASONS = {"silver.views": "end_reason", "silver.publications": "end_reason", "silver.connections": "close_reason"}


class Told:
    """A data folder whose tables are brought up to date after each telling."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._place, self._data = Place(folder, spark), DataFolder(folder, spark)

    def run(self, *facts: dict[str, Any], now_us: int) -> dict[str, list[dict[str, Any]]]:
        """Land these facts, if any, and run the pipeline. The rows of all tables."""
        if facts:
            self._place.land(f"edge-1-b1-{facts[0]['seq']}.jsonl", *facts, at_us=now_us)
        cycles = self._data.cycles(now_us)
        cycles.run_cycle()
        assert not cycles.has_work(), "something is computed for ever"
        return self.rows()

    def tables_that_a_rebuild_changes(self, now_us: int) -> set[str]:
        before = self.rows()
        self._data.cycles(now_us).rebuild()
        return {table for table, rows in self.rows().items() if rows != before[table]}

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        return {table: sorted(self._data.rows(table), key=repr) for table in DERIVED}


def estimated(rows: dict[str, list[dict[str, Any]]]) -> set[bool]:
    tables = ("gold.audience", "gold.stream_health", "gold.usage")
    return {row["is_estimated"] for table in tables for row in rows[table]}


def used(rows: dict[str, list[dict[str, Any]]]) -> tuple[int, float]:
    """Bytes sent and minutes watched."""
    usage = rows["gold.usage"]
    return sum(row["egress_bytes"] for row in usage), sum(row["viewer_minutes"] for row in usage)


def test_what_went_on_unheard_is_open_again_and_all_tables_are_those_of_a_rebuild(
    tmp_path: Path, spark: SparkSession
) -> None:
    told = Told(tmp_path, spark)
    rows = told.run(*BEFORE, now_us=minutes(75))
    assert {row[reason] for table, reason in REASONS.items() for row in rows[table]} == {"server_lost"}
    assert estimated(rows) == {True}
    # Of a lost server the last sample of the stream holds, of one that goes on what was told of each view.
    assert used(rows) == (800, 2 * 70.5)

    rows = told.run(*AFTER, now_us=minutes(191))
    assert [row["is_open"] for table in REASONS for row in rows[table]] == [True] * 4
    # The view that was heard of again was there all the time.
    assert sum(row["watched_us"] for row in rows["gold.audience"]) == (190.5 + 20.5) * MINUTE_US
    assert estimated(rows) == {False}
    assert used(rows) == (11 + 7, 190.5 + 20.5)
    assert told.tables_that_a_rebuild_changes(minutes(191)) == set()

    rows = told.run(now_us=minutes(300))
    assert [row["is_open"] for table in REASONS for row in rows[table]] == [False] * 4
    assert estimated(rows) == {True}
    assert used(rows) == (1000, 2 * 190.5)
    assert told.tables_that_a_rebuild_changes(minutes(300)) == set()
