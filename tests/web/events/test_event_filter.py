"""Which events a client asks for."""

import pytest

from penstock.web.events.event_filter import EventFilter, kinds_like
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
        (EventFilter(kinds=kinds_like(("publish_*", "server_started"))), [1, 3]),
        (EventFilter(kinds=kinds_like(("stream_sample",))), []),
        (EventFilter(kinds=kinds_like(("stream_sample",)), samples=True), [2]),
    ],
)
def test_what_is_given_filters_and_samples_come_on_request(wanted: EventFilter, numbers: list[int]) -> None:
    assert [event.number for event in (PUBLISHED, SAMPLE, STARTED) if wanted.has(event)] == numbers


def test_who_asks_for_the_same_shares_what_is_encoded() -> None:
    assert EventFilter(kinds=kinds_like(["publish_*"])) == EventFilter(kinds=kinds_like(["publish_*"]))
    assert hash(EventFilter(kinds=kinds_like(["a*"]))) == hash(EventFilter(kinds=kinds_like(["a*"])))
