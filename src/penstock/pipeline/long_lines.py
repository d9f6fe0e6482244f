"""Lines that are too long to be read: their beginnings, for the quarantine.

Spark's reader passes over lines above a bound, in silence, so that no file can take all memory. A file of which bytes
are missing among the lines that were read has such lines; they are looked for here, a piece at a time.
"""

from collections.abc import Iterable, Iterator, Mapping

from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.fact_lines import MAX_LINE_BYTES
from penstock.pipeline.storage import Storage

LINES_SCHEMA = "value string, file string, landed_at_us bigint, file_bytes bigint"


def long_lines(spark: SparkSession, landing: Storage, landed_at_us: Mapping[str, int]) -> DataFrame:
    """The beginning of each line that is too long, in these landing files, as a line of the greatest length."""
    rows = [
        (beginning.decode(errors="replace"), file, at_us, 0)
        for file, at_us in landed_at_us.items()
        for beginning in _beginnings(_pieces(landing, file))
    ]
    return spark.createDataFrame(rows, LINES_SCHEMA)


def _pieces(landing: Storage, file: str) -> Iterator[bytes]:
    with landing.fs.open_input_stream(landing.path_for_arrow(file)) as stream:
        while piece := stream.read(MAX_LINE_BYTES):
            yield bytes(piece)


def _beginnings(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Of each line of at least MAX_LINE_BYTES, so much. Holds two pieces at most."""
    beginning, length = b"", 0
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for part in ended:
            if length + len(part) >= MAX_LINE_BYTES:
                yield (beginning + part)[:MAX_LINE_BYTES]
            beginning, length = b"", 0
        beginning = (beginning + rest)[:MAX_LINE_BYTES]
        length += len(rest)
    if length >= MAX_LINE_BYTES:
        yield beginning
