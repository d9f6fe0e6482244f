"""Thumbnails: the newest key frame of each stream that somebody asks for, as JPEG, kept for some seconds.

Owns which worker decodes (the one that has the stream), how often (once in five seconds and stream, and not again while
it is the same frame), and who waits for the same picture. Nothing is kept of a stream that nobody asks for.
"""

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

from penstock.control.messages import NOBODY, SeatAnswer, name_of
from penstock.control.thumbnails import WIDTHS
from penstock.logs import OncePerSecond, get_logger
from penstock.relay.following import Picture as ToldPicture
from penstock.relay.readable_log import ReadableLog
from penstock.serve.reactor import Loop
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.registry import Registry
from penstock.serve.streams.workers.pictures import Pictures
from penstock.serve.thumbnails.decoder import Decoder
from penstock.serve.thumbnails.key_frames import NO_KEY_FRAME, NO_VIDEO, newest_point, read_key_frame

FRESH_S: Final = 5.0
"""For so long a picture is the newest one, and so is the reason why there is none."""
SOON_S: Final = 0.5
"""The same for a stream that is not there, or without a key frame: that may be otherwise in a moment."""
KEPT_S: Final = 30.0
"""What nobody asks for any more is forgotten then; until then the same frame need not be decoded again."""
MAX_KEPT: Final = 256
_NO_STREAM: Final = "There is no such stream now."
_NOT_DECODED: Final = "The key frame could not be decoded."
_NOT_INSTALLED: Final = "Thumbnails need packages that come with: pip install 'penstock[web]'"
_LOST: Final = "The worker that has the stream is gone."


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A picture, or why there is none."""

    at: float
    """When it was asked for."""
    status: HTTPStatus
    complaint: str = ""
    jpegs: Mapping[int, bytes] = field(default_factory=dict)
    """By width."""
    etag: str = ""
    frame: tuple[ReadableLog, int] | None = None
    """The log and the position that it is from; None: another worker has them."""
    laid: dict[Hashable, object] = field(default_factory=dict, compare=False)
    """What was made of it by whoever shows it, and goes with it."""

    def is_fresh(self, now: float) -> bool:
        """Whether it need not be asked for again."""
        is_passing = self.status is HTTPStatus.NOT_FOUND and self.complaint != NO_VIDEO
        return now - self.at < (SOON_S if is_passing else FRESH_S)


Done = Callable[[Thumbnail], None]


class Thumbnails:
    """Those of one worker."""

    def __init__(
        self,
        loop: Loop,
        streams: Mapping[str, LiveStream],
        registry: Registry,
        pictures: Pictures,
        *,
        decoder: Decoder | None,
        chunk_size: int,
    ) -> None:
        """`pictures`: those of other workers. `decoder`; None: what it needs is not installed."""
        self._loop = loop
        self._streams = streams
        self._registry = registry
        self._pictures = pictures
        self._decoder = decoder
        self._chunk_size = chunk_size
        self._kept: dict[str, Thumbnail] = {}
        """By the keys of streams, the one that was made longest ago first."""
        self._coming: dict[str, list[Done]] = {}
        self._is_cleaning = False
        self._warnings = OncePerSecond(loop.clock)
        pictures.make = self._make_for_another

    def ask(self, key: str, done: Done) -> Thumbnail | None:
        """The picture of a stream; None: `done` is called with it, perhaps before this returns."""
        kept = self._kept.get(key)
        if kept is not None and kept.is_fresh(self._loop.now):
            return kept
        if self._decoder is None:
            return Thumbnail(self._loop.now, HTTPStatus.NOT_IMPLEMENTED, _NOT_INSTALLED)
        coming = self._coming.get(key)
        if coming is not None:
            coming.append(done)
            return None
        self._coming[key] = [done]
        stream = self._own(key)
        if stream is not None:
            self._decode(key, stream)
        else:
            # No seat is taken: a picture is no view.
            self._registry.watch(key, 0, partial(self._located, key))
        return None

    def _own(self, key: str) -> LiveStream | None:
        stream = self._streams.get(key)
        return stream if stream is not None and stream.epoch is not None else None

    def _located(self, key: str, seat: SeatAnswer) -> None:
        stream = self._own(key)
        if stream is not None:
            self._decode(key, stream)
        elif seat.owner in (NOBODY, self._registry.worker):
            self._finish(key, Thumbnail(self._loop.now, HTTPStatus.NOT_FOUND, _NO_STREAM))
        else:
            self._pictures.ask(seat.owner, key, partial(self._told, key))

    def _told(self, key: str, told: ToldPicture | None) -> None:
        if told is None:
            self._finish(key, Thumbnail(self._loop.now, HTTPStatus.SERVICE_UNAVAILABLE, _LOST))
        else:
            jpegs = {width: told.jpegs[width] for width in WIDTHS if width in told.jpegs}
            status = HTTPStatus(told.status)
            self._finish(key, Thumbnail(told.at, status, told.complaint, jpegs, _etag_of(jpegs)))

    def _make_for_another(self, key: str, answer: Callable[[ToldPicture], None]) -> None:
        def tell(made: Thumbnail) -> None:
            answer(ToldPicture(name_of(key), dict(made.jpegs), made.status.value, made.complaint, made.at))

        if self._own(key) is None:
            # It has moved, or is over, since the other one was told that it is here. Asking on could go round.
            tell(Thumbnail(self._loop.now, HTTPStatus.NOT_FOUND, _NO_STREAM))
        elif (made := self.ask(key, tell)) is not None:
            tell(made)

    def _decode(self, key: str, stream: LiveStream) -> None:
        now, log = self._loop.now, stream.log
        if log.unflushed_bytes:
            # What nobody watches is shown to readers half a second later.
            stream.flush(now)
        point = newest_point(log)
        if point is None:
            has_none = log.newest_point is not None and not log.has_video
            complaint = NO_VIDEO if has_none else NO_KEY_FRAME
            self._finish(key, Thumbnail(now, HTTPStatus.NOT_FOUND, complaint))
            return
        frame = (log, point.position)
        kept = self._kept.get(key)
        if kept is not None and kept.frame == frame:
            self._finish(key, Thumbnail(now, kept.status, kept.complaint, kept.jpegs, kept.etag, frame))
        elif self._decoder is not None:
            self._decoder.ask(
                lambda: read_key_frame(log, point, self._chunk_size), partial(self._decoded, key, now, frame)
            )

    def _decoded(
        self, key: str, at: float, frame: tuple[ReadableLog, int], jpegs: Mapping[int, bytes], complaint: str
    ) -> None:
        if not jpegs:
            if (swallowed := self._warnings.admit()) is not None:
                get_logger().warning("no thumbnail of a stream", stream=key, reason=complaint, swallowed=swallowed)
            self._finish(key, Thumbnail(at, HTTPStatus.SERVICE_UNAVAILABLE, _NOT_DECODED, frame=frame))
            return
        self._finish(key, Thumbnail(at, HTTPStatus.OK, "", jpegs, _etag_of(jpegs), frame))

    def _finish(self, key: str, made: Thumbnail) -> None:
        self._kept.pop(key, None)
        self._kept[key] = made
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        if not self._is_cleaning:
            self._is_cleaning = True
            self._loop.call_later(KEPT_S, self._forget_old)
        for done in self._coming.pop(key, ()):
            done(made)

    def _forget_old(self) -> None:
        self._kept = {key: kept for key, kept in self._kept.items() if self._loop.now - kept.at < KEPT_S}
        self._is_cleaning = bool(self._kept)
        if self._is_cleaning:
            self._loop.call_later(KEPT_S, self._forget_old)


def _etag_of(jpegs: Mapping[int, bytes]) -> str:
    return hashlib.sha256(jpegs[max(jpegs)]).hexdigest()[:16] if jpegs else ""
