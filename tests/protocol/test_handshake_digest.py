"""Digests against HMAC-SHA256 written out by hand, literal places, and packets of other programs."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.handshake_digest import (
    CLIENT_KEY,
    SERVER_KEY,
    DigestSchema,
    find_digest,
    write_digest,
    write_proof,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "handshake"

KEY_TAIL = bytes.fromhex("F0EEC24A8068BEE82E00D0D1029E7E57 6EEC5D2D29806FAB93B8E636CFEB31AE")

# Offset bytes with the place of the digest in a packet that starts its digest block at 8, and at 772.
PLACES = [
    ("00000000", 12, 776),
    ("01020304", 22, 786),
    ("ffffffd9", 266, 1030),
    ("ffffffff", 304, 1068),
    ("ffff00d9", 739, 1503),
    ("ffff00da", 12, 776),
]


def hmac_by_hand(key: bytes, message: bytes) -> bytes:
    if len(key) > 64:
        key = hashlib.sha256(key).digest()
    key = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + message).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).digest()


def packet_with(offset_bytes: str, block_start: int) -> bytes:
    filler = bytes(i % 251 for i in range(1536))
    return filler[:block_start] + bytes.fromhex(offset_bytes) + filler[block_start + 4 :]


def test_keys_are_the_public_ones() -> None:
    assert CLIENT_KEY == b"Genuine Adobe Flash Player 001"
    assert SERVER_KEY == b"Genuine Adobe Flash Media Server 001"


@pytest.mark.parametrize(("offset_bytes", "place"), [(offset, first) for offset, first, _ in PLACES])
def test_digest_is_written_into_the_first_block(offset_bytes: str, place: int) -> None:
    packet = packet_with(offset_bytes, 8)
    signed = write_digest(packet, b"Genuine Adobe Flash Player 001", DigestSchema.DIGEST_THEN_KEY)
    digest = hmac_by_hand(b"Genuine Adobe Flash Player 001", packet[:place] + packet[place + 32 :])
    assert signed == packet[:place] + digest + packet[place + 32 :]


@pytest.mark.parametrize(("offset_bytes", "place"), [(offset, second) for offset, _, second in PLACES])
def test_digest_is_written_into_the_second_block(offset_bytes: str, place: int) -> None:
    packet = packet_with(offset_bytes, 772)
    signed = write_digest(packet, b"Genuine Adobe Flash Media Server 001", DigestSchema.KEY_THEN_DIGEST)
    digest = hmac_by_hand(b"Genuine Adobe Flash Media Server 001", packet[:place] + packet[place + 32 :])
    assert signed == packet[:place] + digest + packet[place + 32 :]


def test_proof_ends_with_a_digest_under_a_key_made_of_the_peers_digest() -> None:
    nonce = bytes(i % 249 for i in range(1528))
    peer_digest = bytes(range(32))
    proof = write_proof(nonce, SERVER_KEY, peer_digest)
    proof_key = hmac_by_hand(b"Genuine Adobe Flash Media Server 001" + KEY_TAIL, peer_digest)
    assert proof == nonce[:1504] + hmac_by_hand(proof_key, nonce[:1504])


@pytest.mark.parametrize(
    ("name", "key", "schema", "place"),
    [
        ("ffmpeg_digest", CLIENT_KEY, DigestSchema.DIGEST_THEN_KEY, 494),
        ("librtmp_rtmpe_c0c1", CLIENT_KEY, DigestSchema.KEY_THEN_DIGEST, 1383),
    ],
)
def test_digest_is_found_where_nginx_found_it(name: str, key: bytes, schema: DigestSchema, place: int) -> None:
    packet = (GOLDEN / f"{name}.bin").read_bytes()[1:1537]
    found = find_digest(packet, key)
    assert found is not None
    assert found.schema is schema
    assert found.digest == packet[place : place + 32]


@pytest.mark.parametrize("name", ["librtmp_digest", "nginx_push_digest"])
def test_digest_of_other_clients_is_found(name: str) -> None:
    found = find_digest((GOLDEN / f"{name}.bin").read_bytes()[1:1537], CLIENT_KEY)
    assert found is not None
    assert found.schema is DigestSchema.DIGEST_THEN_KEY


def test_server_digest_is_found_with_the_server_key_alone() -> None:
    s1 = (GOLDEN / "nginx_s0s1s2_digest.bin").read_bytes()[1:1537]
    assert find_digest(s1, SERVER_KEY) is not None
    assert find_digest(s1, CLIENT_KEY) is None


def test_nginx_proof_is_the_one_we_write_for_the_same_nonce() -> None:
    c1 = (GOLDEN / "ffmpeg_digest.bin").read_bytes()[1:1537]
    s2 = (GOLDEN / "nginx_s0s1s2_digest.bin").read_bytes()[1537:]
    assert write_proof(s2[:1504], SERVER_KEY, c1[494:526]) == s2


def test_no_digest_is_found_in_a_simple_packet() -> None:
    assert find_digest((GOLDEN / "librtmp_simple.bin").read_bytes()[1:1537], CLIENT_KEY) is None


@settings(max_examples=60)
@given(
    filler=st.binary(min_size=16, max_size=64),
    schema=st.sampled_from(DigestSchema),
    flipped=st.integers(0, 1535),
)
def test_a_written_digest_is_found_until_any_byte_changes(filler: bytes, schema: DigestSchema, flipped: int) -> None:
    signed = write_digest((filler * 96)[:1536], CLIENT_KEY, schema)
    found = find_digest(signed, CLIENT_KEY)
    assert found is not None
    assert found.schema is schema
    damaged = bytearray(signed)
    damaged[flipped] ^= 1
    assert find_digest(bytes(damaged), CLIENT_KEY) is None
