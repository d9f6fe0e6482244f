"""What operators read about recordings."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from penstock.logs import configure_logs
from penstock.serve.recording.listener import RecordingListener, RecordingLog
from penstock.serve.recording.manifest import Gap, SegmentStatus
from tests.serve.recording.test_manifest import ROW

GAP = Gap(100, 40, 3, 500, "the disk is too slow")


class Lines:
    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._writer = configure_logs("info", "json", self._stream)

    def read(self) -> list[dict[str, object]]:
        assert self._writer.flush(5.0)
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def lines() -> Iterator[Lines]:
    yield Lines()
    configure_logs("error", "json", io.StringIO())


def test_a_recording_that_begins_and_ends_is_told(lines: Lines) -> None:
    log = RecordingLog()
    log.recording_started(replace(ROW, status=SegmentStatus.OPEN))
    log.segment_closed(ROW)
    started, saved = lines.read()
    assert (started["level"], started["msg"], started["stream_key"]) == ("INFO", "Recording started", "live/test")
    assert (saved["msg"], saved["path"], saved["bytes"]) == ("Recording saved", ROW.path, 86546)
    assert (saved["duration_ms"], saved["video"], saved["gaps"]) == (2197, "H.264 High 1.0 160x90", 1)


def test_what_went_wrong_is_told_with_its_reason(lines: Lines) -> None:
    log = RecordingLog()
    log.segment_closed(replace(ROW, status=SegmentStatus.REPAIRED, reason="torn"))
    log.segment_closed(replace(ROW, status=SegmentStatus.FAILED, reason="Input/output error"))
    log.segment_deleted(replace(ROW, status=SegmentStatus.DELETED, reason="older than 100 s"))
    log.stalled(8.04)
    log.clock_jumped(86_400.2, 3600.0)
    log.archive_failed("no folder")
    assert [
        (line["level"], line["msg"], line.get("reason", line.get("stalled_s", line.get("jump_s"))))
        for line in lines.read()
    ] == [
        ("WARNING", "Recording repaired", "torn"),
        ("ERROR", "Recording failed", "Input/output error"),
        ("INFO", "Recording deleted", "older than 100 s"),
        ("WARNING", "Disk of recordings stalled", 8.0),
        ("WARNING", "Clock was set: no recording is deleted by age for a while", 86_400),
        ("ERROR", "Folder of recordings not usable", "no folder"),
    ]


def test_what_may_repeat_is_told_once_a_second(lines: Lines) -> None:
    log = RecordingLog()
    for _ in range(100):
        log.gap(ROW, GAP)
        log.failed("live/test", "No space left on device")
    gap, failure = lines.read()
    assert (gap["msg"], gap["at_ms"], gap["dropped_messages"]) == ("Recording has a gap", 100, 3)
    assert (failure["msg"], failure["reason"]) == ("Recording not possible", "No space left on device")


CALLS: dict[str, Callable[[RecordingListener], None]] = {
    "recording_started": lambda listener: listener.recording_started(ROW),
    "segment_closed": lambda listener: listener.segment_closed(ROW),
    "gap": lambda listener: listener.gap(ROW, GAP),
    "failed": lambda listener: listener.failed("live/test", "reason"),
    "stalled": lambda listener: listener.stalled(8.0),
    "segment_deleted": lambda listener: listener.segment_deleted(ROW),
    "clock_jumped": lambda listener: listener.clock_jumped(86_400.2, 3600.0),
    "archive_failed": lambda listener: listener.archive_failed("reason"),
}


def test_these_are_all_calls_of_a_listener() -> None:
    assert {name for name in vars(RecordingListener) if not name.startswith("_")} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_each_is_a_line_of_the_log_and_nothing_to_whoever_does_not_listen(name: str, lines: Lines) -> None:
    CALLS[name](RecordingListener())
    assert lines.read() == []
    CALLS[name](RecordingLog())
    assert len(lines.read()) == 1
