"""Incidents of streams, begun and ended while they happen.

Owns which streams are looked at and what is known of each: samples and beginnings of publications in, incidents out.
The kinds are those of gold.incidents that are about what comes in:

    ingest_stalled     no bytes for at least 3 s
    bitrate_collapse   bitrate below 40 % of the stream's median, over what has passed of the hour, for at least 10 s
    keyframe_interval  video whose key frames are over 5 s apart, or without a second one, for at least 10 s
    av_drift           audio and video over 200 ms apart, or media time over 1 s per 10 minutes off the clock, for 10 s
    timestamp_jumps    5 within a minute
    reconnect_storm    5 publications within 5 minutes, pulls not counted

Times are those of facts. Knows no clock.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from penstock.web.incidents import words
from penstock.web.incidents.episodes import Crowd, Episode, Run
from penstock.web.incidents.health import NOT_SAMPLED, LastMinute
from penstock.web.incidents.median import HourMedian
from penstock.web.incidents.second import SECOND_US, StreamSecond, is_collapsed
from penstock.web.incidents.words import evidence_of

MIN_US: Final = {
    words.INGEST_STALLED: 3 * SECOND_US,
    words.BITRATE_COLLAPSE: 10 * SECOND_US,
    words.KEYFRAME_INTERVAL: 10 * SECOND_US,
    words.AV_DRIFT: 10 * SECOND_US,
}
"""How long a run of bad samples lasts at least."""
STORM_PUBLICATIONS: Final = 5
STORM_WITHIN_US: Final = 300 * SECOND_US
JUMPS: Final = 5
JUMPS_WITHIN_US: Final = 60 * SECOND_US
MAX_STREAMS: Final = 10_000
MAX_ENDED: Final = 1_000
_FORGOTTEN_AFTER_US: Final = 3600 * SECOND_US
"""As long as what a stream did counts for its median."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that is or was wrong with a stream."""

    incident_id: str
    kind: str
    app: str
    stream: str
    started_at_us: int
    ended_at_us: int | None
    """None: it lasts."""
    evidence: str
    advice: str


class Health(NamedTuple):
    """How a stream does, for people."""

    verdict: str
    advice: list[str]


class _Watched:
    """What is known of one stream."""

    __slots__ = ("crowds", "last_minute", "median", "opened", "runs", "seen_us")

    def __init__(self) -> None:
        self.runs = {kind: Run() for kind in MIN_US}
        self.crowds = {
            words.TIMESTAMP_JUMPS: Crowd(JUMPS, JUMPS_WITHIN_US),
            words.RECONNECT_STORM: Crowd(STORM_PUBLICATIONS, STORM_WITHIN_US),
        }
        self.median = HourMedian()
        self.last_minute = LastMinute()
        self.opened: dict[str, Incident] = {}
        self.seen_us = 0


class Incidents:
    """Finds them. Each call gives the incidents that began or ended with it: one without an end has begun."""

    def __init__(self, boot: str) -> None:
        """`boot` is in the names of incidents: one life of whoever looks for them."""
        self.begun: Counter[str] = Counter()
        """How many there were of each kind."""
        self._boot = boot
        self._streams: OrderedDict[tuple[str, str], _Watched] = OrderedDict()
        self._troubled: dict[tuple[str, str], None] = {}
        """Streams with an episode of any kind, be it an incident yet or not."""
        self._ended: deque[Incident] = deque(maxlen=MAX_ENDED)

    @property
    def open(self) -> list[Incident]:
        """Those that last, in the order of their streams."""
        return [incident for watched in self._streams.values() for incident in watched.opened.values()]

    @property
    def ended(self) -> list[Incident]:
        """The newest of those that are over, the last one first."""
        return list(reversed(self._ended))

    def health(self, app: str, stream: str, now_us: int) -> Health:
        """How a stream does now: the verdict of the last minute, and advice on it and on incidents that last."""
        watched = self._streams.get((app, stream))
        if watched is None:
            return Health(NOT_SAMPLED, [])
        verdict = watched.last_minute.verdict(watched.median.bps, now_us)
        wrong = {*verdict.wrong, *watched.opened}
        return Health(verdict.text, [advice for kind, advice in words.ADVICE.items() if kind in wrong])

    def sampled(self, second: StreamSecond) -> list[Incident]:
        """How a stream did."""
        key = second.app, second.stream
        watched = self._watch(key, second.at_us)
        watched.last_minute.add(second)
        if not second.is_stalled:
            watched.median.add(second.bitrate_bps, second.at_us)
        median_bps = watched.median.bps
        found: list[Incident] = []
        drift_ms = second.drift_ms if second.is_drifted else None
        bad: dict[str, tuple[int | None, int | None] | None] = {
            words.INGEST_STALLED: (None, None) if second.is_stalled else None,
            words.BITRATE_COLLAPSE: (second.bitrate_bps, median_bps)
            if is_collapsed(second.bitrate_bps, median_bps)
            else None,
            words.KEYFRAME_INTERVAL: (second.keyframe_interval_ms, None) if second.has_far_keyframes else None,
            words.AV_DRIFT: (second.skew_ms, None if drift_ms is None else abs(drift_ms))
            if second.skew_ms is not None or drift_ms is not None
            else None,
        }
        for kind, figures in bad.items():
            run = watched.runs[kind]
            over = run.good() if figures is None else run.bad(second.from_us, second.at_us, *figures)
            found += self._told(key, watched, kind, over, run.episode)
        if second.interval_timestamp_jumps:
            jumps = watched.crowds[words.TIMESTAMP_JUMPS]
            over = jumps.add(second.from_us, second.at_us, second.interval_timestamp_jumps)
            found += self._told(key, watched, words.TIMESTAMP_JUMPS, over, jumps.episode)
        return found

    def published(self, app: str, stream: str, at_us: int) -> list[Incident]:
        """A publication of a stream began."""
        key = app, stream
        watched = self._watch(key, at_us)
        storm = watched.crowds[words.RECONNECT_STORM]
        over = storm.add(at_us, at_us)
        return list(self._told(key, watched, words.RECONNECT_STORM, over, storm.episode))

    def passed(self, now_us: int) -> list[Incident]:
        """Time has passed: what nothing was heard of for long enough is over. To be called about once a second."""
        found: list[Incident] = []
        for key in list(self._troubled):
            watched = self._streams[key]
            signs: dict[str, Run | Crowd] = {**watched.runs, **watched.crowds}
            for kind, each in signs.items():
                found += self._told(key, watched, kind, each.passed(now_us), None)
            if all(each.episode is None for each in signs.values()):
                del self._troubled[key]
        self._forget(now_us)
        return found

    def _watch(self, key: tuple[str, str], at_us: int) -> _Watched:
        watched = self._streams.get(key)
        if watched is None:
            watched = self._streams[key] = _Watched()
        watched.seen_us = at_us
        self._streams.move_to_end(key)
        return watched

    def _forget(self, now_us: int) -> None:
        """Streams of which nothing was heard for long, those first."""
        while self._streams:
            key, oldest = next(iter(self._streams.items()))
            if len(self._streams) <= MAX_STREAMS and oldest.seen_us >= now_us - _FORGOTTEN_AFTER_US:
                return
            del self._streams[key]
            self._troubled.pop(key, None)

    def _told(
        self, key: tuple[str, str], watched: _Watched, kind: str, over: Episode | None, lasting: Episode | None
    ) -> Iterator[Incident]:
        """An incident that ended with an episode, and one that has become long enough by now."""
        if over is not None and (opened := watched.opened.pop(kind, None)) is not None:
            ended = replace(opened, ended_at_us=over.ended_us, evidence=evidence_of(kind, over))
            self._ended.append(ended)
            yield ended
        if lasting is None:
            return
        self._troubled[key] = None
        known = watched.opened.get(kind)
        if known is not None:
            watched.opened[kind] = replace(known, evidence=evidence_of(kind, lasting))
        elif _is_incident(kind, lasting):
            self.begun[kind] += 1
            incident_id = f"{self._boot}-i{self.begun.total()}"
            evidence, advice = evidence_of(kind, lasting), words.ADVICE[kind]
            begun = Incident(incident_id, kind, *key, lasting.started_us, None, evidence, advice)
            watched.opened[kind] = begun
            yield begun


def _is_incident(kind: str, episode: Episode) -> bool:
    # A bitrate of 0 throughout is an ingest_stalled, and told as that.
    is_stall = kind == words.BITRATE_COLLAPSE and episode.most == 0
    return episode.lasted_us >= MIN_US.get(kind, 0) and not is_stall
