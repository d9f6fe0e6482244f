"""How a stream did in the last minute, in the words of gold.stream_health.

Owns the last minute as six slots of ten seconds, a few numbers each, since there may be thousands of streams. A verdict
is `healthy`, or the list of what is wrong, joined by semicolons.
"""

from collections import deque
from typing import Final, NamedTuple

from penstock.web.incidents import words
from penstock.web.incidents.second import KEYFRAME_INTERVAL_MAX_MS, SECOND_US, SKEW_MAX_MS, StreamSecond, is_collapsed

HEALTHY: Final = "healthy"
NOT_SAMPLED: Final = "not sampled yet"
_STALL_MIN_US: Final = 3 * SECOND_US
_SLOT_US: Final = 10 * SECOND_US
_SLOTS: Final = 6


class Verdict(NamedTuple):
    """What is to be said of a stream."""

    text: str
    wrong: tuple[str, ...]
    """The kinds of incident that it speaks of."""


class _Slot:
    """Ten seconds."""

    __slots__ = (
        "bits_us",
        "drift_ms",
        "is_drifting",
        "jumps",
        "keyframe_ms",
        "number",
        "sampled_us",
        "skew_ms",
        "stalled_us",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.sampled_us = self.stalled_us = self.bits_us = self.jumps = self.keyframe_ms = 0
        self.skew_ms = 0.0
        self.drift_ms = 0
        self.is_drifting = False

    def add(self, second: StreamSecond) -> None:
        self.sampled_us += second.interval_us
        self.bits_us += second.bitrate_bps * second.interval_us
        self.jumps += second.interval_timestamp_jumps
        if second.is_stalled:
            self.stalled_us += second.interval_us
        self.keyframe_ms = max(self.keyframe_ms, second.keyframe_interval_ms or 0)
        if second.av_skew_ms is not None and abs(second.av_skew_ms) > abs(self.skew_ms):
            self.skew_ms = second.av_skew_ms
        if second.drift_ms is not None:
            self.drift_ms = second.drift_ms
            self.is_drifting |= second.is_drifted


class LastMinute:
    """The newest samples of a stream."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque(maxlen=_SLOTS)

    def add(self, second: StreamSecond) -> None:
        """One more sample."""
        number = second.at_us // _SLOT_US
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(_Slot(number))
        self._slots[-1].add(second)

    def verdict(self, median_bps: int | None, now_us: int) -> Verdict:
        """What is wrong, if anything is."""
        slots = [slot for slot in self._slots if slot.number > now_us // _SLOT_US - _SLOTS]
        if not slots:
            return Verdict(NOT_SAMPLED, ())
        said = list(_complaints(slots, median_bps))
        if not said:
            return Verdict(HEALTHY, ())
        return Verdict("; ".join(text for _, text in said), tuple(kind for kind, _ in said))


def _complaints(slots: list[_Slot], median_bps: int | None) -> list[tuple[str, str]]:
    """By kind of incident, in the order of gold's verdict."""
    stalled_us = sum(slot.stalled_us for slot in slots)
    bitrate_bps = sum(slot.bits_us for slot in slots) // max(1, sum(slot.sampled_us for slot in slots))
    keyframe_ms = max(slot.keyframe_ms for slot in slots)
    skew_ms = max(abs(slot.skew_ms) for slot in slots)
    jumps = sum(slot.jumps for slot in slots)
    said = []
    if stalled_us >= _STALL_MIN_US:
        said.append((words.INGEST_STALLED, f"no data for {stalled_us // SECOND_US} s"))
    if bitrate_bps and median_bps is not None and is_collapsed(bitrate_bps, median_bps):
        share = bitrate_bps * 100 // median_bps
        said.append((words.BITRATE_COLLAPSE, f"bitrate fell to {share} % of the hour's median"))
    if keyframe_ms > KEYFRAME_INTERVAL_MAX_MS:
        said.append((words.KEYFRAME_INTERVAL, f"key frames {words.tenths(keyframe_ms)} s apart"))
    if skew_ms > SKEW_MAX_MS:
        said.append((words.AV_DRIFT, f"audio and video {int(skew_ms)} ms apart"))
    if any(slot.is_drifting for slot in slots):
        drift_ms = slots[-1].drift_ms
        said.append(
            (words.AV_DRIFT, f"media time {abs(drift_ms)} ms {'behind' if drift_ms < 0 else 'ahead of'} the clock")
        )
    if jumps:
        said.append((words.TIMESTAMP_JUMPS, "1 timestamp jump" if jumps == 1 else f"{jumps} timestamp jumps"))
    return said
