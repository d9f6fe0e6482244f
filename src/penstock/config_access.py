"""The settings of access, the API and hooks: their keys, defaults and bounds, and how their values are spelled.

Owns what may be written where a secret is needed: a reference, `file:PATH` or `env:NAME`, which is followed by
`config_secrets` in the process that needs it. No sentence of this module repeats a value that may hold a secret.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from penstock.access.keys import NAME, NAME_ALLOWED, read_key_line, read_role_line
from penstock.access.rules import RuleText, read_rule_text
from penstock.config_units import NONE_WORD, read_patterns, read_seconds

FILE_PREFIX: Final = "file:"
VARIABLE_PREFIX: Final = "env:"
JWKS_PREFIX: Final = "jwks:"
WHSEC: Final = "whsec_"

_REFERENCE: Final = re.compile(r"file:.{1,4096}|env:[A-Za-z_][A-Za-z0-9_]{0,255}")
_REFERENCE_ALLOWED: Final = 'should be "file:PATH" or "env:NAME", not the secret itself'
_HOST: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63}){0,32}", re.ASCII)
_EVENT: Final = re.compile(r"[a-z_*]{1,64}", re.ASCII)
_MIN_HOOK_SECRET_BYTES: Final = 16
MAX_HOOKS: Final = 32
_ADOBE_LINE: Final = re.compile(r"(.*:sha256:[0-9a-f]{64}:adobe:[^:]*:).*", re.ASCII)
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#|]*@)?([^\s?#|]*)(\?[^\s|]*)?", re.ASCII)
"""Wherever it is in a text, of any scheme: programs are given addresses of streams, some of them several at once."""
_SECRET_NAME: Final = re.compile(r"secret|password|passwd|token|credential|key", re.ASCII | re.IGNORECASE)


def read_reference(value: object) -> str:
    """Where a secret is."""
    if isinstance(value, str) and value.isprintable() and _REFERENCE.fullmatch(value):
        return value
    raise ValueError(_REFERENCE_ALLOWED)


def read_references(value: object) -> tuple[str, ...]:
    return tuple(map(read_reference, _list_of(value, _REFERENCE_ALLOWED)))


def read_http_url(value: object) -> str:
    allowed = "should be an address such as http://127.0.0.1:9000/auth"
    if not isinstance(value, str) or not value.isprintable() or " " in value:
        raise ValueError(allowed)
    try:
        parts = urlsplit(value)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or parts.fragment:
        raise ValueError(allowed)
    return value


def read_jwt(value: object) -> str:
    """A reference to a secret or a PEM, or where a set of public keys is."""
    if not isinstance(value, str) or not value.startswith(JWKS_PREFIX):
        return read_reference(value)
    where = value.removeprefix(JWKS_PREFIX)
    if not where or not where.isprintable():
        raise ValueError('should be "jwks:URL" or "jwks:FILE"')
    if "://" in where and urlsplit(read_http_url(where)).scheme != "https" and not _is_loopback(where):
        # Whoever can change the answer on its way can sign tokens.
        raise ValueError("should have keys fetched by https, or from this machine")
    return value


def read_key_lines(value: object) -> tuple[str, ...]:
    lines = _list_of(value, 'should be a list of lines, such as ["studio:sha256:HEX"]')
    for line in lines:
        read_key_line(line)
    return lines


def read_role_lines(value: object) -> tuple[str, ...]:
    lines = _list_of(value, 'should be a list of lines, such as ["boss:admin:sha256:HEX"]')
    for line in lines:
        read_role_line(line)
    return lines


def read_aliases(value: object) -> dict[str, str]:
    """From names of keys to streams."""
    if not isinstance(value, Mapping):
        raise ValueError("should be a table of names of keys and streams")  # noqa: TRY004 - pydantic wants ValueError
    for name, stream in value.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"names of keys {NAME_ALLOWED}")
        is_name = isinstance(stream, str) and 0 < len(stream) <= 255 and stream.isprintable() and "?" not in stream
        if not is_name or stream != stream.strip("/ "):
            raise ValueError("should be names of streams, without a query")
    return dict(value)


def read_origins(value: object) -> tuple[str, ...]:
    """Origins as browsers write them."""
    allowed = 'should be origins as browsers send them, such as ["https://studio.example"]'
    origins = _list_of(value, allowed)
    for origin in origins:
        try:
            parts = urlsplit(origin)
            is_origin = parts.scheme in ("http", "https") and origin == f"{parts.scheme}://{parts.netloc}"
            is_origin = is_origin and bool(parts.hostname) and "@" not in origin and origin == origin.lower()
        except ValueError:
            is_origin = False
        if not is_origin:
            raise ValueError(allowed)
    return origins


def read_hosts(value: object) -> tuple[str, ...]:
    """Names without ports."""
    allowed = 'should be names that the server goes by, such as ["live.example.org"]'
    hosts = _list_of(value, allowed)
    if not all(map(_HOST.fullmatch, hosts)):
        raise ValueError(allowed)
    return hosts


def read_events(value: object) -> tuple[str, ...]:
    allowed = 'should be kinds of events, such as ["publish_*", "incident_started"]'
    events = _list_of(value, allowed)
    if not all(map(_EVENT.fullmatch, events)):
        raise ValueError(allowed)
    return events


def read_hook_secret(value: object) -> str:
    """The secret of a webhook, or where it is."""
    allowed = f'should be "file:PATH", "env:NAME" or {WHSEC}BASE64 of at least {_MIN_HOOK_SECRET_BYTES} bytes'
    if not isinstance(value, str):
        raise ValueError(allowed)  # noqa: TRY004 - pydantic wants ValueError
    if value.startswith(WHSEC):
        if hook_secret_bytes(value) is None:
            raise ValueError(allowed)
        return value
    try:
        return read_reference(value)
    except ValueError:
        raise ValueError(allowed) from None


def hook_secret_bytes(text: str) -> bytes | None:
    """What `whsec_BASE64` stands for; None: it is no such secret."""
    try:
        secret = base64.b64decode(text.removeprefix(WHSEC), validate=True)
    except (binascii.Error, ValueError):
        return None
    return secret if text.startswith(WHSEC) and len(secret) >= _MIN_HOOK_SECRET_BYTES else None


def read_words(value: object) -> tuple[str, ...]:
    """A program and its arguments."""
    if not isinstance(value, list | tuple) or not value or not all(isinstance(each, str) for each in value):
        raise ValueError('should be a program and its arguments, such as ["ffmpeg", "-i", "{app}/{stream}"]')
    if not value[0] or any("\0" in each for each in value):
        raise ValueError("should begin with a program, and have no character of code 0")
    return tuple(value)


def _list_of(value: object, allowed: str) -> tuple[str, ...]:
    """A list, or one text with commas, as a variable has it."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if parts == [NONE_WORD]:
        return ()
    if not isinstance(parts, list | tuple) or not all(isinstance(each, str) and each for each in parts):
        raise ValueError(allowed)
    return tuple(parts)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _or_none(read: Any) -> PlainValidator:
    return PlainValidator(lambda value: None if value is None or value == NONE_WORD else read(value))


def _seconds(low: float, high: float) -> PlainValidator:
    return PlainValidator(lambda value: read_seconds(value, low=low, high=high))


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Auth(_Section):
    """What rules verify credentials by."""

    signing: Annotated[tuple[str, ...], PlainValidator(read_references)] = ()
    """Secrets of signed links: the first signs, all verify."""
    jwt: Annotated[str | None, _or_none(read_jwt)] = None
    jwt_audience: Annotated[str, Field(min_length=1, max_length=255)] = "penstock"
    callback: Annotated[str | None, _or_none(read_http_url)] = None
    callback_timeout_s: Annotated[float, _seconds(0.1, 4)] = 2.0
    """Below the five seconds for which a worker waits for web."""
    callback_fails: Literal["deny", "allow"] = "deny"
    """What becomes of somebody when the callback gives no answer that can be used."""
    callback_style: Literal["json", "nginx"] = "json"


class AccessConfig(_Section):
    """Who may what in one app. What no rule is given for is denied."""

    publish: Annotated[RuleText, PlainValidator(read_rule_text)] = ()
    play: Annotated[RuleText, PlainValidator(read_rule_text)] = ()
    keys: Annotated[tuple[str, ...], PlainValidator(read_key_lines)] = ()
    aliases: Annotated[Mapping[str, str], PlainValidator(read_aliases)] = Field(default_factory=dict)


class Api(_Section):
    """Who may use the API."""

    keys: Annotated[tuple[str, ...], PlainValidator(read_role_lines)] = ()
    loopback_reads: bool = True
    """Whether this machine may read without a token."""


class HookConfig(_Section):
    """Who is told what happens: an address, or a program."""

    url: Annotated[str | None, _or_none(read_http_url)] = None
    exec: Annotated[tuple[str, ...] | None, _or_none(read_words)] = None
    while_: Annotated[Literal["publishing"] | None, Field(alias="while")] = None
    """`publishing`: the program runs for as long as a stream is published."""
    events: Annotated[tuple[str, ...], PlainValidator(read_events)] = ()
    """Patterns of kinds; none given: all but samples."""
    streams: Annotated[tuple[str, ...], PlainValidator(read_patterns)] = ("*/*",)
    secret: Annotated[str | None, _or_none(read_hook_secret)] = None
    timeout_s: Annotated[float, _seconds(0.1, 3600)] = 10.0

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.url is None) == (self.exec is None):
            raise ValueError("needs either url or exec")
        if self.exec is None and self.while_ is not None:
            raise ValueError("has while, which is for exec")
        if self.url is None and self.secret is not None:
            raise ValueError("has secret, which is for url")
        if self.while_ is not None and self.events:
            raise ValueError("has events beside while")
        return self


def may_hold_secret(key: tuple[str, ...]) -> bool:
    """Whether what is written under a key is not to be repeated, however wrong it is."""
    match key:
        # A section that is no table may be a secret itself; names of keys may be keys that were pasted.
        case ("auth" | "api" | "access",) | ("access", _) | ("hooks" | "push" | "pull", *_):
            return True
        case ("auth", "signing" | "jwt" | "callback") | ("access", _, "keys" | "aliases") | ("api", "keys"):
            return True
    return False


def shown(text: str) -> str:
    """A value as it may be shown to whoever may see the configuration: without what only the server is to know."""
    if text.startswith(WHSEC):
        return f"{WHSEC}…"
    before, equals, _ = text.partition("=")
    if equals and before.startswith("spark.") and _SECRET_NAME.search(before):
        return f"{before}=…"
    # Whoever has the verifier of Adobe's challenge can answer it.
    if line := _ADOBE_LINE.fullmatch(text):
        return f"{line[1]}…"
    return _URL.sub(lambda url: f"{url[1]}{'…@' if url[2] else ''}{url[3]}{'?…' if url[4] else ''}", text)
