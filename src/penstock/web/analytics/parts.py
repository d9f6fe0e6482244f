"""Parts of the report as the pipeline last wrote them: files beside its tables, read when somebody asks.

Owns what is read, and the bounds. Nothing is kept: files are small, and few ask. Neither Spark nor Arrow is needed.
Everything here blocks on the disk.
"""

import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from penstock.pipeline_figures import SERVING_FOLDER

PARTS: Final = ("now", "audience", "quality", "health", "incidents", "usage", "recordings")
MAX_BYTES: Final = 8 * 1024 * 1024
_ADDRESS: Final = re.compile(r"^[a-z][a-z0-9+.-]*://")


class Part(NamedTuple):
    """One of them."""

    as_of: datetime
    figures: dict[str, Any]
    charts: dict[str, Any]


def folder_of(lake: str) -> Path | None:
    """Where they are; None: the lake is not on this machine's disk."""
    return None if _ADDRESS.match(lake) else Path(lake) / SERVING_FOLDER


def read_part(folder: Path, name: str) -> Part | None:
    """One part; None: the pipeline has not made it, or what is there is not what it makes."""
    try:
        with (folder / f"{name}.json").open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError:
        return None
    if len(data) > MAX_BYTES:
        return None
    try:
        value = orjson.loads(data)
        as_of = datetime.fromisoformat(value.pop("as_of"))
        charts = value.pop("charts", {})
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    return Part(as_of, value, charts) if as_of.tzinfo is not None and isinstance(charts, dict) else None
