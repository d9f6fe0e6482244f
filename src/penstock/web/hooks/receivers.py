"""One attempt to give a message to a receiver: a POST, bounded in time and in what is read of the answer.

Owns the client of HTTP. Redirects are not followed: who may get events is the operator's to say. Proxies and
credentials of the environment are not used, for the same reason.
"""

import asyncio
import contextlib
import logging
from typing import Final, NamedTuple

import httpx

_MAX_ANSWER_BYTES: Final = 64 * 1024
_MAX_REASON_CHARACTERS: Final = 200
_GONE: Final = 410


class Outcome(NamedTuple):
    """What became of an attempt."""

    is_taken: bool
    reason: str
    """Why it was not; for logs and dead letters."""
    is_final: bool = False
    """The receiver wants no more of it."""
    asked_s: float | None = None
    """How long the receiver asks to wait."""


TAKEN: Final = Outcome(is_taken=True, reason="")


class Receivers:
    """The way to all receivers."""

    def __init__(self, max_connections: int = 100) -> None:
        # It tells every URL, at a level that is on, and URLs of hooks are often secrets.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        limits = httpx.Limits(max_connections=max_connections, max_keepalive_connections=20, keepalive_expiry=15.0)
        self._client = httpx.AsyncClient(
            # The bound is over the whole attempt, below.
            timeout=None,  # noqa: S113
            limits=limits,
            follow_redirects=False,
            trust_env=False,
            headers={"user-agent": "penstock", "content-type": "application/json", "accept": "*/*"},
        )

    async def post(self, url: str, headers: dict[str, str], body: bytes, timeout_s: float) -> Outcome:
        """Try once. Never raises."""
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._client.stream("POST", url, content=body, headers=headers) as answer,
            ):
                await _read_some(answer)
                return _outcome_of(answer)
        except TimeoutError:
            return Outcome(is_taken=False, reason=f"no answer in {timeout_s:g} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return Outcome(is_taken=False, reason=_reason_of(error))

    async def close(self) -> None:
        with contextlib.suppress(httpx.HTTPError, OSError):
            await self._client.aclose()


async def _read_some(answer: httpx.Response) -> None:
    """What is read to its end leaves the connection to the next message. What is long is closed."""
    read_bytes = 0
    async for piece in answer.aiter_raw():
        read_bytes += len(piece)
        if read_bytes > _MAX_ANSWER_BYTES:
            return


def _outcome_of(answer: httpx.Response) -> Outcome:
    status = answer.status_code
    if answer.is_success:
        return TAKEN
    asked = answer.headers.get("retry-after", "")
    asked_s = float(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 10 else None
    return Outcome(is_taken=False, reason=f"status {status}", is_final=status == _GONE, asked_s=asked_s)


def _reason_of(error: Exception) -> str:
    # Neither of them holds the URL, which may hold a secret.
    text = str(error) or type(error).__name__
    return text[:_MAX_REASON_CHARACTERS]
