"""What a simulated platform did, counted without any table: the measure for those that count it from facts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.pipeline.simulator.facts import FactsOfPlan
from penstock.pipeline.simulator.plan import TURNED_AWAY, WATCHED, Plan


@dataclass(frozen=True, slots=True)
class StreamTruth:
    """One stream over all servers. What a killed server did not tell is not counted."""

    views: int
    failed_starts: int
    watched_us: int
    egress_bytes: int
    ingress_bytes: int


@dataclass(frozen=True, slots=True)
class Truth:
    """Everything that was told."""

    facts: int
    """Lines without fault; a torn one is not counted."""
    streams: Mapping[tuple[str, str], StreamTruth]
    """By app and stream."""


def truth_of(plan: Plan, told: FactsOfPlan, facts: int) -> Truth:
    """The sums of what was told last of each view and publication."""
    views, publications = plan.views, plan.publications
    streams = {}
    for stream, name in enumerate(zip(plan.stream_apps, plan.stream_names, strict=True)):
        of_stream = (plan.channels.stream[views.channel] == stream) & told.is_play_told
        came_in = plan.channels.stream[publications.channel] == stream
        streams[name] = StreamTruth(
            views=int(np.sum(of_stream & (views.outcome == WATCHED))),
            failed_starts=int(np.sum(of_stream & (views.outcome == TURNED_AWAY))),
            watched_us=int(told.watched_us[of_stream].sum()),
            egress_bytes=int(told.sent_bytes[of_stream].sum()),
            ingress_bytes=int(told.received_bytes[came_in].sum()),
        )
    return Truth(facts, streams)
