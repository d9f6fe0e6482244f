"""Heads of answers: status, headers, and what all of them have.

Owns how an answer is laid out, and the short ones that the front and its sites give by themselves.
"""

import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from penstock.serve.http.site import Answer

SERVER: Final = b"Server: penstock\r\n"
NO_STORE: Final = b"Cache-Control: no-store\r\n"
_CLOSE: Final = b"Connection: close\r\n"
_PLAIN: Final = b"text/plain; charset=utf-8"


def head_of(status: int, headers: bytes, *, now: float | None = None) -> bytes:
    """A head. `headers`: whole lines, CRLF at the end of each."""
    phrase = HTTPStatus(status).phrase.encode()
    date = formatdate(time.time() if now is None else now, usegmt=True).encode()
    return b"HTTP/1.1 %d %s\r\n%sDate: %s\r\n%s\r\n" % (status, phrase, SERVER, date, headers)


def answer_of(
    body: bytes,
    content_type: bytes,
    *,
    cache_control: bytes,
    etag: bytes | None = None,
    headers: bytes = b"",
    status: int = 200,
) -> Answer:
    """A whole answer. `etag` without quotes; `headers`: further lines."""
    quoted = None if etag is None else b'"%s"' % etag
    lines = b"Content-Type: %s\r\nContent-Length: %d\r\nCache-Control: %s\r\n" % (
        content_type,
        len(body),
        cache_control,
    )
    if quoted is not None:
        lines += b"ETag: %s\r\n" % quoted
    return Answer.of_bytes(head_of(status, lines + headers), body, etag=quoted)


def error_of(status: int, text: str = "", headers: Iterable[bytes] = (), *, is_last: bool = False) -> Answer:
    """What is said to one who is not served, in a line for people."""
    body = f"{text or HTTPStatus(status).phrase}\n".encode()
    lines = b"Content-Type: %s\r\nContent-Length: %d\r\n" % (_PLAIN, len(body)) + NO_STORE + b"".join(headers)
    return Answer.of_bytes(head_of(status, lines + (_CLOSE if is_last else b"")), body, is_last=is_last)


def not_found(cors: bytes, retry_after_s: int = 1) -> Answer:
    """The stream is not there now."""
    return error_of(404, "There is no such stream now.", (b"Retry-After: %d\r\n" % retry_after_s, cors))
