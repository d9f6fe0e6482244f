"""A judge of HLS playlists, by RFC 8216 and draft-pantos-hls-rfc8216bis alone: it imports nothing of the product.

`violations` holds the rules over the playlists of one stream, in the order in which a player got them;
`delta_violations` those of a delta update beside the whole playlist. Each violation is a sentence with the section of
the draft. Numbers are compared in milliseconds, since that is how exact the texts are.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"\r\n]*"|[^",\s]+)(?:,|$)')
LEAST_VERSIONS = {"EXT-X-MAP": 6, "EXT-X-SKIP": 9}
ONCE = (
    *("EXTM3U", "EXT-X-VERSION", "EXT-X-TARGETDURATION", "EXT-X-MEDIA-SEQUENCE", "EXT-X-DISCONTINUITY-SEQUENCE"),
    *("EXT-X-PART-INF", "EXT-X-SERVER-CONTROL", "EXT-X-SKIP", "EXT-X-ENDLIST", "EXT-X-INDEPENDENT-SEGMENTS"),
)
PDT_TOLERANCE = timedelta(seconds=1)


class Part(NamedTuple):
    uri: str
    duration_ms: int
    is_independent: bool
    is_gap: bool


@dataclass
class Segment:
    """One listed segment; the open one has no URI."""

    number: int
    uri: str | None = None
    duration_ms: int = 0
    map_uri: str | None = None
    discontinuity: int = 0
    has_tag: bool = False
    is_gap: bool = False
    date: datetime | None = None
    parts: list[Part] = field(default_factory=list)

    @property
    def lasting(self) -> tuple[object, ...]:
        """What may not change while it is listed (6.2.1)."""
        return self.uri, self.duration_ms, self.discontinuity, self.has_tag, self.is_gap, self.date


@dataclass
class Playlist:
    """One text, read."""

    tags: list[tuple[str, str]] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    open_segment: Segment | None = None
    skipped: int = 0
    hint: str | None = None

    def value(self, name: str) -> str | None:
        return next((value for tag, value in self.tags if tag == name), None)

    def attributes(self, name: str) -> dict[str, str]:
        return read_attributes(self.value(name) or "")

    def has(self, name: str) -> bool:
        return any(tag == name for tag, _ in self.tags)

    @property
    def target_ms(self) -> int:
        return 1000 * int(self.value("EXT-X-TARGETDURATION") or 0)

    @property
    def part_target_ms(self) -> int:
        return milliseconds(self.attributes("EXT-X-PART-INF").get("PART-TARGET", "0"))

    @property
    def all_segments(self) -> list[Segment]:
        return self.segments + ([self.open_segment] if self.open_segment else [])

    @property
    def all_parts(self) -> list[Part]:
        return [part for segment in self.all_segments for part in segment.parts]

    @property
    def length_ms(self) -> int:
        parts = self.open_segment.parts if self.open_segment else []
        return sum(segment.duration_ms for segment in self.segments) + sum(part.duration_ms for part in parts)


def read_attributes(text: str) -> dict[str, str]:
    found = ATTRIBUTE.findall(text)
    assert ",".join(f"{name}={value}" for name, value in found) == text, f"attributes {text!r}"
    assert len(dict(found)) == len(found), f"an attribute twice in {text!r}"
    return {name: value.strip('"') for name, value in found}


def milliseconds(text: str) -> int:
    return round(float(text) * 1000)


def read_playlist(text: str) -> Playlist:
    """A media playlist as a client reads it."""
    assert text.startswith("#EXTM3U\n"), "4.1: it begins with EXTM3U"
    assert text.endswith("\n")
    assert all(char.isprintable() or char == "\n" for char in text), "4.1: control characters"
    playlist = Playlist()
    for line in text.splitlines():
        if line.startswith("#EXT"):
            tag, _, value = line[1:].partition(":")
            playlist.tags.append((tag, value))
    playlist.skipped = int(playlist.attributes("EXT-X-SKIP").get("SKIPPED-SEGMENTS", "0"))
    number = int(playlist.value("EXT-X-MEDIA-SEQUENCE") or 0) + playlist.skipped
    discontinuity = int(playlist.value("EXT-X-DISCONTINUITY-SEQUENCE") or 0)
    segment = Segment(number)
    map_uri: str | None = None
    for line in text.splitlines():
        tag, _, value = line[1:].partition(":") if line.startswith("#EXT") else ("", "", "")
        if tag == "EXT-X-DISCONTINUITY":
            assert not segment.parts, "4.4.4.9: EXT-X-DISCONTINUITY behind the segment's first part"
            discontinuity += 1
            segment.has_tag = True
        elif tag == "EXT-X-MAP":
            assert not segment.parts, "4.4.4.9: EXT-X-MAP behind the segment's first part"
            map_uri = read_attributes(value)["URI"]
        elif tag == "EXT-X-PROGRAM-DATE-TIME":
            assert not segment.parts, "4.4.4.9: EXT-X-PROGRAM-DATE-TIME behind the segment's first part"
            segment.date = datetime.fromisoformat(value)
        elif tag == "EXT-X-GAP":
            segment.is_gap = True
        elif tag == "EXT-X-PART":
            part = read_attributes(value)
            flags = (part.get("INDEPENDENT") == "YES", part.get("GAP") == "YES")
            segment.parts.append(Part(part["URI"], milliseconds(part["DURATION"]), *flags))
            segment.map_uri, segment.discontinuity = map_uri, discontinuity
        elif tag == "EXT-X-PRELOAD-HINT":
            hint = read_attributes(value)
            assert hint["TYPE"] == "PART"
            playlist.hint = hint["URI"]
        elif tag == "EXTINF":
            segment.duration_ms = milliseconds(value.split(",")[0])
            assert segment.duration_ms > 0, f"EXTINF of {value}"
        elif line and not line.startswith("#"):
            segment.uri, segment.map_uri, segment.discontinuity = line, map_uri, discontinuity
            playlist.segments.append(segment)
            segment = Segment(segment.number + 1)
    if segment.parts:
        playlist.open_segment = segment
    return playlist


def violations(texts: Sequence[str]) -> list[str]:
    """What is wrong with these playlists of one stream, each by itself and one after the other."""
    playlists = [read_playlist(text) for text in texts]
    found = [f"playlist {index}: {each}" for index, playlist in enumerate(playlists) for each in _alone(playlist)]
    for index, (before, after) in enumerate(pairwise(playlists)):
        found += [f"playlists {index} and {index + 1}: {each}" for each in _after(before, after)]
    return found


def delta_violations(whole_text: str, delta_text: str) -> list[str]:
    """What is wrong with a delta update beside the whole playlist of the same moment (6.2.5.1)."""
    whole, delta = read_playlist(whole_text), read_playlist(delta_text)
    found = list(_alone(delta))
    if not delta.has("EXT-X-SKIP"):
        return [*found, "4.4.5.2: no EXT-X-SKIP"]
    boundary_ms = milliseconds(delta.attributes("EXT-X-SERVER-CONTROL").get("CAN-SKIP-UNTIL", "0"))
    behind_ms = whole.length_ms
    for segment in whole.segments[: delta.skipped]:
        behind_ms -= segment.duration_ms
        if behind_ms < boundary_ms:
            found.append(f"4.4.3.8: segment {segment.number} is skipped, {behind_ms} ms from the end")
    # A delta cannot be counted by itself: discontinuities that were skipped are with the player.
    listed = [[each.lasting[:2] + each.lasting[3:] for each in playlist.segments] for playlist in (whole, delta)]
    if listed[0][delta.skipped :] != listed[1]:
        found.append("6.2.5.1: what is not skipped differs")
    if whole.all_parts != delta.all_parts or whole.hint != delta.hint:
        found.append("6.2.5.1: other parts")
    return found


def _alone(playlist: Playlist) -> Iterator[str]:
    for name in ONCE:
        if sum(tag == name for tag, _ in playlist.tags) > 1:
            yield f"4.4: {name} more than once"
    if not playlist.has("EXT-X-TARGETDURATION"):
        yield "4.4.3.1: no EXT-X-TARGETDURATION"
    version = int(playlist.value("EXT-X-VERSION") or 1)
    for name, least in LEAST_VERSIONS.items():
        if playlist.has(name) and version < least:
            yield f"8: {name} in version {version}"
    for segment in playlist.segments:
        if (segment.duration_ms + 500) // 1000 * 1000 > playlist.target_ms:
            yield f"4.4.3.1: segment {segment.number} of {segment.duration_ms} ms, target {playlist.target_ms}"
        if segment.parts and abs(sum(part.duration_ms for part in segment.parts) - segment.duration_ms) > 1:
            yield f"parts of segment {segment.number} do not add up to {segment.duration_ms} ms"
    if not playlist.skipped and any(segment.map_uri is None for segment in playlist.all_segments):
        yield "3.1.2: a segment without EXT-X-MAP"
    yield from _dates(playlist)
    yield from _low_latency(playlist)


def _dates(playlist: Playlist) -> Iterator[str]:
    for before, after in pairwise(playlist.all_segments):
        if before.date is None or after.date is None or after.has_tag:
            continue
        expected = before.date + timedelta(milliseconds=before.duration_ms)
        if abs(after.date - expected) > PDT_TOLERANCE:
            yield f"4.4.4.6: segment {after.number} at {after.date}, expected {expected}"


def _low_latency(playlist: Playlist) -> Iterator[str]:
    control = playlist.attributes("EXT-X-SERVER-CONTROL")
    if playlist.hint is not None and playlist.has("EXT-X-ENDLIST"):
        yield "4.4.5.3: EXT-X-PRELOAD-HINT with EXT-X-ENDLIST"
    if playlist.hint in {part.uri for part in playlist.all_parts}:
        yield f"4.4.5.3: {playlist.hint} is hinted and listed"
    if playlist.has("EXT-X-SKIP") and "CAN-SKIP-UNTIL" not in control:
        yield "4.4.3.8: EXT-X-SKIP without CAN-SKIP-UNTIL"
    if "CAN-SKIP-UNTIL" in control and milliseconds(control["CAN-SKIP-UNTIL"]) < 6 * playlist.target_ms:
        yield "4.4.3.8: CAN-SKIP-UNTIL below six target durations"
    if not playlist.has("EXT-X-PART-INF"):
        if playlist.all_parts:
            yield "4.4.3.7: EXT-X-PART without EXT-X-PART-INF"
        return
    target_ms = playlist.part_target_ms
    if milliseconds(control.get("PART-HOLD-BACK", "0")) < 3 * target_ms:
        yield "4.4.3.8: PART-HOLD-BACK below three part targets"
    if control.get("CAN-BLOCK-RELOAD") != "YES":
        yield "B.1: no blocking reload"
    for segment in playlist.all_segments:
        yield from _parts(segment, target_ms)
    # Appendix B.1: parts within three target durations of the end are listed.
    behind_ms = playlist.length_ms - sum(segment.duration_ms for segment in playlist.segments)
    for segment in reversed(playlist.segments):
        if behind_ms < 3 * playlist.target_ms and not segment.parts and not segment.is_gap:
            yield f"6.2.2: segment {segment.number} has no parts, {behind_ms} ms from the end"
        behind_ms += segment.duration_ms


def _parts(segment: Segment, target_ms: int) -> Iterator[str]:
    for index, part in enumerate(segment.parts):
        if part.duration_ms > target_ms:
            yield f"4.4.4.9: {part.uri} of {part.duration_ms} ms, part target {target_ms}"
        is_last = index == len(segment.parts) - 1
        is_excused = part.is_independent or part.is_gap or (is_last and segment.uri is not None)
        is_before_gap = not is_last and segment.parts[index + 1].is_gap
        # An open segment's last part may turn out to be its final one.
        is_excused = is_excused or is_before_gap or (is_last and segment.uri is None)
        if part.duration_ms < 0.85 * target_ms and not is_excused:
            yield f"4.4.4.9: {part.uri} of {part.duration_ms} ms, part target {target_ms}"


def _after(before: Playlist, after: Playlist) -> Iterator[str]:
    if before.has("EXT-X-ENDLIST") and before != after:
        yield "6.2.1: a playlist behind its end"
    for name in ("EXT-X-TARGETDURATION", "EXT-X-PART-INF", "EXT-X-VERSION"):
        if before.value(name) != after.value(name):
            yield f"6.2.1: {name} was {before.value(name)}, is {after.value(name)}"
    first, last = (int(each.value("EXT-X-MEDIA-SEQUENCE") or 0) for each in (before, after))
    if last < first:
        yield f"4.4.3.2: EXT-X-MEDIA-SEQUENCE was {first}, is {last}"
    if after.all_segments and before.all_segments and before.all_segments[-1].number > after.all_segments[-1].number:
        yield "6.2.1: the end went back"
    known = {segment.number: segment for segment in before.segments}
    for segment in after.segments:
        same = known.get(segment.number)
        if same is not None and same.lasting != segment.lasting:
            yield f"6.2.1: segment {segment.number} was {same.lasting}, is {segment.lasting}"
        if same is not None and same.map_uri and segment.map_uri and same.map_uri != segment.map_uri:
            yield f"6.2.1: segment {segment.number} has another EXT-X-MAP"
    opened = before.open_segment
    grown = next((each for each in after.all_segments if opened and each.number == opened.number), None)
    if opened and grown and grown.parts and grown.parts[: len(opened.parts)] != opened.parts:
        yield f"6.2.1: parts of segment {opened.number} changed"
    yield from _hinted(before, after)
    if last > first:
        left_ms = sum(segment.duration_ms for segment in after.segments)
        if left_ms < 3 * after.target_ms and not after.has("EXT-X-ENDLIST"):
            yield f"6.2.2: segments were removed, {left_ms} ms are left"


def _hinted(before: Playlist, after: Playlist) -> Iterator[str]:
    if before.hint is None or before.hint == after.hint:
        return
    known = {part.uri for part in before.all_parts}
    new = [part.uri for part in after.all_parts if part.uri not in known]
    if new and before.hint not in new:
        yield f"4.4.5.3: {before.hint} was hinted, {new} came"
