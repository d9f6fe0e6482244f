"""Boxes of ISO base media files (ISO 14496-12, section 4.2), written.

Owns the size in front of every box and the two kinds of head. What is in a box is for the modules that know it.
"""

from typing import Final

BOX_HEADER_BYTES: Final = 8


def box(kind: bytes, *parts: bytes) -> bytes:
    """A box of these parts."""
    body = b"".join(parts)
    return (BOX_HEADER_BYTES + len(body)).to_bytes(4, "big") + kind + body


def full_box(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    """A box with a version and flags."""
    return box(kind, (version << 24 | flags).to_bytes(4, "big"), *parts)
