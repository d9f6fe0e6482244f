"""Lines that were refused, kept with the reason until software that understands them comes, or for a while.

Owns `lake/quarantine/{contract}/{landing file}.parquet`: one file for each landing file that had such lines, so that a
batch that is done again writes the same file again. The first folder names the contract that refused them, by its
version and its kinds: what lies under another one than today's may be worth another try.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock import __version__
from penstock.facts import CONTRACT_VERSION, FACTS
from penstock.pipeline.ingest.fact_lines import MAX_LINE_BYTES, REPLAYED
from penstock.pipeline.lake.storage import Storage, StoredFile

FOLDER: Final = "quarantine"
KEPT_RAW_CHARACTERS: Final = 64 * 1024
_STAGED: Final = "_staging/quarantined.parquet"
_FLUSH_BYTES: Final = 16 * 1024 * 1024
_REPLAYED_AT_ONCE: Final = 10_000
_SCHEMA: Final = pa.schema(
    {
        "file": pa.string(),
        "landed_at_us": pa.int64(),
        "refusal": pa.string(),
        "raw": pa.string(),
        "line_bytes": pa.int32(),
        "software_version": pa.string(),
        "contract_version": pa.int32(),
        "quarantined_at_us": pa.int64(),
    }
)


def contract_name() -> str:
    """The contract that this software understands: another one as soon as there is a new version or kind."""
    kinds = hashlib.sha256(",".join(sorted(FACTS)).encode()).hexdigest()[:8]
    return f"v{CONTRACT_VERSION}-{kinds}"


class QuarantineWriter:
    """Keeps refused lines, in place of what is kept of the same landing files. A file's lines have to come together."""

    def __init__(self, lake: Storage, now_us: int) -> None:
        self._lake = lake
        self._now_us = now_us
        self._file: StoredFile | None = None
        self._rows: list[tuple[str, bytes]] = []
        self._held_bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, file: StoredFile, refusal: str, line: bytes) -> None:
        """A line of this landing file."""
        if self._file is not None and file.path != self._file.path:
            self.finish()
        self._file = file
        self._rows.append((refusal, line))
        self._held_bytes += len(line)
        if self._held_bytes >= _FLUSH_BYTES:
            self._flush()

    def finish(self) -> None:
        """Have everything in its place."""
        if self._rows:
            self._flush()
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._lake.replace(_STAGED, _path(contract_name(), self._file.path))
        self._file = self._writer = None

    def _flush(self) -> None:
        assert self._file is not None  # noqa: S101 - there are rows
        count = len(self._rows)
        columns: dict[str, Any] = {
            "file": [self._file.path] * count,
            "landed_at_us": [self._file.modified_at_us] * count,
            "refusal": [refusal for refusal, _ in self._rows],
            "raw": [_kept(refusal, line) for refusal, line in self._rows],
            "line_bytes": [len(line) for _, line in self._rows],
            "software_version": [__version__] * count,
            "contract_version": [CONTRACT_VERSION] * count,
            "quarantined_at_us": [self._now_us] * count,
        }
        if self._writer is None:
            self._writer = self._lake.parquet_writer(_STAGED, _SCHEMA)
        self._writer.write_table(pa.table(columns, _SCHEMA))
        self._rows, self._held_bytes = [], 0


def _kept(refusal: str, line: bytes) -> str:
    """So much of a line as is kept."""
    return line.decode(errors="replace")[: MAX_LINE_BYTES if refusal in REPLAYED else KEPT_RAW_CHARACTERS]


def read_quarantine(spark: SparkSession, lake: Storage) -> DataFrame:
    """Every line that is kept."""
    patterns, schema = [lake.pattern(path) for path in quarantined_files(lake)], from_arrow_schema(_SCHEMA)
    if not patterns:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*patterns)


def quarantined_files(lake: Storage) -> list[str]:
    """The files of the quarantine."""
    return [file.path for file in lake.find(FOLDER) if file.path.endswith(".parquet")]


def quarantined_lines(lake: Storage, path: str) -> Iterator[tuple[StoredFile, list[bytes]]]:
    """The lines that are kept in a file of the quarantine, and the landing file they are from, some at a time."""
    with lake.fs.open_input_file(lake.path_for_arrow(path)) as source:
        for rows in pq.ParquetFile(source).iter_batches(_REPLAYED_AT_ONCE, columns=["raw", "landed_at_us"]):
            file = StoredFile(_file_of(path), 0, rows["landed_at_us"][0].as_py())
            yield file, [raw.encode() for raw in rows["raw"].to_pylist()]


def take_up_again(lake: Storage) -> list[str]:
    """Files of the quarantine with lines that another contract refused and this one may understand.

    Files of another contract that have no such lines become this one's, so that they are not looked at again.
    """
    current, promising = f"{FOLDER}/{contract_name()}/", []
    for path in quarantined_files(lake):
        if path.startswith(current):
            continue
        with lake.fs.open_input_file(lake.path_for_arrow(path)) as source:
            refusals = set(pc.unique(pq.read_table(source, columns=["refusal"])["refusal"]).to_pylist())
        if refusals.intersection(REPLAYED):
            promising.append(path)
        else:
            lake.replace(path, _path(contract_name(), _file_of(path)))
    return promising


def _path(contract: str, file: str) -> str:
    return f"{FOLDER}/{contract}/{file}.parquet"


def _file_of(path: str) -> str:
    return path.split("/", 2)[2].removesuffix(".parquet")
