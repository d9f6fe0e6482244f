"""A recorder with its thread, streams without sockets, and a disk that can be told to stand still."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import cast

from penstock.media.frame import FrameKind, frame_of
from penstock.relay.log import LogBudget, StreamLog
from penstock.relay.readable_log import LogLimits
from penstock.relay.segment import SegmentStore
from penstock.serve.connections.rtmp_connection import RtmpConnection
from penstock.serve.recording.recorder import Recorder
from penstock.serve.recording.recording_file import Disk
from penstock.serve.sending.memfd import MemfdStore
from penstock.serve.streams.live_stream import FlushListener, LiveStream
from penstock.serve.streams.stream_table import shared_encoders
from tests.serve.recording.recording_stage import CHUNK_SIZE, Journal
from tests.support.samples import Sample

DEADLINE_S = 10.0


class SlowDisk(Disk):
    """A disk that stands still while it is told to."""

    def __init__(self) -> None:
        self.moves = threading.Event()
        self.moves.set()
        self.waits = threading.Event()

    def write(self, descriptor: int, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        if not self.moves.is_set():
            self.waits.set()
            self.moves.wait(DEADLINE_S)
        return super().write(descriptor, pieces)


class Outlet:
    """What a recorder sees of a live stream."""

    def __init__(self, app_name: str, stream_name: str, log: StreamLog) -> None:
        self.app_name = app_name
        self.stream_name = stream_name
        self.key = f"{app_name}/{stream_name}"
        self.log = log
        self.listeners: list[FlushListener] = []

    def send(self, sample: Sample, now: float) -> None:
        self.log.append(frame_of(FrameKind(sample.type_id), sample.timestamp_ms, sample.payload), now)
        flush = self.log.flush(now)
        assert flush is not None
        for listener in self.listeners:
            listener.on_flush(flush, now)


class Studio:
    """A recorder with its thread, and streams without sockets."""

    def __init__(self, recorder: Recorder, journal: Journal) -> None:
        self.recorder = recorder
        self.journal = journal
        self.budget = LogBudget(2**30)
        self.told: dict[str, str | None] = {}
        """The recordings that streams are in, as the recorder tells for other workers; None: stopped."""
        recorder.on_recording = lambda live_stream, recording_id: self.told.update({live_stream.key: recording_id})
        self.now = time.monotonic()

    def publish(
        self,
        stream: str = "test",
        publishing_type: str = "live",
        app: str = "live",
        store: SegmentStore | None = None,
    ) -> Outlet:
        outlet = self.new_outlet(stream, app, store)
        self.come_back(outlet, publishing_type)
        return outlet

    def new_outlet(self, stream: str = "test", app: str = "live", store: SegmentStore | None = None) -> Outlet:
        """A stream that nobody publishes yet."""
        log = StreamLog(store or MemfdStore(), shared_encoders(CHUNK_SIZE), LogLimits(), self.budget)
        return Outlet(app, stream, log)

    def come_back(self, outlet: Outlet, publishing_type: str = "live") -> None:
        connection = cast("RtmpConnection", None)
        self.recorder.publish_started(connection, cast("LiveStream", outlet), publishing_type)

    def send(self, outlet: Outlet, *samples: Sample) -> None:
        for sample in samples:
            outlet.send(sample, self.now)

    def end(self, outlet: Outlet) -> None:
        self.recorder.stream_closed(cast("LiveStream", outlet))
        outlet.log.close()

    def tick(self) -> None:
        self.now += 1.0
        self.recorder.second_passed(self.now)

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + DEADLINE_S
        while not is_done():
            assert time.monotonic() < give_up_at
            time.sleep(0.005)
            self.tick()
