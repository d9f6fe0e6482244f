"""Lines that were refused, kept with the reason until software that understands them comes, or for a while.

Owns `lake/quarantine/{contract}/{landing file}.parquet`: one file for each landing file that had such lines, so that a
batch that is done again writes the same file again. The first folder names the contract that refused them, by its
version and its kinds: what lies under another one than today's may be worth another try.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import __version__
from penstock.facts import CONTRACT_VERSION, FACTS
from penstock.pipeline.fact_lines import REPLAYED
from penstock.pipeline.storage import Storage

FOLDER: Final = "quarantine"
_SCHEMA: Final = (
    "file string, landed_at_us bigint, refusal string, raw string, line_bytes int, "
    "software_version string, contract_version int, quarantined_at_us bigint"
)


def contract_name() -> str:
    """The contract that this software understands: another one as soon as there is a new version or kind."""
    kinds = hashlib.sha256(",".join(sorted(FACTS)).encode()).hexdigest()[:8]
    return f"v{CONTRACT_VERSION}-{kinds}"


def put_aside(lake: Storage, refused: DataFrame, files: Iterable[str], run_id: str, now_us: int) -> None:
    """Keep refused lines, which come from these landing files, in place of what is kept of the same files."""
    rows = refused.select(
        "file",
        "landed_at_us",
        "refusal",
        "raw",
        "line_bytes",
        F.lit(__version__).alias("software_version"),
        F.lit(CONTRACT_VERSION).alias("contract_version"),
        F.lit(now_us).alias("quarantined_at_us"),
        F.sha2("file", 256).alias("digest"),
    )
    staging = f"_staging/{run_id}/{FOLDER}"
    rows.repartition(1, "digest").write.partitionBy("digest").parquet(lake.address(staging))
    names = {hashlib.sha256(file.encode()).hexdigest(): file for file in files}
    for staged in lake.find(staging):
        if staged.path.endswith(".parquet"):
            digest = staged.path.split("/")[-2].partition("=")[2]
            lake.replace(staged.path, _path(contract_name(), names[digest]))


def read_quarantine(spark: SparkSession, lake: Storage, paths: Iterable[str] | None = None) -> DataFrame:
    """Every line that is kept, or those in these files."""
    chosen = quarantined_files(lake) if paths is None else list(paths)
    if not chosen:
        return spark.createDataFrame([], _SCHEMA)
    patterns = [lake.pattern(path) for path in chosen]
    return spark.read.schema(_SCHEMA).option("recursiveFileLookup", "true").parquet(*patterns)


def quarantined_files(lake: Storage) -> list[str]:
    """The files of the quarantine."""
    return [file.path for file in lake.find(FOLDER) if file.path.endswith(".parquet")]


def take_up_again(spark: SparkSession, lake: Storage) -> dict[str, str]:
    """Landing files with lines that another contract refused and this one may understand: name to quarantine file.

    Files of another contract that have no such lines become this one's, so that they are not looked at again.
    """
    current = f"{FOLDER}/{contract_name()}/"
    foreign = {_file_of(path): path for path in quarantined_files(lake) if not path.startswith(current)}
    if not foreign:
        return {}
    rows = read_quarantine(spark, lake, foreign.values())
    promising = {row.file for row in rows.where(F.col("refusal").isin(*REPLAYED)).select("file").distinct().collect()}
    for file, path in foreign.items():
        if file not in promising:
            lake.replace(path, _path(contract_name(), file))
    return {file: path for file, path in foreign.items() if file in promising}


def _path(contract: str, file: str) -> str:
    return f"{FOLDER}/{contract}/{file}.parquet"


def _file_of(path: str) -> str:
    return path.split("/", 2)[2].removesuffix(".parquet")
