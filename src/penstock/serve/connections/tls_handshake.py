"""The TLS handshake of one connection, with memory of its own, on a non-blocking socket.

Owns the steps up to the first byte that the peer may send in secret, and how much may come before. Refuses peers that
do not speak TLS, and says what they seem to speak instead. Knows no clock, no thread and no RTMP: who waits for the
socket, and for how long, is `tls_acceptor`'s matter.
"""

import contextlib
import socket
import ssl

from penstock.serve.connections.tls import TlsTransport, explained

_MAX_BYTES = 16 * 1024
"""A hello with keys against quantum computers and a ticket is 4 kB at most, and no certificate is asked of the peer.
Since a step takes at least a byte, this bounds the number of steps too."""
_HANDSHAKE_RECORD = 0x16
_RTMP_VERSIONS = range(3, 32)


class TlsHandshake:
    """The server's side of a handshake, from the first byte to an open transport."""

    __slots__ = ("_incoming", "_is_done", "_outgoing", "_owed", "_received_bytes", "_socket", "_tls")

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = connection
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._received_bytes = 0
        self._owed = b""
        self._is_done = False

    @property
    def is_owing(self) -> bool:
        """Whether the peer has to read before there is anything to be received from it."""
        return bool(self._owed)

    def proceed(self) -> bool:
        """Take one step, which receives at most once. True when the handshake is done and all of it is sent.

        One who hangs up raises EOFError, and OSError says in words what else went wrong. Session tickets of TLS 1.3
        are part of what has to be sent.
        """
        if self._flush() and not self._is_done:
            self._receive()
        return self._is_done and not self._owed

    def _receive(self) -> None:
        try:
            sealed = self._socket.recv(_MAX_BYTES)
        except BlockingIOError:
            return
        if not sealed:
            raise EOFError
        if not self._received_bytes:
            _check_first_bytes(sealed)
        self._received_bytes += len(sealed)
        self._incoming.write(sealed)
        try:
            self._tls.do_handshake()
            self._is_done = True
        except ssl.SSLWantReadError:
            if self._received_bytes >= _MAX_BYTES:
                raise OSError(f"TLS: no end of the handshake in {self._received_bytes} bytes") from None
        except ssl.SSLError as error:
            # The alert that tells the peer why.
            with contextlib.suppress(OSError):
                self._pass_on()
            raise explained(error) from error
        self._pass_on()

    def _pass_on(self) -> None:
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


def _check_first_bytes(data: bytes) -> None:
    """OpenSSL would say "wrong version number" whatever it is."""
    first = data[0]
    if first == _HANDSHAKE_RECORD:
        return
    if first in _RTMP_VERSIONS:
        raise OSError("TLS: this looks like plain RTMP; is the port for rtmp:// meant?")
    if data[:3].isupper():
        raise OSError("TLS: this looks like plain HTTP")
    raise OSError(f"TLS: the peer does not speak it; its first byte is 0x{first:02x}")
