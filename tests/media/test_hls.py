"""Playlists: literal texts, and a stream's worth of them before a judge that shares no code."""

from dataclasses import replace

import pytest

from penstock.errors import MisuseError
from penstock.media.hls import (
    HlsPart,
    HlsSegment,
    LowLatency,
    MediaPlaylist,
    Variant,
    date_time,
    media_playlist,
    multivariant_playlist,
    target_duration_s,
)
from tests.support.hls_checker import delta_violations, violations

WALL_MS = 1_795_015_685_040
PARTS_PER_SEGMENT = 5


def part(number: int, duration_ms: int = 200, *, is_independent: bool = False) -> HlsPart:
    return HlsPart(f"p{number}.m4s", duration_ms, is_independent)


def segment(number: int, map_uri: str = "init.mp4") -> HlsSegment:
    """A second of five parts."""
    first = PARTS_PER_SEGMENT * number
    parts = tuple(part(first + index, is_independent=index == 0) for index in range(PARTS_PER_SEGMENT))
    return HlsSegment(f"s{number}.m4s", 1000, map_uri, WALL_MS + 1000 * number, parts=parts)


def low_latency(next_part: int | None) -> LowLatency:
    return LowLatency(220, None if next_part is None else f"p{next_part}.m4s")


def test_a_low_latency_playlist_is_this_text() -> None:
    opened = HlsSegment(None, 400, "init.mp4", WALL_MS + 2000, parts=(part(10, is_independent=True), part(11)))
    playlist = MediaPlaylist(
        media_sequence=1795015684,
        target_duration_s=1,
        segments=(segment(0), segment(1), opened),
        low_latency=low_latency(12),
        comments=("left out: Speex audio, no player takes it in MP4",),
    )
    assert media_playlist(playlist) == (
        "#EXTM3U\n"
        "#EXT-X-VERSION:9\n"
        "# left out: Speex audio, no player takes it in MP4\n"
        "#EXT-X-TARGETDURATION:1\n"
        "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=6.000,PART-HOLD-BACK=0.660\n"
        "#EXT-X-PART-INF:PART-TARGET=0.220\n"
        "#EXT-X-MEDIA-SEQUENCE:1795015684\n"
        "#EXT-X-DISCONTINUITY-SEQUENCE:0\n"
        "#EXT-X-INDEPENDENT-SEGMENTS\n"
        '#EXT-X-MAP:URI="init.mp4"\n'
        "#EXT-X-PROGRAM-DATE-TIME:2026-11-18T15:28:05.040Z\n"
        '#EXT-X-PART:DURATION=0.200,URI="p0.m4s",INDEPENDENT=YES\n'
        '#EXT-X-PART:DURATION=0.200,URI="p1.m4s"\n'
        '#EXT-X-PART:DURATION=0.200,URI="p2.m4s"\n'
        '#EXT-X-PART:DURATION=0.200,URI="p3.m4s"\n'
        '#EXT-X-PART:DURATION=0.200,URI="p4.m4s"\n'
        "#EXTINF:1.000,\n"
        "s0.m4s\n"
        "#EXT-X-PROGRAM-DATE-TIME:2026-11-18T15:28:06.040Z\n"
        '#EXT-X-PART:DURATION=0.200,URI="p5.m4s",INDEPENDENT=YES\n'
        '#EXT-X-PART:DURATION=0.200,URI="p6.m4s"\n'
        '#EXT-X-PART:DURATION=0.200,URI="p7.m4s"\n'
        '#EXT-X-PART:DURATION=0.200,URI="p8.m4s"\n'
        '#EXT-X-PART:DURATION=0.200,URI="p9.m4s"\n'
        "#EXTINF:1.000,\n"
        "s1.m4s\n"
        "#EXT-X-PROGRAM-DATE-TIME:2026-11-18T15:28:07.040Z\n"
        '#EXT-X-PART:DURATION=0.200,URI="p10.m4s",INDEPENDENT=YES\n'
        '#EXT-X-PART:DURATION=0.200,URI="p11.m4s"\n'
        '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="p12.m4s"\n'
    )


def test_a_classic_playlist_has_whole_segments_alone() -> None:
    gap = replace(segment(1), is_gap=True)
    other = replace(segment(2, "other.mp4"), discontinuity=1, is_discontinuous=True)
    playlist = MediaPlaylist(7, 2, (segment(0), gap, other), is_ended=True, has_independent_segments=False)
    assert media_playlist(playlist) == (
        "#EXTM3U\n"
        "#EXT-X-VERSION:7\n"
        "#EXT-X-TARGETDURATION:2\n"
        "#EXT-X-MEDIA-SEQUENCE:7\n"
        "#EXT-X-DISCONTINUITY-SEQUENCE:0\n"
        '#EXT-X-MAP:URI="init.mp4"\n'
        "#EXT-X-PROGRAM-DATE-TIME:2026-11-18T15:28:05.040Z\n"
        "#EXTINF:1.000,\n"
        "s0.m4s\n"
        "#EXT-X-PROGRAM-DATE-TIME:2026-11-18T15:28:06.040Z\n"
        "#EXT-X-GAP\n"
        "#EXTINF:1.000,\n"
        "s1.m4s\n"
        "#EXT-X-DISCONTINUITY\n"
        '#EXT-X-MAP:URI="other.mp4"\n'
        "#EXT-X-PROGRAM-DATE-TIME:2026-11-18T15:28:07.040Z\n"
        "#EXTINF:1.000,\n"
        "s2.m4s\n"
        "#EXT-X-ENDLIST\n"
    )


def test_a_multivariant_playlist_is_this_text() -> None:
    variant = Variant("live.m3u8?ll=0&token=a%20b", 4_200_000, ("avc1.64001f", "mp4a.40.2"), 1280, 720, 29.97)
    assert multivariant_playlist([variant, Variant("sound.m3u8", 96_000)], ["left out: VP8 video"]) == (
        "#EXTM3U\n"
        "#EXT-X-VERSION:7\n"
        "# left out: VP8 video\n"
        "#EXT-X-INDEPENDENT-SEGMENTS\n"
        '#EXT-X-STREAM-INF:BANDWIDTH=4200000,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=29.970\n'
        "live.m3u8?ll=0&token=a%20b\n"
        "#EXT-X-STREAM-INF:BANDWIDTH=96000\n"
        "sound.m3u8\n"
    )


def test_parts_that_are_missing_are_told() -> None:
    parts = (part(0, is_independent=True), HlsPart("p1.m4s", 200, is_gap=True))
    text = media_playlist(
        MediaPlaylist(1, 1, (HlsSegment(None, 400, "i", WALL_MS, parts=parts),), low_latency=low_latency(2))
    )
    assert '#EXT-X-PART:DURATION=0.200,URI="p1.m4s",GAP=YES\n' in text
    assert violations([text]) == []


def test_parts_older_than_three_target_durations_are_not_listed() -> None:
    text = media_playlist(MediaPlaylist(0, 1, tuple(map(segment, range(6))), low_latency=low_latency(30)))
    assert text.count("#EXT-X-PART:") == 3 * PARTS_PER_SEGMENT
    assert '"p14.m4s"' not in text
    assert '"p15.m4s"' in text


@pytest.mark.parametrize(("segments", "skipped"), [(6, 0), (7, 1), (10, 4)])
def test_a_delta_update_skips_what_is_older_than_six_target_durations(segments: int, skipped: int) -> None:
    playlist = MediaPlaylist(100, 1, tuple(map(segment, range(segments))), low_latency=low_latency(5 * segments))
    whole, delta = media_playlist(playlist), media_playlist(playlist, is_delta=True)
    if skipped == 0:
        assert delta == whole
        return
    assert "#EXT-X-MEDIA-SEQUENCE:100\n" in delta
    assert f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}\n#EXT-X-PROGRAM-DATE-TIME" in delta
    assert delta.count("#EXTINF") == 6
    assert delta_violations(whole, delta) == []


def test_a_classic_playlist_skips_nothing() -> None:
    playlist = MediaPlaylist(0, 1, tuple(map(segment, range(10))))
    assert media_playlist(playlist, is_delta=True) == media_playlist(playlist)


def test_a_discontinuity_keeps_its_number_when_its_predecessors_are_gone() -> None:
    after = [replace(segment(number, "other.mp4"), discontinuity=6) for number in range(4, 8)]
    after[0] = replace(after[0], is_discontinuous=True)
    before = [replace(segment(number), discontinuity=5) for number in range(4)]
    both = tuple(before + after)
    texts = [
        media_playlist(MediaPlaylist(first, 1, both[first:], low_latency=low_latency(40))) for first in (0, 3, 4, 5)
    ]
    numbers = [text.split("#EXT-X-DISCONTINUITY-SEQUENCE:")[1].split("\n")[0] for text in texts]
    assert numbers == ["5", "5", "5", "6"]
    assert [text.count("#EXT-X-DISCONTINUITY\n") for text in texts] == [1, 1, 1, 0]
    assert violations(texts) == []


def test_a_stream_of_playlists_keeps_every_rule() -> None:
    texts = []
    for count in range(1, 12 * PARTS_PER_SEGMENT + 1):
        ended, parts_open = divmod(count, PARTS_PER_SEGMENT)
        segments = [segment(number) for number in range(ended)]
        if parts_open:
            opened = segment(ended)
            segments.append(replace(opened, uri=None, duration_ms=200 * parts_open, parts=opened.parts[:parts_open]))
        first = max(0, ended - 8)
        playlist = MediaPlaylist(first, 1, tuple(segments[first:]), low_latency=low_latency(count))
        texts.append(media_playlist(playlist))
        delta = media_playlist(playlist, is_delta=True)
        assert delta == texts[-1] or delta_violations(texts[-1], delta) == []
    texts.append(
        media_playlist(MediaPlaylist(4, 1, tuple(map(segment, range(4, 12))), low_latency(None), is_ended=True))
    )
    assert violations(texts) == []


@pytest.mark.parametrize(
    ("longest_ms", "wanted_s", "target_s"), [(2000, 2, 2), (2499, 2, 2), (2500, 2, 3), (300, 1, 1), (0, 0, 1)]
)
def test_a_target_duration_holds_the_longest_segment(longest_ms: int, wanted_s: int, target_s: int) -> None:
    assert target_duration_s(longest_ms, wanted_s) == target_s


@pytest.mark.parametrize(
    ("unix_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (951_868_800_001, "2000-03-01T00:00:00.001Z"),
        (1_798_761_599_000, "2026-12-31T23:59:59.000Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
    ],
)
def test_unix_time_is_told_by_the_calendar(unix_ms: int, text: str) -> None:
    assert date_time(unix_ms) == text


@pytest.mark.parametrize("uri", ["", "a\nb", 'a"b', "a\tb"])
def test_a_name_that_would_break_a_line_is_refused(uri: str) -> None:
    playlist = MediaPlaylist(0, 1, (segment(0),), LowLatency(220, uri))
    with pytest.raises(MisuseError):
        media_playlist(playlist)


def test_only_the_last_segment_may_be_open() -> None:
    with pytest.raises(MisuseError, match="before the last is open"):
        media_playlist(MediaPlaylist(0, 1, (replace(segment(0), uri=None), segment(1))))
