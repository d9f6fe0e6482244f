"""Figures of single streams and of incidents, for metrics.

Owns how many streams have figures of their own. Each name costs whoever keeps them, so beyond a bound the rest is
summed up as one. Which have their own does not change while they are there: those that began first.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.web.live.happenings import Happenings
from penstock.web.live.state import LiveState, OpenStream

MAX_STREAMS: Final = 1000
OTHER: Final = ("", "other")
"""What the rest is called: no app is empty."""


class StreamFigures(NamedTuple):
    """A stream, or all that have no figures of their own."""

    app: str
    stream: str
    viewers: int
    bitrate_bps: int
    received_bytes: int
    sent_bytes: int


class LiveFigures(NamedTuple):
    """All that is told of streams at a moment."""

    streams: list[StreamFigures]
    open_incidents: Mapping[str, int]
    """By kind."""
    incidents: Mapping[str, int]
    """The same, of all that there ever were."""


def live_figures(happenings: Happenings, max_streams: int = MAX_STREAMS) -> LiveFigures:
    """What goes on now."""
    state = happenings.state
    streams = sorted(
        state.streams.values(), key=lambda each: (each.value.started_at_us, each.value.app, each.value.stream)
    )
    figures = [_figures(each, state) for each in streams[:max_streams]]
    rest = [_figures(each, state) for each in streams[max_streams:]]
    if rest:
        sums = (sum(getattr(each, name) for each in rest) for name in StreamFigures._fields[2:])
        figures.append(StreamFigures(*OTHER, *sums))
    still_open = Counter(each.kind for each in happenings.incidents.open)
    return LiveFigures(figures, still_open, happenings.incidents.begun)


def _figures(each: OpenStream, state: LiveState) -> StreamFigures:
    value = each.value
    audience = state.audience(value.app, value.stream)
    return StreamFigures(
        value.app, value.stream, len(audience.views), value.bitrate_bps, value.received_bytes, audience.sent_bytes
    )
