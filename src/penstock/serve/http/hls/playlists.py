"""The playlists of one moment of a stream as answers, each rendered and compressed once.

Owns which forms there are, how long each may be kept by others, and that a form which nobody asks for is not made.
"""

import gzip
import hashlib
from typing import Final, NamedTuple

from penstock.media.hls import media_playlist
from penstock.relay.packaging.window import Window
from penstock.serve.http.layout import answer_of
from penstock.serve.http.site import Answer

CONTENT_TYPE: Final = b"application/vnd.apple.mpegurl"
_COMPRESSION: Final = 6
_ETAG_CHARACTERS: Final = 16


class Form(NamedTuple):
    """Which playlist of the same moment."""

    is_low_latency: bool
    is_delta: bool = False
    is_gzip: bool = False
    is_awaited: bool = False
    """Whether it was asked for by what it reaches: such an address has one content for good."""


class Playlists:
    """Those of one moment."""

    def __init__(self, window: Window, cors: bytes, *, is_private: bool = False) -> None:
        """`is_private`: whoever asks is to be asked about, so no proxy may answer."""
        self._is_private = is_private
        self._window = window
        self._cors = cors
        self._answers: dict[Form, Answer] = {}
        self._texts: dict[tuple[bool, bool], bytes] = {}

    def answer(self, form: Form) -> Answer:
        """One of them."""
        answer = self._answers.get(form)
        if answer is None:
            answer = self._answers[form] = self._make(form)
        return answer

    def _make(self, form: Form) -> Answer:
        of_text = form.is_low_latency, form.is_delta
        text = self._texts.get(of_text)
        if text is None:
            playlist = self._window.media_playlist(is_low_latency=form.is_low_latency)
            text = self._texts[of_text] = media_playlist(playlist, is_delta=form.is_delta).encode()
        target_s = self._window.target_duration_s
        # What is asked for by its place never changes; else it is old when the next segment or part is there.
        kept_s = 3 * target_s if form.is_awaited else max(1, target_s // 2) if not form.is_low_latency else 1
        return playlist_answer(text, kept_s, self._cors, is_gzip=form.is_gzip, is_private=self._is_private)


def playlist_answer(text: bytes, kept_s: int, cors: bytes, *, is_gzip: bool, is_private: bool = False) -> Answer:
    """A playlist as an answer. `is_private`: it is for no other than who has asked."""
    body = gzip.compress(text, _COMPRESSION, mtime=0) if is_gzip else text
    return answer_of(
        body,
        CONTENT_TYPE,
        cache_control=b"%smax-age=%d" % (b"private, " if is_private else b"", kept_s),
        etag=hashlib.sha256(text).hexdigest()[:_ETAG_CHARACTERS].encode() + b"z" * is_gzip,
        headers=b"Content-Encoding: gzip\r\n" * is_gzip + b"Vary: Accept-Encoding\r\n" + cors,
    )
