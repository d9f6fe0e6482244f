"""RTMPS once its handshake is done: the same bytes under TLS, on the same non-blocking socket.

Owns the records and what of them is still owed to the socket. The handshake is `tls_handshake`'s matter, certificates
are `certificates`'; RTMP is unknown here.

TLS works in memory and the system calls are ours, so that a flush of several records is one call and nothing has to be
given to TLS twice: what it has sealed is kept until the socket takes it.
"""

import contextlib
import socket
import ssl

from penstock.relay.segment import SegmentBuffer

_PIECE_BYTES = 64 * 1024
"""What is sealed at once, and so what a slow peer makes us hold besides the log."""
_RECORD_BYTES = 16 * 1024
"""The most that a record holds. Each is taken out of the memory that TLS seals into before the next is sealed: that
memory never shrinks, so a piece of four records would cost each viewer 88 kB for good instead of 22."""
_MAX_OWED_BYTES = 4 * _PIECE_BYTES
"""Far more than one piece: only a peer that makes TLS answer and does not read the answers gets there."""
_RECEIVES = 2
"""Records are larger than what is in them, so one receive is never enough to give what was asked for."""


class TlsTransport:
    """A non-blocking stream of bytes under TLS, seen from the server."""

    __slots__ = (
        "_incoming",
        "_is_ended",
        "_outgoing",
        "_owed",
        "_socket",
        "_tls",
        "descriptor",
    )

    can_send_files = False

    def __init__(
        self, connection: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        """Take over a socket whose handshake is done, with the memory that TLS reads from and seals into.

        Records that came right behind the handshake are in `incoming` already, and the socket may never become
        readable again: whoever makes this calls `receive` once before waiting for the socket.
        """
        self._socket = connection
        self.descriptor = connection.fileno()
        self._incoming = incoming
        self._outgoing = outgoing
        self._tls = tls
        self._owed = b""
        self._is_ended = False

    def receive(self, size: int) -> bytes | None:
        """What has come, b"" at the end, None if nothing is there.

        Nothing that was taken from the socket stays behind, since nobody would be woken up for it, so this may give
        more than `size`: up to twice that and a record. Less than `size` means, as without TLS, that the socket has
        no more, but for peers who send many tiny records.
        """
        if self._is_ended:
            return b""
        pieces: list[bytes] = []
        opened_bytes = self._open(pieces) if self._incoming.pending else 0
        for _ in range(_RECEIVES):
            if self._is_ended or opened_bytes >= size:
                break
            try:
                sealed = self._socket.recv(size)
            except BlockingIOError:
                break
            if not sealed:
                # Many peers just hang up, without the end that TLS asks for; RTMP knows where its messages end.
                self._is_ended = True
                break
            self._incoming.write(sealed)
            opened_bytes += self._open(pieces)
            if len(sealed) < size:
                break
        if pieces:
            return b"".join(pieces)
        return b"" if self._is_ended else None

    def _open(self, pieces: list[bytes]) -> int:
        """Add what is in the records that came to the pieces. How many bytes that gave."""
        opened_bytes = 0
        try:
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
            raise explained(error) from error
        self._pass_on()
        return opened_bytes

    def send(self, data: bytes | memoryview) -> int:
        """How much was taken. All of it, unless the socket takes less: then up to one piece more than the socket."""
        if not self.flush():
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
        sealed = []
        view = memoryview(piece)
        try:
            for start in range(0, len(piece), _RECORD_BYTES):
                self._tls.write(view[start : start + _RECORD_BYTES])
                sealed.append(self._outgoing.read())
        except ssl.SSLError as error:
            raise explained(error) from error
        self._owed = b"".join(sealed)
        return self.flush()

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

    def _pass_on(self) -> None:
        """Send what TLS says by itself: alerts, new keys, the end."""
        if self._outgoing.pending:
            self._owed += self._outgoing.read()
            if len(self._owed) > _MAX_OWED_BYTES:
                raise OSError(f"TLS: the peer has left {len(self._owed)} bytes unread")
        self.flush()

    def close(self) -> None:
        """Say that it is the end, if the socket takes that now, and close."""
        if not self._owed:
            # The peer's own end is not waited for, and after an error of TLS there is nothing to say.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                self._pass_on()
        self._socket.close()


def explained(error: ssl.SSLError) -> OSError:
    """The same in words, told apart by who complains."""
    reason = (error.reason or str(error)).replace("_", " ").lower()
    _, is_alert, said = reason.partition("alert ")
    return OSError(f"TLS: the peer says: {said}" if is_alert else f"TLS: {reason}")
