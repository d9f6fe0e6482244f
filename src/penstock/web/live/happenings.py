"""What workers tell, joined: the state that is open, the events in one order, and the incidents found in them.

Owns the way of a fact to an event, and the events that web tells by itself: incidents, and the ends of publications
whose worker was lost before it could tell them. Whoever wants to hear of events adds a listener. Knows no sockets and
no clock: the time is given.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from penstock.control.live import Live
from penstock.facts import CONTRACT_VERSION, PublishStopped
from penstock.logs import get_logger
from penstock.web.events.event_log import Event, EventLog
from penstock.web.incidents.incidents import Incident, Incidents
from penstock.web.incidents.second import StreamSecond
from penstock.web.live.publications import Publications
from penstock.web.live.pushes import LivePushTable
from penstock.web.live.state import LiveState

SAMPLE_KINDS: Final = frozenset({"stream_sample", "viewer_sample", "view_beacon"})
INCIDENT_STARTED: Final = "incident_started"
INCIDENT_ENDED: Final = "incident_ended"

Listener = Callable[[Event], None]
"""Hears of an event, on web's loop: to be quick about it."""


class Now(NamedTuple):
    """What the clocks show."""

    mono_us: int
    wall_us: int


class _Head(msgspec.Struct):
    """What is read of every fact."""

    kind: str
    event_id: str
    at_us: int
    app: str | None = None
    stream: str | None = None
    publishing_type: str | None = None


_PULLED: Final = "pull"
_head_of: Final = msgspec.json.Decoder(_Head).decode
_second_of: Final = msgspec.json.Decoder(StreamSecond).decode


class Happenings:
    """All that web knows of what goes on."""

    def __init__(self, server_id: str, boot_id: str) -> None:
        """`boot_id` is that of web: events that it tells by itself are numbered in it."""
        self.state = LiveState()
        self.pushes = LivePushTable()
        self.log = EventLog(boot_id)
        self.incidents = Incidents(boot_id)
        self.listeners: list[Listener] = []
        self._publications = Publications()
        self._server_id = server_id
        self._boot_id = boot_id
        self._seq = 0
        self._has_lost: set[int] = set()
        """Workers of which facts are missing, until everything that is open there has been told."""

    def receive(self, worker: int, live: Live, now: Now) -> None:
        """A worker tells what has changed. The state is there before events that speak of it are heard."""
        self.state.receive(worker, live)
        for stream in live.streams:
            self._publications.seen(worker, stream)
        if live.lost_facts:
            self._has_lost.add(worker)
            self.log.lose()
        for fact in live.facts:
            self._take_fact(worker, fact, now)
        if worker in self._has_lost and worker in self.state.whole_workers:
            self._has_lost.discard(worker)
            published = {
                each.value.publisher.publication_id for each in self.state.streams.values() if each.value.publisher
            }
            self._tell_stopped(self._publications.missing(worker, published), now)

    def worker_lost(self, worker: int, now: Now) -> None:
        """A worker is gone. Its publications are told to end; for connections and views there is a gap."""
        self.state.worker_lost(worker)
        self.pushes.worker_lost(worker)
        self._has_lost.discard(worker)
        self._tell_stopped(self._publications.missing(worker, set()), now)
        self.log.lose()

    def second_passed(self, now: Now) -> None:
        """To be called about once a second."""
        self._tell_incidents(self.incidents.passed(now.wall_us), now)

    def _take_fact(self, worker: int, data: bytes, now: Now) -> None:
        head = _head_of(data)
        self._append(head.kind, head.app, head.stream, data, now)
        match head.kind:
            case "stream_sample":
                self._publications.sampled(data)
                self._tell_incidents(self.incidents.sampled(_second_of(data)), now)
            case "publish_started":
                self._publications.started(worker, data)
                # A pull begins and ends with its viewers, however often they come.
                if head.app is not None and head.stream is not None and head.publishing_type != _PULLED:
                    self._tell_incidents(self.incidents.published(head.app, head.stream, head.at_us), now)
            case "publish_stopped":
                self._publications.stopped(data)

    def _tell_incidents(self, incidents: list[Incident], now: Now) -> None:
        for incident in incidents:
            kind = INCIDENT_STARTED if incident.ended_at_us is None else INCIDENT_ENDED
            fields = {
                "incident_id": incident.incident_id,
                "incident": incident.kind,
                "app": incident.app,
                "stream": incident.stream,
                "started_at_us": incident.started_at_us,
                "ended_at_us": incident.ended_at_us,
                "evidence": incident.evidence,
                "advice": incident.advice,
            }
            self._tell(kind, fields, now)

    def _tell_stopped(self, stops: list[dict[str, Any]], now: Now) -> None:
        for fields in stops:
            self._tell(PublishStopped.kind, fields, now)

    def _tell(self, kind: str, fields: dict[str, Any], now: Now) -> None:
        """An event of web's own, with the envelope of facts."""
        self._seq += 1
        envelope = {
            "event_id": f"{self._server_id}-{self._boot_id}-{self._seq}",
            "server_id": self._server_id,
            "boot_id": self._boot_id,
            "seq": self._seq,
            "kind": kind,
            "version": CONTRACT_VERSION,
            "at_us": now.wall_us,
            "mono_us": now.mono_us,
            "worker": None,
        }
        self._append(kind, fields["app"], fields["stream"], msgspec.json.encode({**envelope, **fields}), now)

    def _append(self, kind: str, app: str | None, stream: str | None, data: bytes, now: Now) -> None:
        event = self.log.append(kind, app, stream, data, now.mono_us / 1_000_000, is_sample=kind in SAMPLE_KINDS)
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:  # one that fails must not keep the others from hearing
                get_logger().error("listener to events failed", exc_info=True)
