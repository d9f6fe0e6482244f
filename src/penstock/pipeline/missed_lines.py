"""Lines that Spark's reader passes over: of files that it does not list, and lines too long for it.

It takes no file whose name begins with an underscore, as a server's may, and with a bound on lines it leaves out longer
ones, in silence, so that no file can take all memory. What is missing is read here, a piece at a time.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.fact_lines import MAX_LINE_BYTES
from penstock.pipeline.storage import Storage

LINES_SCHEMA = "value string, file string, landed_at_us bigint, file_bytes bigint"


def missed_lines(
    spark: SparkSession, landing: Storage, landed_at_us: Mapping[str, int], at_least_bytes: int
) -> DataFrame:
    """Lines of at least that length in these landing files; of one that is too long, so much as tells that it is."""
    rows = [
        (beginning.decode(errors="replace"), file, at_us, 0)
        for file, at_us in landed_at_us.items()
        for beginning in _beginnings(_pieces(landing, file), at_least_bytes)
    ]
    return spark.createDataFrame(rows, LINES_SCHEMA)


def _pieces(landing: Storage, file: str) -> Iterator[bytes]:
    # A server whose landing folder is full gives up the oldest files, whoever is about to read them.
    with contextlib.suppress(FileNotFoundError), landing.fs.open_input_stream(landing.path_for_arrow(file)) as stream:
        while piece := stream.read(MAX_LINE_BYTES):
            yield bytes(piece)


def _beginnings(pieces: Iterable[bytes], at_least_bytes: int) -> Iterator[bytes]:
    """Lines of at least that length, cut at MAX_LINE_BYTES. Holds two pieces at most."""
    beginning, length = b"", 0
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for part in ended:
            if length + len(part) >= at_least_bytes:
                yield (beginning + part)[:MAX_LINE_BYTES]
            beginning, length = b"", 0
        beginning = (beginning + rest)[:MAX_LINE_BYTES]
        length += len(rest)
    if length and length >= at_least_bytes:
        yield beginning
