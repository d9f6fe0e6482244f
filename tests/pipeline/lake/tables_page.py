"""The sections of docs/5-tables.md that say what the columns of the tables are, from the columns themselves.

`python -m tests.pipeline.lake.tables_page` writes them anew.
"""

import itertools
from collections.abc import Iterable
from typing import Final

from penstock.pipeline.lake.table_columns import SHARED, Column
from penstock.pipeline.lake.tables import TABLES, Table
from tests.test_docs import DOCS, marked, text_of

PAGE: Final = DOCS / "5-tables.md"
LAYERS: Final = ("silver", "rollup", "gold")
_HEAD: Final = "| column | type | meaning |\n| --- | --- | --- |\n"


def sections() -> dict[str, str]:
    """Each section by the name that it is marked with."""
    layers = {f"{layer} tables": _tables_of(layer) for layer in LAYERS}
    return {"shared columns": f"\n{_HEAD}{_rows(SHARED)}", **layers}


def _tables_of(layer: str) -> str:
    return "\n" + "\n\n".join(_told(table) for table in TABLES.values() if table.layer == layer)


def _told(table: Table) -> str:
    shared = _code(column.name for column in table.columns if column in SHARED)
    others = f" Shared: {shared}." if shared else ""
    grain = table.grain[0].upper() + table.grain[1:]
    own = _rows(column for column in table.columns if column not in SHARED)
    return f"### `{table.full_name}`\n\n{grain}. Key: {_code(table.key)}.{others}\n\n{_HEAD}{own}"


def _rows(columns: Iterable[Column]) -> str:
    """Neighbours of one type and meaning share a row."""
    alike = itertools.groupby(columns, key=lambda each: (each.type + ("" if each.required else "?"), each.meaning))
    return "\n".join(
        f"| {_code(each.name for each in some)} | {type_} | {meaning} |" for (type_, meaning), some in alike
    )


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    text = text_of(PAGE)
    for name, section in sections().items():
        text = text.replace(f"<!-- {name} -->\n{marked(text, name)}", f"<!-- {name} -->\n{section}")
    PAGE.write_text(text, encoding="utf-8")
