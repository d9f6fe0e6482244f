"""Figures of a worker, taken on its loop.

Owns what no other part counts, and the one snapshot in which all of it is taken. Counting costs next to nothing; the
snapshot walks all connections, a few at a time. Who adds workers up and tells Prometheus is in another process.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from penstock.control.figures import Figures
from penstock.errors import ProtocolViolation
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.flusher import Flusher
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.reaper import SLOW_VIEWER
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.address_quota import AddressQuota
from penstock.serve.telemetry.facts_writer import FactsWriter
from penstock.serve.telemetry.meter import Meters

_SLICE_CONNECTIONS = 250
_SLICE_PAUSE_S = 0.002


class RecorderFigures(Protocol):
    """What a recorder tells of itself."""

    @property
    def backlog_bytes(self) -> int:
        """Not written yet."""

    @property
    def dropped_messages(self) -> int:
        """Given up since the disk was too slow."""


class PushFigures(Protocol):
    """What is told of pushes."""

    failures: int

    @property
    def live(self) -> int:
        """How many targets take a stream now."""

    @property
    def failing(self) -> int:
        """How many should, and do not."""

    @property
    def sent_bytes(self) -> int:
        """By all of them since the start."""


class PullFigures(Protocol):
    """What pulls tell of themselves."""

    misses: int
    losses: int

    def __len__(self) -> int:
        """How many there are."""

    @property
    def received_bytes(self) -> int:
        """From all origins."""


class BeaconFigures(Protocol):
    """What became of players' beacons."""

    @property
    def told(self) -> int:
        """Became facts."""

    @property
    def unknown(self) -> int:
        """About views that are not there."""

    @property
    def limited(self) -> int:
        """Too soon after another one."""


class MetricsObserver(Observer):
    """Counts what no other part counts, and takes snapshots."""

    def __init__(
        self,
        meters: Meters,
        facts_writer: FactsWriter | None = None,
        recorder: RecorderFigures | None = None,
        *,
        pushes: PushFigures | None = None,
        facts_quota: AddressQuota | None = None,
        log_quota: AddressQuota | None = None,
        beacons: BeaconFigures | None = None,
    ) -> None:
        self._meters = meters
        self._facts_writer = facts_writer
        self._recorder = recorder
        self._pushes = pushes
        self.pulls: PullFigures | None = None
        """Given when there are some."""
        self._facts_quota = facts_quota
        self._log_quota = log_quota
        self._beacons = beacons
        self._viewer_skips = 0
        self._slow_viewers_closed = 0
        self._violations = 0
        self._limits_hit: Counter[str] = Counter()
        # Of connections and views that are over.
        self._received_bytes = 0
        self._sent_bytes = 0
        self._told_received_bytes = 0
        self._told_sent_bytes = 0

    def violation(self, connection: MediaConnection, violation: ProtocolViolation) -> None:  # noqa: ARG002
        """A peer broke the protocol."""
        self._violations += 1

    def limit_hit(self, limit: str, detail: str) -> None:  # noqa: ARG002
        """Somebody was turned away."""
        self._limits_hit[limit] += 1

    def viewer_skipped(self, viewer: Viewer, skipped_bytes: int) -> None:  # noqa: ARG002
        """A viewer fell behind and lost some."""
        self._viewer_skips += 1

    def play_stopped(self, viewer: Viewer, reason: str) -> None:  # noqa: ARG002
        """A view is over."""
        self._sent_bytes += viewer.log_bytes

    def connection_closed(self, connection: MediaConnection, reason: str) -> None:
        """A connection is gone."""
        self._received_bytes += connection.received_bytes
        self._sent_bytes += connection.queue.sent_bytes
        if reason.startswith(SLOW_VIEWER):
            self._slow_viewers_closed += 1

    def take(self, broker: Broker, flusher: Flusher, done: Callable[[Figures], None]) -> None:
        """Take a snapshot, on the loop's thread and in slices, and hand it over."""

        def walked(walk: _Walk) -> None:
            done(self._figures(broker, flusher, walk))

        _Walk(broker, self._received_bytes, self._sent_bytes, walked).go_on()

    def _figures(self, broker: Broker, flusher: Flusher, walk: "_Walk") -> Figures:
        # A view that ended while the walk was on its way may be missing; a counter must not go back for that.
        self._told_received_bytes = max(self._told_received_bytes, walk.received_bytes)
        self._told_sent_bytes = max(self._told_sent_bytes, walk.sent_bytes)
        live_streams = broker.streams.values()
        rounds, writer, recorder, pushes = flusher.rounds, self._facts_writer, self._recorder, self._pushes
        pulls = self.pulls
        return Figures(
            connections=len(broker.connections),
            # Streams that are followed here count in the worker that has them.
            publishers=sum(live_stream.publisher is not None for live_stream in live_streams),
            viewers=sum(live_stream.viewers_here for live_stream in live_streams),
            streams=sum(live_stream.epoch is not None for live_stream in live_streams),
            busy_share=broker.loop.busy_share,
            foreground_share=broker.loop.foreground_share,
            received_bytes=self._told_received_bytes + (pulls.received_bytes if pulls is not None else 0),
            sent_bytes=self._told_sent_bytes,
            media_messages=self._meters.messages,
            viewer_skips=self._viewer_skips,
            slow_viewers_closed=self._slow_viewers_closed,
            follower_resumes=broker.peers.followed.resumes,
            protocol_violations=self._violations,
            limits_hit=dict(self._limits_hit),
            round_counts=tuple(rounds.counts),
            round_sum_s=rounds.sum_s,
            flush_grid_s=flusher.pacer.grid_s or 0.0,
            pulls=len(pulls) if pulls is not None else 0,
            pull_misses=pulls.misses if pulls is not None else 0,
            pull_losses=pulls.losses if pulls is not None else 0,
            log_bytes=broker.budget.used_bytes,
            log_budget_bytes=broker.budget.max_bytes,
            pushes_live=pushes.live if pushes else 0,
            pushes_failing=pushes.failing if pushes else 0,
            push_failures=pushes.failures if pushes else 0,
            push_sent_bytes=pushes.sent_bytes if pushes else 0,
            recorder_backlog_bytes=recorder.backlog_bytes if recorder else None,
            recorder_dropped_messages=recorder.dropped_messages if recorder else None,
            facts_written=writer.written_facts if writer else None,
            facts_dropped=writer.dropped_facts if writer else None,
            facts_pending_bytes=writer.pending_bytes if writer else None,
            facts_deleted_files=writer.deleted_files if writer else None,
            facts_held_back=self._facts_quota.held_back_total if self._facts_quota else None,
            log_lines_held_back=self._log_quota.held_back_total if self._log_quota else None,
            beacons_told=self._beacons.told if self._beacons else 0,
            beacons_unknown=self._beacons.unknown if self._beacons else 0,
            beacons_limited=self._beacons.limited if self._beacons else 0,
        )


class _Walk:
    """Sums over all connections, a slice at a time."""

    def __init__(self, broker: Broker, received_bytes: int, sent_bytes: int, done: Callable[["_Walk"], None]) -> None:
        self.received_bytes = received_bytes
        self.sent_bytes = sent_bytes
        self._loop = broker.loop
        self._connections: Iterator[MediaConnection] = iter(list(broker.connections.values()))
        self._done = done

    def go_on(self) -> None:
        """Look at the next few."""
        some = list(islice(self._connections, _SLICE_CONNECTIONS))
        for connection in some:
            # One that has closed meanwhile keeps its counts: they were not yet among those of the past.
            self.received_bytes += connection.received_bytes
            self.sent_bytes += connection.queue.sent_bytes + sum(play.log_bytes for play in connection.plays.values())
        if len(some) == _SLICE_CONNECTIONS:
            self._loop.call_later(_SLICE_PAUSE_S, self.go_on)
        else:
            self._done(self)
