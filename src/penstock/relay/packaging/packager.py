"""The packager: entries of a log to parts and segments of fragmented MP4.

Owns which samples are in which part, and what is told where data is missing. Where parts begin, their numbers and their
wall time are read from the log's boundaries, so that packagers in several processes, or one that begins anew, give the
same bytes under the same names. Holds no payloads: parts refer to the log, whose segments the caller keeps for as long.

A change of codec holds from the next segment on; frames that need it before are left out, as are tracks that MP4 cannot
carry. Where messages are missing, the part and all that follows it in its segment are gaps.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.media.codecs import AudioCodec, VideoCodec
from penstock.media.fmp4_fragment import Sample, fragment_head
from penstock.media.frame import Frame, FrameKind, frame_of
from penstock.media.packets import PacketKind
from penstock.relay.codec_config import CodecConfig
from penstock.relay.cursor import Range
from penstock.relay.follower import FollowerBatch
from penstock.relay.packaging.boundaries import Boundary
from penstock.relay.packaging.parts import (
    LoggedSample,
    Packaged,
    PackagedPart,
    SegmentEnd,
    SegmentStart,
    make_run,
    sample_ranges,
)
from penstock.relay.packaging.tracks import (
    ChosenTracks,
    FirstFrame,
    choose_tracks,
    default_track,
    has_empty_setup,
    read_tag,
    setup_in_force,
)
from penstock.relay.payload import read_payloads
from penstock.relay.segment import Entry, Segment

_KINDS = (FrameKind.VIDEO, FrameKind.AUDIO)
_MAX_DISTANCE_MS = 10_000


class _OpenPart:
    """A part that has yet to end."""

    def __init__(self, boundary: Boundary, is_broken: bool) -> None:
        self.boundary = boundary
        self.is_broken = is_broken
        self.samples: dict[FrameKind, list[LoggedSample]] = {kind: [] for kind in _KINDS}


class _OpenSegment:
    """A segment that has yet to end."""

    def __init__(self, boundary: Boundary, config: CodecConfig) -> None:
        self.boundary = boundary
        self.config = config
        self.firsts: dict[FrameKind, FirstFrame] = {}
        self.codecs: dict[FrameKind, VideoCodec | AudioCodec] = {}
        self.changed: set[FrameKind] = set()
        """Kinds whose set-up is another by now."""
        self.chosen: ChosenTracks | None = None
        self.duration_ms = 0
        self.is_started = False
        self.is_broken = False
        """Messages of it are missing, and nothing behind them can be decoded."""
        self.has_data = False


class _Span(NamedTuple):
    """Number and time of a part."""

    number: int
    part_index: int
    start_ms: int
    end_ms: int
    is_independent: bool = False


class Packager:
    """One stream's packager."""

    def __init__(self, chunk_size: int) -> None:
        """`chunk_size` is that of the log's encoding."""
        self._chunk_size = chunk_size
        self._config = CodecConfig()
        self._segment: _OpenSegment | None = None
        self._part: _OpenPart | None = None
        self._last: ChosenTracks | None = None
        """What the last segment consisted of."""
        self._missing_before = 0
        """Up to this position of the log messages are missing."""
        self._packaged: list[Packaged] = []
        self.part_target_ms: int | None = None
        self.longest_segment_ms = 0
        """Of all that have ended in the stream, as its writer knows it."""

    @property
    def config(self) -> CodecConfig:
        """In force behind what was taken."""
        return self._config

    @property
    def has_open_part(self) -> bool:
        """Whether there is a part that has yet to end, and refers to what was taken."""
        return self._part is not None

    def take(self, batch: FollowerBatch, boundaries: Sequence[Boundary]) -> list[Packaged]:
        """What these messages complete. `boundaries` are those before them and among them that were not given yet."""
        if batch.dropped_messages:
            self._missing_before = batch.entries[0].position
            if self._part is not None:
                self._part.is_broken = True
        self._config = batch.config
        crossed = 0
        for entry, payload in read_payloads(batch.segment, batch.entries, self._chunk_size):
            while crossed < len(boundaries) and boundaries[crossed].position <= entry.position:
                is_here = boundaries[crossed].position == entry.position
                self._cross(boundaries[crossed], entry.kind if is_here else None)
                crossed += 1
            if entry.is_setup:
                self._see_setup(frame_of(entry.kind, entry.timestamp_ms, bytes(payload)))
            elif entry.kind is not FrameKind.DATA and self._part is not None and self._segment is not None:
                self._add(self._segment, self._part, batch.segment, entry, bytes(payload))
        return self._taken()

    def finish(self) -> list[Packaged]:
        """The publication is over: what is open ends where its last frame does."""
        if self._segment is not None and self._part is not None:
            self._close_part(self._segment, self._part, None, None)
            self._end_segment(self._segment)
        self._segment = self._part = None
        return self._taken()

    def _taken(self) -> list[Packaged]:
        packaged, self._packaged = self._packaged, []
        return packaged

    def _see_setup(self, frame: Frame) -> None:
        segment = self._segment
        kind = frame.kind
        if segment is not None and (kind, 0, PacketKind.SETUP) in frame.setup_slots:
            in_force = setup_in_force(segment.config, kind)
            if segment.chosen is None and has_empty_setup(segment.config, kind):
                segment.config = segment.config.with_frame(frame)
            elif in_force is None or in_force.payload != frame.payload:
                segment.changed.add(kind)
        self._config = self._config.with_frame(frame)

    def _add(self, segment: _OpenSegment, part: _OpenPart, home: Segment, entry: Entry, payload: bytes) -> None:
        kind = entry.kind
        tag = read_tag(kind, payload)
        if tag is None or tag.packet_kind is not PacketKind.FRAME or kind in segment.changed:
            return
        track = default_track(tag)
        # FFmpeg ends FLAC with a frame of no bytes, and refuses a file that has such a sample.
        if track is None or track.body_start == track.body_end:
            return
        # What one kind has of the time before the other's clock jumped.
        if abs(entry.timestamp_ms - part.boundary.timestamp_ms) > _MAX_DISTANCE_MS:
            return
        if segment.chosen is None and kind not in segment.firsts and (entry.is_key or kind is FrameKind.AUDIO):
            segment.firsts[kind] = FirstFrame(track.codec, payload[track.body_start : track.body_end])
        if segment.codecs.setdefault(kind, track.codec) is not track.codec:
            return
        size = track.body_end - track.body_start
        is_key = entry.is_key or kind is FrameKind.AUDIO
        sample = Sample(entry.timestamp_ms, size, track.composition_time_ms, is_key)
        ranges = tuple(sample_ranges(home, entry, track.body_start, track.body_end, self._chunk_size))
        part.samples[kind].append(LoggedSample(sample, ranges))

    def _cross(self, boundary: Boundary, kind: FrameKind | None) -> None:
        """A part begins. `kind` is that of the frame it begins with, None if that is missing."""
        if boundary.part_target_ms is not None:
            self.part_target_ms = boundary.part_target_ms
        self.longest_segment_ms = max(self.longest_segment_ms, boundary.longest_segment_ms)
        segment, part = self._segment, self._part
        if segment is None or part is None:
            if boundary.part_index == 0:
                self._open(boundary)
            return
        last = part.boundary
        if boundary.part <= last.part:
            return
        if boundary.part == last.part + 1:
            self._close_part(segment, part, boundary, kind)
        else:
            self._fill(segment, part, boundary)
        if boundary.segment != last.segment:
            if boundary.part == last.part + 1:
                self._end_segment(segment)
            self._open(boundary._replace(is_discontinuous=boundary.discontinuity != last.discontinuity))
        else:
            self._part = _OpenPart(boundary, self._is_broken(segment, boundary))

    def _open(self, boundary: Boundary) -> None:
        self._segment = _OpenSegment(boundary, self._config)
        self._part = _OpenPart(boundary, boundary.part_index > 0 or boundary.position < self._missing_before)

    def _is_broken(self, segment: _OpenSegment, boundary: Boundary) -> bool:
        return segment.is_broken or boundary.position < self._missing_before

    def _close_part(
        self, segment: _OpenSegment, part: _OpenPart, following: Boundary | None, next_kind: FrameKind | None
    ) -> None:
        chosen = self._choose(segment)
        # Behind a discontinuity time may be any: a part before it ends where its own frames do.
        next_ms = None if following is None or following.is_discontinuous else following.timestamp_ms
        carried = [] if part.is_broken else [kind for kind in chosen.tracks if part.samples[kind]]
        runs = [
            make_run(chosen.tracks[kind].track_id, part.samples[kind], next_ms if kind is next_kind else None)
            for kind in carried
        ]
        boundary = part.boundary
        start_ms = boundary.timestamp_ms
        # At the end of all, pictures tell the length, if there are any: that of other parts is theirs too.
        end_ms = runs[0].end_ms if runs else start_ms
        if next_ms is not None:
            end_ms = next_ms
        elif following is not None and not runs:
            end_ms = start_ms + following.wall_ms - boundary.wall_ms
        boxes = fragment_head(boundary.part, runs) if runs else b""
        ranges = tuple(piece for kind in carried for logged in part.samples[kind] for piece in logged.ranges)
        segment.is_broken = segment.is_broken or part.is_broken
        self._give_part(
            segment, _Span(boundary.part, boundary.part_index, start_ms, end_ms, boundary.is_independent), boxes, ranges
        )

    def _choose(self, segment: _OpenSegment) -> ChosenTracks:
        if segment.chosen is not None:
            return segment.chosen
        chosen = choose_tracks(segment.config, segment.firsts)
        last = self._last
        # A segment that begins without a key frame, or lacks its start, may tell less than the one before.
        if last is not None and not segment.boundary.is_discontinuous and len(chosen.tracks) < len(last.tracks):
            chosen = last
        segment.chosen = self._last = chosen
        return chosen

    def _give_part(
        self, segment: _OpenSegment, span: _Span, boxes: bytes = b"", ranges: tuple[Range, ...] = ()
    ) -> None:
        boundary = segment.boundary
        if not segment.is_started:
            segment.is_started = True
            self._start_segment(boundary, self._choose(segment))
        is_independent = bool(boxes) and span.is_independent
        duration_ms = max(1, span.end_ms - span.start_ms)
        part = PackagedPart(
            span.number, boundary.segment, span.part_index, span.start_ms, duration_ms, is_independent, boxes, ranges
        )
        self._packaged.append(part)
        segment.duration_ms += duration_ms
        segment.has_data = segment.has_data or bool(boxes)

    def _start_segment(self, boundary: Boundary, chosen: ChosenTracks) -> None:
        self._packaged.append(
            SegmentStart(
                boundary.segment,
                boundary.timestamp_ms,
                boundary.wall_ms,
                boundary.discontinuity,
                boundary.is_discontinuous,
                boundary.is_independent,
                chosen.init,
                chosen.left_out,
            )
        )

    def _end_segment(self, segment: _OpenSegment) -> None:
        is_gap = segment.is_broken or not segment.has_data
        self._packaged.append(SegmentEnd(segment.boundary.segment, segment.duration_ms, is_gap))

    def _fill(self, segment: _OpenSegment, part: _OpenPart, boundary: Boundary) -> None:
        """Boundaries are missing too: tell gaps with the numbers that are left out, of about the right lengths."""
        last = part.boundary
        segment.is_broken = True
        # Over a discontinuity only the wall tells how long it was.
        is_same_time = boundary.discontinuity == last.discontinuity
        span_ms = boundary.timestamp_ms - last.timestamp_ms if is_same_time else boundary.wall_ms - last.wall_ms
        segments = max(1, boundary.segment - last.segment)
        share_ms = max(1, span_ms // segments)
        parts = boundary.part - last.part
        if boundary.segment != last.segment:
            parts = min(parts, -(-share_ms // (self.part_target_ms or share_ms)))
        for index in range(parts):
            start_ms, end_ms = (last.timestamp_ms + share_ms * count // parts for count in (index, index + 1))
            self._give_part(segment, _Span(last.part + index, last.part_index + index, start_ms, end_ms))
        if boundary.segment == last.segment:
            return
        self._end_segment(segment)
        for count in range(1, segments):
            missing = last._replace(
                segment=last.segment + count,
                timestamp_ms=last.timestamp_ms + share_ms * count,
                wall_ms=last.wall_ms + share_ms * count,
                is_discontinuous=False,
                is_independent=False,
            )
            self._start_segment(missing, self._choose(segment))
            self._packaged.append(SegmentEnd(missing.segment, share_ms, is_gap=True))
