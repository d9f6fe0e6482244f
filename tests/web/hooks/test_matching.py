"""Which events a hook wants."""

from typing import NamedTuple

import pytest

from penstock.web.hooks.matching import Wanted


class Told(NamedTuple):
    kind: str
    app: str | None = "live"
    stream: str | None = "main"
    is_sample: bool = False


SAMPLE = Told("stream_sample", is_sample=True)
STARTED = Told("server_started", None, None)


@pytest.mark.parametrize(
    ("wanted", "event", "is_wanted"),
    [
        (Wanted(), Told("publish_started"), True),
        (Wanted(), STARTED, True),
        (Wanted(), SAMPLE, False),
        (Wanted(("*",)), SAMPLE, False),
        (Wanted(("*_sample",)), SAMPLE, False),
        (Wanted(("publish_*", "stream_sample")), SAMPLE, True),
        (Wanted(("publish_*",)), Told("publish_stopped"), True),
        (Wanted(("publish_*",)), Told("play_started"), False),
        (Wanted((), ("live/*",)), Told("play_started"), True),
        (Wanted((), ("studio/*",)), Told("play_started"), False),
        (Wanted((), ("LIVE/*",)), Told("play_started"), False),
        (Wanted((), ("live/*",)), STARTED, False),
        (Wanted((), ("*/*",)), STARTED, True),
        (Wanted((), ("*/main",)), Told("connection_closed", "live", None), False),
    ],
)
def test_kinds_and_streams_are_matched_by_pattern_and_samples_by_name(
    wanted: Wanted, event: Told, is_wanted: bool
) -> None:
    assert wanted.has(event) is is_wanted
