"""The client's side of a TLS handshake, step by step on the loop.

Owns the bytes of the handshake and what a failed one is called. Certificates are checked by the context it is given,
against the name that was asked for. To verify a server's chain takes about a millisecond; a server's own part, which
signs, is done in a thread (`connections.tls_acceptor`).
"""

import contextlib
import socket
import ssl
from typing import Final

from penstock.serve.connections.tls import TlsTransport, explained

_MAX_BYTES: Final = 128 * 1024
"""A chain of certificates is some 5 kB; OpenSSL takes up to 100 kB of one."""
_RECEIVE_BYTES: Final = 16 * 1024


class ClientTlsHandshake:
    """A handshake with a server, from its first byte to an open transport."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, host: str) -> None:
        """`host` is the name, or the address, that the certificate has to be for."""
        self._socket = connection
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=False, server_hostname=host)
        self._received_bytes = 0
        self._owed = b""
        self._is_done = False
        self._has_begun = False

    @property
    def is_owing(self) -> bool:
        """Whether the peer has to read before there is anything to be received from it."""
        return bool(self._owed)

    def proceed(self) -> bool:
        """Take one step. True when the handshake is done and all of it is sent. OSError says what went wrong."""
        if not self._has_begun:
            self._has_begun = True
            self._step()
        elif self._flush() and not self._is_done:
            self._receive()
        return self._is_done and not self._owed

    def _receive(self) -> None:
        try:
            sealed = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        if not sealed:
            raise OSError("TLS: it closed the connection during the handshake")
        self._received_bytes += len(sealed)
        if self._received_bytes > _MAX_BYTES:
            raise OSError(f"TLS: no end of the handshake in {self._received_bytes} bytes")
        self._incoming.write(sealed)
        self._step()

    def _step(self) -> None:
        try:
            self._tls.do_handshake()
            self._is_done = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError as error:
            self._say_why()
            raise OSError(f"TLS: its certificate is not accepted: {error.verify_message.rstrip('.')}") from error
        except ssl.SSLError as error:
            self._say_why()
            raise explained(error) from error
        self._owed += self._outgoing.read()
        self._flush()

    def _say_why(self) -> None:
        """The alert that tells the peer."""
        with contextlib.suppress(OSError):
            self._owed += self._outgoing.read()
            self._flush()

    def _flush(self) -> bool:
        if self._owed:
            try:
                self._owed = self._owed[self._socket.send(self._owed) :]
            except BlockingIOError:
                return False
        return not self._owed

    def transport(self) -> TlsTransport:
        """What takes over when the handshake is done, with records that came right behind it."""
        return TlsTransport(self._socket, self._tls, self._incoming, self._outgoing)
