"""From the plan of a simulated platform to its facts, an hour at a time.

Owns the fields of every kind. An hour is one Arrow table per kind, with the fields of `penstock.facts` in their order,
sorted by boot and view. Memory is that of the largest hour.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock import __version__
from penstock.facts import CONTRACT_VERSION
from penstock.pipeline.lake.hours import hour_of_us
from penstock.pipeline.simulator.counters import GOP_US, SKIP_EVERY_US, Counters
from penstock.pipeline.simulator.plan import (
    DRIFTING,
    HOUR_US,
    REASONS,
    SECOND_US,
    SHUT_DOWN,
    WATCHED,
    Ints,
    Plan,
)
from penstock.pipeline.simulator.strings import Strings, same
from penstock.pipeline.simulator.timeline import STREAM_SAMPLE_US, Timeline, Told, sampled_at_us

_VIEW_KINDS: Final = ("play_started", "play_first_keyframe", "play_stopped", "viewer_sample")

Column = Any
"""An array of numpy or Arrow."""


@dataclass(frozen=True, slots=True)
class KindOfFacts:
    """The facts of one kind in an hour; the other arrays have the rows of the table."""

    table: pa.Table
    boot: Ints
    """Rows of the plan's boots."""
    view_seq: pa.Array
    connection: Ints | None
    """Rows of `identities`; None: facts of this kind have no address."""


@dataclass(frozen=True, slots=True)
class HourOfFacts:
    """The facts of an hour by kind."""

    hour: str
    kinds: Mapping[str, KindOfFacts]


class FactsOfPlan:
    """Makes the facts of a plan hour by hour, and keeps the last reported counters of each view and publication."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._timeline = Timeline(plan)
        self._strings = Strings(plan, self._timeline.connections)
        self._counters = Counters(plan)
        views = len(plan.views.boot)
        self._fields: dict[str, Callable[[Told], dict[str, Column]]] = {
            "server_started": self._server_started,
            "server_stopped": self._server_stopped,
            "clock_stepped": self._clock_stepped,
            "limit_hit": self._limit_hit,
            "connection_opened": self._connection_opened,
            "connection_closed": self._connection_closed,
            "protocol_violation": self._protocol_violation,
            "publish_started": self._publish_started,
            "publish_stopped": self._publish_stopped,
            "play_started": self._play_started,
            "play_first_keyframe": self._play_first_keyframe,
            "play_stopped": self._play_stopped,
            "stream_sample": self._stream_sample,
            "viewer_sample": self._viewer_sample,
            "recording_segment_closed": self._recording_segment_closed,
            "recording_gap": self._recording_gap,
        }
        self.view_seq = np.zeros(views, np.int64)
        """seq of each view's play_started; 0: not reported."""
        self.is_play_told = np.zeros(views, bool)
        self.watched_us = np.zeros(views, np.int64)
        self.sent_bytes = np.zeros(views, np.int64)
        self.publication_seq = np.zeros(len(plan.publications.boot), np.int64)
        self.received_bytes = np.zeros(len(plan.publications.boot), np.int64)
        self.sampled_us, self.viewers_sent_bytes, self.viewers_watched_us = (
            np.zeros(len(plan.publications.boot), np.int64) for _ in range(3)
        )
        """Of each publication the time of its last sample, and the sums over its viewers there."""

    def hours(self) -> Iterator[HourOfFacts]:
        platform = self._plan.platform
        for from_us in range(platform.begins_us, platform.ends_us, HOUR_US):
            told = self._timeline.told(from_us, min(from_us + HOUR_US, platform.ends_us))
            seqs = self._timeline.number(from_us, told)
            self.view_seq[told["play_started"].of] = seqs["play_started"]
            self.publication_seq[told["publish_started"].of] = seqs["publish_started"]
            for kind in ("play_started", "play_stopped"):
                self.is_play_told[told[kind].of] = True
            self._strings.learn_numbers(self.view_seq, self.publication_seq)
            kinds = {kind: self._tell(kind, each, seqs[kind]) for kind, each in told.items() if len(each.of)}
            yield HourOfFacts(hour_of_us(from_us), kinds)

    def identities(self) -> pa.Table:
        """Address, client, viewer and auth_subject by connection: first of viewers, then of publications."""
        return self._strings.identities()

    def _tell(self, kind: str, told: Told, seq: Ints) -> KindOfFacts:
        table = self._table(kind, told, seq)
        of = told.of + len(self._plan.views.boot) if kind == "publish_started" else told.of
        connection = of if "peer_addr" in table.column_names else None
        return KindOfFacts(table, told.boot, self._view_seq_of(kind, told), connection)

    def _table(self, kind: str, told: Told, seq: Ints) -> pa.Table:
        rows = len(seq)
        mono_offset_us = np.array([boot.mono_offset_us for boot in self._plan.boots])
        columns: dict[str, Column] = {
            "event_id": self._strings.event_id(told.boot, seq),
            **self._strings.boot(told.boot),
            "seq": seq,
            "kind": same(kind, rows),
            "version": np.full(rows, CONTRACT_VERSION),
            "at_us": told.at_us,
            "mono_us": told.at_us - mono_offset_us[told.boot],
            "worker": np.full(rows, 1),
            **self._fields[kind](told),
        }
        return pa.table({name: pa.array(each) for name, each in columns.items()})

    def _view_seq_of(self, kind: str, told: Told) -> pa.Array:
        if kind not in _VIEW_KINDS:
            return pa.nulls(len(told.of), pa.int64())
        seq = self.view_seq[told.of]
        return pa.array(seq, mask=seq == 0)

    def _server_started(self, told: Told) -> dict[str, Column]:
        boots = [self._plan.boots[each] for each in told.of]
        return {
            "software_version": same(__version__, len(boots)),
            "pid": np.array([boot.pid for boot in boots]),
            "boot_wall_us": np.array([boot.started_us for boot in boots]),
            "boot_mono_us": np.array([boot.started_us - boot.mono_offset_us for boot in boots]),
        }

    def _server_stopped(self, told: Told) -> dict[str, Column]:
        boots = [self._plan.boots[each] for each in told.of]
        return {
            "software_version": same(__version__, len(boots)),
            "uptime_us": np.array([boot.down_us - boot.started_us for boot in boots]),
            "wall_us": told.at_us,
            "dropped_facts": np.zeros(len(boots), np.int64),
        }

    def _clock_stepped(self, told: Told) -> dict[str, Column]:
        step_us = np.full(len(told.of), 2_500_000)
        return {"wall_us": told.at_us + step_us, "step_us": step_us, "offset_us": step_us}

    def _limit_hit(self, told: Told) -> dict[str, Column]:
        detail = "10.0.0.7 has 256"
        rows = len(told.of)
        return {
            "limit": same("connections per address", rows),
            "hits": np.full(rows, 40),
            "detail": same(detail, rows),
        }

    def _connection_opened(self, told: Told) -> dict[str, Column]:
        return self._strings.connection(told.of)

    def _connection_closed(self, told: Told) -> dict[str, Column]:
        views, count = self._plan.views, len(self._plan.views.boot)
        is_view = told.of < count
        view = np.where(is_view, told.of, 0)
        publication = np.where(is_view, 0, told.of - count)
        received = np.where(is_view, 3400 + views.port[view] % 90, self.received_bytes[publication] + 5200)
        sent = np.where(is_view, self.sent_bytes[view] + 3900, 4100)
        return {
            **self._strings.connection(told.of),
            "reason": same("closed by the peer", len(told.of)),
            "app": self._strings.conn_app(told.of),
            "client": self._strings.client(told.of),
            "duration_us": told.at_us - self._timeline.connections.opened_us[told.of],
            "received_bytes": received,
            "sent_bytes": sent,
        }

    def _protocol_violation(self, told: Told) -> dict[str, Column]:
        connection = self._strings.connection(told.of)
        return {
            "conn_id": connection["conn_id"],
            "peer_addr": connection["peer_addr"],
            "layer": same("handshake", len(told.of)),
            "detail": same("version 22 instead of 3", len(told.of)),
        }

    def _publish_started(self, told: Told) -> dict[str, Column]:
        of = told.of + len(self._plan.views.boot)
        return {
            **self._strings.connection(of),
            "client": self._strings.client(of),
            **self._strings.stream(self._plan.publications.channel[told.of]),
            "publishing_type": same("live", len(of)),
            "dimensions": pa.nulls(len(of), pa.string()),
            "auth_subject": self._strings.publisher(told.of),
            "pulled_from": pa.nulls(len(of), pa.string()),
        }

    def _publish_stopped(self, told: Told) -> dict[str, Column]:
        publications, boots = self._plan.publications, self._plan.boots
        totals = self._counters.of_publications(told.of, told.at_us)
        self.received_bytes[told.of] = totals["received_bytes"]
        is_down = told.at_us >= np.array([boot.down_us for boot in boots])[told.boot] - 2000
        return {
            "publication_id": self._strings.publication_id(told.of),
            "conn_id": self._strings.conn_id(told.of + len(self._plan.views.boot)),
            **self._strings.stream(publications.channel[told.of]),
            "reason": pa.array(np.where(is_down, REASONS[SHUT_DOWN], "FCUnpublish")),
            "duration_us": told.at_us - publications.started_us[told.of],
            **totals,
        }

    def _stream_sample(self, told: Told) -> dict[str, Column]:
        publications, plan = self._plan.publications, self._plan
        channel, started_us = publications.channel[told.of], publications.started_us[told.of]
        before_us = np.where(told.number > 1, sampled_at_us(started_us, told.number - 1, STREAM_SAMPLE_US), started_us)
        totals, before = (
            self._counters.of_publications(told.of, told.at_us),
            self._counters.of_publications(told.of, before_us),
        )
        self.received_bytes[told.of] = totals["received_bytes"]
        of_viewers = self._counters.of_viewers(channel, told.at_us)
        self.sampled_us[told.of] = told.at_us
        self.viewers_sent_bytes[told.of] = of_viewers["viewers_sent_bytes"]
        self.viewers_watched_us[told.of] = of_viewers["viewers_watched_us"]
        interval_us = told.at_us - before_us
        gained = totals["received_bytes"] - before["received_bytes"]
        frames = totals["video_frames"] - before["video_frames"]
        media_us = self._counters.media_us(told.of, told.at_us)
        since_us = np.maximum(told.at_us - plan.platform.moment(0.7), 0)
        # The drifting encoder's audio drifts by a millisecond a second, for seven minutes.
        is_drifting = (plan.channels.stream[channel] == DRIFTING) & (since_us < 420 * SECOND_US)
        skew_tenths = told.number * 7919 % 300 - 150 + np.where(is_drifting, since_us // 100_000, 0)
        return {
            "publication_id": self._strings.publication_id(told.of),
            **self._strings.stream(channel),
            "viewers": self._counters.viewers(channel, told.at_us),
            "interval_us": interval_us,
            "bitrate_bps": gained * 8 * SECOND_US // interval_us,
            "fps": np.round(frames * SECOND_US / interval_us, 3),
            "interval_timestamp_jumps": totals["timestamp_jumps"] - before["timestamp_jumps"],
            "av_skew_ms": pa.array(np.round(skew_tenths / 10, 1), mask=frames == 0),
            "keyframe_interval_ms": pa.array(np.full(len(frames), GOP_US // 1000), mask=totals["keyframes"] < 2),
            "media_ms": media_us // 1000,
            "wall_ms": (told.at_us - started_us) // 1000,
            **totals,
            **of_viewers,
        }

    def _play_started(self, told: Told) -> dict[str, Column]:
        strings, views = self._strings, self._plan.views
        return {
            **strings.connection(told.of),
            "client": strings.client(told.of),
            **strings.stream(views.channel[told.of]),
            "waited_us": views.waited_us[told.of],
            **strings.who(told.of),
            "dimensions": strings.dimensions(told.of),
        }

    def _play_first_keyframe(self, told: Told) -> dict[str, Column]:
        return {**self._view(told), "startup_us": self._plan.views.startup_us[told.of]}

    def _view(self, told: Told) -> dict[str, Column]:
        return {
            "view_id": self._strings.view_id(told.of),
            "conn_id": self._strings.conn_id(told.of),
            **self._strings.stream(self._plan.views.channel[told.of]),
        }

    def _play_stopped(self, told: Told) -> dict[str, Column]:
        views, connection = self._plan.views, self._strings.connection(told.of)
        is_let_in = views.outcome[told.of] == WATCHED
        watched_us = np.where(is_let_in, told.at_us - views.started_us[told.of], 0)
        counters = self._counters.of_views(told.of, told.at_us, watched_us)
        self.sent_bytes[told.of], self.watched_us[told.of] = counters["sent_bytes"], watched_us
        return {
            **self._view(told),
            "protocol": connection["protocol"],
            "reason": pa.array(REASONS).take(pa.array(views.reason[told.of])),
            "watched_us": watched_us,
            "startup_us": pa.array(views.startup_us[told.of], mask=~views.has_picture[told.of]),
            **counters,
            "peer_addr": connection["peer_addr"],
            "client": self._strings.client(told.of),
            **self._strings.who(told.of),
            "dimensions": self._strings.dimensions(told.of),
        }

    def _viewer_sample(self, told: Told) -> dict[str, Column]:
        views, clock, of = self._plan.views, self._plan.clock, told.of
        watched_us = told.at_us - views.started_us[of]
        counters = self._counters.of_views(of, told.at_us, watched_us)
        # Keep the last sample of each view in the hour; rows are sorted by view.
        is_last = np.append(of[1:] != of[:-1], True) if len(of) else np.zeros(0, bool)
        self.sent_bytes[of[is_last]], self.watched_us[of[is_last]] = (
            counters["sent_bytes"][is_last],
            watched_us[is_last],
        )
        chance = (of * 7919 + told.number * 104_729) % 1000
        is_slow = views.share_milli[of] < 1000
        lag_ms = np.where(is_slow, watched_us % SKIP_EVERY_US // 5000, np.where(chance < 900, 0, chance % 45))
        has_no_place = counters["sent_bytes"] == 0
        rtt_us = views.rtt_us[of] + views.rtt_us[of] // 8 * chance // 1000
        lacks_tcp_info = views.port[of] % 64 == 0
        return {
            **self._view(told),
            "watched_us": watched_us,
            "sent_bytes": counters["sent_bytes"],
            "acknowledged_bytes": pa.array(counters["sent_bytes"] + 3900 - chance, mask=lacks_tcp_info),
            "lag_bytes": np.where(has_no_place, 0, lag_ms * clock.rate[views.channel[of]] // 1000),
            "lag_ms": pa.array(lag_ms, mask=has_no_place),
            "skips": counters["skips"],
            "skipped_bytes": counters["skipped_bytes"],
            "ping_ms": pa.array(rtt_us // 1000 + 1, mask=told.number < 3),
            "rtt_us": pa.array(rtt_us, mask=lacks_tcp_info),
            "retransmits": pa.array(
                watched_us // np.where(is_slow, 3 * SECOND_US, 120 * SECOND_US), mask=lacks_tcp_info
            ),
        }

    def _recording_gap(self, told: Told) -> dict[str, Column]:
        rows = len(told.of)
        return {
            **self._recording(told),
            "reason": same("the disk was too slow", rows),
            "gap_at_ms": np.full(rows, 30_000),
            "gap_ms": np.full(rows, 1500),
            "dropped_messages": np.full(rows, 115),
            "dropped_bytes": np.full(rows, 600_000),
        }

    def _recording_segment_closed(self, told: Told) -> dict[str, Column]:
        segments, publications, clock = self._timeline.segments, self._plan.publications, self._plan.clock
        started_us, ended_us = segments.started_us[told.of], segments.ended_us[told.of]
        channel = publications.channel[segments.publication[told.of]]
        is_repaired = segments.is_repaired[told.of]
        duration_us = clock.media_us(channel, ended_us) - clock.media_us(channel, started_us)
        return {
            **self._recording(told),
            "status": pa.array(np.where(is_repaired, "repaired", "closed")),
            "reason": pa.array(np.full(len(told.of), "its end was cut off"), mask=~is_repaired),
            "started_at_us": started_us,
            "duration_ms": duration_us // 1000,
            "size_bytes": clock.bytes_so_far(channel, ended_us) - clock.bytes_so_far(channel, started_us) + 4000,
            "video": same("h264", len(told.of)),
            "audio": same("aac", len(told.of)),
            "keyframes": duration_us // GOP_US + 1,
            "gaps": segments.has_gap[told.of].astype(np.int64),
        }

    def _recording(self, told: Told) -> dict[str, Column]:
        plan, segments = self._plan, self._timeline.segments
        publication = segments.publication[told.of]
        channel = plan.publications.channel[publication]
        paths = []
        for each, started_us in zip(channel, segments.started_us[told.of].tolist(), strict=True):
            stream = plan.channels.stream[each]
            started = datetime.fromtimestamp(started_us // SECOND_US, UTC)
            server = plan.channels.server[each] + 1
            paths.append(f"{plan.stream_apps[stream]}_{plan.stream_names[stream]}_{started:%Y%m%d_%H%M%S}-{server}.flv")
        return {
            "recording_id": pa.array([f"{plan.platform.seed:08x}{each:08x}" for each in publication]),
            "segment": segments.number[told.of],
            **self._strings.stream(channel),
            "path": pa.array(paths),
        }
