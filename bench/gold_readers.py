"""How many queries of a DuckDB fail that reads files of gold by name, while a writer replaces them again and again.

`python -m bench.gold_readers`: readers with several pauses between two queries, each beside a writer that waits for
silence and beside one that does not. Only local files, and it stops by itself.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from penstock.pipeline.gathered import file_of
from penstock.pipeline.gold_files import GoldFiles
from penstock.pipeline.quiet import Readers
from penstock.pipeline.storage import Storage
from penstock.pipeline.tables import TABLES

TABLE = TABLES["gold.usage"]
DAYS = [f"2026-11-{day}" for day in range(11, 16)]
VERSIONS = 3
COMPUTING_S = 0.3
"""Between the look at what is there and the moment when a run has its rows."""
AT_ONCE_S = 1e-9
READER = """
import sys, time, duckdb
gold, pause_s, until_s = sys.argv[1], float(sys.argv[2]), time.monotonic() + float(sys.argv[3])
places, queries, failed = (f"{gold}/date=2026-11-15/part.parquet", f"{gold}/*/part.parquet"), 0, 0
connection = duckdb.connect()
while time.monotonic() < until_s:
    for place in places:
        queries += 1
        try:
            connection.execute("SELECT count(*), bit_xor(hash(each)) FROM read_parquet(?) AS each", [place]).fetchall()
        except duckdb.Error:
            failed += 1
    time.sleep(pause_s)
print(queries, failed)
"""


def main(arguments: list[str] | None = None) -> int:
    """A line for each pause and kind of writer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="for each line")
    parser.add_argument("--pauses", type=float, nargs="+", default=[0.2, 0.05, 0.02, 0.005, 0.0], help="in seconds")
    options = parser.parse_args(arguments)
    for pause_s in options.pauses:
        for is_waiting in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                print(one_line(Path(folder), pause_s, options.seconds, is_waiting=is_waiting), flush=True)
    return 0


def one_line(folder: Path, pause_s: float, seconds: float, *, is_waiting: bool) -> str:
    """A writer beside a reader in a process of its own."""
    files = [{day: rows_of(place, version) for place, day in enumerate(DAYS)} for version in range(VERSIONS)]
    storage = Storage(folder)
    publish(storage, files[0], is_waiting=is_waiting)
    command = [sys.executable, "-c", READER, str(folder / "gold/usage"), str(pause_s), str(seconds)]
    took_s = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        number = 0
        while reader.poll() is None:
            number += 1
            took_s.append(publish(storage, files[number % VERSIONS], is_waiting=is_waiting))
            time.sleep(random.uniform(0, 0.1))
        queries, failed = reader.communicate()[0].split()
    way = "in silence" if is_waiting else "at once"
    return (
        f"pause {pause_s * 1000:.0f} ms, replaced {way} {number} times: {failed} of {queries} queries failed; "
        f"to put {len(DAYS)} files in place took {statistics.median(took_s):.3f} s"
    )


def publish(storage: Storage, files: dict[str, bytes], *, is_waiting: bool) -> float:
    """Give each day its file, as a run does. How long it took to put them in place."""
    gold = GoldFiles(storage, Readers() if is_waiting else Readers(AT_ONCE_S, AT_ONCE_S))
    known = gold.expect(TABLE, list(files))
    for day, data in files.items():
        gold.stage(TABLE, day, data, known, f"_staging/{day}.parquet")
    time.sleep(COMPUTING_S)
    before_s = time.monotonic()
    gold.publish(lambda: None)
    gold.readers.close()
    return time.monotonic() - before_s


def rows_of(place: int, version: int) -> bytes:
    """A file that is like no other."""
    length = 300 + 700 * version + 10 * place
    columns = {"a": range(length), "b": [f"{version} {place} {number}" for number in range(length)]}
    return file_of(pa.table({name: pa.array(values) for name, values in columns.items()}))


if __name__ == "__main__":
    sys.exit(main())
