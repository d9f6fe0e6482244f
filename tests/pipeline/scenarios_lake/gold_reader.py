"""Somebody with DuckDB, who reads gold again and again and knows nothing of its writer."""

import os
import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType

import duckdb

_PAUSE_S = 0.2
Content = tuple[int, int]
"""How many rows a file has, and the sum over them."""


class GoldReader:
    """Reads all of gold in a thread until it is left, and keeps what each file ever held."""

    def __init__(self, lake: Path) -> None:
        self._gold = lake / "gold"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read_on, name="gold reader")
        self.seen: dict[str, set[Content]] = defaultdict(set)
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
            return {file: self._content(connection, file) for (file,) in listed}

    def _content(self, connection: duckdb.DuckDBPyConnection, file: str) -> Content:
        query = "SELECT count(*), bit_xor(hash(each)) FROM read_parquet(?) AS each"
        # DuckDB opens a file by its name for the footer and once more for the rows. Held open here, it is one file to
        # it, as it was when it was opened, whatever has come in its place since.
        held = os.open(file, os.O_RDONLY)
        try:
            rows, total = connection.execute(query, [f"/proc/self/fd/{held}"]).fetchall()[0]
        finally:
            os.close(held)
        return rows, total

    def _read_on(self) -> None:
        while not self._is_over.wait(_PAUSE_S):
            try:
                for name, content in self.look().items():
                    self.seen[name].add(content)
            except duckdb.Error as error:
                self.failures.append(str(error))
            self.looks += 1
