"""penstock pipeline sql: one query, or a prompt for many.

Owns the prompt and its own commands. What answers may be this process's Spark or that of a running pipeline; here
nothing imports Spark, so that asking a running one starts at once.
"""

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TextIO

from penstock.errors import PipelineError
from penstock.facts import FACTS
from penstock.pipeline.lake.tables import TABLES
from penstock.pipeline.queries.answers import Format, QueryRunner, write_answer

_HELP: Final = """\
A query ends with a semicolon and may have several lines.
.tables          the tables and what a row of each is
.schema TABLE    the columns of a table and what they mean
.help            this text
.quit            leave; so does the end of input
"""


def list_tables() -> str:
    """The tables in one line each."""
    rows = {name: table.grain for name, table in TABLES.items()}
    rows |= {f"bronze.{kind}": "one row for each fact of this kind" for kind in FACTS}
    width = max(map(len, rows))
    return "".join(f"{name:<{width}}  {grain}\n" for name, grain in sorted(rows.items()))


def describe_table(name: str) -> str:
    """The columns of a table in one line each."""
    table = TABLES.get(name)
    if table is None:
        layer, _, kind = name.partition(".")
        if layer != "bronze" or kind not in FACTS:
            raise PipelineError(f"sql: there is no table {name!r}; see .tables")
        from penstock.pipeline.lake.schemas import bronze_columns  # noqa: PLC0415 - imports Spark

        return "".join(f"{column}\n" for column in bronze_columns(kind))
    names = max(len(column.name) for column in table.columns)
    types = max(len(column.type) for column in table.columns)
    lines = (f"{column.name:<{names}}  {column.type:<{types}}  {column.meaning}\n" for column in table.columns)
    return f"{table.grain}\n\n" + "".join(lines)


def run_prompt(
    runner: QueryRunner, out: TextIO, format_: Format, limit: int, read_line: Callable[[str], str] = input
) -> None:
    """Ask until the end of input. An error is one line, and the prompt goes on."""
    lines: list[str] = []
    while True:
        try:
            line = read_line("   ... " if lines else "penstock> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            lines.clear()
            out.write("\n")
            continue
        if not lines and line.strip() in (".quit", ".exit"):
            return
        try:
            if not lines and line.lstrip().startswith("."):
                out.write(_own_command(line.split()))
                continue
            lines += [line] if line.strip() else []
            if line.rstrip().endswith(";"):
                query = "\n".join(lines)
                lines.clear()
                write_answer(runner.run(query, limit), format_, out)
        except PipelineError as error:
            out.write(f"{error}\n")


@contextlib.contextmanager
def line_history(path: Path | None = None) -> Iterator[None]:
    """Arrow keys and the queries of earlier days at the prompt, where the terminal's library is there."""
    path = path or _history_path()
    try:
        readline = importlib.import_module("readline")
    except ImportError:
        yield
        return
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(1000)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            readline.write_history_file(path)


def _history_path() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "penstock" / "sql_history"


def _own_command(words: list[str]) -> str:
    match words:
        case [".tables"]:
            return list_tables()
        case [".schema", name]:
            return describe_table(name.rstrip(";"))
        case [".help"]:
            return _HELP
        case _:
            raise PipelineError(f"sql: {' '.join(words)} is not known; see .help")
