"""Standard Webhooks: what a receiver checks a message by.

Owns secrets and the three headers. A message is signed anew for each attempt, since receivers refuse timestamps that
are more than some minutes old.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

_PREFIX: Final = "whsec_"
_FEWEST_BYTES: Final = 16
_MOST_BYTES: Final = 64
"""Standard Webhooks asks for 24 to 64; some platforms give out 16."""


class Secret:
    """The key of one hook. Not to be printed."""

    __slots__ = ("_key",)

    def __init__(self, text: str) -> None:
        """Of `whsec_` and base64. Anything else raises ValueError, whose message does not show it."""
        encoded = text.strip()
        try:
            key = base64.b64decode(encoded.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not (encoded.startswith(_PREFIX) and _FEWEST_BYTES <= len(key) <= _MOST_BYTES):
            raise ValueError(f"should be {_PREFIX} and base64 of {_FEWEST_BYTES} to {_MOST_BYTES} bytes")
        self._key = key

    def headers(self, message_id: str, at: float, body: bytes) -> dict[str, str]:
        """Those of an attempt at this time, in seconds since 1970."""
        timestamp = str(int(at))
        signed = b".".join((message_id.encode(), timestamp.encode(), body))
        signature = base64.b64encode(hmac.digest(self._key, signed, hashlib.sha256)).decode()
        return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}
