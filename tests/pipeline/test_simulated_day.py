"""A simulated hour from landing to gold, held to what the simulator knows and to what DuckDB makes of the facts."""

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bench.duckdb_peer import DuckDbPeer
from bench.duckdb_tables import STATEMENTS
from pyspark.sql import SparkSession

from penstock.pipeline.build.gold import build
from penstock.pipeline.build.plan import plan_rebuild
from penstock.pipeline.build.run import Run
from penstock.pipeline.ingest.landing import ingest_landed
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.layout import BRONZE
from penstock.pipeline.lake.storage import Storage
from penstock.pipeline.progress import progress_for
from penstock.pipeline.simulator import Platform, Truth, write_landing
from penstock.pipeline.simulator.bronze import SimulatedBronze

PLATFORM = Platform(day=date(2026, 11, 14), viewers=60, first_hour=20, hours=1, landing_s=900)
SILENT_US = 90_000_000


@dataclass(frozen=True, slots=True)
class Simulated:
    folder: Path
    straight: Lake
    landed: Lake
    truth: Truth

    def rows(self, table: str) -> pa.Table:
        return self.straight.rows(self.straight.pin(table))


@pytest.fixture(scope="module")
def simulated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """The same facts in two lakes: written straight and made into tables, and ingested from landing files."""
    folder = tmp_path_factory.mktemp("simulated")
    straight, landed = (Lake(Storage(folder / name)) for name in ("straight", "landed"))
    truth = SimulatedBronze(PLATFORM, straight).write()
    # The same secrets, so that viewers have the same names.
    landed.storage.put("_private/salts.json", straight.storage.read("_private/salts.json"))
    assert write_landing(PLATFORM, folder / "facts") == truth
    ingested = ingest_landed(landed, Storage(folder / "facts"), PLATFORM.ends_us)
    # The line that was torn when a server was killed.
    assert (ingested.facts, ingested.duplicates, ingested.quarantined) == (truth.facts, 0, 1)
    state = straight.read_state()
    plan = plan_rebuild(state, [f"{PLATFORM.day}"])
    begun = straight.state.commit(replace(state, planned=plan.as_hours()))
    build(Run(spark, straight, plan, begun, PLATFORM.ends_us, SILENT_US, progress_for()))
    return Simulated(folder, straight, landed, truth)


def bronze_of(lake: Lake) -> pa.Table:
    """All facts of a lake, in the order of their numbers."""
    rows = lake.rows(lake.pin(BRONZE))
    return rows.sort_by([("boot_key", "ascending"), ("seq", "ascending")])


def test_facts_that_landed_become_the_bronze_that_is_written_straight(simulated: Simulated) -> None:
    found, wanted = bronze_of(simulated.landed), bronze_of(simulated.straight)
    assert found.column_names == wanted.column_names
    assert [name for name in wanted.column_names if not found[name].equals(wanted[name])] == []
    assert simulated.landed.read_state().boots == simulated.straight.read_state().boots


def test_tables_come_to_what_the_platform_did(simulated: Simulated) -> None:
    streams = simulated.truth.streams
    for row in simulated.rows("gold.usage").to_pylist():
        told = streams[row["app"], row["stream"]]
        assert (row["egress_bytes"], row["ingress_bytes"]) == (
            told.egress_bytes + told.unreported_bytes,
            told.ingress_bytes,
        )
        assert row["watched_us"] == told.watched_us + told.unreported_us
    assert any(told.unreported_bytes > 0 for told in streams.values())
    views = simulated.rows("silver.views")
    for (app, stream), told in streams.items():
        of_stream = views.filter((pc.field("app") == app) & (pc.field("stream") == stream))
        failed = pc.sum(of_stream["is_failed_start"]).as_py()
        assert (of_stream.num_rows - failed, failed) == (told.views, told.failed_starts)
        assert pc.sum(of_stream["watched_us"]).as_py() == told.watched_us


def test_usage_by_subject_comes_to_what_each_watched_and_sent(simulated: Simulated) -> None:
    used = [row for row in simulated.rows("gold.usage_dimensions").to_pylist() if row["dimension"] == "auth_subject"]
    told = simulated.truth.subjects
    found = {
        (row["app"], row["stream"], row["value"]): (row["watched_us"], row["egress_bytes"], row["ingress_bytes"])
        for row in used
        if row["value"] != "unknown"
    }
    assert found == {key: (each.watched_us, each.egress_bytes, each.ingress_bytes) for key, each in told.items()}
    assert {"studio0", "studio1"} <= {subject for _, _, subject in told}
    assert sum(row["watched_us"] for row in used) == pc.sum(simulated.rows("gold.usage")["watched_us"]).as_py()


def test_what_went_wrong_is_found(simulated: Simulated) -> None:
    kinds = set(simulated.rows("gold.incidents")["kind"].to_pylist())
    assert kinds >= {"ingest_stalled", "bitrate_collapse", "av_drift", "reconnect_storm"}


def test_duckdb_makes_the_same_tables(simulated: Simulated) -> None:
    peer = DuckDbPeer(simulated.folder / "straight", threads=2)
    lake = simulated.straight
    state, storage = lake.read_state(), lake.storage
    hours = state.fact_hours["viewer_sample"]
    peer.rebuild(state, hours, PLATFORM.ends_us, SILENT_US, simulated.folder / "duckdb")
    differences = {}
    for table in STATEMENTS:
        files = [Path(storage.path_for_arrow(path)) for path in lake.paths(lake.pin(table))]
        differences[table] = peer.differences(table, files, simulated.folder / "duckdb")
    peer.close()
    assert differences == dict.fromkeys(STATEMENTS, 0)
