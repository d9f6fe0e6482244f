"""What the tables of a simulated platform should say, counted from the plan and not from facts."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.pipeline.simulator.facts import FactsOfPlan
from penstock.pipeline.simulator.plan import TURNED_AWAY, WATCHED, Plan


@dataclass(frozen=True, slots=True)
class StreamTruth:
    """One stream over all servers, without what a killed server had not reported.

    What a killed server had reported of a stream, but not yet of its viewers, is counted apart as unreported.
    """

    views: int
    failed_starts: int
    watched_us: int
    egress_bytes: int
    ingress_bytes: int
    unreported_bytes: int
    unreported_us: int


@dataclass(frozen=True, slots=True)
class SubjectTruth:
    """What one subject watched of a stream, and what it sent as its publisher, as far as that was reported."""

    watched_us: int
    egress_bytes: int
    ingress_bytes: int


@dataclass(frozen=True, slots=True)
class Truth:
    """Everything that was reported."""

    facts: int
    """Valid lines; a torn one is not counted."""
    streams: Mapping[tuple[str, str], StreamTruth]
    """By app and stream."""
    subjects: Mapping[tuple[str, str, str], SubjectTruth]
    """By app, stream and subject; without those whom nothing names."""


def truth_of(plan: Plan, told: FactsOfPlan, facts: int) -> Truth:
    """The sums over the last reported counters of each view and publication."""
    views, publications = plan.views, plan.publications
    streams = {}
    unreported = list(_unreported(plan, told))
    for stream, name in enumerate(zip(plan.stream_apps, plan.stream_names, strict=True)):
        of_stream = (plan.channels.stream[views.channel] == stream) & told.is_play_told
        came_in = plan.channels.stream[publications.channel] == stream
        streams[name] = StreamTruth(
            views=int(np.sum(of_stream & (views.outcome == WATCHED))),
            failed_starts=int(np.sum(of_stream & (views.outcome == TURNED_AWAY))),
            watched_us=int(told.watched_us[of_stream].sum()),
            egress_bytes=int(told.sent_bytes[of_stream].sum()),
            ingress_bytes=int(told.received_bytes[came_in].sum()),
            unreported_bytes=sum(sent_bytes for of, sent_bytes, _ in unreported if of == stream),
            unreported_us=sum(watched_us for of, _, watched_us in unreported if of == stream),
        )
    return Truth(facts, streams, _subjects(plan, told))


def _subjects(plan: Plan, told: FactsOfPlan) -> dict[tuple[str, str, str], SubjectTruth]:
    watched_us, egress_bytes, ingress_bytes = (Counter[tuple[str, str, str]]() for _ in range(3))
    names = list(zip(plan.stream_apps, plan.stream_names, strict=True))
    for view in np.flatnonzero(told.is_play_told & (plan.views.outcome == WATCHED)).tolist():
        subject = plan.person_subject[plan.views.person[view]]
        if subject is not None:
            key = (*names[plan.channels.stream[plan.views.channel[view]]], subject)
            watched_us[key] += int(told.watched_us[view])
            egress_bytes[key] += int(told.sent_bytes[view])
    for publication, channel in enumerate(plan.publications.channel.tolist()):
        stream = plan.channels.stream[channel]
        if (subject := plan.stream_subject[stream]) is not None:
            ingress_bytes[(*names[stream], subject)] += int(told.received_bytes[publication])
    return {
        key: SubjectTruth(watched_us[key], egress_bytes[key], ingress_bytes[key])
        for key in (*watched_us, *ingress_bytes)
    }


def _unreported(plan: Plan, told: FactsOfPlan) -> Iterator[tuple[int, int, int]]:
    """Per publication that a killed server left: its stream, and the bytes and watch time missing in viewer samples."""
    views, publications = plan.views, plan.publications
    for publication, index in enumerate(publications.boot.tolist()):
        boot, channel = plan.boots[index], publications.channel[publication]
        at_us = told.sampled_us[publication]
        if not boot.is_killed or publications.ended_us[publication] < boot.told_until_us or not at_us:
            continue
        is_there = (views.channel == channel) & (views.boot == index) & (views.outcome == WATCHED) & told.is_play_told
        is_there &= (views.started_us <= at_us) & (views.ended_us > at_us)
        if np.any(is_there & (views.ended_us >= boot.told_until_us)):
            sent_bytes = told.viewers_sent_bytes[publication] - told.sent_bytes[is_there].sum()
            watched_us = told.viewers_watched_us[publication] - told.watched_us[is_there].sum()
            yield int(plan.channels.stream[channel]), max(int(sent_bytes), 0), max(int(watched_us), 0)
