"""The challenge of Adobe's servers, by which OBS and FFmpeg prove a user and a password at connect.

Owns its texts and its arithmetic. A client connects three times: it is told that it needs to, then gets salt and
challenge, then answers; each time is a connection of its own for FFmpeg, and may be in another worker. So nothing is
kept between them: the challenge is the time, sealed with the key's own verifier and the peer's address, and counts for
a minute. Clients take values out of the texts by cutting at `&`, and decode nothing: neither is anything encoded here.
"""

import base64
import hashlib
import hmac
from typing import Final

from penstock.access.keys import SALT_BYTES, AdobeVerifier, KeyLine, make_salt
from penstock.errors import MisuseError

NEED_AUTH: Final = "[ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : "
FAILED: Final = "[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=authfailed"

_MAX_AGE_S: Final = 60
_MAX_RESPONSE_CHARACTERS: Final = 64
_PROOF_CHARACTERS: Final = 32


def fields_of(query: str) -> dict[str, str]:
    """The parameters of an app's query as these clients write them: base64 as it is, `+` and `=` with it."""
    pairs = (each.partition("=") for each in query.split("&"))
    return {name: value for name, _, value in pairs}


def challenge_text(line: KeyLine, peer_ip: str | None, now: float) -> str:
    """Salt and challenge for a key that has a verifier."""
    verifier = _verifier_of(line)
    opaque = _opaque(verifier.verifier, line.name, peer_ip, int(now))
    return _challenge(line.name, verifier.salt, opaque)


def decoy_text(user: str, seed: bytes, peer_ip: str | None, now: float) -> str:
    """The same for a user that nobody knows, so that names of keys cannot be told from others."""
    secret = hmac.digest(seed, user.encode("utf-8", "surrogateescape"), hashlib.sha256)
    return _challenge(user, make_salt(secret[:SALT_BYTES]), _opaque(secret.hex(), user, peer_ip, int(now)))


def is_answered(line: KeyLine, fields: dict[str, str], peer_ip: str | None, now: float) -> bool:
    """Whether a client that was sent `challenge_text` knows the key."""
    verifier = _verifier_of(line).verifier
    opaque, challenge, response = fields.get("opaque", ""), fields.get("challenge", ""), fields.get("response", "")
    if max(map(len, (opaque, challenge, response))) > _MAX_RESPONSE_CHARACTERS:
        return False
    text, _, _ = opaque.partition(".")
    issued_at = int(text, 16) if text and all(each in "0123456789abcdef" for each in text) else 0
    is_ours = _is_same(_opaque(verifier, line.name, peer_ip, issued_at), opaque)
    is_right = _is_same(response_to(verifier, opaque, challenge), response)
    return is_ours and is_right and 0 <= now - issued_at < _MAX_AGE_S


def response_to(verifier: str, opaque: str, challenge: str) -> str:
    """What a client answers; `challenge` is its own."""
    text = (verifier + opaque + challenge).encode("utf-8", "surrogateescape")
    return base64.b64encode(hashlib.md5(text, usedforsecurity=False).digest()).decode()


def proof_of(line: KeyLine) -> str:
    """What a connection keeps: the key's name and which verifier it was, since a name may get another key."""
    digest = hashlib.sha256(_verifier_of(line).verifier.encode()).hexdigest()
    return f"{line.name}#{digest[:_PROOF_CHARACTERS]}"


def name_of_proof(proof: str) -> str:
    return proof.partition("#")[0]


def _challenge(user: str, salt: str, opaque: str) -> str:
    return (
        "[ AccessManager.Reject ] : [ authmod=adobe ] : "
        f"?reason=needauth&user={user}&salt={salt}&challenge={opaque}&opaque={opaque}"
    )


def _opaque(secret: str, user: str, peer_ip: str | None, issued_at: int) -> str:
    text = f"penstock-adobe\n{user}\n{peer_ip or ''}\n{issued_at}".encode("utf-8", "surrogateescape")
    return f"{issued_at:x}.{hmac.digest(secret.encode(), text, hashlib.sha256)[:16].hex()}"


def _is_same(ours: str, sent: str) -> bool:
    return hmac.compare_digest(ours.encode(), sent.encode("utf-8", "surrogateescape"))


def _verifier_of(line: KeyLine) -> AdobeVerifier:
    if line.adobe is None:
        raise MisuseError(f"key {line.name} has no verifier for Adobe's challenge")
    return line.adobe
