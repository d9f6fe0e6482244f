"""The pipeline's own figures: a small file in the data folder, written by the pipeline, served by `/metrics`.

Owns the file's name, its fields and their units, and where a pipeline is found, so that server and pipeline agree
without knowing each other. A file that is not what it should be counts as none.
"""

import json
import math
from dataclasses import asdict, dataclass, fields

FILE_NAME = "pipeline-figures.json"
MAX_BYTES = 16 * 1024
SOCKET_NAME = "sql.sock"
"""In the data folder: where a running pipeline answers."""
SERVING_FOLDER = "serving"
"""In the lake: files for pages, replaced by each run."""


@dataclass(frozen=True, slots=True)
class PipelineFigures:
    """Counts since the file was first written, by all processes of the pipeline, and what the last good run told."""

    runs: int = 0
    """Runs that succeeded."""
    failures: int = 0
    """Runs that ended with an error. One that finds another writer at work is none; one that is killed tells nobody."""
    facts: int = 0
    """Facts ingested into bronze."""
    quarantined: int = 0
    """Landed lines that are no facts."""
    run_seconds: float | None = None
    """How long the last good run took; None: there was none."""
    lag_seconds: float | None = None
    """How old the newest fact was when that run ended; None: there are no facts."""
    succeeded_at: float | None = None
    """When it ended, in seconds since 1970."""

    def to_json(self) -> bytes:
        """The content of the file."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    @classmethod
    def of_json(cls, data: bytes) -> "PipelineFigures | None":
        """What a file holds, unknown fields aside; None: not what it should."""
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        known = {field.name: value[field.name] for field in fields(cls) if field.name in value}
        return cls(**known) if all(_is_figure(known[name]) or _may_lack(name, known[name]) for name in known) else None


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _may_lack(name: str, value: object) -> bool:
    return value is None and getattr(PipelineFigures(), name) is None
