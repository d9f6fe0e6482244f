"""Values to answers: JSON with an ETag, and times as RFC 3339 writes them.

Owns the encoding. Values are made by our own code and not validated again for each answer: that they are as the schema
says is held by tests, and would cost more than the answer for a page of a thousand viewers.
"""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

CONTENT_TYPE: Final = "application/json"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OPTIONS: Final = orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC


def rfc3339(microseconds: int) -> str:
    """A time since 1970, in UTC to the millisecond."""
    moment = _EPOCH + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def json_answer(request: Request, value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A value as JSON; nothing but its ETag for a client that has it already."""
    body = orjson.dumps(value, option=_OPTIONS)
    etag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
    if request.method == "GET" and _has(request.headers.get("if-none-match"), etag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"etag": etag})
    return Response(body, status, {"etag": etag}, CONTENT_TYPE)


def _has(if_none_match: str | None, etag: str) -> bool:
    if if_none_match is None:
        return False
    known = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return etag in known or known == ["*"]
