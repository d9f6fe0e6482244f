"""The thread that writes recordings: the only one that meets the disk.

Owns the order of work. Orders come in by a queue that never blocks the sender, and what becomes of them goes back as
notices, which the sender collects when it likes; neither side waits for the other. The work is made of calls that
release the interpreter's lock, in slices of bounded size. A disk that stands still stops this thread alone, and
`busy_since` tells for how long.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, assert_never

from penstock.relay.follower import FollowerBatch
from penstock.serve.recording.archive import Archive, Notice
from penstock.serve.recording.recording import Recording, RecordingOrder

_MAX_WAIT_S: Final = 60.0


class Begin(NamedTuple):
    """A stream is to be recorded."""

    order: RecordingOrder


class Take(NamedTuple):
    """Messages of a stream. `give_back` is called on the sender's side when they were read."""

    recording_id: str
    batches: list[FollowerBatch]
    give_back: Callable[[], None]


class Continue(NamedTuple):
    """What comes from a position of the log on is of another publication."""

    recording_id: str
    position: int


class End(NamedTuple):
    """A stream is over."""

    recording_id: str


class Delete(NamedTuple):
    """A finished file is to go."""

    recording_id: str
    segment: int


class Stop(NamedTuple):
    """There will be no more work: leave. Every stream has ended before."""


Work = Begin | Take | Continue | End | Delete | Stop


class RecordingThread:
    """Does the work in its own thread, one piece at a time."""

    def __init__(self, new_archive: Callable[[Callable[[Notice], None]], Archive]) -> None:
        self._notices: deque[Notice] = deque()
        self._given_back: deque[Callable[[], None]] = deque()
        self._archive = new_archive(self._notices.append)
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._recordings: dict[str, Recording] = {}
        self._dropped_by_ended = 0
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="penstock-recorder", daemon=True)
        self.busy_since: float | None = None
        """Since when it is at the same piece of work; None while it waits for some."""
        self.dropped_messages = 0
        """Not recorded because the disk had failed."""

    def start(self) -> None:
        """Begin with what the last run left behind."""
        self._thread.start()

    def submit(self, work: Work) -> None:
        """Hand over some work. Never blocks."""
        self._work.put(work)

    def take_back(self) -> None:
        """Call every `give_back` that is due, on the thread that calls this."""
        while self._given_back:
            self._given_back.popleft()()

    def notices(self) -> Iterator[Notice]:
        """What there is to tell."""
        while self._notices:
            yield self._notices.popleft()

    def recording_id_of(self, recording_id: str) -> str:
        """What a recording is called by now: one that is appended to another has the name of that."""
        recording = self._recordings.get(recording_id)
        return recording_id if recording is None else recording.recording_id

    def join(self, timeout_s: float) -> bool:
        """Wait for the end, behind a `Stop`. False if the disk did not take everything in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        archive = self._archive
        while not self._is_stopping:
            try:
                if archive.clock() >= archive.next_chore_at:
                    self._do_chores()
                wait_s = min(max(archive.next_chore_at - archive.clock(), 0.0), _MAX_WAIT_S)
                self._do(self._work.get(timeout=wait_s))
            except queue.Empty:
                pass
            except Exception as error:  # a bug costs what was in hand, never the thread
                archive.disturbed(f"internal error: {error!r}")
        archive.close()

    def _do_chores(self) -> None:
        # Repairs at the start may take long without anything being wrong.
        self.busy_since = None if self._archive.manifest is None else self._archive.clock()
        try:
            self._archive.do_chores()
        finally:
            self.busy_since = None

    def _do(self, work: Work) -> None:
        self.busy_since = self._archive.clock()
        try:
            match work:
                case Begin(order):
                    self._recordings[order.recording_id] = Recording(self._archive, order)
                case Take(recording_id, batches, give_back):
                    self._take(recording_id, batches, give_back)
                case Continue(recording_id, position):
                    if recording_id in self._recordings:
                        self._recordings[recording_id].continue_at(position)
                case End(recording_id):
                    self._end(recording_id)
                case Delete(recording_id, segment):
                    self._archive.delete((recording_id, segment))
                case Stop():
                    self._is_stopping = True
                case _:
                    assert_never(work)
        finally:
            self.busy_since = None

    def _take(self, recording_id: str, batches: list[FollowerBatch], give_back: Callable[[], None]) -> None:
        recording = self._recordings.get(recording_id)
        try:
            if recording is not None:
                for batch in batches:
                    # Each batch may wait for the disk by itself.
                    self.busy_since = self._archive.clock()
                    recording.take(batch)
                recording.flush()
        except Exception:
            self._end(recording_id)
            raise
        finally:
            self._given_back.append(give_back)
            self._count_dropped()

    def _end(self, recording_id: str) -> None:
        recording = self._recordings.pop(recording_id, None)
        if recording is not None:
            recording.end()
            self._dropped_by_ended += recording.dropped_messages

    def _count_dropped(self) -> None:
        dropped = sum(recording.dropped_messages for recording in self._recordings.values())
        self.dropped_messages = self._dropped_by_ended + dropped
