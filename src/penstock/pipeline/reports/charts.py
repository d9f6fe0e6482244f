"""The charts of the report, as figures that plotly.js draws.

Owns what is drawn and how. Figures are plain dictionaries: plotly's Python classes would cost a second of import and
add nothing but checks, which the tests make. Colours are names of the page's style, so that one figure serves light and
dark. Labels that peers chose are escaped here, since plotly reads tags in text.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from penstock.pipeline.reports.gather import HEALTHY
from penstock.pipeline.reports.report import Audience, Health, Incident, QualityPart, Recordings, Report, Usage
from penstock.pipeline.reports.wording import amount, duration, scale, shortened

Figure = dict[str, Any]
Stream = tuple[str | None, str | None]

_SERIES: Final = 8
"""How many colours of series the style has."""
_REST: Final = "var(--rest)"
_LABEL_CHARACTERS: Final = 32
_NARROW_LABEL_CHARACTERS: Final = 15
_MAX_BANDS: Final = 60
_TICK_MINUTES: Final = (1, 2, 5, 10, 15, 30, 60)
_MAX_TICKS: Final = 8
_HOURS_FROM_S: Final = 7200
"""Recordings of a day this long are shown in hours, shorter ones in minutes."""


def charts(report: Report, zone: ZoneInfo) -> dict[str, Figure]:
    """Every chart that has something to show, by the id of its place on the page."""
    colours = _stream_colours(report)
    drawn = {
        "audience": _audience(report.audience, report.health.incidents, zone, colours),
        "startup": _startup(report.quality, zone),
        "stalls": _stalls(report.quality, zone),
        "health": _health(report.health, zone),
        "bitrate": _bitrate(report.health, zone, colours),
        "usage": _usage(report.usage),
        "recordings": _recordings(report.recordings),
    }
    return {name: figure for name, figure in drawn.items() if figure["data"]}


def label(text: str, characters: int = _LABEL_CHARACTERS) -> str:
    """What a peer chose, as text for plotly: short, and with its tags as characters."""
    short = shortened(text, characters)
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _stream_colours(report: Report) -> dict[Stream, str]:
    """One colour for a stream in all charts: those with most viewers first, then as they are listed."""
    watched: list[Stream] = [(each.app, each.stream) for each in report.audience.streams if each.stream is not None]
    streams = dict.fromkeys([*watched, *((each.app, each.stream) for each in report.health.streams)])
    return {name: _colour(index) for index, name in enumerate(streams)}


def _audience(audience: Audience, incidents: Sequence[Incident], zone: ZoneInfo, colours: dict[Stream, str]) -> Figure:
    edges = _edges(audience.at, audience.step_minutes, zone)
    # By the minute a peak is exact and a whole number. Peaks of longer steps do not add up over streams; averages do.
    is_by_minute = audience.step_minutes == 1
    curves = [curve.viewers_peak if is_by_minute else curve.viewers_avg for curve in audience.streams]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "all others" if curve.stream is None else label(f"{curve.app}/{curve.stream}"),
            "x": edges,
            "y": _to_edges(viewers),
            "stackgroup": "all",
            "line": {"width": 1, "color": colours.get((curve.app, curve.stream), _REST), "shape": "hv"},
            "hovertemplate": "%{y:,d}" if is_by_minute else "%{y:,.1f}",
        }
        for curve, viewers in zip(audience.streams, curves, strict=True)
    ]
    most = max((sum(step) for step in zip(*curves, strict=True)), default=0)
    layout = {**_minutes_layout(edges), "shapes": _bands(incidents, zone), "yaxis": _whole_numbers(most)}
    return {"data": traces, "layout": layout}


def _startup(quality: QualityPart, zone: ZoneInfo) -> Figure:
    at = _hours(quality, zone)
    names = {"p50": "startup_ms_p50", "p95": "startup_ms_p95", "p99": "startup_ms_p99"}
    traces = [
        _line(name, at, [getattr(hour.quality, field) for hour in quality.hours], _colour(index), "%{y:,} ms")
        for index, (name, field) in enumerate(names.items())
        if at and any(getattr(hour.quality, field) is not None for hour in quality.hours)
    ]
    layout = {**_layout(), "yaxis": {"rangemode": "tozero", "ticksuffix": " ms"}}
    return {"data": traces, "layout": layout}


def _stalls(quality: QualityPart, zone: ZoneInfo) -> Figure:
    at = _hours(quality, zone)
    stalled = [round(hour.quality.stall_ratio * 100, 4) for hour in quality.hours]
    dropped = [round(hour.quality.drop_rate * 100, 4) for hour in quality.hours]
    traces = [
        _line("watch time stalled", at, stalled, _colour(0), "%{y:.2f} %"),
        _line("bytes skipped", at, dropped, _colour(5), "%{y:.2f} %"),
    ]
    layout = {**_layout(), "yaxis": {"rangemode": "tozero", "ticksuffix": " %"}}
    return {"data": traces if at else [], "layout": layout}


def _health(health: Health, zone: ZoneInfo) -> Figure:
    edges = _edges(health.at, health.step_minutes, zone)
    rows = range(len(health.streams))
    names = [label(f"{each.app}/{each.stream}") for each in health.streams]
    places = {(each.app, each.stream): row for row, each in zip(rows, health.streams, strict=True)}
    marked = [each for each in health.incidents if (each.app, each.stream) in places]
    strips = {
        "type": "heatmap",
        # One edge more than cells: of a single time alone plotly would make a cell of a millisecond.
        "x": edges,
        "y": list(rows),
        "z": [[_severity(verdict) for verdict in each.verdict] for each in health.streams],
        "text": [
            [f"{at}<br>{label(verdict or '')}" for at, verdict in zip(edges, each.verdict, strict=False)]
            for each in health.streams
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "zmin": 0,
        "zmax": 2,
        "colorscale": [[0, "var(--good)"], [0.5, "var(--warn)"], [1, "var(--bad)"]],
        "showscale": False,
        "ygap": 6,
    }
    incidents = {
        "type": "scatter",
        "mode": "markers",
        "x": _local([each.started_at for each in marked], zone),
        "y": [places[each.app, each.stream] for each in marked],
        "text": [f"<b>{label(each.kind.replace('_', ' '))}</b><br>{label(each.evidence)}" for each in marked],
        "hovertemplate": "%{x}<br>%{text}<extra></extra>",
        "marker": {
            "symbol": "diamond",
            "size": 11,
            "color": "var(--ink)",
            "line": {"width": 2, "color": "var(--surface)"},
        },
    }
    axis = {
        "tickmode": "array",
        "tickvals": list(rows),
        "ticktext": names,
        "autorange": "reversed",
        "showgrid": False,
        "zeroline": False,
    }
    layout = {
        **_minutes_layout(edges),
        "hovermode": "closest",
        "showlegend": False,
        "height": 76 + 32 * len(names),
        "yaxis": axis,
        # What stands for the names on a phone.
        "meta": {"narrow": [label(f"{each.app}/{each.stream}", _NARROW_LABEL_CHARACTERS) for each in health.streams]},
    }
    return {"data": [strips, *([incidents] if marked else [])] if names else [], "layout": layout}


def _bitrate(health: Health, zone: ZoneInfo, colours: dict[Stream, str]) -> Figure:
    edges = _edges(health.at, health.step_minutes, zone)
    shown = health.streams[:_SERIES]
    most = max((bps or 0 for each in shown for bps in each.bitrate_bps), default=0)
    divisor, unit = scale(most, "bit/s")
    traces = [
        _line(
            label(f"{each.app}/{each.stream}"),
            edges,
            _to_edges([None if bps is None else round(bps / divisor, 4) for bps in each.bitrate_bps]),
            colours[each.app, each.stream],
            f"%{{y:.3~g}} {unit}",
            shape="hv",
        )
        for each in shown
    ]
    axis = _from_zero(unit, divisor)
    layout = {**_minutes_layout(edges), "shapes": _bands(health.incidents, zone), "yaxis": axis}
    return {"data": traces, "layout": layout}


def _usage(usage: Usage) -> Figure:
    sent = {(day.app, day.day): day.egress_bytes for day in usage.days}
    most = max(sent.values(), default=0)
    divisor, unit = scale(most, "B")
    scaled = {key: value / divisor for key, value in sent.items()}
    return _bars(scaled, lambda value: amount(value * divisor, "B"), _from_zero(unit, divisor))


def _recordings(recordings: Recordings) -> Figure:
    seconds = {(day.app, day.day): day.duration_ms / 1000 for day in recordings.days}
    unit_s, unit = (3600, " h") if max(seconds.values(), default=0) >= _HOURS_FROM_S else (60, " min")
    recorded = {key: round(value / unit_s, 3) for key, value in seconds.items()}
    return _bars(recorded, lambda value: duration(value * unit_s), {"ticksuffix": unit})


def _bars(amounts: Mapping[tuple[str, date], float], words: Callable[[float], str], axis: Figure) -> Figure:
    """Amounts by app and day, stacked; nothing for a single day, of which the tables say all."""
    apps, days = sorted({app for app, _ in amounts}), sorted({day for _, day in amounts})
    traces = []
    for index, app in enumerate(apps if len(days) > 1 else ()):
        values = [amounts.get((app, day), 0) for day in days]
        bar = {
            "type": "bar",
            "name": label(app),
            "x": [day.isoformat() for day in days],
            "y": values,
            "text": [words(value) for value in values],
            "textposition": "none",
            "hovertemplate": "%{text}",
            "marker": {"color": _colour(index)},
        }
        traces.append(bar)
    # A few days are bars, not walls.
    gap = 0.35 if len(days) > 4 else 0.7
    layout = {**_layout(), "barmode": "stack", "bargap": gap, "xaxis": {"type": "category"}, "yaxis": axis}
    return {"data": traces, "layout": layout}


def _line(
    name: str, at: list[str], values: Sequence[float | None], colour: str, hover: str, *, shape: str = "linear"
) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": at,
        "y": list(values),
        "line": {"width": 2, "color": colour, "shape": shape},
        "hovertemplate": hover,
    }


def _hours(quality: QualityPart, zone: ZoneInfo) -> list[str]:
    """Hours to draw a line over; none if there is only one, of which the tables say all."""
    return _local([hour.at for hour in quality.hours], zone) if len(quality.hours) > 1 else []


def _edges(at: Sequence[datetime], step_minutes: int, zone: ZoneInfo) -> list[str]:
    """Where steps begin, and where the last one ends: so that a single step is as wide as it was long."""
    return _local([*at, *(last + timedelta(minutes=step_minutes) for last in at[-1:])], zone)


def _to_edges(values: Sequence[float | None]) -> list[float | None]:
    """Values of steps at their edges, for lines that hold a value until the next."""
    return [*values, *values[-1:]]


def _minutes_layout(edges: Sequence[str]) -> Figure:
    """A time axis from edge to edge. Left alone, plotly divides short ones below the minute."""
    axis: Figure = {"type": "date"}
    if edges:
        axis["range"] = [edges[0], edges[-1]]
        minutes = (datetime.fromisoformat(edges[-1]) - datetime.fromisoformat(edges[0])) / timedelta(minutes=1)
        tick = next((each for each in _TICK_MINUTES if minutes / each <= _MAX_TICKS), None)
        if tick is not None:
            is_one_day = edges[0][:10] == edges[-1][:10]
            words = "%H:%M" if is_one_day else "%H:%M\n%b %-d"
            axis |= {"tick0": edges[0][:10], "dtick": tick * 60_000, "tickformat": words}
    return {**_layout(), "xaxis": axis}


def _whole_numbers(most: float) -> Figure:
    """An axis from 0 for things that come in ones."""
    axis: Figure = {"rangemode": "tozero", "tickformat": ",d"}
    if most <= _MAX_TICKS:
        axis |= {"dtick": 1, "range": [0, max(most, 1) * 1.08]}
    return axis


def _from_zero(unit: str, divisor: int) -> Figure:
    """An axis of amounts. Without a range for small ones it would show fractions of the unit."""
    axis: Figure = {"rangemode": "tozero", "ticksuffix": f" {unit}"}
    return axis if divisor > 1 else {**axis, "range": [0, 1000]}


def _bands(incidents: Sequence[Incident], zone: ZoneInfo) -> list[Figure]:
    """Incidents as shaded stretches of time behind the curves."""
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": _local([incident.started_at], zone)[0],
            "x1": _local([incident.ended_at], zone)[0],
            "y0": 0,
            "y1": 1,
            "layer": "below",
            "fillcolor": "var(--bad)",
            "opacity": 0.14,
            "line": {"width": 1, "color": "var(--bad)"},
        }
        for incident in incidents[:_MAX_BANDS]
    ]


def _layout() -> Figure:
    return {"xaxis": {"type": "date"}, "hovermode": "x unified"}


def _severity(verdict: str | None) -> int | None:
    if verdict is None:
        return None
    if verdict == HEALTHY:
        return 0
    return 2 if "no data" in verdict else 1


def _colour(index: int) -> str:
    return _REST if index >= _SERIES else f"var(--series-{index + 1})"


def _local(times: Sequence[datetime], zone: ZoneInfo) -> list[str]:
    # Plotly knows no time zones: it is given the digits of the wall clock.
    return [f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}" for at in times]
