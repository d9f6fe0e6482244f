"""Publications that were told to begin, for ends that nobody told.

Owns the newest amounts of each. A worker that is killed tells no ends, and facts may be dropped on the way: whoever
pairs beginnings with ends hears of them all the same, with what was last known.
"""

from typing import Any, Final

import msgspec

from penstock.control.live import LiveStreamState
from penstock.facts import PublishStopped

REASON: Final = "worker lost"
_AMOUNTS: Final = ("received_bytes", "messages", "video_frames", "audio_frames", "keyframes", "timestamp_jumps")


class _Started(msgspec.Struct):
    event_id: str
    conn_id: str
    app: str
    stream: str
    at_us: int


class _Sampled(msgspec.Struct):
    publication_id: str
    at_us: int
    received_bytes: int
    messages: int
    video_frames: int
    audio_frames: int
    keyframes: int
    timestamp_jumps: int


class _Stopped(msgspec.Struct):
    publication_id: str


class _Open:
    __slots__ = ("last", "started", "worker")

    def __init__(self, worker: int, started: _Started) -> None:
        self.worker = worker
        self.started = started
        self.last: _Sampled | None = None


_started_of: Final = msgspec.json.Decoder(_Started).decode
_sampled_of: Final = msgspec.json.Decoder(_Sampled).decode
_stopped_of: Final = msgspec.json.Decoder(_Stopped).decode


class Publications:
    """Those that began and were not told to end."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def started(self, worker: int, fact: bytes) -> None:
        """One began: a publish_started."""
        started = _started_of(fact)
        self._open[started.event_id] = _Open(worker, started)

    def seen(self, worker: int, stream: LiveStreamState) -> None:
        """One goes on that may have begun before this web process did. Those without facts have no ends either."""
        publisher = stream.publisher
        if publisher is None or publisher.publication_id in self._open or not _has_facts(publisher.publication_id):
            return
        started = _Started(publisher.publication_id, publisher.conn_id, stream.app, stream.stream, stream.started_at_us)
        self._open[publisher.publication_id] = _Open(worker, started)

    def sampled(self, fact: bytes) -> None:
        """How one does: a stream_sample."""
        sampled = _sampled_of(fact)
        known = self._open.get(sampled.publication_id)
        if known is not None:
            known.last = sampled

    def stopped(self, fact: bytes) -> None:
        """One ended: a publish_stopped."""
        self._open.pop(_stopped_of(fact).publication_id, None)

    def missing(self, worker: int, published: set[str]) -> list[dict[str, Any]]:
        """Those of a worker that are not among what is published: their ends, as publish_stopped tells them."""
        gone = [name for name, each in self._open.items() if each.worker == worker and name not in published]
        return [_end_of(self._open.pop(name)) for name in gone]


def _has_facts(publication_id: str) -> bool:
    """Whether it is named by a fact, whose number comes last."""
    return publication_id.rpartition("-")[2].isdigit()


def _end_of(publication: _Open) -> dict[str, Any]:
    started, last = publication.started, publication.last
    amounts = {name: 0 if last is None else getattr(last, name) for name in _AMOUNTS}
    fact = PublishStopped(
        publication_id=started.event_id,
        conn_id=started.conn_id,
        app=started.app,
        stream=started.stream,
        reason=REASON,
        duration_us=0 if last is None else max(0, last.at_us - started.at_us),
        **amounts,
    )
    return vars(fact)
