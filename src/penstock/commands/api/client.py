"""A running server's API, as commands ask it.

Owns the address, the token and how failures read. The token comes from PENSTOCK_TOKEN alone, since a process list shows
arguments; it goes to the server that was named and nowhere else: neither to a proxy nor behind a redirect.
"""

import argparse
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from penstock.errors import ConfigError

DEFAULT_URL: Final = "http://127.0.0.1:8080"
TOKEN_VARIABLE: Final = "PENSTOCK_TOKEN"  # noqa: S105 - the name of a variable
_PREFIX: Final = "/api/v1"
_TIMEOUT_S: Final = 10.0
_MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
_PAGE_ITEMS: Final = 1000


class ApiFailure(Exception):
    """The server refused, or cannot be reached. One line for whoever typed the command."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; None: there was no answer."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def add_url_argument(parser: argparse.ArgumentParser) -> None:
    text = f"where the server serves HTTP ({DEFAULT_URL}); a token is taken from {TOKEN_VARIABLE}"
    parser.add_argument("--url", metavar="URL", default=DEFAULT_URL, help=text)


class ApiClient:
    """One server."""

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ) -> None:
        """An address that is none raises ConfigError."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ConfigError(f"--url should be an address such as {DEFAULT_URL}")
        self._url = url.rstrip("/")
        self._token = environment.get(TOKEN_VARIABLE)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())

    def get(self, path: str) -> Any:
        """What the server answers."""
        return self._ask("GET", path)

    def post(self, path: str, body: Any) -> Any:
        """What the server answers to an order."""
        return self._ask("POST", path, json.dumps(body).encode())

    def delete(self, *words: str) -> None:
        """Have something ended or deleted."""
        self._ask("DELETE", "".join(f"/{quote(word, safe='')}" for word in words))

    def items(self, path: str) -> Iterator[Any]:
        """A list, page by page."""
        query = {"limit": str(_PAGE_ITEMS)}
        while True:
            page = self.get(f"{path}?{urlencode(query)}")
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            query["cursor"] = page["next_cursor"]

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(f"{self._url}{_PREFIX}{path}", body, method=method)  # noqa: S310 - checked above
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                body = answer.read(_MAX_ANSWER_BYTES)
            return json.loads(body) if body else None
        except urllib.error.HTTPError as error:
            raise ApiFailure(_refusal(error), error.code) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ApiFailure(f"no answer from {self._url}: {reason}") from None


def _refusal(error: urllib.error.HTTPError) -> str:
    try:
        detail = json.loads(error.read(_MAX_ANSWER_BYTES))["detail"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        detail = error.reason
    hint = f" (a token is taken from {TOKEN_VARIABLE})" if error.code in (401, 403) else ""
    return f"the server answers {error.code}: {detail}{hint}"
