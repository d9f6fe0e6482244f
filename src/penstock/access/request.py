"""What is asked and what is decided, as values, and the credentials that a request brings.

Owns where credentials are looked for: the query of the stream, then that of the app, then HTTP's `Authorization`. None
of these values is ever written to a log: requests hold secrets.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl

Action = Literal["publish", "play"]
WebCondition = Literal["jwt", "callback"]

CREDENTIAL_PARAMETERS = frozenset(("key", "token", "sig"))


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Somebody wants to publish or play. What may be a secret is not in its repr."""

    action: Action
    app: str
    stream: str = field(repr=False)
    protocol: str
    peer_ip: str | None
    """None: nobody knows it, and no network has it."""
    app_query: str = field(default="", repr=False)
    stream_query: str = field(default="", repr=False)
    user_proved: str | None = field(default=None, repr=False)
    """The proof that `Policy.connect` gave for this connection."""
    bearer: str | None = field(default=None, repr=False)
    basic: tuple[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request brings to prove who it is; absence is None."""

    key: str | None = field(repr=False)
    token: str | None = field(repr=False)
    signed: "SignedPart | None" = field(repr=False)

    @property
    def is_any(self) -> bool:
        return self.key is not None or self.token is not None or self.signed is not None


@dataclass(frozen=True, slots=True)
class SignedPart:
    """`exp`, `ip` and `sig` of one query, as they were written."""

    exp: str
    ip: str
    sig: str = field(repr=False)


def credentials_of(request: AccessRequest) -> Credentials:
    """Of the stream's query first, then of the app's, then of the header."""
    own, of_app = parameters_of(request.stream_query), parameters_of(request.app_query)
    key = own.get("key", of_app.get("key"))
    token = own.get("token", of_app.get("token"))
    signed = own if "sig" in own else of_app
    part = SignedPart(signed.get("exp", ""), signed.get("ip", ""), signed["sig"]) if "sig" in signed else None
    # A bearer may hold either: a key has no dots, and a token three parts.
    if request.bearer is not None and key is None and "." not in request.bearer:
        key = request.bearer
    return Credentials(key, request.bearer if token is None else token, part)


def parameters_of(query: str) -> dict[str, str]:
    """The parameters of a query, the first of a name where there are several."""
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    return dict(reversed(pairs))


@dataclass(frozen=True, slots=True)
class Allowed:
    """It may."""

    rule: str
    subject: str | None
    stream: str
    """The name under which it goes on: the one that was asked for, or that of an alias or of the callback's answer."""
    expires_at: float | None
    """In seconds since 1970; None: it does not expire."""
    is_by_web: bool = False
    """Whether the web process was asked."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It may not. The reason holds nothing that the peer said."""

    reason: str
    has_credentials: bool
    """Whether there were any, all of them wrong or not enough. HTTP answers 403 then, else 401."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a verified token or a callback's answer gives."""

    subject: str | None = None
    expires_at: float | None = None
    stream: str | None = None
    """Another name to go on under."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An alternative of which only this is not known yet."""

    rule: str
    asks: tuple[WebCondition, ...]
    stream: str = field(repr=False)
    """The name that an alias made of it, or the one asked for."""
    so_far: Grant

    def granted(self, *grants: Grant) -> Allowed:
        """The decision once everything that it asks has been granted."""
        all_grants = (self.so_far, *grants)
        subject = next((each.subject for each in all_grants if each.subject is not None), None)
        stream = next((each.stream for each in grants if each.stream is not None), self.stream)
        return Allowed(self.rule, subject, stream, earliest(all_grants), is_by_web=True)


@dataclass(frozen=True, slots=True)
class Undecided:
    """Only what the web process can verify could let it in: any one of these."""

    alternatives: tuple[Pending, ...]
    token: str | None = field(repr=False)
    refused: Refused
    """What it is if none of them does."""


Decision = Allowed | Refused | Undecided


def earliest(grants: Iterable[Grant]) -> float | None:
    """When the first of them ends."""
    return min((each.expires_at for each in grants if each.expires_at is not None), default=None)
