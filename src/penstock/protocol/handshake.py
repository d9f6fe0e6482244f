"""The handshake (RTMP 1.0, section 5.2), both roles: bytes in, bytes out, until the first chunk may be read.

Owns the order of C0, C1, C2 and S0, S1, S2, in the simple form and in the digest form of `handshake_digest`. Refuses
every version but 3, as soon as its byte is there. Does not check what C2 and S2 say, since peers exist whose echo
differs. Knows no sockets, clock or chance: nonce and time are given by the caller, who also keeps the deadline and asks
`state` for it.

The first packet of the peer (C1 or S1) decides the form. A version field of zero is the simple form; any other value
announces a digest, and where none verifies the simple form holds all the same.
"""

import abc
import enum

from penstock.errors import MisuseError, ProtocolViolation
from penstock.protocol.handshake_digest import (
    CLIENT_KEY,
    PACKET_BYTES,
    SERVER_KEY,
    DigestSchema,
    FoundDigest,
    find_digest,
    write_digest,
    write_proof,
)

RTMP_VERSION = 3
NONCE_BYTES = PACKET_BYTES - 8

_NO_PROGRAM_VERSION = bytes(4)
# Any value but zero announces the digest.
_CLIENT_PROGRAM_VERSION = bytes((128, 0, 7, 2))
# FFmpeg looks for a digest in S1 only if the first number is 3 or more, and gives up if it then finds none.
_SERVER_PROGRAM_VERSION = bytes((3, 5, 7, 1))

# librtmp names three kinds of encrypted RTMP.
_RTMPE_VERSIONS = frozenset((6, 8, 9))
# An alert, which is how a TLS server answers a C0, and a ClientHello.
_TLS_RECORD_TYPES = frozenset((0x15, 0x16))
# First letters of the HTTP methods and of a response's "HTTP/".
_HTTP_INITIALS = frozenset(b"CDGHOPT")


class HandshakeState(enum.Enum):
    """What a handshake waits for; the value is a phrase for logs."""

    AWAITING_C0_C1 = "awaiting C0 and C1"
    AWAITING_C2 = "awaiting C2"
    AWAITING_S0_S1 = "awaiting S0 and S1"
    AWAITING_S2 = "awaiting S2"
    DONE = "done"
    FAILED = "failed"


class _Handshake(abc.ABC):
    """What both roles share: version and first packet in, the answer out, second packet in."""

    _first_state: HandshakeState
    _second_state: HandshakeState
    _version_name: str
    _peer_key: bytes

    def __init__(self, *, nonce: bytes, time_ms: int) -> None:
        if len(nonce) != NONCE_BYTES:
            raise MisuseError(f"handshake: nonce of {len(nonce)} bytes, {NONCE_BYTES} are needed")
        self._nonce = nonce
        self._time = (time_ms % 2**32).to_bytes(4, "big")
        self._state = self._first_state
        self._received = bytearray()
        self._outgoing = b""
        self._used_digest = False
        self._peer_version: str | None = None

    @property
    def state(self) -> HandshakeState:
        return self._state

    @property
    def is_done(self) -> bool:
        return self._state is HandshakeState.DONE

    @property
    def used_digest(self) -> bool:
        """Whether both sides signed; settled by the peer's first packet, False until then."""
        return self._used_digest

    @property
    def peer_version(self) -> str | None:
        """The program version in the peer's first packet, such as "9.0.124.2"; None until it is there."""
        return self._peer_version

    def receive_data(self, data: bytes) -> None:
        """Take what came from the peer, cut in any way. Nothing may follow an error or the end of the handshake."""
        if self._state in (HandshakeState.DONE, HandshakeState.FAILED):
            raise MisuseError(f"handshake: {len(data)} bytes given to a handshake that is {self._state.value}")
        self._received += data
        if self._state is self._first_state:
            if self._received:
                self._check_version(self._received[0])
            if len(self._received) < 1 + PACKET_BYTES:
                return
            packet = bytes(self._received[1 : 1 + PACKET_BYTES])
            del self._received[: 1 + PACKET_BYTES]
            self._peer_version = ".".join(map(str, packet[4:8]))
            self._answer(packet)
            self._state = self._second_state
        if len(self._received) >= PACKET_BYTES:
            del self._received[:PACKET_BYTES]
            self._state = HandshakeState.DONE

    def data_to_send(self) -> bytes:
        """What is to be sent now; each byte is given once."""
        outgoing, self._outgoing = self._outgoing, b""
        return outgoing

    def trailing_data(self) -> bytes:
        """The start of the chunk stream, if it came glued to the handshake; each byte is given once."""
        if not self.is_done:
            raise MisuseError(f"handshake: trailing data asked of a handshake that is {self._state.value}")
        trailing = bytes(self._received)
        self._received.clear()
        return trailing

    @abc.abstractmethod
    def _answer(self, packet: bytes) -> None:
        """Make ready what follows the peer's first packet."""

    def _find_peer_digest(self, packet: bytes) -> FoundDigest | None:
        if packet[4:8] == _NO_PROGRAM_VERSION:
            return None
        found = find_digest(packet, self._peer_key)
        self._used_digest = found is not None
        return found

    def _first_packet(self, program_version: bytes) -> bytes:
        return self._time + program_version + self._nonce

    def _check_version(self, version: int) -> None:
        if version == RTMP_VERSION:
            return
        self._state = HandshakeState.FAILED
        self._received.clear()
        detail = f"version {version} in {self._version_name}, only {RTMP_VERSION} is spoken"
        if hint := _foreign_protocol(version):
            detail = f"{detail}; {hint}"
        raise ProtocolViolation("handshake", detail)


class ServerHandshake(_Handshake):
    """Answers C0 and C1 with S0, S1 and S2 at once, then waits for C2."""

    _first_state = HandshakeState.AWAITING_C0_C1
    _second_state = HandshakeState.AWAITING_C2
    _version_name = "C0"
    _peer_key = CLIENT_KEY

    def _answer(self, packet: bytes) -> None:
        if found := self._find_peer_digest(packet):
            s1 = write_digest(self._first_packet(_SERVER_PROGRAM_VERSION), SERVER_KEY, found.schema)
            s2 = write_proof(self._nonce, SERVER_KEY, found.digest)
        else:
            s1 = self._first_packet(_NO_PROGRAM_VERSION)
            s2 = packet
        self._outgoing += bytes((RTMP_VERSION,)) + s1 + s2


class ClientHandshake(_Handshake):
    """Has C0 and C1 to send from the start, answers S1 with C2 at once, then waits for S2."""

    _first_state = HandshakeState.AWAITING_S0_S1
    _second_state = HandshakeState.AWAITING_S2
    _version_name = "S0"
    _peer_key = SERVER_KEY

    def __init__(self, *, nonce: bytes, time_ms: int, digest: bool = False) -> None:
        super().__init__(nonce=nonce, time_ms=time_ms)
        self._offers_digest = digest
        if digest:
            # As nginx-rtmp, FFmpeg and librtmp do; librtmp keeps the other schema for RTMPE.
            c1 = write_digest(self._first_packet(_CLIENT_PROGRAM_VERSION), CLIENT_KEY, DigestSchema.DIGEST_THEN_KEY)
        else:
            c1 = self._first_packet(_NO_PROGRAM_VERSION)
        self._outgoing = bytes((RTMP_VERSION,)) + c1

    def _answer(self, packet: bytes) -> None:
        found = self._find_peer_digest(packet) if self._offers_digest else None
        self._outgoing += packet if found is None else write_proof(self._nonce, CLIENT_KEY, found.digest)


def _foreign_protocol(first_byte: int) -> str | None:
    if first_byte in _RTMPE_VERSIONS:
        return "this is RTMPE, which is not supported"
    if first_byte in _TLS_RECORD_TYPES:
        return "this looks like TLS; is RTMPS meant?"
    if first_byte in _HTTP_INITIALS:
        return "this looks like HTTP"
    return None
