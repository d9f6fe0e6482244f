"""The viewers of a simulated platform: when they arrive, how long they stay, and what they experience.

There is an evening peak; stays last minutes or hours; some viewers are slow, fail to start, leave before the first
picture, or come back after their connection or server was lost. Everything follows from the seed.
"""

from typing import NamedTuple

import numpy as np

from penstock.pipeline.simulator.plan import (
    DESERTED,
    LEFT,
    LOST,
    NOT_FOUND,
    SCANNER,
    SECOND_US,
    SHUT_DOWN,
    STREAM_OVER,
    TURNED_AWAY,
    WATCHED,
    Boot,
    Channels,
    Ints,
    Platform,
    Views,
    boot_at,
)


class _Wishes(NamedTuple):
    """Arrays by intended view: channel, time of the request, length of the stay, outcome, person."""

    channel: Ints
    asked_us: Ints
    stays_us: Ints
    outcome: Ints
    person: Ints

    def take(self, rows: Ints) -> "_Wishes":
        return _Wishes(*(column[rows] for column in self))


def make_views(
    platform: Platform, rng: np.random.Generator, boots: tuple[Boot, ...], channels: Channels, people: int
) -> Views:
    """The connections of all viewers."""
    wishes = _wishes(platform, rng, channels, people)
    wishes = _with_returns(boots, rng, channels.server[wishes.channel], wishes)
    channel, asked_us, stays_us, outcome, person = wishes
    count = len(channel)
    boot, wait_us = boot_at(boots, channels.server[channel], asked_us)
    opened_us = asked_us + wait_us + np.where(wait_us > 0, rng.integers(1, 15_000, count) * 1000, 0)
    waited_us = np.where(rng.random(count) < 0.03, rng.integers(0, 3_000_000, count), rng.integers(150, 900, count))
    waited_us = np.where(outcome == TURNED_AWAY, rng.integers(3_000_000, 10_000_000, count), waited_us)
    started_us = opened_us + rng.integers(60_000, 250_000, count) + waited_us
    startup_us = waited_us + np.minimum(rng.lognormal(np.log(180_000), 0.7, count), 9e6).astype(np.int64)
    has_picture = (outcome == WATCHED) & (rng.random(count) >= 0.015)
    stays_us = np.where(has_picture, np.maximum(stays_us, startup_us + SECOND_US), stays_us % (12 * SECOND_US))
    ended_us = np.where(outcome == WATCHED, started_us + stays_us, started_us)
    reason = np.where(rng.random(count) < 0.2, LOST, LEFT)
    reason[outcome == TURNED_AWAY] = NOT_FOUND
    exodus_us = platform.moment(0.9)
    flees_us = exodus_us + rng.integers(0, 60 * SECOND_US, count)
    is_fleeing = (channels.stream[channel] == DESERTED) & (started_us < exodus_us) & (rng.random(count) < 0.8)
    ended_us = np.where(is_fleeing, np.minimum(ended_us, flees_us), ended_us)
    for limit_us, why in (
        (channels.to_us[channel] - rng.integers(1000, 5000, count), STREAM_OVER),
        (np.array([each.down_us for each in boots])[boot] - rng.integers(2500, 50_000, count), SHUT_DOWN),
    ):
        reason[ended_us > limit_us] = why
        ended_us = np.minimum(ended_us, limit_us)
    views = Views(
        channel=channel,
        boot=boot,
        outcome=outcome,
        person=person,
        port=rng.integers(1024, 65_536, count),
        opened_us=opened_us,
        waited_us=waited_us,
        started_us=started_us,
        startup_us=startup_us,
        ended_us=ended_us,
        reason=reason,
        has_picture=has_picture & (started_us - waited_us + startup_us < ended_us),
        share_milli=np.where(rng.random(count) < 0.06, rng.integers(550, 950, count), 1000),
        rtt_us=np.minimum(rng.lognormal(np.log(25_000), 0.8, count), 1e6).astype(np.int64) + 200,
    )
    fits = (started_us < ended_us) | (outcome != WATCHED)
    fits &= started_us < np.minimum(platform.ends_us, np.array([each.down_us for each in boots])[boot] - SECOND_US)
    order = np.lexsort((views.started_us, views.boot))
    return views.take(order[fits[order]])


def _wishes(platform: Platform, rng: np.random.Generator, channels: Channels, people: int) -> _Wishes:
    count = platform.viewers
    popularity = 1 / (np.arange(platform.streams) + 3.0) ** 0.7
    stream = rng.choice(platform.streams, count, p=popularity / popularity.sum())
    # The last two channels are the second homes of the first two streams.
    is_at_second_home = (stream < 2) & (rng.random(count) < 0.5)
    channel = np.where(is_at_second_home, platform.streams + stream, stream).astype(np.int64)
    to_us = np.minimum(channels.to_us[channel], platform.ends_us)
    stays_s = np.minimum(rng.lognormal(np.log(300), 1.1, count), 6 * 3600).astype(np.int64)
    return _Wishes(
        channel,
        _arrivals(platform, rng, channels.from_us[channel], to_us),
        stays_s * SECOND_US + rng.integers(2 * SECOND_US, 9 * SECOND_US, count),
        rng.choice([WATCHED, TURNED_AWAY, SCANNER], count, p=[0.976, 0.02, 0.004]).astype(np.int64),
        rng.integers(0, people, count),
    )


def _arrivals(platform: Platform, rng: np.random.Generator, from_us: Ints, to_us: Ints) -> Ints:
    """Arrival times, by the hour of the day; most are around 20:30."""
    minute = np.arange(platform.hours * 60 + 1)
    clock_hour = platform.first_hour + minute / 60
    weight = 0.12 + 0.25 * np.exp(-(((clock_hour - 12.5) / 2.0) ** 2)) + np.exp(-(((clock_hour - 20.5) / 1.7) ** 2))
    arrived = np.concatenate([[0.0], np.cumsum(weight[1:])])
    low, high = (
        np.interp((each - platform.begins_us) / (60 * SECOND_US), minute, arrived) for each in (from_us, to_us)
    )
    at_minute = np.interp(low + rng.random(len(low)) * (high - low), arrived, minute)
    arrivals_us: Ints = platform.begins_us + (at_minute * 60 * SECOND_US).astype(np.int64)
    return arrivals_us


def _with_returns(boots: tuple[Boot, ...], rng: np.random.Generator, server: Ints, wishes: _Wishes) -> _Wishes:
    """Adds the views of those who come back after a lost connection or a server that went down."""
    count = len(server)
    is_dropped = (rng.random(count) < 0.08) & (wishes.outcome == WATCHED)
    first_us = (wishes.stays_us * rng.uniform(0.1, 0.9, count)).astype(np.int64)
    stays_us = np.where(is_dropped, first_us, wishes.stays_us)
    away_us = rng.integers(3 * SECOND_US, 20 * SECOND_US, count)
    back = wishes._replace(asked_us=wishes.asked_us + stays_us + away_us, stays_us=wishes.stays_us - stays_us)
    dropped = np.flatnonzero(is_dropped)
    parts = [(wishes._replace(stays_us=stays_us), server), (back.take(dropped), server[dropped])]
    for boot in boots:
        for some, their_server in tuple(parts):
            until_us = some.asked_us + some.stays_us
            is_there = (their_server == boot.server) & (some.asked_us < boot.down_us) & (until_us > boot.down_us)
            thrown = np.flatnonzero(is_there)
            again = some._replace(
                asked_us=boot.down_us + rng.integers(1, SECOND_US, len(until_us)), stays_us=until_us - boot.down_us
            )
            parts.append((again.take(thrown), their_server[thrown]))
    return _Wishes(*(np.concatenate(column) for column in zip(*(some for some, _ in parts), strict=True)))


def make_addresses(rng: np.random.Generator, people: int) -> tuple[str, ...]:
    """Mostly IPv4, some IPv6, a few private. Viewers share networks, as customers of a provider do."""
    network = rng.integers(0, max(people // 40, 4), people)
    host = rng.integers(1, 255, people)
    kind = rng.random(people)
    return tuple(
        f"2001:db8:{net:x}::{last:x}"
        if share < 0.12
        else f"10.0.{net % 256}.{last}"
        if share < 0.15
        # Three networks kept for documentation, and what lies beyond them.
        else f"{11 + net // 65536}.{net // 256 % 256}.{net % 256}.{last}"
        for net, last, share in zip(network.tolist(), host.tolist(), kind.tolist(), strict=True)
    )
