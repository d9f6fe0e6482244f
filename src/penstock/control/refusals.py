"""What a client over HTTP is told, by whoever has its connection, where it is not served."""

from http import HTTPStatus
from typing import Final


def _answer(status: HTTPStatus, *headers: str) -> bytes:
    body = f"{status.phrase}\n"
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        *headers,
        "Cache-Control: no-store",
        "Connection: close",
    ]
    return "\r\n".join((*head, "", body)).encode()


UNAVAILABLE: Final = _answer(HTTPStatus.SERVICE_UNAVAILABLE, "Retry-After: 1")
"""Nobody can serve it now."""
NOT_FOUND: Final = _answer(HTTPStatus.NOT_FOUND)
"""This is not served at this port."""
