"""The shapes of figures out of the tables, and of the pipeline that makes them."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from penstock.web.api.models import Count

PartName = Literal["now", "audience", "quality", "health", "incidents", "usage", "recordings"]


class AnalyticsPart(BaseModel):
    """One part of the report."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "part": "audience",
                    "as_of": "2026-11-18T16:00:00.000Z",
                    "age_s": 134,
                    "figures": {
                        "step_minutes": 1,
                        "at": ["2026-11-18T15:59:00Z"],
                        "streams": [{"app": "live", "stream": "test", "viewers_avg": [1.0], "viewers_peak": [2]}],
                    },
                    "charts": {"audience": {"data": [], "layout": {}}},
                }
            ]
        }
    )
    part: PartName
    as_of: datetime
    """When the pipeline made it."""
    age_s: Count
    figures: dict[str, Any]
    """The part as `penstock pipeline report --format json` has it, of the last day; usage and recordings of 31 days."""
    charts: dict[str, dict[str, Any]]
    """Those that the report draws of it, as figures for plotly.js. Colours are names of style properties."""


class PartAge(BaseModel):
    """How old a part is."""

    part: PartName
    as_of: datetime | None
    """Null: it has not been made."""
    age_s: Count | None


class RefreshAnswer(BaseModel):
    """What became of the newest question for new figures."""

    state: Literal["never", "running", "done", "failed"]
    words: str
    asked_at: datetime | None
    ended_at: datetime | None


class PipelineState(BaseModel):
    """The pipeline on this machine."""

    is_running: bool
    """Whether one is there to be asked. Files may be newer than it: it may be run by hand."""
    runs: Count
    """That succeeded, in all."""
    failures: Count
    last_run_at: datetime | None
    last_run_s: float | None
    """How long it took."""
    lag_s: float | None
    """How old the newest fact was when it ended."""


class Analytics(BaseModel):
    """Which parts there are, and how new figures are made."""

    parts: list[PartAge]
    refresh: RefreshAnswer
    pipeline: PipelineState
