"""From landing to bronze: every new file once, by Structured Streaming.

Owns the stream: which files are there and not yet taken. It keeps no state but the list of files in its checkpoint, and
even that may go: the commits of bronze name the landing files that they hold, so a file that comes again is left out.
What lines are worth is judged by `fact_lines`; what is done with them is `bronze`'s.
"""

from collections.abc import Callable
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.bronze import Carried, take_lines
from penstock.pipeline.fact_lines import MAX_LINE_BYTES
from penstock.pipeline.lake import Lake
from penstock.pipeline.missed_lines import missed_lines
from penstock.pipeline.quarantine import read_quarantine, take_up_again
from penstock.pipeline.storage import Storage

MAX_BATCH_BYTES: Final = 512 * 1024 * 1024
"""About a million facts."""
_RENEW_AFTER_BATCHES: Final = 10_000
"""A week of cycles of a minute. The checkpoint remembers every file that it ever saw, landing does not."""
_SMALL_METHODS: Final = ("spark.sql.codegen.hugeMethodLimit", "8000")
"""Bytes. Spark writes the judging of a line into one method of several times this. With this limit it writes many small
ones instead, and Java judges lines in half the time."""
_SOURCE: Final = {
    "recursiveFileLookup": "true",
    "pathGlobFilter": "*.jsonl",
    # What a crash left, or a server that was cut off, may land long after files that are newer.
    "maxFileAge": "36500d",
    # A batch that is done again, because its end was not noted, may be of files that retention has removed since.
    "ignoreMissingFiles": "true",
    # Hadoop's setting, by which it passes over longer lines; they would have to fit into memory several times.
    "mapreduce.input.linerecordreader.line.maxlength": str(MAX_LINE_BYTES),
}


def carry_facts(
    spark: SparkSession,
    lake: Lake,
    landing: Storage,
    checkpoint: Storage,
    now_us: int,
    *,
    on_batch: Callable[[Carried], None] | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Carried:
    """Carry every landing file that is there and new into bronze, a batch at a time, each by one commit."""
    landing.make_folder("")
    _renew(checkpoint)
    there = {file.path: file.modified_at_us for file in landing.find("") if _is_landed(file.path)}
    total = Carried()
    failures: list[Exception] = []

    def take(lines: DataFrame, batch: int) -> None:
        nonlocal total
        # The stream has a session of its own, so this holds for nothing else.
        lines.sparkSession.conf.set(*_SMALL_METHODS)
        try:
            total = total.plus(take_lines(lake, lines, now_us, landing=landing, batch=batch))
            if on_batch is not None:
                on_batch(total)
        except Exception as error:
            failures.append(error)
            raise

    source = spark.readStream.format("text").options(**_SOURCE).option("maxBytesPerTrigger", str(max_batch_bytes))
    lines = _named(source.load(landing.pattern()), landing)
    query = (
        lines.writeStream.foreachBatch(take)
        .option("checkpointLocation", checkpoint.address())
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException:
        if failures:
            # The stream wraps it in pages of Java; the cause is what a caller can tell apart.
            raise failures[0] from None
        raise
    finally:
        query.stop()
    # Not a single line was read of these: empty, not listed by Spark, or nothing but lines too long for it.
    silent = {file: at_us for file, at_us in there.items() if file not in lake.snapshot().landed_at_us}
    if silent:
        lines = missed_lines(spark, landing, silent, at_least_bytes=0)
        total = total.plus(take_lines(lake, lines, now_us, landing=landing, files=silent))
    return total


def replay_quarantined(spark: SparkSession, lake: Lake, now_us: int) -> Carried:
    """Try again what software with another contract did not understand. Nothing to do, as a rule, and then cheap."""
    again = take_up_again(spark, lake.storage)
    if not again:
        return Carried()
    kept = read_quarantine(spark, lake.storage, again.values())
    lines = kept.select(F.col("raw").alias("value"), "file", "landed_at_us", F.lit(0).alias("file_bytes"))
    carried = take_lines(lake, lines, now_us, landing=None)
    # Last: what is still refused is in the quarantine of this contract by now, and the rest is committed.
    for path in again.values():
        lake.storage.delete(path)
    return carried


def _named(text: DataFrame, landing: Storage) -> DataFrame:
    """Lines with the name of their file below landing, and the time at which it landed."""
    start = landing.path_for_arrow() + "/"
    # Spark's names are percent-encoded, with a scheme in front.
    file = F.substring_index(F.url_decode(F.replace("_metadata.file_path", F.lit("+"), F.lit("%2B"))), start, -1)
    return text.select(
        "value",
        file.alias("file"),
        F.unix_micros("_metadata.file_modification_time").alias("landed_at_us"),
        F.col("_metadata.file_size").alias("file_bytes"),
    )


def _is_landed(path: str) -> bool:
    return path.endswith(".jsonl") and not path.rpartition("/")[2].startswith(".")


def _renew(checkpoint: Storage) -> None:
    """Begin a new checkpoint in place of one that has grown old."""
    batches = [file.path.rpartition("/")[2] for file in checkpoint.find("offsets", recursive=False)]
    if max((int(name) for name in batches if name.isdigit()), default=0) >= _RENEW_AFTER_BATCHES:
        checkpoint.delete_folder("")
