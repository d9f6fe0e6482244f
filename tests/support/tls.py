"""TLS for tests: certificates made on the spot, and the client's end of a connection, driven by hand.

Owns no waiting: both ends of a connection are non-blocking and in one thread, so that a test decides when each byte
arrives. The client is OpenSSL as well.
"""

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import trustme

from penstock.serve.connections.tls import TlsTransport
from penstock.serve.connections.tls_handshake import TlsHandshake
from tests.support.cuts import whole

RECEIVE_BYTES = 64 * 1024

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]
"""The server's and the client's."""


@dataclass(frozen=True, slots=True)
class Files:
    """An authority, and the certificate and key that it issued for localhost."""

    authority: trustme.CA
    cert: Path
    key: Path

    @classmethod
    def made_in(cls, folder: Path) -> Self:
        """New ones, valid for 90 days."""
        files = cls(trustme.CA(), folder / "cert.pem", folder / "key.pem")
        files.issue()
        return files

    def issue(self, *, days: float = 90, from_days: float = -1) -> trustme.LeafCert:
        """Put another certificate and key in their place."""
        now = datetime.now(UTC)
        leaf = self.authority.issue_cert(
            "localhost", not_before=now + timedelta(days=from_days), not_after=now + timedelta(days=days)
        )
        leaf.private_key_pem.write_to_path(str(self.key))
        self.cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        return leaf


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """What a client needs to believe a certificate of this authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


class Client:
    """The other end: TLS in memory, and a socket that the test reads and writes when it wants to."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext) -> None:
        self.raw = raw
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def shake_hands(self, handshake: TlsHandshake, cut: Callable[[bytes], list[bytes]] = whole) -> bool:
        """To the end of the handshake on this side. Whether the server is done as well, or `lead` has to go on."""
        is_done = False
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                is_done = self.lead(handshake, cut)
                assert self.take() > 0
            else:
                return is_done

    def lead(self, handshake: TlsHandshake, cut: Callable[[bytes], list[bytes]] = whole) -> bool:
        """Send what TLS has sealed, by pieces. Whether the server is done after the last."""
        is_done = False
        for piece in cut(self.outgoing.read()):
            assert not is_done
            assert self.raw.send(piece) == len(piece)
            is_done = handshake.proceed()
        return is_done

    def pass_on(self, transport: TlsTransport, cut: Callable[[bytes], list[bytes]] = whole) -> list[bytes]:
        """Send what TLS has sealed, by pieces. What the transport makes of each."""
        heard = []
        for piece in cut(self.outgoing.read()):
            assert self.raw.send(piece) == len(piece)
            data = transport.receive(RECEIVE_BYTES)
            if data is not None:
                heard.append(data)
        return heard

    def take(self, most: int = 1 << 20) -> int:
        """Read from the socket once. How much came."""
        try:
            data = self.raw.recv(most)
        except BlockingIOError:
            return 0
        self.incoming.write(data)
        return len(data)

    def heard(self) -> bytes:
        """What was sent to it, as far as it has taken it."""
        heard = b""
        with suppress(ssl.SSLWantReadError):
            while data := self.tls.read(1 << 20):
                heard += data
        return heard


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of one connection."""

    transport: TlsTransport
    client: Client

    def close(self) -> None:
        self.transport.close()
        self.client.raw.close()


def meet(contexts: Contexts, buffer_bytes: int | None = None) -> tuple[TlsHandshake, Client]:
    """Two ends that have not said anything yet. A small buffer holds a few kilobytes until the client reads."""
    ours, theirs = pair()
    if buffer_bytes is not None:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    return TlsHandshake(ours, contexts[0]), Client(theirs, contexts[1])


def pair() -> tuple[socket.socket, socket.socket]:
    """Two non-blocking sockets that are connected to each other."""
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    return ours, theirs


def connect(contexts: Contexts, buffer_bytes: int | None = None) -> Ends:
    """Two ends that can talk."""
    handshake, client = meet(contexts, buffer_bytes)
    assert client.shake_hands(handshake) or client.lead(handshake)
    return Ends(handshake.transport(), client)
