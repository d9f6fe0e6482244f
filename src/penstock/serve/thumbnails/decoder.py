"""The process that decodes, as its worker knows it: asked for when there is a picture to decode, gone when idle.

Owns what waits to be decoded, one picture after the other, and for how long each is waited for. Nothing here blocks: a
picture goes over a link of the loop, and the supervisor starts the process. One that takes too long or dies costs the
picture that it had, and the next one is given to another process.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from socket import socket
from typing import Final

import msgspec

from penstock.control.thumbnails import Decode, Decoded
from penstock.serve.links.link import Link
from penstock.serve.reactor import Loop, Timer
from penstock.serve.thumbnails.key_frames import KeyFrame

MAX_WAITING: Final = 32
"""Pictures of other streams that may wait. A key frame is copied when its turn has come."""
BUSY: Final = "Too many pictures are waiting to be decoded."
LOST: Final = "The picture could not be decoded in time, or its decoder died."
NOT_STARTED: Final = "The process that decodes pictures could not be started."

Read = Callable[[], KeyFrame | str]
"""What is to be decoded, read when its turn has come, or why there is nothing."""
Done = Callable[[Mapping[int, bytes], str], None]
"""JPEGs by width, or why there are none."""
_DECODER: Final = msgspec.msgpack.Decoder(Decoded)


@dataclass(frozen=True, slots=True)
class _Job:
    read: Read
    done: Done


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what is waited for."""

    start_s: float = 20.0
    """For a process to be there: on a busy machine its libraries take seconds to load."""
    picture_s: float = 8.0
    """For a picture, the first one of a process among them; it gives up by itself before that, if it can."""
    idle_s: float = 60.0
    """Without work for so long it goes, and with it 50 MB."""


class Decoder:
    """One worker's."""

    def __init__(self, loop: Loop, want: Callable[[], None], patience: Patience | None = None) -> None:
        """`want`: ask the supervisor for a process; one that was there before is to be gone."""
        self._loop = loop
        self._want = want
        self._patience = patience or Patience()
        self._link: Link[Decoded] | None = None
        self._waiting: deque[_Job] = deque()
        self._job: _Job | None = None
        """What is being decoded."""
        self._request = 0
        self._is_wanted = False
        self._timer: Timer | None = None
        """One thing is waited for at a time: a process, a picture, or the end of an idle one."""

    @property
    def is_there(self) -> bool:
        """Whether there is a process."""
        return self._link is not None

    def ask(self, read: Read, done: Done) -> None:
        """Have a picture decoded. Never calls back at once."""
        if len(self._waiting) >= MAX_WAITING:
            self._loop.call_later(0.0, lambda: done({}, BUSY))
            return
        self._waiting.append(_Job(read, done))
        if self._job is None:
            self._loop.call_later(0.0, self._next)

    def take(self, sock: socket | None) -> None:
        """The supervisor has started a process, at the other end of this socket; None: it could not."""
        self._close()
        self._is_wanted = False
        if sock is None:
            self._fail_all(NOT_STARTED)
            return
        self._link = Link(self._loop, sock, _DECODER, self._on_decoded, self._on_lost)
        self._next()

    def close(self) -> None:
        """The worker ends."""
        self._close()

    def _next(self) -> None:
        if self._job is not None:
            return
        if self._link is None:
            if self._waiting and not self._is_wanted:
                self._is_wanted = True
                self._wait(self._patience.start_s, lambda: self._give_up(NOT_STARTED))
                self._want()
            return
        while self._waiting:
            job = self._waiting.popleft()
            found = job.read()
            if isinstance(found, str):
                job.done({}, found)
                continue
            self._request += 1
            self._job = job
            self._wait(self._patience.picture_s, self._on_late)
            self._link.send(Decode(self._request, found.codec.name, found.setup, found.body))
            return
        self._wait(self._patience.idle_s, self._close)

    def _on_decoded(self, decoded: Decoded, _descriptors: tuple[int, ...]) -> None:
        if decoded.request != self._request or self._job is None:
            return
        job, self._job = self._job, None
        try:
            job.done(decoded.jpegs, decoded.complaint)
        finally:
            self._next()

    def _on_lost(self) -> None:
        """It died: by itself, by its own deadline, or it was killed."""
        self._link = None
        self._fail_job()

    def _on_late(self) -> None:
        """It hangs. Who asks for another one has it killed."""
        self._close()
        self._fail_job()
        if not self._waiting and not self._is_wanted:
            self._is_wanted = True
            self._wait(self._patience.start_s, lambda: self._give_up(NOT_STARTED))
            self._want()

    def _fail_job(self) -> None:
        self._cancel()
        job, self._job = self._job, None
        if job is not None:
            try:
                job.done({}, LOST)
            finally:
                self._next()

    def _give_up(self, complaint: str) -> None:
        self._is_wanted = False
        self._fail_all(complaint)

    def _fail_all(self, complaint: str) -> None:
        self._cancel()
        jobs, self._waiting = list(self._waiting), deque()
        for job in jobs:
            job.done({}, complaint)

    def _close(self) -> None:
        self._cancel()
        if self._link is not None:
            self._link.close()
            self._link = None

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._cancel()
        self._timer = self._loop.call_later(seconds, then)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
