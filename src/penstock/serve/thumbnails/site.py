"""`/{app}/{stream}.jpg`: the newest key frame of a stream, `?w=160|320|640`.

Owns what is said over HTTP: widths, how long an answer may be kept, and words where there is no picture. Requests for
the same picture share one answer, also while it is being made.
"""

from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol

from penstock.control.thumbnails import WIDTHS
from penstock.media_paths import MediaPath
from penstock.serve.http.layout import answer_of, error_of
from penstock.serve.http.site import Answer, MediaRequest, Wait
from penstock.serve.reactor import Loop
from penstock.serve.thumbnails.key_frames import NO_VIDEO
from penstock.serve.thumbnails.thumbnails import FRESH_S, Done, Thumbnail

WITHIN_S: Final = 30.0
"""For the first picture, when the process that decodes has yet to be started."""
_WIDTHS: Final = {str(width): width for width in WIDTHS}
_WHICH_WIDTHS: Final = "w is one of " + ", ".join(_WIDTHS) + "."
_NOT_IN_TIME: Final = "The picture was not decoded in time."
_NO_SNIFFING: Final = b"X-Content-Type-Options: nosniff\r\n"


class Pictures(Protocol):
    """Where pictures come from."""

    def ask(self, key: str, done: Done) -> Thumbnail | None:
        """The picture of a stream; None: `done` is called with it, perhaps before this returns."""


class Rules(Protocol):
    """What is asked of the rules of access."""

    @property
    def is_open(self) -> bool:
        """Whether there are none."""


class _Wanted(NamedTuple):
    """What is the same for all who ask for it."""

    key: str
    width: int
    cors: bytes
    is_public: bool


class ThumbnailSite:
    """Answers requests for pictures."""

    def __init__(self, pictures: Pictures, loop: Loop, rules: Rules) -> None:
        self._pictures = pictures
        self._loop = loop
        self._rules = rules
        self._waits: dict[_Wanted, Wait] = {}

    def is_free(self, path: MediaPath) -> bool:  # noqa: ARG002
        """Who may play may see it, and nobody else."""
        return False

    def answer(self, request: MediaRequest) -> Answer | Wait:
        """The picture, soon if it is not there."""
        width = _WIDTHS.get(request.parameters.get("w", str(WIDTHS[-1])))
        if width is None:
            return error_of(HTTPStatus.BAD_REQUEST, _WHICH_WIDTHS, (request.cors,))
        # Whoever keeps it for others does not know who may see it.
        wanted = _Wanted(request.key, width, request.cors, is_public=self._rules.is_open)
        wait = self._waits.get(wanted)
        if wait is None:
            late = error_of(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_IN_TIME, (_retry(FRESH_S), request.cors))
            wait = self._waits[wanted] = Wait(self._loop.now + WITHIN_S, late)
            made = self._pictures.ask(request.key, partial(self._made, wanted))
            if made is not None:
                self._made(wanted, made)
        return wait

    def _made(self, wanted: _Wanted, made: Thumbnail) -> None:
        wait = self._waits.pop(wanted, None)
        if wait is not None:
            wait.fulfil(_laid(wanted, made))


def _laid(wanted: _Wanted, made: Thumbnail) -> Answer:
    """Laid out once for all who ask for it."""
    if made.status is not HTTPStatus.OK:
        return error_of(made.status, made.complaint, (*_advice(made), wanted.cors))
    laid = made.laid.get(wanted)
    if not isinstance(laid, Answer):
        laid = made.laid[wanted] = answer_of(
            made.jpegs[wanted.width],
            b"image/jpeg",
            cache_control=b"%s, max-age=%d" % (b"public" if wanted.is_public else b"private", FRESH_S),
            etag=f"{made.etag}-{wanted.width}".encode(),
            headers=_NO_SNIFFING + wanted.cors,
        )
    return laid


def _advice(made: Thumbnail) -> tuple[bytes, ...]:
    if made.status is HTTPStatus.NOT_FOUND and made.complaint != NO_VIDEO:
        return (_retry(1),)
    return (_retry(FRESH_S),) if made.status is HTTPStatus.SERVICE_UNAVAILABLE else ()


def _retry(after_s: float) -> bytes:
    return b"Retry-After: %d\r\n" % after_s
