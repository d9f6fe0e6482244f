"""Standard Webhooks: what a receiver checks a message by.

Owns the three headers. A message is signed anew for each attempt, since receivers refuse timestamps that are more than
some minutes old.
"""

import base64
import hashlib
import hmac


class Secret:
    """The key of one hook. Not to be printed."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def headers(self, message_id: str, at: float, body: bytes) -> dict[str, str]:
        """Those of an attempt at this time, in seconds since 1970."""
        timestamp = str(int(at))
        signed = b".".join((message_id.encode(), timestamp.encode(), body))
        signature = base64.b64encode(hmac.digest(self._key, signed, hashlib.sha256)).decode()
        return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}
