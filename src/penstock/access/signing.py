"""Signed links: `?exp=&ip=&sig=` behind a URL lets somebody in until then, for one action and one stream.

Owns the signature (unpadded base64url HMAC-SHA256) and what it covers. A server signs links of its own by a secret that
no configuration has; those may be for a recording too. Pure: secrets and the time are given.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Final, Literal
from urllib.parse import quote, unquote

from penstock.access.request import Action, SignedPart
from penstock.access.rules import PeerIp, ip_of

# Seconds since 1970 far beyond anybody's life; more digits would be no time.
_EXP: Final = re.compile(r"\d{1,12}", re.ASCII)
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})", re.ASCII)
_NEEDS_NO_ESCAPE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
"""RFC 3986, section 2.3, and the slash between app and stream."""
_OWN_PARAMETERS: Final = frozenset(("exp", "ip", "sig"))


Signed = Action | Literal["recording"]
"""What a link is for."""


def signature(secret: bytes, action: Signed, path: str, exp: str, ip: str) -> str:
    """`path` is app/stream, decoded, or the id of a recording."""
    text = f"penstock1\n{action}\n{path}\n{exp}\n{ip}".encode("utf-8", "surrogateescape")
    return base64.urlsafe_b64encode(hmac.digest(secret, text, hashlib.sha256)).decode().rstrip("=")


def expiry_of_signed(
    part: SignedPart, secrets: Sequence[bytes], *, action: Signed, path: str, peer: PeerIp | None, now: float
) -> float | None:
    """When what this lets in ends; None: it does not let in."""
    sent = part.sig.encode("utf-8", "surrogateescape")
    is_signed = False
    for secret in secrets:
        for name in _names_of(path):
            is_signed |= hmac.compare_digest(signature(secret, action, name, part.exp, part.ip).encode(), sent)
    is_for_peer = part.ip == "" or (peer is not None and ip_of(part.ip) == peer)
    if not is_signed or not is_for_peer or not _EXP.fullmatch(part.exp):
        return None
    expires_at = float(part.exp)
    return expires_at if now < expires_at else None


def _names_of(path: str) -> set[str]:
    """What a path may have been signed as.

    RTMP clients send names as the URL has them, encoded or not; HTTP has them decoded. A name that is encoded without
    need is another name, or one link would be for as many streams as there are spellings.
    """
    if any(int(each, 16) in _NEEDS_NO_ESCAPE for each in _ESCAPE.findall(path)):
        return {path}
    return {path, unquote(path, errors="surrogateescape")}


def signed_query(secret: bytes, action: Signed, path: str, expires_at: int, ip: str = "") -> str:
    """What goes behind the `?` of an address."""
    shown_ip = [f"ip={quote(ip, safe='')}"] if ip else []
    return "&".join([f"exp={expires_at}", *shown_ip, f"sig={signature(secret, action, path, str(expires_at), ip)}"])


def sign_url(url: str, secret: bytes, action: Action, expires_at: int, ip: str = "") -> str:
    """The same URL with a signature in its query, in the place of one that was there.

    Which part of the path is the app does not matter: the signature covers both with a slash between. Raises ValueError
    for what has no app and stream.
    """
    before, mark, query = url.partition("?")
    scheme, separator, rest = before.partition("://")
    host, _, path = rest.partition("/")
    app, slash, stream = path.strip("/").rpartition("/")
    if not separator or scheme.lower() not in ("rtmp", "rtmps") or not host or not slash or not app or not stream:
        raise ValueError("should be rtmp://HOST/APP/STREAM or rtmps://HOST/APP/STREAM")
    name = unquote(f"{app}/{stream}", errors="surrogateescape")
    if name not in _names_of(f"{app}/{stream}"):
        raise ValueError("should encode no letters, digits or slashes")
    kept = [each for each in query.split("&") if mark and each and each.partition("=")[0] not in _OWN_PARAMETERS]
    return f"{before}?{'&'.join([*kept, signed_query(secret, action, name, expires_at, ip)])}"
