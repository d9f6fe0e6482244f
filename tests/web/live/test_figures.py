"""Figures of streams for metrics, however many there are."""

from penstock.web.live.figures import StreamFigures, live_figures
from penstock.web.live.happenings import Happenings
from tests.web.api.calling import OPENED_AT_US, live, stream, view


def test_streams_are_told_with_their_audience() -> None:
    happenings = Happenings("edge-1", "boot")
    happenings.state.receive(1, live(streams=[stream("a")], views=[view("v1"), view("v2", sent_bytes=7)]))
    assert live_figures(happenings).streams == [StreamFigures("live", "a", 2, 2_000_000, 1000, 107)]


def test_beyond_the_bound_the_newest_streams_are_one() -> None:
    happenings = Happenings("edge-1", "boot")
    streams = [stream(name, started_at_us=OPENED_AT_US - number) for number, name in enumerate("abcd")]
    happenings.state.receive(1, live(streams=streams, views=[view("v1", "a"), view("v2", "b"), view("v3", "d")]))
    assert live_figures(happenings, max_streams=2).streams == [
        StreamFigures("live", "d", 1, 2_000_000, 1000, 100),
        StreamFigures("live", "c", 0, 2_000_000, 1000, 0),
        StreamFigures("", "other", 2, 4_000_000, 2000, 200),
    ]


def test_incidents_are_counted_by_kind() -> None:
    happenings = Happenings("edge-1", "boot")
    for number in range(5):
        happenings.incidents.published("live", "a", OPENED_AT_US + number)
    figures = live_figures(happenings)
    assert (figures.open_incidents, figures.incidents) == ({"reconnect_storm": 1}, {"reconnect_storm": 1})
