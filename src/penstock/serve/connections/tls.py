"""RTMPS: the same bytes under TLS, on the same non-blocking socket.

Owns the TLS handshake, the records and what of them is still owed to the socket. Refuses peers that do not speak TLS,
and says what they seem to speak instead. Certificates are `certificates`' matter; RTMP is unknown here.

TLS works in memory and the system calls are ours, so that a flush of several records is one call and nothing has to be
given to TLS twice: what it has sealed is kept until the socket takes it. All connections of a loop may share the place
that TLS seals into, since each call here empties it, and so does closing after a call that failed; measured, that saves
a fifth of the time and most of the memory per viewer.
"""

import contextlib
import socket
import ssl

from penstock.relay.segment import SegmentBuffer

_PIECE_BYTES = 64 * 1024
"""What is sealed at once, and so what a slow peer makes us hold besides the log."""
_RECORD_BYTES = 16 * 1024
_MAX_OWED_BYTES = 4 * _PIECE_BYTES
"""Far more than one piece or a handshake with a long chain of certificates: only a peer that makes TLS answer and does
not read the answers gets there."""
_RECEIVES = 2
"""Records are larger than what is in them, so one receive is never enough to give what was asked for."""
_HANDSHAKE_RECORD = 0x16
_RTMP_VERSIONS = range(3, 32)


class TlsTransport:
    """A non-blocking stream of bytes under TLS, seen from the server."""

    __slots__ = (
        "_incoming",
        "_is_ended",
        "_is_greeted",
        "_is_open",
        "_outgoing",
        "_owed",
        "_socket",
        "_tls",
        "descriptor",
    )

    can_send_files = False

    def __init__(
        self, connection: socket.socket, context: ssl.SSLContext, outgoing: ssl.MemoryBIO | None = None
    ) -> None:
        """`outgoing` may be shared by transports that are used by one and the same thread."""
        self._socket = connection
        self.descriptor = connection.fileno()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO() if outgoing is None else outgoing
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._owed = b""
        self._is_greeted = False
        self._is_open = False
        self._is_ended = False

    def receive(self, size: int) -> bytes | None:
        """What has come, b"" at the end, None if nothing is there or the handshake goes on.

        Nothing that was taken from the socket stays behind, since nobody would be woken up for it, so this may give
        more than `size`: up to twice that and a record. Less than `size` means, as without TLS, that the socket has
        no more, but for peers who send many tiny records.
        """
        if self._is_ended:
            return b""
        pieces: list[bytes] = []
        opened_bytes = 0
        for _ in range(_RECEIVES):
            try:
                sealed = self._socket.recv(size)
            except BlockingIOError:
                break
            if not sealed:
                # Many peers just hang up, without the end that TLS asks for; RTMP knows where its messages end.
                self._is_ended = True
                break
            opened_bytes += self._open(sealed, pieces)
            if self._is_ended or len(sealed) < size or opened_bytes >= size:
                break
        if pieces:
            return b"".join(pieces)
        return b"" if self._is_ended else None

    def _open(self, sealed: bytes, pieces: list[bytes]) -> int:
        """Add what is in these and earlier bytes to the pieces. How many bytes that gave."""
        if not self._is_greeted:
            self._is_greeted = True
            _check_greeting(sealed)
        self._incoming.write(sealed)
        opened_bytes = 0
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            # OpenSSL takes a record that is not all there from us too, so this never leaves anything behind.
            while self._incoming.pending:
                piece = self._tls.read(_RECORD_BYTES)
                if not piece:
                    self._is_ended = True
                    break
                pieces.append(piece)
                opened_bytes += len(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            # The alert that tells the peer why.
            with contextlib.suppress(OSError):
                self._pass_on()
            raise _explained(error) from error
        self._pass_on()
        return opened_bytes

    def wake_from(self, size: int) -> None:
        """Be readable whatever has come: bytes of records do not tell how much is in them."""

    def send(self, data: bytes | memoryview) -> int:
        """How much was taken. All of it, unless the socket takes less: then up to one piece more than the socket."""
        if not self._is_open or not self.flush():
            return 0
        if len(data) <= _PIECE_BYTES:
            self._seal(data)
            return len(data)
        view = memoryview(data)
        for start in range(0, len(data), _PIECE_BYTES):
            if not self._seal(view[start : start + _PIECE_BYTES]):
                return min(start + _PIECE_BYTES, len(data))
        return len(data)

    def _seal(self, piece: bytes | memoryview) -> bool:
        """False if the socket has not taken all of it."""
        if not piece:
            return True
        try:
            self._tls.write(piece)
        except ssl.SSLError as error:
            raise _explained(error) from error
        return self._pass_on()

    def send_from(self, buffer: SegmentBuffer, offset: int, size: int) -> int:
        """How much was taken of a range of the log, by copies of one piece each."""
        taken = 0
        while taken < size:
            wanted = min(size - taken, _PIECE_BYTES)
            sent = self.send(buffer.read(offset + taken, wanted))
            taken += sent
            if sent < wanted or self._owed:
                break
        return taken

    def flush(self) -> bool:
        """Send what TLS has sealed. False if the peer has to read first."""
        if self._owed:
            try:
                self._owed = self._owed[self._socket.send(self._owed) :]
            except BlockingIOError:
                return False
        return not self._owed

    def _pass_on(self) -> bool:
        """Take what TLS has sealed out of the shared place, and send what goes. False if some is owed."""
        if self._outgoing.pending:
            self._owed += self._outgoing.read()
            if len(self._owed) > _MAX_OWED_BYTES:
                raise OSError(f"TLS: the peer has left {len(self._owed)} bytes unread")
        return self.flush()

    def close(self) -> None:
        """Say that it is the end, if the socket takes that now, and close."""
        if self._is_open and not self._owed:
            # The peer's own end is not waited for, and after an error of TLS there is nothing to say.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                self._pass_on()
        # Whatever went wrong before: nobody else may be sent what was sealed for this peer.
        self._outgoing.read()
        self._socket.close()


def _check_greeting(data: bytes) -> None:
    """OpenSSL would say "wrong version number" whatever it is."""
    first = data[0]
    if first == _HANDSHAKE_RECORD:
        return
    if first in _RTMP_VERSIONS:
        raise OSError("TLS: this looks like plain RTMP; is the port for rtmp:// meant?")
    if data[:3].isupper():
        raise OSError("TLS: this looks like plain HTTP")
    raise OSError(f"TLS: the peer does not speak it; its first byte is 0x{first:02x}")


def _explained(error: ssl.SSLError) -> OSError:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    _, is_alert, said = reason.partition("alert ")
    return OSError(f"TLS: the peer says: {said}" if is_alert else f"TLS: {reason}")
