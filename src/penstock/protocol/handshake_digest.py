"""The digest form of the handshake: finding, writing and answering digests, as Flash Player 9 and later do it.

Owns the HMAC-SHA256 arithmetic on the 1536-byte packets. Keeps no state; refuses Diffie-Hellman and RTMPE, so the
key block of a packet stays nonce.

RTMP 1.0 does not describe this form; FFmpeg, librtmp, nginx-rtmp and SRS agree on it. After time and version, C1 and
S1 consist of two blocks of 764 bytes, one of which hides a digest of all the rest of the packet. A digest block starts
with four bytes whose sum gives the digest's distance from the fourth. C2 and S2 end with a digest that proves that the
peer's digest was found.
"""

import enum
import hashlib
import hmac
from dataclasses import dataclass

PACKET_BYTES = 1536
DIGEST_BYTES = hashlib.sha256().digest_size
PROOF_NONCE_BYTES = PACKET_BYTES - DIGEST_BYTES

CLIENT_KEY = b"Genuine Adobe Flash Player 001"
SERVER_KEY = b"Genuine Adobe Flash Media Server 001"

# Follows either key wherever the peer's digest is proven; C1 and S1 are signed with the readable part alone.
_PROOF_KEY_TAIL = bytes.fromhex("f0eec24a8068bee82e00d0d1029e7e576eec5d2d29806fab93b8e636cfeb31ae")

_BLOCK_BYTES = 764
_OFFSET_BYTES = 4
_DIGEST_PLACES = _BLOCK_BYTES - _OFFSET_BYTES - DIGEST_BYTES


class DigestSchema(enum.Enum):
    """Which of the two blocks holds the digest; the value is where that block starts in the packet."""

    KEY_THEN_DIGEST = 772
    DIGEST_THEN_KEY = 8


@dataclass(frozen=True, slots=True)
class FoundDigest:
    """A digest that verified, and the schema that it was found by."""

    schema: DigestSchema
    digest: bytes


def find_digest(packet: bytes, key: bytes) -> FoundDigest | None:
    """The digest that the holder of `key` wrote into its C1 or S1; None if neither schema verifies."""
    for schema in DigestSchema:
        start = _digest_start(packet, schema)
        digest = packet[start : start + DIGEST_BYTES]
        if hmac.compare_digest(digest, _digest_around(packet, start, key)):
            return FoundDigest(schema, digest)
    return None


def write_digest(packet: bytes, key: bytes, schema: DigestSchema) -> bytes:
    """The C1 or S1 `packet` with its digest put over the nonce bytes in its place."""
    start = _digest_start(packet, schema)
    return packet[:start] + _digest_around(packet, start, key) + packet[start + DIGEST_BYTES :]


def write_proof(nonce: bytes, key: bytes, peer_digest: bytes) -> bytes:
    """The C2 or S2 by which the holder of `key` shows that it found `peer_digest`."""
    filler = nonce[:PROOF_NONCE_BYTES]
    return filler + _hmac_sha256(_hmac_sha256(key + _PROOF_KEY_TAIL, peer_digest), filler)


def _digest_start(packet: bytes, schema: DigestSchema) -> int:
    block = schema.value
    return block + _OFFSET_BYTES + sum(packet[block : block + _OFFSET_BYTES]) % _DIGEST_PLACES


def _digest_around(packet: bytes, start: int, key: bytes) -> bytes:
    return _hmac_sha256(key, packet[:start] + packet[start + DIGEST_BYTES :])


def _hmac_sha256(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
