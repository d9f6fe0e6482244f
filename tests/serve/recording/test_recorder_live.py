"""Recording in a real server with real clients: to the byte, whatever the disk or the publisher does."""

import itertools
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.protocol.events import MediaReceived, StreamEnded
from penstock.serve.recording.manifest import SegmentRow, SegmentStatus, read_row
from penstock.serve.recording.recorder import Recorder, RecordingSettings
from penstock.serve.recording.recording_file import Disk
from penstock.serve.server import Server
from penstock.serve.settings import AppSettings, ServerSettings
from tests.interop.ffmpeg_copies import RECORDING_PATH, copy_command, listed_packets, run_cleanly
from tests.serve.recording.recording_stage import FullDisk, Journal
from tests.support.lone_worker import listen, lone_registry, port_of
from tests.support.processes import RunningProgram, running
from tests.support.rtmp_driver import rtmp_client
from tests.support.samples import AUDIO, VIDEO, Sample, fingerprints, flv_samples, media_of, shifted

DEADLINE_S = 15.0
ROUND_MS = 2200  # a little more than the recording lasts


class LiveServer:
    """A server in a thread, and its recorder."""

    def __init__(self, folder: Path, disk: Disk | None) -> None:
        settings = ServerSettings(app=lambda _name: AppSettings(grace_s=5.0))
        self.folder = folder
        self.journal = Journal()
        recording = RecordingSettings(folder, ("*/*",))
        self.recorder = Recorder(recording, settings.connection.chunk_size, [self.journal], disk=disk)
        self._server = Server(settings, lone_registry(), self.recorder)
        self._listener = listen(self._server)
        self.port = port_of(self._listener)
        self._thread = threading.Thread(target=self._server.run)

    def start(self) -> None:
        self.recorder.start()
        self._thread.start()

    def stop(self) -> None:
        self._server.reactor.call_from_thread(self._server.shut_down)
        self._thread.join(DEADLINE_S)
        self._listener.close()
        assert self.recorder.close(DEADLINE_S)

    def wait_for_closed(self, count: int = 1) -> list[SegmentRow]:
        wait_until(lambda: len(self.journal.closed) >= count)
        return self.journal.closed


def wait_until(is_done: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + DEADLINE_S
    while not is_done():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


@contextmanager
def live_server(folder: Path, disk: Disk | None = None) -> Iterator[LiveServer]:
    server = LiveServer(folder, disk)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def rounds(count: int) -> list[Sample]:
    """The recording again and again, as one stream."""
    once = media_of(flv_samples(RECORDING_PATH))
    return [sample for number in range(count) for sample in shifted(once, number * ROUND_MS)]


def starts_of_gops(samples: Sequence[Sample]) -> list[int]:
    """Where key frames of H.264 are."""
    return [index for index, sample in enumerate(samples) if sample.payload[:2] == b"\x17\x01"]


def assert_same(samples: Sequence[Sample], expected: Sequence[Sample]) -> None:
    for type_id in (AUDIO, VIDEO):
        assert fingerprints(samples, type_id) == fingerprints(expected, type_id)


def test_ffmpeg_reads_from_the_recording_what_it_published(tmp_path: Path) -> None:
    with live_server(tmp_path / "recordings") as server:
        url = f"rtmp://127.0.0.1:{server.port}/live/test"
        run_cleanly(copy_command(RECORDING_PATH, url), tmp_path / "publish.log")
        (row,) = server.wait_for_closed()
    assert (row.status, row.video) == (SegmentStatus.CLOSED, "H.264 High 1.0 160x90")
    path = tmp_path / "recordings" / row.path
    assert re.fullmatch(r"live_test_\d{8}_\d{6}\.flv", row.path)
    assert listed_packets(path, tmp_path) == listed_packets(RECORDING_PATH, tmp_path)


class StandingDisk(Disk):
    """Stands still for three seconds at its third write."""

    def __init__(self) -> None:
        self.writes = 0

    def write(self, descriptor: int, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        self.writes += 1
        if self.writes == 3:
            time.sleep(3.0)
        return super().write(descriptor, pieces)


def publish_and_watch(server: LiveServer, samples: list[Sample], seconds: float) -> list[Sample]:
    """Send evenly over some seconds; what a viewer got by then."""
    with rtmp_client(server.port) as viewer, rtmp_client(server.port) as publisher:
        publisher.publish("test")
        publisher.send(samples[:1])
        watching = threading.Thread(target=viewer.wait_for, args=(StreamEnded,))
        viewer.play("test")
        watching.start()
        for sample in samples[1:]:
            publisher.send([sample])
            time.sleep(seconds / len(samples))
        publisher.end()
        watching.join(DEADLINE_S)
        assert not watching.is_alive()
        return viewer.samples


def test_a_disk_that_stands_still_costs_neither_viewers_nor_the_recording_anything(tmp_path: Path) -> None:
    disk = StandingDisk()
    sent = rounds(3)
    with live_server(tmp_path, disk) as server:
        watched = publish_and_watch(server, sent, 2.5)
        (row,) = server.wait_for_closed()
    assert disk.writes > 3
    assert_same(media_of(flv_samples(tmp_path / row.path)), sent)
    assert row.gaps == ()
    assert_same(media_of(watched)[-len(sent) + 1 :], sent[1:])


def test_a_full_disk_costs_viewers_nothing(tmp_path: Path) -> None:
    sent = rounds(3)
    with live_server(tmp_path, FullDisk(60_000)) as server:
        watched = publish_and_watch(server, sent, 1.0)
        wait_until(lambda: server.journal.failures)
        (row,) = server.wait_for_closed()
    assert (row.status, row.reason) == (SegmentStatus.FAILED, "No space left on device")
    assert_same(media_of(watched)[-len(sent) + 1 :], sent[1:])
    recorded = media_of(flv_samples(tmp_path / row.path))
    assert recorded == sent[: len(recorded)]
    lost_frames = sum(each.payload[1] != 0 for each in sent) - sum(each.payload[1] != 0 for each in recorded)
    # Of the write that failed, some may be in the file all the same.
    assert lost_frames <= server.recorder.dropped_messages <= lost_frames + 64


def test_a_publisher_that_is_cut_off_and_returns_makes_one_recording(tmp_path: Path) -> None:
    samples = media_of(flv_samples(RECORDING_PATH))
    with live_server(tmp_path) as server:
        with rtmp_client(server.port) as publisher:
            publisher.publish("test")
            publisher.send(samples)
        time.sleep(0.5)
        with rtmp_client(server.port) as publisher:
            publisher.publish("test")
            publisher.send(samples)
            publisher.end()
            (row,) = server.wait_for_closed()
    (gap,) = row.gaps
    assert (gap.reason, gap.dropped_messages) == ("the publisher was away", 0)
    assert 400 <= gap.length_ms < 5000
    recorded = media_of(flv_samples(tmp_path / row.path))
    assert [each.payload for each in recorded] == [each.payload for each in samples * 2]
    assert server.journal.gaps == [gap]


# A process that is ended.


@contextmanager
def recording_process(folder: Path, log_path: Path) -> Iterator[tuple[RunningProgram, int]]:
    command = [sys.executable, "-m", "tests.serve.recording.recording_server", str(folder)]
    with running(command, log_path) as program:
        program.wait_for_log(".\n", DEADLINE_S)
        found = re.search(r"port (\d+)\.", program.log_text())
        assert found
        yield program, int(found[1])


def newest_row(folder: Path) -> SegmentRow:
    row = read_row((folder / "manifest.jsonl").read_bytes().splitlines()[-1])
    assert row is not None
    return row


def test_a_server_that_is_told_to_end_keeps_every_message_it_had_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    sent = rounds(5)
    with recording_process(folder, tmp_path / "server.log") as (program, port):
        with rtmp_client(port) as viewer, rtmp_client(port) as publisher:
            publisher.publish("test")
            publisher.send(sent[:1])
            viewer.play("test")
            # What a viewer has seen was accepted. It is promised no more than the newest GOPs of what comes at once.
            for seen, end in itertools.pairwise([1, *starts_of_gops(sent)[1:], len(sent)]):
                publisher.send(sent[seen:end])
                while len(media_of(viewer.samples)) < end:
                    viewer.wait_for(MediaReceived, DEADLINE_S)
            program.process.send_signal(signal.SIGTERM)
            assert program.wait_for_exit(DEADLINE_S) == 0
        assert "complete" in program.log_text()
    row = newest_row(folder)
    assert row.status is SegmentStatus.CLOSED
    assert_same(media_of(flv_samples(folder / row.path)), sent)


def test_a_server_that_was_killed_repairs_its_recordings_at_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    sent = rounds(2)
    with recording_process(folder, tmp_path / "killed.log") as (program, port), rtmp_client(port) as publisher:
        publisher.publish("test")
        publisher.send(sent)
        program.wait_for_log("recording test", DEADLINE_S)
        time.sleep(0.6)
        program.process.kill()
        program.wait_for_exit(DEADLINE_S)
    row = newest_row(folder)
    assert row.status is SegmentStatus.OPEN
    path = folder / row.path
    path.write_bytes(path.read_bytes()[:-5])
    with recording_process(folder, tmp_path / "next.log") as (program, _):
        wait_until(lambda: newest_row(folder).status is SegmentStatus.REPAIRED)
    repaired = media_of(flv_samples(path))
    assert_same(repaired, sent[: len(repaired)])
    assert len(repaired) == len(sent) - 1
    assert newest_row(folder).bytes == path.stat().st_size
