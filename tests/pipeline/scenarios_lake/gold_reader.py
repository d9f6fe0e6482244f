"""Somebody with DuckDB, who reads gold by the names of its files again and again and knows nothing of its writer."""

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from types import TracebackType

import duckdb

_PAUSE_S = 0.05
# The answer must not depend on where a file lies.
_QUERY = "SELECT count(*), coalesce(bit_xor(hash(each)), 0) FROM read_parquet(?, hive_partitioning = false{}) AS each"
Content = tuple[int, int]
"""How many rows a file has, and the sum over them."""


class GoldReader:
    """Reads all of gold in a thread until it is left, and keeps what each file, and each table, ever held."""

    def __init__(self, lake: Path, pause_s: float = _PAUSE_S, looks_between: int = 1) -> None:
        self._gold, self._pause_s, self._looks_between = lake / "gold", pause_s, looks_between
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read_on, name="gold reader")
        self.seen: dict[str, set[Content]] = defaultdict(set)
        self.seen_over: dict[str, set[Content]] = defaultdict(set)
        self.failures: list[str] = []
        self.looks = 0

    def __enter__(self) -> "GoldReader":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def look(self) -> dict[str, Content]:
        """What each file holds that is listed now."""
        with duckdb.connect() as connection:
            listed = connection.execute("SELECT file FROM glob(?)", [f"{self._gold}/*/*/part.parquet"]).fetchall()
            return {file: content_of(connection, file) for (file,) in listed}

    def look_over(self) -> dict[str, Content]:
        """What each table holds that is cut by days, by one query over its files: all footers first, then all rows."""
        with duckdb.connect() as connection:
            listed = sorted({path.parents[1].name for path in self._gold.glob("*/*/part.parquet")})
            places = {table: f"{self._gold}/{table}/*/part.parquet" for table in listed}
            return {table: content_of(connection, place, ", union_by_name = true") for table, place in places.items()}

    def _read_on(self) -> None:
        while not self._is_over.wait(self._pause_s):
            for _ in range(self._looks_between):
                try:
                    self._note()
                except duckdb.Error as error:
                    self.failures.append(str(error))
                self.looks += 1

    def _note(self) -> None:
        for name, content in self.look().items():
            self.seen[name].add(content)
        for table, content in self.look_over().items():
            self.seen_over[table].add(content)


def sums(files: Iterable[Collection[Content]]) -> set[Content]:
    """What all files together may hold if each holds one of its contents."""
    found = {(0, 0)}
    for contents in files:
        found = {(rows + more, total ^ other) for rows, total in found for more, other in contents}
    return found


def content_of(connection: duckdb.DuckDBPyConnection, place: str, options: str = "") -> Content:
    """What a file holds, or all that a pattern names."""
    rows, total = connection.execute(_QUERY.format(options), [place]).fetchall()[0]
    return rows, total
