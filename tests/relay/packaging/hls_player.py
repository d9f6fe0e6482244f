"""What a server makes of a packaged stream: a playlist behind each part, and at the end files that FFmpeg can play."""

from pathlib import Path

from penstock.media.hls import HlsPart, HlsSegment, LowLatency, MediaPlaylist, media_playlist
from tests.relay.packaging.stage import Segment, Stage


def hls_segment(segment: Segment, parts: int | None = None) -> HlsSegment:
    """A segment for a playlist; with `parts`, the first ones of it while it is open."""
    start = segment.start
    listed = tuple(
        HlsPart(f"p{part.number}.m4s", part.duration_ms, part.is_independent, part.is_gap)
        for part in segment.parts[:parts]
    )
    is_open = parts is not None or segment.end is None
    return HlsSegment(
        None if is_open else f"s{start.number}.m4s",
        sum(part.duration_ms for part in listed) if is_open or segment.end is None else segment.end.duration_ms,
        "none.mp4" if start.init is None else f"{start.init.name}.mp4",
        start.wall_ms,
        start.discontinuity,
        start.is_discontinuous,
        not is_open and segment.end is not None and segment.end.is_gap,
        listed,
    )


def playlists(stage: Stage, target_duration_s: int, window: int = 100) -> list[str]:
    """The text behind each part, and the last one with its end."""
    texts = []
    ended: list[HlsSegment] = []
    first = stage.segments[0].start.number
    part_target_ms = stage.packager.part_target_ms
    assert part_target_ms is not None
    for segment in stage.segments:
        for count in range(1, len(segment.parts)):
            opened = hls_segment(segment, count)
            hint = f"p{segment.parts[count].number}.m4s"
            texts.append(_text(first, target_duration_s, [*ended, opened], window, LowLatency(part_target_ms, hint)))
        ended.append(hls_segment(segment))
        following = segment.parts[-1].number + 1 if segment.parts else None
        low_latency = LowLatency(part_target_ms, None if following is None else f"p{following}.m4s")
        texts.append(_text(first, target_duration_s, ended, window, low_latency))
    playlist = MediaPlaylist(first, target_duration_s, tuple(ended), LowLatency(part_target_ms), is_ended=True)
    return [*texts, media_playlist(playlist)] if window >= len(ended) else texts


def _text(first: int, target_s: int, segments: list[HlsSegment], window: int, low_latency: LowLatency) -> str:
    dropped = max(0, len(segments) - window)
    return media_playlist(MediaPlaylist(first + dropped, target_s, tuple(segments[dropped:]), low_latency))


def write_folder(stage: Stage, folder: Path, target_duration_s: int) -> Path:
    """Files of every segment and a playlist that has ended: without parts, since FFmpeg does not know them."""
    for segment in stage.segments:
        init = segment.start.init
        if init is not None:
            (folder / f"{init.name}.mp4").write_bytes(init.data)
        data = b"".join(part.boxes + body for part, body in zip(segment.parts, segment.payloads, strict=True))
        (folder / f"s{segment.start.number}.m4s").write_bytes(data)
    first = stage.segments[0].start.number
    listed = tuple(map(hls_segment, stage.segments))
    path = folder / "live.m3u8"
    path.write_text(media_playlist(MediaPlaylist(first, target_duration_s, listed, is_ended=True)), encoding="utf-8")
    return path
