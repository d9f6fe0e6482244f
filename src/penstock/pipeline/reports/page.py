"""The report as one page of HTML that needs nothing else.

Owns the template's words and its safety: everything that peers chose is escaped, in text by the template and in scripts
here, and the page's own policy forbids the browser to load anything or to run a script other than those it came with.
The time zone changes how times are shown and nothing else.
"""

import base64
import hashlib
import json
from datetime import datetime, timedelta
from functools import partial
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock import __version__
from penstock.pipeline.reports import wording
from penstock.pipeline.reports.charts import charts
from penstock.pipeline.reports.report import Report

_PLOTLY: Final = ("plotly", "package_data/plotly.min.js")
_YOUNG: Final = timedelta(days=1)
"""So long after a server's start the page says how long ago that was."""
_FRESH_S: Final = 60
"""Figures are by the minute, so younger ones are as new as can be."""


def render(report: Report, zone: ZoneInfo) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("penstock.pipeline.reports", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": partial(wording.amount, unit="B"),
        "bits": partial(wording.amount, unit="bit/s"),
        "clock": partial(wording.clock, zone=zone),
        "count": wording.count,
        "duration": wording.duration,
        "hours": wording.hours,
        "milliseconds": wording.milliseconds,
        "startup": wording.startup,
        "until": lambda first_at, newest_at: wording.span(first_at, newest_at, zone),
        "percent": wording.percent,
        "counted": wording.counted,
        "ago": lambda at: wording.roughly(_age_s(at, report.made_at)),
        "age": lambda at: wording.duration(_age_s(at, report.made_at)),
        "words": lambda name: name.replace("_", " "),
    }
    figures = charts(report, zone)
    # The largest part of the page, needed only where there is something to draw.
    plotly = _resource(*_PLOTLY) if figures else ""
    scripts = [plotly, _resource(__package__ or "", "page.js")] if figures else []
    return environment.get_template("page.html.j2").render(
        report=report,
        zone=zone.key,
        version=__version__,
        is_young=report.started_at is not None and report.made_at - report.started_at < _YOUNG,
        is_fresh=report.newest_at is not None and _age_s(report.newest_at, report.made_at) < _FRESH_S,
        style=Markup(_resource(__package__ or "", "page.css")),  # noqa: S704 - ours
        figures=figures,
        figures_json=Markup(script_json(figures)),  # noqa: S704 - escaped for where it stands
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - ours and plotly's
        policy=_policy(scripts),
    )


def script_json(value: object) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _policy(scripts: list[str]) -> str:
    """What the browser may do: run these scripts, style itself, and nothing else."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts) or "'none'"
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _resource(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _age_s(at: datetime, now: datetime) -> float:
    return max((now - at).total_seconds(), 0)
