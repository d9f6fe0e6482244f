"""Times and numbers of simulated facts, without their fields.

Owns which facts a server reports before it is killed, the intervals of samples, and the numbering: by time within a
boot, as the server does it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.pipeline.simulator.plan import (
    SCANNER,
    SECOND_US,
    TURNED_AWAY,
    WATCHED,
    Flags,
    Ints,
    Plan,
    Publications,
    Views,
)

VIEWER_SAMPLE_US: Final = 5 * SECOND_US
STREAM_SAMPLE_US: Final = SECOND_US
_SEGMENT_US: Final = 900 * SECOND_US

_ORDER: Final = (
    "server_started",
    "connection_opened",
    "protocol_violation",
    "publish_started",
    "play_started",
    "play_first_keyframe",
    "clock_stepped",
    "stream_sample",
    "viewer_sample",
    "recording_gap",
    "recording_segment_closed",
    "play_stopped",
    "publish_stopped",
    "connection_closed",
    "limit_hit",
    "server_stopped",
)
"""Order of facts of the same microsecond."""
_ORDER_BITS: Final = 4
_HOUR_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Told:
    """The facts of one kind in one hour, as rows of a plan's arrays."""

    of: Ints
    """Row of the view, publication, connection, segment or boot."""
    boot: Ints
    at_us: Ints
    number: Ints
    """Number of the sample within its view or publication; 0 for other kinds."""


@dataclass(frozen=True, slots=True)
class Connections:
    """Arrays by connection: those of viewers first, then those of publications."""

    boot: Ints
    number: Ints
    """Number at the end of conn_id."""
    opened_us: Ints
    closed_us: Ints


@dataclass(frozen=True, slots=True)
class Segments:
    """Arrays by recorded file."""

    publication: Ints
    boot: Ints
    number: Ints
    started_us: Ints
    ended_us: Ints
    closed_us: Ints
    is_repaired: Flags
    has_gap: Flags


class Timeline:
    """The facts of a plan, hour by hour."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._told_until_us = np.array([boot.told_until_us for boot in plan.boots])
        self._next_seq = np.ones(len(plan.boots), np.int64)
        self.connections = _connections(plan)
        self.segments = _segments(plan)

    def told(self, from_us: int, to_us: int) -> dict[str, Told]:
        """The facts that are reported within an hour, by kind."""
        views, publications, boots, moment = (
            self._plan.views,
            self._plan.publications,
            self._plan.boots,
            self._plan.platform.moment,
        )
        connections, segments = self.connections, self.segments
        each_boot = np.arange(len(boots))
        # The last server's clock is set by hand, and the first one hits a connection limit.
        clock_set_us = np.where(each_boot == len(boots) - 1, moment(0.4), 0)
        crowd_us = np.where(each_boot == 0, moment(0.1), 0)
        first_key_us = views.started_us - views.waited_us + views.startup_us
        moments: dict[str, tuple[Ints, Ints, Flags | None]] = {
            "server_started": (each_boot, np.array([boot.started_us for boot in boots]) + 200, None),
            "server_stopped": (
                each_boot,
                np.array([boot.down_us for boot in boots]),
                np.array([boot.is_stopped for boot in boots]),
            ),
            "clock_stepped": (each_boot, clock_set_us, None),
            "limit_hit": (each_boot, crowd_us, None),
            "connection_opened": (connections.boot, connections.opened_us, None),
            "connection_closed": (connections.boot, connections.closed_us, None),
            "protocol_violation": (views.boot, views.ended_us, views.outcome == SCANNER),
            "publish_started": (publications.boot, publications.started_us, None),
            "publish_stopped": (publications.boot, publications.ended_us, None),
            "play_started": (views.boot, views.started_us, views.outcome == WATCHED),
            "play_first_keyframe": (views.boot, first_key_us, views.has_picture),
            "play_stopped": (views.boot, views.ended_us, np.isin(views.outcome, (WATCHED, TURNED_AWAY))),
            "recording_segment_closed": (segments.boot, segments.closed_us, None),
            "recording_gap": (segments.boot, segments.closed_us - 3000, segments.has_gap),
        }
        told = {}
        for kind, (boot, at_us, holds) in moments.items():
            keep = (at_us >= from_us) & (at_us < to_us) & (at_us < self._told_until_us[boot])
            of = np.flatnonzero(keep if holds is None else keep & holds)
            told[kind] = Told(of, boot[of], at_us[of], np.zeros(len(of), np.int64))
        is_watching = views.outcome == WATCHED
        told["viewer_sample"] = self._samples(views, is_watching, VIEWER_SAMPLE_US, from_us, to_us)
        told["stream_sample"] = self._samples(publications, None, STREAM_SAMPLE_US, from_us, to_us)
        return {kind: told[kind] for kind in _ORDER}

    def _samples(
        self, sampled: Views | Publications, holds: Flags | None, every_us: int, from_us: int, to_us: int
    ) -> Told:
        started_us, ended_us = sampled.started_us, sampled.ended_us
        is_there = (started_us < to_us) & (ended_us > from_us)
        of = np.flatnonzero(is_there if holds is None else is_there & holds)
        # One more on either side than fit into the hour, because samples are some milliseconds late.
        first = np.maximum((from_us - started_us[of]) // every_us - 1, 1)
        last = (np.minimum(to_us, ended_us[of]) - started_us[of]) // every_us + 1
        count = np.maximum(last - first + 1, 0)
        which = np.repeat(of, count)
        number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        at_us = sampled_at_us(started_us[which], number, every_us)
        # The end has a fact of its own; the server takes no sample just before it.
        keep = (at_us >= from_us) & (at_us < to_us) & (at_us < ended_us[which] - 1000)
        keep &= at_us < self._told_until_us[sampled.boot[which]]
        which = which[keep]
        return Told(which, sampled.boot[which], at_us[keep], number[keep])

    def number(self, from_us: int, told: Mapping[str, Told]) -> dict[str, Ints]:
        """The seq of each fact of an hour. Hours have to come in order."""
        keys = [
            (each.boot << (_HOUR_BITS + _ORDER_BITS)) | ((each.at_us - from_us) << _ORDER_BITS) | _ORDER.index(kind)
            for kind, each in told.items()
        ]
        key = np.concatenate(keys)
        order = np.argsort(key, kind="stable")
        boot = key[order] >> (_HOUR_BITS + _ORDER_BITS)
        count = np.bincount(boot, minlength=len(self._next_seq))
        seq = np.empty(len(key), np.int64)
        seq[order] = np.arange(len(key)) - (np.cumsum(count) - count)[boot] + self._next_seq[boot]
        self._next_seq += count
        ends = np.cumsum([len(each) for each in keys])
        return dict(zip(told, np.split(seq, ends[:-1]), strict=True))


def sampled_at_us(started_us: Ints, number: Ints, every_us: int) -> Ints:
    """Time of a sample by its number: at the interval, up to 20 ms late."""
    at_us: Ints = started_us + number * every_us + (number * 7919 + started_us // 7) % 20_000
    return at_us


def _connections(plan: Plan) -> Connections:
    views, publications = plan.views, plan.publications
    boot = np.concatenate([views.boot, publications.boot])
    opened_us = np.concatenate([views.opened_us, publications.opened_us])
    order = np.lexsort((opened_us, boot))
    count = np.bincount(boot)
    number = np.empty(len(boot), np.int64)
    number[order] = np.arange(len(boot)) - (np.cumsum(count) - count)[boot[order]] + 1
    return Connections(boot, number, opened_us, np.concatenate([views.ended_us, publications.ended_us]) + 700)


def _segments(plan: Plan) -> Segments:
    """Recorded files of 15 minutes. What a killed server left is repaired at its next start."""
    publications, boots = plan.publications, plan.boots
    span_us = publications.ended_us - publications.started_us
    count = -(-span_us // _SEGMENT_US)
    publication = np.repeat(np.arange(len(span_us)), count)
    number = np.arange(len(publication)) - np.repeat(np.cumsum(count) - count, count)
    started_us = publications.started_us[publication] + number * _SEGMENT_US
    ended_us = np.minimum(started_us + _SEGMENT_US, publications.ended_us[publication])
    boot = publications.boot[publication]
    is_killed = np.array([each.is_killed for each in boots])[boot]
    is_repaired = is_killed & (ended_us > np.array([each.told_until_us for each in boots])[boot])
    # The boot after a killed one is the next in the list.
    heir = np.minimum(boot + 1, len(boots) - 1)
    repaired_us = np.array([each.started_us for each in boots])[heir] + SECOND_US
    return Segments(
        publication,
        np.where(is_repaired, heir, boot),
        number + 1,
        started_us,
        ended_us,
        np.where(is_repaired, repaired_us, ended_us - 500),
        is_repaired,
        (publication * 31 + number) % 29 == 0,
    )
