"""The names and the rounding of reports, and that foreign text cannot harm a terminal."""

import io
import json

import pytest
from rich.console import Console

from penstock.amf import UNDEFINED, AmfDate, AmfXml, EcmaArray, TypedObject
from penstock.tools.report import (
    bit_rate_text,
    metadata_json,
    rounded,
    stream_json,
    write_json,
    write_stream_tables,
)
from penstock.tools.statistics import StreamStatistics
from tests.tools.frames import AUDIO_SETUP, KEY, VIDEO_SETUP, audio, data, video


def statistics_of_a_second() -> StreamStatistics:
    statistics = StreamStatistics()
    for frame in [data(0), video(0, VIDEO_SETUP), audio(0, AUDIO_SETUP), video(0, KEY), audio(500), video(1000, KEY)]:
        statistics.add(frame)
    return statistics


def test_a_report_has_these_names() -> None:
    report = stream_json("rtmp://h/a/b", "rtmp", statistics_of_a_second())
    assert report == {
        "source": "rtmp://h/a/b",
        "format": "rtmp",
        "duration_s": 1,
        "messages": 6,
        "bytes": 318,
        "bitrate_bps": 2544,
        "malformed_messages": 0,
        "av_skew_ms": 500,
        "av_skew_max_ms": -500,
        "metadata": {"width": 640, "title": "x"},
        "tracks": [
            {
                "kind": "video",
                "track_id": 0,
                "codec": "H.264 AVC",
                "text": "H.264 Constrained Baseline 3.0 640x360",
                "width_px": 640,
                "height_px": 360,
                "sample_rate_hz": None,
                "channels": None,
                "frames": 2,
                "bytes": 190,
                "start_ms": 0,
                "duration_ms": 2000,
                "fps": 1,
                "bitrate_bps": 760,
                "keyframes": 2,
                "keyframe_interval_ms": 1000,
                "keyframe_interval_max_ms": 1000,
                "gaps": 0,
                "gap_max_ms": None,
                "steps_back": 0,
            },
            {
                "kind": "audio",
                "track_id": 0,
                "codec": "AAC",
                "text": "AAC-LC 48 kHz stereo",
                "width_px": None,
                "height_px": None,
                "sample_rate_hz": 48000,
                "channels": 2,
                "frames": 1,
                "bytes": 20,
                "start_ms": 500,
                "duration_ms": None,
                "fps": None,
                "bitrate_bps": None,
                "keyframes": 0,
                "keyframe_interval_ms": None,
                "keyframe_interval_max_ms": None,
                "gaps": 0,
                "gap_max_ms": None,
                "steps_back": 0,
            },
        ],
    }


def test_an_empty_stream_has_a_report_too() -> None:
    report = stream_json("x", "rtmp", StreamStatistics())
    assert (report["duration_s"], report["bitrate_bps"], report["metadata"], report["tracks"]) == (None, None, None, [])


def test_metadata_of_every_type_becomes_json() -> None:
    metadata = metadata_json(
        {
            "number": 29.97,
            "whole": 30.0,
            "none": float("nan"),
            "flag": True,
            "text": "a\x1b[31mb",
            "null": None,
            "undefined": UNDEFINED,
            "bytes": b"\x01",
            "array": EcmaArray({"a": 1.0}),
            "list": [1.0, "x"],
            "date": AmfDate(1000.0),
            "xml": AmfXml("<a/>"),
            "object": TypedObject("Class", {"b": 2.0}),
            "keyframes": {"times": [0.0]},
            "filler": ["    "],
        }
    )
    assert json.loads(json.dumps(metadata, allow_nan=False)) == {
        "number": 29.97,
        "whole": 30,
        "none": None,
        "flag": True,
        "text": "a\\x1b[31mb",
        "null": None,
        "undefined": None,
        "bytes": "01",
        "array": {"a": 1},
        "list": [1, "x"],
        "date": 1000,
        "xml": "<a/>",
        "object": {"b": 2},
    }


@pytest.mark.parametrize(
    ("value", "expected"), [(None, None), (1.0, 1), (1.23456, 1.235), (float("inf"), None), (0.0, 0)]
)
def test_figures_are_rounded_once(value: float | None, expected: float | None) -> None:
    assert rounded(value) == expected


def test_tables_show_what_the_report_says_and_no_markup() -> None:
    statistics = statistics_of_a_second()
    statistics.metadata = {"title": "[bold]x[/bold]"}
    for time_ms in (1040, 1080, 5000):
        statistics.add(video(time_ms))
    # VP9 has no size in its set-up record.
    report = stream_json("x", "rtmp", statistics)
    report["tracks"][1] |= {"kind": "video", "text": "VP9 Profile 0", "width_px": 16, "height_px": 8, "keyframes": 1}
    screen = io.StringIO()
    write_stream_tables(report, Console(file=screen, width=140))
    printed = screen.getvalue()
    for text in (
        "H.264 Constrained Baseline 3.0 640x360",
        "VP9 Profile 0 16x8",
        "2, 1000 ms apart",
        "1 (longest 3920 ms)",
        "[bold]x[/bold]",
        "rtmp, 5 s",
    ):
        assert text in printed


def test_a_table_without_tracks_or_metadata_is_one_table() -> None:
    screen = io.StringIO()
    write_stream_tables(stream_json("x", "rtmp", StreamStatistics()), Console(file=screen, width=100))
    assert "unknown" in screen.getvalue()
    assert "metadata" not in screen.getvalue()


def test_json_is_one_document() -> None:
    file = io.StringIO()
    write_json({"a": "ü"}, file)
    assert json.loads(file.getvalue()) == {"a": "ü"}


@pytest.mark.parametrize(
    ("rate", "text"), [(None, "unknown"), (999, "1 kbit/s"), (96_000, "96 kbit/s"), (2_500_000, "2.50 Mbit/s")]
)
def test_bit_rates_are_said_as_people_do(rate: float | None, text: str) -> None:
    assert bit_rate_text(rate) == text
