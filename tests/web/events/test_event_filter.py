"""Which events a client asks for."""

import pytest

from penstock.web.events.event_filter import EventFilter
from penstock.web.events.event_log import Event

PUBLISHED = Event(1, "publish_started", "live", "main", False, b"{}")
SAMPLE = Event(2, "stream_sample", "live", "main", True, b"{}")
STARTED = Event(3, "server_started", None, None, False, b"{}")


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (EventFilter(), [1, 3]),
        (EventFilter(samples=True), [1, 2, 3]),
        (EventFilter(app="live"), [1]),
        (EventFilter(app="other"), []),
        (EventFilter(stream="main", samples=True), [1, 2]),
        (EventFilter(kinds=("publish_*", "server_started")), [1, 3]),
        (EventFilter(kinds=("stream_sample",)), []),
        (EventFilter(kinds=("stream_sample",), samples=True), [2]),
    ],
)
def test_what_is_given_filters_and_samples_come_on_request(wanted: EventFilter, numbers: list[int]) -> None:
    assert [event.number for event in (PUBLISHED, SAMPLE, STARTED) if wanted.has(event)] == numbers
