"""Windows of playlists: what is named, up to where it reaches, and the same whoever packaged the stream."""

from collections.abc import Iterable

import pytest

from penstock.media.hls import media_playlist, multivariant_playlist
from penstock.relay.packaging.boundaries import BoundaryRule
from penstock.relay.packaging.names import Names
from penstock.relay.packaging.parts import Packaged, PackagedPart, SegmentEnd, SegmentStart
from penstock.relay.packaging.window import Place, Window
from tests.relay.packaging.stage import WALL_MS, Stage, audio, audio_setup, packaged, steady
from tests.support.hls_checker import delta_violations, read_playlist, violations

FIRST = WALL_MS // 1000
NAMES = Names(b"secret", "live/a", FIRST)


def given(stage: Stage, first: int = 0) -> Iterable[Packaged]:
    """What the packager gave, from a segment on."""
    for segment in stage.segments[first:]:
        yield segment.start
        yield from segment.parts
        if segment.end is not None:
            yield segment.end


def new_window(wanted_ms: int = 8000) -> Window:
    window = Window(NAMES, wanted_ms, 2000)
    window.part_target_ms = 223
    return window


def filled(seconds: float, wanted_ms: int = 8000, first: int = 0, gop: int = 60) -> Window:
    """A window behind so much of a stream that has not ended."""
    window = new_window(wanted_ms)
    stage = packaged(steady(seconds, gop=gop))
    items = list(given(stage, first))
    while isinstance(items[-1], SegmentEnd):
        items.pop()
    for each in items:
        window.take(each)
    return window


def test_a_playlist_names_as_much_as_is_wanted_and_no_whole_segment_more() -> None:
    playlist = filled(20.1).media_playlist(is_low_latency=True)
    assert playlist.media_sequence == FIRST + 6
    assert [segment.duration_ms for segment in playlist.segments] == [2000, 2000, 2000, 2000, 101]


def test_who_begins_later_sees_the_same_window() -> None:
    early, late = filled(20.1), filled(20.1, first=3)
    late.longest_ms = early.longest_ms
    for is_low_latency in (True, False):
        assert early.media_playlist(is_low_latency=is_low_latency) == late.media_playlist(is_low_latency=is_low_latency)


def test_what_was_named_stays_for_as_long_as_a_playlist_lasts() -> None:
    window = new_window()
    gone: list[int] = []
    for each in given(packaged(steady(30.1))):
        window.take(each)
        gone += [segment.number for segment in window.forget_old()]
    first_listed = window.media_playlist(is_low_latency=True).media_sequence
    assert gone == list(range(FIRST, first_listed - 4))
    assert window.segments[0].number == first_listed - 4


def test_segments_of_a_frame_each_are_not_kept_for_as_long_as_a_playlist_lasts() -> None:
    stage = Stage(BoundaryRule())
    stage.append(audio_setup())
    for number in range(300):
        # A clock that goes to and fro.
        stage.append(audio(number + 20_000 * (number % 2)))
    stage.flush()
    stage.finish()
    assert len(stage.segments) == 300
    window = new_window()
    for each in given(stage):
        window.take(each)
        window.forget_old()
    assert len(window.media_playlist(is_low_latency=True).segments) == 32
    assert len(window.segments) == 64


def test_there_is_no_playlist_before_a_segment_has_ended() -> None:
    assert not filled(1.9).is_ready
    assert filled(2.3).is_ready


@pytest.mark.parametrize(("gop", "seconds"), [(60, 2), (120, 4), (45, 2)])
def test_a_key_frame_interval_above_the_target_shows_in_the_target_duration(gop: int, seconds: int) -> None:
    window = filled(10.1, gop=gop)
    assert window.target_duration_s == seconds
    assert window.length_ms == max(8000, 4000 * seconds)


@pytest.mark.parametrize(
    ("place", "is_there"),
    [
        ((FIRST, None), True),
        ((FIRST, 99), True),
        ((FIRST + 1, 0), True),
        ((FIRST + 1, 1), True),
        ((FIRST + 1, 2), False),
        ((FIRST + 1, None), False),
        ((FIRST + 2, 0), False),
    ],
)
def test_a_place_is_reached_when_its_part_is_there(place: tuple[int, int | None], is_there: bool) -> None:
    # Its last part ends with the stream, in place of the next frame.
    window = filled(2.4)
    assert len(window.segments[-1].parts) == 2
    assert window.reaches(Place(*place)) is is_there
    window.end()
    assert window.reaches(Place(*place))


def test_past_the_end_of_a_segment_means_the_first_part_of_the_next() -> None:
    items = list(given(packaged(steady(4.5))))
    window = new_window()
    ends = [index for index, each in enumerate(items) if isinstance(each, SegmentEnd)]
    for each in items[: ends[1] + 1]:
        window.take(each)
    assert not window.reaches(Place(FIRST + 1, 10))
    assert window.reaches(Place(FIRST + 1, None))
    for each in items[ends[1] + 1 : ends[1] + 3]:
        window.take(each)
    assert window.reaches(Place(FIRST + 1, 10))


@pytest.mark.parametrize(
    ("place", "is_too_far"),
    [
        ((FIRST + 1, 2), False),
        ((FIRST + 1, 15), False),
        ((FIRST + 1, 16), True),
        ((FIRST + 3, 0), False),
        ((FIRST + 3, 13), False),
        ((FIRST + 3, 14), True),
        ((FIRST + 4, 0), True),
        ((FIRST - 5, 0), False),
    ],
)
def test_nobody_may_wait_for_what_is_too_far_ahead(place: tuple[int, int | None], is_too_far: bool) -> None:
    assert filled(2.4).is_too_far(Place(*place)) is is_too_far


def test_playlists_of_a_stream_keep_the_rules_part_by_part() -> None:
    window, texts = new_window(), []
    for each in given(packaged(steady(40))):
        window.take(each)
        if isinstance(each, PackagedPart) and window.is_ready:
            texts.append(media_playlist(window.media_playlist(is_low_latency=True)))
    # In the place of the next frame, the end of the stream ended the last part.
    assert violations(texts[:-1]) == []
    assert len(texts) > 180


def test_a_delta_update_keeps_the_rules() -> None:
    playlist = filled(60.1, wanted_ms=30_000).media_playlist(is_low_latency=True)
    assert delta_violations(media_playlist(playlist), media_playlist(playlist, is_delta=True)) == []


def test_a_classic_playlist_has_whole_segments_alone() -> None:
    text = media_playlist(filled(20.1).media_playlist(is_low_latency=False))
    assert violations([text]) == []
    assert "PART" not in text
    assert read_playlist(text).segments[-1].duration_ms == 2000


def test_the_multivariant_playlist_tells_codecs_picture_and_bandwidth() -> None:
    window = filled(10.1)
    text = multivariant_playlist([window.variant("a/live.m3u8")])
    assert 'CODECS="avc1.42c00b,mp4a.40.2",RESOLUTION=160x90' in text
    assert window.variant("x").bandwidth_bps == pytest.approx(1.1 * 8000 * window.segments[-2].size / 2000, rel=0.1)


def test_a_segment_that_is_whole_has_a_name_and_one_that_is_not_has_parts_alone() -> None:
    playlist = filled(2.4).media_playlist(is_low_latency=True)
    assert [segment.uri for segment in playlist.segments] == [NAMES.segment(FIRST), None]
    assert playlist.low_latency is not None
    last = playlist.segments[-1].parts[-1].uri
    assert playlist.low_latency.next_part_uri == NAMES.part(int(last.rpartition("/p")[2].removesuffix(".m4s")) + 1)


def test_a_window_without_anything_has_nothing_to_reach() -> None:
    window = new_window()
    assert not window.is_ready
    assert not window.reaches(Place(FIRST, 0))
    assert not window.is_too_far(Place(FIRST, 0))
    assert window.next_part is None
    start = next(each for each in given(packaged(steady(2.1))) if isinstance(each, SegmentStart))
    window.take(start)
    assert window.next_part is None
