"""What a webhook is told, as plain values."""

import hashlib
from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.web.hooks.matching import Wanted
from penstock.web.hooks.signatures import Secret


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """One receiver."""

    key: str
    """What it is known by on disk, over restarts and changes of everything but its URL."""
    name: str
    """What people see: the URL without what may be secret in it."""
    url: str
    wanted: Wanted
    secret: Secret | None
    timeout_s: float


def key_of(url: str, nth: int) -> str:
    """Of the nth hook with this URL, from 0. Tells nothing of the URL."""
    return hashlib.sha256(f"{nth}\n{url}".encode()).hexdigest()[:16]


def name_of(url: str) -> str:
    """Scheme, host and port: paths and queries of webhooks are often secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
