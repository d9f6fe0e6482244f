"""Both roles of the handshake against literal bytes and packets of other programs, however TCP cuts them."""

import hmac
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MisuseError, ProtocolViolation
from penstock.protocol.handshake import ClientHandshake, HandshakeState, ServerHandshake

GOLDEN = Path(__file__).parent.parent / "golden" / "handshake"

# The C2 in the golden files answer an S1 made of these.
NONCE = bytes(i % 251 for i in range(1528))
TIME_MS = 0x01020304

PEER_NONCE = bytes(i % 241 for i in range(1528))
SIMPLE_C1 = b"\x00\x00\x10\x01" + b"\x00\x00\x00\x00" + PEER_NONCE
SIMPLE_S1 = b"\x00\x00\x20\x02" + b"\x00\x00\x00\x00" + PEER_NONCE
SIMPLE_S2 = b"\x01\x02\x03\x04" + b"\x00\x00\x00\x00" + NONCE
ANY_PACKET = bytes(range(256)) * 6
CHUNKS = b"\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\x10\x00"

PLAYER_KEY = b"Genuine Adobe Flash Player 001"
MEDIA_SERVER_KEY = b"Genuine Adobe Flash Media Server 001"
KEY_TAIL = bytes.fromhex("F0EEC24A8068BEE82E00D0D1029E7E576EEC5D2D29806FAB93B8E636CFEB31AE")

Cut = Callable[[bytes], Iterable[bytes]]


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, "sha256").digest()


def signed_at(place: int, key: bytes, packet: bytes) -> bytes:
    before, after = packet[:place], packet[place + 32 :]
    return before + hmac_sha256(key, before + after) + after


def in_sizes(data: bytes, sizes: Iterable[int]) -> Iterable[bytes]:
    start = 0
    for size in sizes:
        yield data[start : start + size]
        start += size
    yield data[start:]


def at_random(data: bytes) -> Iterable[bytes]:
    chance = random.Random(len(data))
    return in_sizes(data, [chance.randrange(700) for _ in range(6)])


@pytest.fixture(params=["whole", "1", "7", "128", "random"])
def cut(request: pytest.FixtureRequest) -> Cut:
    if request.param == "whole":
        return lambda data: [data]
    if request.param == "random":
        return at_random
    size = int(request.param)
    return lambda data: (data[start : start + size] for start in range(0, len(data), size))


def new_server() -> ServerHandshake:
    return ServerHandshake(nonce=NONCE, time_ms=TIME_MS)


def new_client(*, digest: bool = False) -> ClientHandshake:
    return ClientHandshake(nonce=NONCE, time_ms=TIME_MS, digest=digest)


def feed(handshake: ServerHandshake | ClientHandshake, pieces: Iterable[bytes]) -> tuple[bytes, bytes]:
    """All that is sent in answer, and all that is left for the chunk reader."""
    sent, trailing = b"", b""
    for piece in pieces:
        if handshake.is_done:
            trailing += piece
            continue
        handshake.receive_data(piece)
        sent += handshake.data_to_send()
        if handshake.is_done:
            trailing += handshake.trailing_data()
    return sent, trailing


def test_server_answers_a_simple_c1_with_its_s1_and_an_exact_echo(cut: Cut) -> None:
    server = new_server()
    sent, trailing = feed(server, cut(b"\x03" + SIMPLE_C1 + ANY_PACKET + CHUNKS))
    assert sent == b"\x03" + b"\x01\x02\x03\x04\x00\x00\x00\x00" + NONCE + SIMPLE_C1
    assert trailing == CHUNKS
    assert server.is_done
    assert not server.used_digest
    assert server.peer_version == "0.0.0.0"


def test_client_opens_at_once_and_answers_a_simple_s1_with_an_exact_echo(cut: Cut) -> None:
    client = new_client()
    assert client.data_to_send() == b"\x03" + b"\x01\x02\x03\x04\x00\x00\x00\x00" + NONCE
    sent, trailing = feed(client, cut(b"\x03" + SIMPLE_S1 + SIMPLE_S2 + CHUNKS))
    assert sent == SIMPLE_S1
    assert trailing == CHUNKS
    assert client.is_done
    assert not client.used_digest


def test_server_answers_as_soon_as_c1_is_whole_and_not_before() -> None:
    server = new_server()
    states, sent_sizes = [server.state.value], [len(server.data_to_send())]
    for piece in (b"\x03", SIMPLE_C1[:-1], SIMPLE_C1[-1:], ANY_PACKET[:-1], ANY_PACKET[-1:]):
        server.receive_data(piece)
        states.append(server.state.value)
        sent_sizes.append(len(server.data_to_send()))
    assert states == ["awaiting C0 and C1"] * 3 + ["awaiting C2"] * 2 + ["done"]
    assert sent_sizes == [0, 0, 0, 3073, 0, 0]


def test_client_sends_c2_as_soon_as_s1_is_whole_and_not_before() -> None:
    client = new_client()
    states, sent_sizes = [client.state.value], [len(client.data_to_send())]
    for piece in (b"\x03", SIMPLE_S1[:-1], SIMPLE_S1[-1:], ANY_PACKET[:-1], ANY_PACKET[-1:]):
        client.receive_data(piece)
        states.append(client.state.value)
        sent_sizes.append(len(client.data_to_send()))
    assert states == ["awaiting S0 and S1"] * 3 + ["awaiting S2"] * 2 + ["done"]
    assert sent_sizes == [1537, 0, 0, 1536, 0, 0]


def test_form_and_version_of_the_peer_are_unknown_until_its_first_packet_is_whole() -> None:
    server = new_server()
    server.receive_data(golden("ffmpeg_digest")[:1536])
    assert server.peer_version is None
    assert not server.used_digest


@pytest.mark.parametrize(
    ("name", "used_digest", "peer_version", "first_chunk"),
    [
        ("librtmp_simple", False, "0.0.0.0", "03 000000 0000c6 14 00000000 020007 636f6e6e656374"),
        ("librtmp_digest", True, "10.0.45.2", "03 000000 0000c6 14 00000000 020007 636f6e6e656374"),
        ("ffmpeg_digest", True, "9.0.124.2", "03 000000 0000c5 14 00000000 020007 636f6e6e656374"),
        ("nginx_push_digest", True, "12.0.13.14", "02 000000 000004 01 00000000 00001000"),
    ],
)
def test_server_understands_real_clients(
    name: str, used_digest: bool, peer_version: str, first_chunk: str, cut: Cut
) -> None:
    server = new_server()
    _, trailing = feed(server, cut(golden(name)))
    assert server.is_done
    assert server.used_digest is used_digest
    assert server.peer_version == peer_version
    assert trailing.startswith(bytes.fromhex(first_chunk))
    assert trailing == golden(name)[3073:]


def test_server_signs_s1_and_proves_the_digest_of_ffmpeg() -> None:
    client_bytes = golden("ffmpeg_digest")
    sent, _ = feed(new_server(), [client_bytes])
    s1, s2 = sent[1:1537], sent[1537:]
    assert s1[:8] == b"\x01\x02\x03\x04\x03\x05\x07\x01"
    # The nonce starts with 0, 1, 2, 3, so the digest block at 8 has it 6 bytes after its fourth.
    assert s1 == signed_at(18, MEDIA_SERVER_KEY, s1[:8] + NONCE)
    proof_key = hmac_sha256(MEDIA_SERVER_KEY + KEY_TAIL, client_bytes[495:527])
    assert s2 == NONCE[:1504] + hmac_sha256(proof_key, NONCE[:1504])


@pytest.mark.parametrize("name", ["librtmp_digest", "ffmpeg_digest", "nginx_push_digest"])
def test_c2_of_real_clients_proves_the_digest_in_our_s1(name: str) -> None:
    sent, _ = feed(new_server(), [golden(name)])
    c2 = golden(name)[1537:3073]
    proof_key = hmac_sha256(PLAYER_KEY + KEY_TAIL, sent[1 + 18 : 1 + 50])
    assert c2[1504:] == hmac_sha256(proof_key, c2[:1504])


def test_server_answers_in_the_schema_of_the_client() -> None:
    server = new_server()
    sent, _ = feed(server, [b"\x03" + golden("librtmp_rtmpe_c0c1")[1:]])
    assert server.used_digest
    s1 = sent[1:1537]
    # The nonce has 11, 12, 13, 14 at 772 of the packet, so the digest is 50 bytes after the fourth.
    assert s1 == signed_at(826, MEDIA_SERVER_KEY, s1[:8] + NONCE)


@pytest.mark.parametrize("place", [100, 494, 1535])
def test_server_falls_back_to_the_simple_form_when_the_digest_is_damaged(place: int, cut: Cut) -> None:
    c1 = bytearray(golden("ffmpeg_digest")[1:1537])
    c1[place] ^= 0x80
    server = new_server()
    sent, trailing = feed(server, cut(b"\x03" + bytes(c1) + ANY_PACKET + CHUNKS))
    assert sent == b"\x03" + b"\x01\x02\x03\x04\x00\x00\x00\x00" + NONCE + bytes(c1)
    assert trailing == CHUNKS
    assert not server.used_digest


def test_version_field_of_zero_is_the_simple_form_whatever_else_c1_holds() -> None:
    c1 = signed_at(18, PLAYER_KEY, bytes(8) + NONCE)
    server = new_server()
    sent, _ = feed(server, [b"\x03" + c1])
    assert not server.used_digest
    assert sent[1537:] == c1


def test_client_signs_c1_where_real_clients_do() -> None:
    c0c1 = new_client(digest=True).data_to_send()
    assert c0c1 == b"\x03" + signed_at(18, PLAYER_KEY, b"\x01\x02\x03\x04\x80\x00\x07\x02" + NONCE)


def test_client_proves_the_digest_of_nginx(cut: Cut) -> None:
    server_bytes = golden("nginx_s0s1s2_digest")
    client = new_client(digest=True)
    client.data_to_send()
    sent, trailing = feed(client, cut(server_bytes + CHUNKS))
    assert client.is_done
    assert client.used_digest
    assert client.peer_version == "13.14.10.13"
    assert trailing == CHUNKS
    s1 = server_bytes[1:1537]
    place = 12 + (s1[8] + s1[9] + s1[10] + s1[11]) % 728
    proof_key = hmac_sha256(PLAYER_KEY + KEY_TAIL, s1[place : place + 32])
    assert sent == NONCE[:1504] + hmac_sha256(proof_key, NONCE[:1504])


def test_client_finds_a_digest_in_the_second_block_of_s1() -> None:
    s1 = signed_at(776 + 90, MEDIA_SERVER_KEY, bytes(7) + b"\x03" + bytes(764) + b"\x00\x00\x00\x5a" + bytes(760))
    client = new_client(digest=True)
    client.data_to_send()
    sent, _ = feed(client, [b"\x03" + s1])
    assert client.used_digest
    proof_key = hmac_sha256(PLAYER_KEY + KEY_TAIL, s1[866:898])
    assert sent == NONCE[:1504] + hmac_sha256(proof_key, NONCE[:1504])


@pytest.mark.parametrize("s1", [golden("nginx_s0s1s2_simple")[1:1537], b"\x00\x00\x00\x01\x03\x05\x01\x01" + NONCE])
def test_client_that_offers_a_digest_echoes_an_s1_without_one(s1: bytes, cut: Cut) -> None:
    client = new_client(digest=True)
    client.data_to_send()
    sent, _ = feed(client, cut(b"\x03" + s1 + ANY_PACKET))
    assert client.is_done
    assert not client.used_digest
    assert sent == s1


def test_client_that_offers_no_digest_echoes_an_s1_that_has_one() -> None:
    client = new_client()
    client.data_to_send()
    sent, _ = feed(client, [golden("nginx_s0s1s2_digest")])
    assert client.is_done
    assert not client.used_digest
    assert sent == golden("nginx_s0s1s2_digest")[1:1537]


@pytest.mark.parametrize(
    ("first_bytes", "detail"),
    [
        (b"\x00", "version 0 in C0, only 3 is spoken"),
        (b"\x06", "version 6 in C0, only 3 is spoken; this is RTMPE, which is not supported"),
        (b"\x08", "version 8 in C0, only 3 is spoken; this is RTMPE, which is not supported"),
        (b"\x16\x03\x01\x02\x00", "version 22 in C0, only 3 is spoken; this looks like TLS; is RTMPS meant?"),
        (b"GET / HTTP/1.1\r\n", "version 71 in C0, only 3 is spoken; this looks like HTTP"),
        (b"POST /open/1 HTTP/1.1\r\n", "version 80 in C0, only 3 is spoken; this looks like HTTP"),
        (b"\xff", "version 255 in C0, only 3 is spoken"),
    ],
)
def test_server_refuses_any_version_but_3_at_its_first_byte(first_bytes: bytes, detail: str) -> None:
    server = new_server()
    with pytest.raises(ProtocolViolation) as refusal:
        server.receive_data(first_bytes[:1])
    assert refusal.value.layer == "handshake"
    assert refusal.value.detail == detail
    assert server.state.value == "failed"
    assert server.data_to_send() == b""


def test_server_refuses_the_rtmpe_of_librtmp(cut: Cut) -> None:
    with pytest.raises(ProtocolViolation, match=r"version 6 .* RTMPE"):
        feed(new_server(), cut(golden("librtmp_rtmpe_c0c1")))


@pytest.mark.parametrize(
    ("first_bytes", "detail"),
    [
        (b"\x06", "version 6 in S0, only 3 is spoken; this is RTMPE, which is not supported"),
        (b"\x15\x03\x03\x00\x02", "version 21 in S0, only 3 is spoken; this looks like TLS; is RTMPS meant?"),
        (b"HTTP/1.1 400 Bad Request", "version 72 in S0, only 3 is spoken; this looks like HTTP"),
    ],
)
def test_client_refuses_any_version_but_3_at_its_first_byte(first_bytes: bytes, detail: str) -> None:
    client = new_client()
    with pytest.raises(ProtocolViolation) as refusal:
        client.receive_data(first_bytes)
    assert refusal.value.detail == detail


def test_nothing_may_follow_a_refusal() -> None:
    server = new_server()
    with pytest.raises(ProtocolViolation):
        server.receive_data(b"\x06")
    with pytest.raises(MisuseError, match="1 bytes given to a handshake that is failed"):
        server.receive_data(b"\x03")


def test_nothing_may_follow_the_end() -> None:
    server = new_server()
    server.receive_data(b"\x03" + SIMPLE_C1 + ANY_PACKET)
    with pytest.raises(MisuseError, match="16 bytes given to a handshake that is done"):
        server.receive_data(CHUNKS)


def test_trailing_data_is_given_once_and_only_at_the_end() -> None:
    server = new_server()
    server.receive_data(b"\x03" + SIMPLE_C1)
    with pytest.raises(MisuseError, match="trailing data asked of a handshake that is awaiting C2"):
        server.trailing_data()
    server.receive_data(ANY_PACKET + CHUNKS)
    assert server.trailing_data() == CHUNKS
    assert server.trailing_data() == b""


def test_no_more_than_one_packet_is_held_between_calls() -> None:
    server = new_server()
    held_bytes = []
    for piece in in_sizes(golden("ffmpeg_digest")[:3072], [7] * 438):
        server.receive_data(piece)
        held_bytes.append(len(server._received))
    assert server.state is HandshakeState.AWAITING_C2
    assert max(held_bytes) <= 1536


@pytest.mark.parametrize("size", [0, 1527, 1529, 1536])
def test_nonce_of_another_size_is_misuse(size: int) -> None:
    with pytest.raises(MisuseError, match=f"nonce of {size} bytes, 1528 are needed"):
        ServerHandshake(nonce=bytes(size), time_ms=0)
    with pytest.raises(MisuseError, match=f"nonce of {size} bytes, 1528 are needed"):
        ClientHandshake(nonce=bytes(size), time_ms=0)


def test_time_wraps_at_32_bits() -> None:
    client = ClientHandshake(nonce=NONCE, time_ms=2**32 + 0xFFFFFFFE)
    assert client.data_to_send()[:9] == b"\x03" + b"\xff\xff\xff\xfe" + bytes(4)


@settings(max_examples=60)
@given(
    digest=st.booleans(),
    sizes=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 4000)), max_size=30),
    client_chunks=st.binary(max_size=40),
    server_chunks=st.binary(max_size=40),
)
def test_joined_roles_always_finish_and_lose_nothing(
    digest: bool, sizes: list[tuple[int, int]], client_chunks: bytes, server_chunks: bytes
) -> None:
    client = ClientHandshake(nonce=PEER_NONCE, time_ms=7, digest=digest)
    server = new_server()
    to_server, to_client = client.data_to_send(), b""
    server_left, client_left = b"", b""
    for server_size, client_size in [*sizes, (10_000, 10_000), (10_000, 10_000)]:
        answer, trailing = feed(server, [to_server[:server_size]])
        to_server = to_server[server_size:]
        to_client += answer + server_chunks if answer else b""
        server_left += trailing
        answer, trailing = feed(client, [to_client[:client_size]])
        to_client = to_client[client_size:]
        to_server += answer + client_chunks if answer else b""
        client_left += trailing
    assert client.is_done
    assert server.is_done
    assert client.used_digest is server.used_digest is digest
    assert (server_left, client_left) == (client_chunks, server_chunks)


@settings(max_examples=100)
@given(
    role=st.sampled_from([new_server, new_client, lambda: new_client(digest=True)]),
    version=st.one_of(st.just(b"\x03"), st.binary(max_size=1)),
    seed=st.binary(min_size=1, max_size=64),
    length=st.integers(0, 5000),
    sizes=st.lists(st.integers(0, 2000), max_size=8),
)
def test_any_bytes_are_refused_by_their_version_or_accepted(
    role: Callable[[], ServerHandshake | ClientHandshake], version: bytes, seed: bytes, length: int, sizes: list[int]
) -> None:
    handshake = role()
    data = version + (seed * length)[:length]
    try:
        _, trailing = feed(handshake, in_sizes(data, sizes))
    except ProtocolViolation:
        assert data[0] != 3
        assert handshake.state is HandshakeState.FAILED
    else:
        assert data[:1] in (b"", b"\x03")
        assert handshake.is_done is (len(data) >= 3073)
        assert trailing == data[3073:]
