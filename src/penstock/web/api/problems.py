"""What goes wrong, as application/problem+json (RFC 9457).

Owns how every refusal of the API reads. What a client sent is not repeated: there may be secrets in it.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

CONTENT_TYPE: Final = "application/problem+json"


class InvalidPart(BaseModel):
    """A part of a request that is not as described."""

    location: str
    message: str


class ProblemDetails(BaseModel):
    """What went wrong."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[InvalidPart] | None = None


class Problem(HTTPException):
    """Ends a request with a problem."""

    def __init__(self, status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)


def problem_answer(
    status: HTTPStatus,
    detail: str,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[Mapping[str, str]] | None = None,
) -> Response:
    """A problem as an answer."""
    body: dict[str, Any] = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    if errors is not None:
        body["errors"] = list(errors)
    return Response(orjson.dumps(body), status.value, headers, CONTENT_TYPE)


def described(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """The same for the schema: what a route may answer besides what it is for."""
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {status.value: {"description": status.phrase, "content": content} for status in statuses}


def handle_problems(app: FastAPI) -> None:
    """Have everything that an application refuses told in this way."""
    app.add_exception_handler(HTTPException, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_failure)


async def _on_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    return problem_answer(HTTPStatus(error.status_code), error.detail, error.headers)


async def _on_failure(_request: Request, _error: Exception) -> Response:
    # The guard logs it.
    return problem_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "See the log.")


async def _on_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it is registered for
    parts = [{"location": ".".join(map(str, each["loc"])), "message": each["msg"]} for each in error.errors()]
    return problem_answer(HTTPStatus.UNPROCESSABLE_ENTITY, "The request is not as described.", errors=parts)
