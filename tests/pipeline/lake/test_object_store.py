"""A table on an object store: commit, conflict, read and vacuum, against a server that speaks S3."""

import urllib.request
from collections.abc import Iterator

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from moto.server import ThreadedMotoServer

from penstock.errors import LakeBusy, LakeError
from penstock.pipeline.lake.arrow_lake import ArrowLake
from penstock.pipeline.lake.delta import Table
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.state import Batch, State
from penstock.pipeline.lake.storage import Storage
from tests.pipeline.lake.lake_rows import rows_of
from tests.pipeline.lake.small_table import DAY, FOLDER, NEXT_HOUR, held_by, log_entries, numbers, put, replaced

BUCKET = "penstock"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        environment.setenv("AWS_ACCESS_KEY_ID", "somebody")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        environment.setenv("AWS_REGION", "us-east-1")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/{BUCKET}", method="PUT")).close()
        yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def storage(server: str, request: pytest.FixtureRequest) -> Storage:
    """A lake of the test's own."""
    return Storage(f"s3://{BUCKET}/{request.node.name}")


def made(storage: Storage) -> Table:
    table = numbers(storage)
    replaced(storage, table, table.pin_or_create(), [1, 2])
    return table


def test_a_commit_is_read_by_us_and_by_others(storage: Storage) -> None:
    table = made(storage)
    pinned = table.pin()
    assert pinned is not None
    replaced(storage, table, pinned, [3], NEXT_HOUR)
    assert held_by(storage, table.pin()) == [1, 2, 3]
    assert held_by(storage, pinned) == [1, 2]
    where, options = storage.uri(FOLDER), storage.options
    assert sorted(DeltaTable(where, storage_options=options).to_pyarrow_table()["number"].to_pylist()) == [1, 2, 3]
    assert sorted(pl.scan_delta(where, storage_options=options).collect()["number"]) == [1, 2, 3]


def test_the_second_of_two_commits_to_one_version_is_refused(storage: Storage) -> None:
    table = made(storage)
    pinned = table.pin()
    assert pinned is not None
    replaced(storage, table, pinned, [3])
    with pytest.raises(LakeBusy):
        replaced(storage, numbers(storage), pinned, [4])
    assert held_by(storage, table.pin()) == [3]


def test_the_library_alone_refuses_it_too(storage: Storage) -> None:
    made(storage)
    first, second = (DeltaTable(storage.uri(FOLDER), storage_options=storage.options) for _ in range(2))
    rows = first.to_pyarrow_table()
    write_deltalake(first, rows, mode="overwrite")
    with pytest.raises(Exception, match=r"[Cc]onflict|[Cc]oncurrent|commit"):
        write_deltalake(second, rows, mode="overwrite")


def test_a_vacuum_removes_what_no_version_needs_and_a_compaction_joins_the_rest(storage: Storage) -> None:
    table = made(storage)
    old = table.pin()
    assert old is not None
    pinned = replaced(storage, table, old, [3])
    pinned = replaced(storage, table, pinned, [4], NEXT_HOUR)
    put(storage, [99])
    pinned = table.compact(pinned, {"date": DAY}, 10**9)
    assert len(pinned.files) == 1
    assert table.vacuum() == 0
    assert held_by(storage, old) == [1, 2]
    table.vacuum(kept_h=0)
    assert held_by(storage, table.pin()) == [3, 4]
    left = [file.path for file in storage.find(f"{FOLDER}/date={DAY}") if file.size]
    assert left == [f"{FOLDER}/{pinned.files[0].path}"]
    with pytest.raises(FileNotFoundError):
        held_by(storage, old)


def test_history_is_forgotten(storage: Storage) -> None:
    table = made(storage)
    pinned = table.pin()
    assert pinned is not None
    replaced(storage, table, pinned, [3])
    table.forget_history()
    assert [name.partition(".")[2] for name in log_entries(storage)] == ["checkpoint.parquet", "json", ""]
    assert held_by(storage, table.pin()) == [3]


def test_a_lake_keeps_its_state_and_its_tables_there(storage: Storage) -> None:
    lake = Lake(storage)
    lake.recover()
    state = lake.state.commit(State(under_way=(Batch(landed=("a.jsonl",)),)))
    with pytest.raises(LakeBusy):
        lake.state.commit(State())
    rows = rows_of("gold.usage", {"egress_bytes": 7})
    before = lake.pin("gold.usage")
    lake.put_days("gold.usage", lake.table("gold.usage").pin_or_create(), {DAY: rows})
    assert before is None
    assert Lake(storage).read_state() == state
    assert ArrowLake(storage).read("gold.usage")["egress_bytes"].to_pylist() == [7]


def test_rows_of_a_vacuumed_version_are_told_as_gone(storage: Storage) -> None:
    lake = Lake(storage)
    table = lake.table("gold.usage")
    first = lake.put_days("gold.usage", table.pin_or_create(), {DAY: rows_of("gold.usage", {"egress_bytes": 7})})
    lake.put_days("gold.usage", first, {DAY: rows_of("gold.usage", {"egress_bytes": 8})})
    table.vacuum(kept_h=0)
    with pytest.raises(LakeError, match=r"version 1 of gold\.usage was vacuumed"):
        lake.rows(first)


def test_spark_and_the_library_have_their_own_names_for_one_place(server: str) -> None:
    storage = Storage(f"s3a://{BUCKET}/lake")
    assert (storage.address("gold"), storage.uri("gold")) == (f"s3a://{BUCKET}/lake/gold", f"s3://{BUCKET}/lake/gold")
    storage.put("a/b", b"1")
    assert storage.fs.open_input_stream(f"{BUCKET}/lake/a/b").read() == b"1"
