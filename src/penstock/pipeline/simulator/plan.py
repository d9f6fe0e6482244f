"""The plan of a simulated platform as arrays: boots, channels, publications, viewers. Facts follow from it.

`story` and `crowd` make a plan. Times are microseconds since 1970; rows refer to rows of other arrays by index.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.pipeline.simulator.clock import ChannelClock

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3600 * SECOND_US

WATCHED, TURNED_AWAY, SCANNER = 0, 1, 2
"""Outcome of a viewer's connection: it watches, it waits for a stream that never comes, or it does not speak RTMP."""

LEFT, LOST, STREAM_OVER, NOT_FOUND, SHUT_DOWN = range(5)
REASONS: Final = ("deleteStream", "connection lost", "ended by the server", "stream not found", "ended by the server")

APPS: Final = ("live", "sports", "events")
CLIENTS: Final = ("LNX 9,0,124,2", "WIN 32,0,0,371", "FMLE/3.0 (compatible; Lavf61.7.100)", "MAC 32,0,0,465")
STALLED, COLLAPSING, DRIFTING, DESERTED, STORMY = range(5)
"""Streams with one incident each; they are on the air all the time."""


@dataclass(frozen=True, slots=True)
class Platform:
    """What is simulated. `viewers` is the approximate number of views; the number of streams follows from it."""

    day: date = date(2026, 11, 14)
    viewers: int = 2000
    seed: int = 1
    first_hour: int = 0
    hours: int = 24
    servers: int = 3
    landing_s: int = 30

    @property
    def streams(self) -> int:
        return min(max(self.viewers // 2500, 5), 48)

    @property
    def begins_us(self) -> int:
        midnight = datetime(self.day.year, self.day.month, self.day.day, tzinfo=UTC)
        return int(midnight.timestamp()) * SECOND_US + self.first_hour * HOUR_US

    @property
    def ends_us(self) -> int:
        return self.begins_us + self.hours * HOUR_US

    def moment(self, share: float) -> int:
        """A whole second at this share of the time."""
        return self.begins_us + int(self.hours * 3600 * share) * SECOND_US


@dataclass(frozen=True, slots=True)
class Boot:
    """One life of a server process. Facts end at `told_until_us`; a killed one has no server_stopped."""

    server_id: str
    boot_id: str
    conn_prefix: str
    server: int
    pid: int
    started_us: int
    down_us: int
    told_until_us: int
    is_killed: bool
    is_stopped: bool
    mono_offset_us: int


@dataclass(frozen=True, slots=True)
class Channels:
    """Arrays by channel, which is a stream on one server."""

    stream: Ints
    server: Ints
    from_us: Ints
    to_us: Ints
    """On the air from and to; the end may be after the simulated time."""


@dataclass(frozen=True, slots=True)
class Publications:
    """Arrays by publication."""

    channel: Ints
    boot: Ints
    opened_us: Ints
    started_us: Ints
    ended_us: Ints


@dataclass(frozen=True, slots=True)
class Views:
    """Arrays by viewer's connection, sorted by boot and start."""

    channel: Ints
    boot: Ints
    outcome: Ints
    person: Ints
    port: Ints
    opened_us: Ints
    waited_us: Ints
    started_us: Ints
    startup_us: Ints
    ended_us: Ints
    reason: Ints
    has_picture: Flags
    share_milli: Ints
    rtt_us: Ints

    def take(self, rows: Ints) -> "Views":
        return Views(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that the facts of a platform follow from."""

    platform: Platform
    boots: tuple[Boot, ...]
    stream_apps: tuple[str, ...]
    stream_names: tuple[str, ...]
    channels: Channels
    clock: ChannelClock
    publications: Publications
    views: Views
    person_ip: tuple[str, ...]
    person_client: Ints
    person_protocol: tuple[str, ...]
    person_viewer: tuple[str | None, ...]
    person_subject: tuple[str | None, ...]
    stream_subject: tuple[str | None, ...]
    """The name of the key by which a stream is published."""


def boot_at(boots: tuple[Boot, ...], server: Ints, at_us: Ints) -> tuple[Ints, Ints]:
    """The boot of a server at a time, or the next one, and how long until it starts."""
    boot = np.zeros(len(at_us), np.int64)
    wait_us = np.zeros(len(at_us), np.int64)
    for index, each in enumerate(boots):
        earlier = [other.down_us for other in boots if other.server == each.server and other.down_us < each.down_us]
        fits = (server == each.server) & (at_us >= max(earlier, default=0)) & (at_us < each.down_us)
        boot[fits] = index
        wait_us[fits] = np.maximum(each.started_us - at_us[fits], 0)
    return boot, wait_us
