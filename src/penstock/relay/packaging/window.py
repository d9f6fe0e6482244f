"""The window of a live playlist: which segments and parts of a packaged stream are named now, and what comes next.

Owns what is listed, for how long something stays available that is not listed any more, the target duration, and the
place up to which a playlist reaches. It depends on the stream alone: whoever packages it sees the same window, once it
has as much of the stream as a playlist names. Texts are the matter of `media.hls`, names that of `names`.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.media.fmp4_tracks import LeftOut
from penstock.media.hls import HlsPart, HlsSegment, LowLatency, MediaPlaylist, Variant, target_duration_s
from penstock.relay.packaging.names import Names
from penstock.relay.packaging.parts import Init, Packaged, PackagedPart, SegmentEnd, SegmentStart

LEAST_TARGET_DURATIONS: Final = 4
"""A playlist names so many target durations at least; below three, players cannot begin."""
_MOST_PER_SECOND: Final = 4
"""Segments, of what a playlist names: a clock or a codec that changes again and again makes segments of one frame, and
each of them takes memory of its own."""
_ADVANCE_LIMIT_MS: Final = 3000
"""So far ahead of the last part somebody may wait (RFC 8216bis, 6.2.5.2)."""
_ADVANCE_SEGMENTS: Final = 2
_SPARE_BANDWIDTH: Final = 1.1


class Place(NamedTuple):
    """Up to where a playlist reaches, as `_HLS_msn` and `_HLS_part` say it; `part` None: to the segment's end."""

    segment: int
    part: int | None


@dataclass(slots=True)
class WindowSegment:
    """A segment, and the parts of it that are there."""

    start: SegmentStart
    parts: list[PackagedPart] = field(default_factory=list)
    end: SegmentEnd | None = None

    @property
    def number(self) -> int:
        return self.start.number

    @property
    def duration_ms(self) -> int:
        return sum(part.duration_ms for part in self.parts) if self.end is None else self.end.duration_ms

    @property
    def has_data(self) -> bool:
        """Whether it can be fetched as a whole."""
        return self.end is not None and not self.end.is_gap

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


class Window:
    """What is known of one stream, oldest first."""

    def __init__(self, names: Names, wanted_ms: int, segment_ms: int) -> None:
        """`wanted_ms`: how much a playlist names. `segment_ms`: how long segments are meant to be."""
        self._names = names
        self._wanted_ms = wanted_ms
        self._segment_ms = segment_ms
        self._segments: deque[WindowSegment] = deque()
        self._listed_from = 0
        """The first that is listed, by its place among all."""
        self.longest_ms = 0
        """Of all segments of the stream, those included that ended before any that is known here."""
        self.part_target_ms: int | None = None
        self.is_ended = False

    # What comes.

    def take(self, packaged: Packaged) -> None:
        """The next of what the packager gives."""
        match packaged:
            case SegmentStart():
                self._segments.append(WindowSegment(packaged))
            case PackagedPart():
                self._segments[-1].parts.append(packaged)
            case SegmentEnd():
                self._segments[-1].end = packaged
                self.longest_ms = max(self.longest_ms, packaged.duration_ms)
                self._move_on()

    def end(self) -> None:
        """The stream is over, and nothing comes any more."""
        self.is_ended = True

    def _move_on(self) -> None:
        segments, wanted_ms = list(self._segments), self.length_ms
        listed_ms = sum(segment.duration_ms for segment in segments[self._listed_from :])
        while (
            listed_ms - segments[self._listed_from].duration_ms >= wanted_ms
            or len(segments) - self._listed_from > self._most
        ):
            listed_ms -= segments[self._listed_from].duration_ms
            self._listed_from += 1

    def forget_old(self) -> list[WindowSegment]:
        """Those that nobody may ask for any more: what was listed stays for as long as a playlist lasts."""
        gone: list[WindowSegment] = []
        unlisted_ms = sum(segment.duration_ms for segment in list(self._segments)[: self._listed_from])
        while self._listed_from and (
            unlisted_ms - self._segments[0].duration_ms >= self.length_ms or self._listed_from > self._most
        ):
            unlisted_ms -= self._segments[0].duration_ms
            gone.append(self.forget_first())
        return gone

    def forget_first(self) -> WindowSegment:
        """Memory is short."""
        self._listed_from = max(0, self._listed_from - 1)
        return self._segments.popleft()

    # What is there.

    @property
    def has_spare(self) -> bool:
        """Whether the first may go: without a segment that has ended there is no playlist."""
        return len(self._segments) > 1 and self._segments[1].end is not None

    @property
    def segments(self) -> Sequence[WindowSegment]:
        """All that can be asked for."""
        return self._segments

    @property
    def target_duration_s(self) -> int:
        """As playlists tell it: it grows with the longest segment and never shrinks."""
        return target_duration_s(self.longest_ms, -(-self._segment_ms // 1000))

    @property
    def length_ms(self) -> int:
        """How much a playlist names."""
        return max(self._wanted_ms, LEAST_TARGET_DURATIONS * 1000 * self.target_duration_s)

    @property
    def _most(self) -> int:
        """How many segments a playlist names, whatever their length."""
        return _MOST_PER_SECOND * self.length_ms // 1000

    @property
    def is_ready(self) -> bool:
        """Whether there is a playlist: not before a segment has ended, since that tells the target duration."""
        return self.part_target_ms is not None and any(segment.end is not None for segment in self._listed)

    @property
    def last(self) -> WindowSegment | None:
        """The newest segment."""
        return self._segments[-1] if self._segments else None

    @property
    def next_part(self) -> int | None:
        """The number of the part that comes next, if one does."""
        if self.is_ended:
            return None
        newest = next((segment for segment in reversed(self._segments) if segment.parts), None)
        return None if newest is None else newest.parts[-1].number + 1

    @property
    def next_place(self) -> Place | None:
        """What the next playlist reaches, if there is one."""
        last = self.last
        if self.is_ended or last is None:
            return None
        return Place(last.number, len(last.parts)) if last.end is None else Place(last.number + 1, 0)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Tracks that are in the stream and not in its segments."""
        return self._segments[-1].start.left_out if self._segments else ()

    @property
    def init(self) -> Init | None:
        """The newest init segment."""
        return next((each.start.init for each in reversed(self._segments) if each.start.init is not None), None)

    @property
    def inits(self) -> Iterable[Init]:
        """Those of all segments."""
        return {each.start.init.name: each.start.init for each in self._segments if each.start.init}.values()

    @property
    def _listed(self) -> list[WindowSegment]:
        return list(self._segments)[self._listed_from :]

    def reaches(self, place: Place) -> bool:
        """Whether the playlist of this moment is the answer to one who waits for a place."""
        last = self.last
        if self.is_ended or last is None:
            return self.is_ended
        if place.segment != last.number:
            # Past the end of a segment means the first part of the next, which is there if that is.
            return place.segment < last.number
        return last.end is not None if place.part is None else len(last.parts) > place.part

    def is_too_far(self, place: Place) -> bool:
        """Whether a place is farther ahead than anybody may wait for."""
        last = self.last
        if last is None:
            return False
        if not last.number <= place.segment <= last.number + _ADVANCE_SEGMENTS:
            return place.segment > last.number
        limit = -(-_ADVANCE_LIMIT_MS // (self.part_target_ms or _ADVANCE_LIMIT_MS))
        parts = len(last.parts) if place.segment == last.number else 0
        return place.part is not None and place.part >= parts + limit

    # As playlists say it.

    def media_playlist(self, *, is_low_latency: bool) -> MediaPlaylist:
        """The media playlist of this moment."""
        listed = self._listed
        if not is_low_latency:
            listed = [segment for segment in listed if segment.end is not None]
        names, next_part = self._names, self.next_part
        low_latency = None
        if is_low_latency and self.part_target_ms is not None:
            low_latency = LowLatency(self.part_target_ms, None if next_part is None else names.part(next_part))
        return MediaPlaylist(
            listed[0].number if listed else 0,
            self.target_duration_s,
            tuple(self._described(segment) for segment in listed),
            low_latency,
            is_ended=self.is_ended,
            has_independent_segments=all(segment.start.is_independent for segment in listed),
            comments=self.comments,
        )

    @property
    def comments(self) -> tuple[str, ...]:
        """What a player is not sent of the stream."""
        return tuple(f"left out: {each.what} ({each.why})" for each in self.left_out)

    def _described(self, segment: WindowSegment) -> HlsSegment:
        names, start, end = self._names, segment.start, segment.end
        init = start.init or self.init
        return HlsSegment(
            None if end is None else names.segment(segment.number),
            segment.duration_ms,
            # A gap before anything that can be carried names what nobody fetches.
            names.init("0" * 16 if init is None else init.name),
            start.wall_ms,
            start.discontinuity,
            start.is_discontinuous,
            end is not None and end.is_gap,
            tuple(
                HlsPart(names.part(part.number), part.duration_ms, part.is_independent, part.is_gap)
                for part in segment.parts
            ),
        )

    def variant(self, uri: str) -> Variant:
        """What the multivariant playlist says of the stream, by what is listed."""
        ended = [segment for segment in self._listed if segment.has_data]
        rates_bps = [8000 * segment.size / max(1, segment.duration_ms) for segment in ended]
        init = self.init
        return Variant(
            uri,
            max(1, round(max(rates_bps, default=1.0) * _SPARE_BANDWIDTH)),
            () if init is None else init.codec_strings,
            None if init is None else init.width_px,
            None if init is None else init.height_px,
        )
