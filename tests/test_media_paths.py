"""Addresses of media over HTTP."""

import pytest

from penstock.media_paths import MediaKind, MediaPath, is_reserved, media_path, read_media_path, watch_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/live/cam.flv", MediaPath("live", "cam", MediaKind.FLV)),
        ("/live/cam.mp4", MediaPath("live", "cam", MediaKind.MP4)),
        ("/live/cam.m3u8", MediaPath("live", "cam", MediaKind.PLAYLIST)),
        ("/live/cam.jpg", MediaPath("live", "cam", MediaKind.PICTURE)),
        ("/live/cam/low.m3u8", MediaPath("live", "cam", MediaKind.BELOW, "low.m3u8")),
        ("/live/cam/a/b%2Fc.m4s", MediaPath("live", "cam", MediaKind.BELOW, "a/b%2Fc.m4s")),
    ],
)
def test_a_path_says_which_stream_and_what_of_it(path: str, expected: MediaPath) -> None:
    assert read_media_path(path) == expected


@pytest.mark.parametrize(
    ("path", "app", "stream"),
    [
        ("/live/cam.mp4.flv", "live", "cam.mp4"),
        ("/live/.flv.flv", "live", ".flv"),
        ("/a%2Fb/c%2fd.flv", "a/b", "c/d"),
        ("/live/caf%C3%A9.flv", "live", "café"),
        ("/live/%FF.flv", "live", "\udcff"),
        ("/live/a%2Eflv.flv", "live", "a.flv"),
        ("/live/100%.flv", "live", "100%"),
        ("/apis/cam.flv", "apis", "cam"),
    ],
)
def test_names_are_one_percent_encoded_segment_each_and_the_last_suffix_wins(path: str, app: str, stream: str) -> None:
    assert read_media_path(path) == MediaPath(app, stream, MediaKind.FLV)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "*",
        "/",
        "/live",
        "/cam.flv",
        "/live/",
        "/live/cam",
        "/live/cam/",
        "/live/.flv",
        "//cam.flv",
        "/live//x.m3u8",
        "/live/cam.FLV",
        "/live/cam.flv%00",
        "/live/cam%2Eflv",
        "/../cam.flv",
        "/live/%3Fx.flv",
        "/live%2F/cam.flv",
        "live/cam.flv",
        "http://host/live/cam.flv",
        "/api/cam.flv",
        "/%61pi/v1/streams",
        "/api%2Fv1/cam.flv",
        "/watch/player/x.js",
        "/favicon.ico/x.jpg",
        f"/live/{'a' * 1025}.flv",
        f"/live/{'%41' * 4000}.flv",
    ],
)
def test_all_other_paths_are_not_media(path: str) -> None:
    assert read_media_path(path) is None


@pytest.mark.parametrize("name", ["cam", "a/b", "café", "\udcff", "a b?#%", "x.flv"])
def test_a_path_made_of_names_is_read_as_these_names(name: str) -> None:
    if "?" not in name:
        assert read_media_path(media_path("live", name, MediaKind.MP4)) == MediaPath("live", name, MediaKind.MP4)
    assert media_path("live", name, MediaKind.BELOW, "1.m4s") == f"{watch_path('live', name)}/1.m4s"


def test_an_app_is_reserved_if_its_paths_would_be_those_of_web() -> None:
    assert [app for app in ("api", "api/v1", "page", "apis", "live", "live/api", "Api") if is_reserved(app)] == [
        "api",
        "api/v1",
        "page",
    ]


def test_a_path_has_the_key_of_its_stream() -> None:
    assert MediaPath("live", "cam", MediaKind.FLV).key == "live/cam"
