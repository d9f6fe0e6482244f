"""Whether HTTP works as we use it, tried at the start.

Sockets are given to uvicorn's protocol by a way of ours, with what it needs to know of its server. A version that wants
it otherwise is to be found here, not by the first client.
"""

import asyncio
import socket
from typing import Final

from penstock.web.http_connections import HttpConnections

_WITHIN_S: Final = 5.0
_MAX_BYTES: Final = 64 * 1024
_REQUEST: Final = b"GET /healthz HTTP/1.1\r\nHost: self-test\r\n\r\n"


async def complaint_of(connections: HttpConnections) -> str | None:
    """Ask once over a pair of sockets. What is wrong; None: nothing."""
    ours, theirs = socket.socketpair()
    connections.offer(theirs, "", "http")
    with ours:
        ours.setblocking(False)
        try:
            async with asyncio.timeout(_WITHIN_S):
                answer = await _ask(ours)
        except TimeoutError:
            return f"no answer in {_WITHIN_S:g} s"
        except OSError as error:
            return f"no answer: {error.strerror}"
    head, _, body = answer.partition(b"\r\n\r\n")
    is_answered = head.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 503 ")) and b"\r\nconnection: close" in head.lower()
    if not (is_answered and body):
        return f"the answer was {answer[:200]!r}"
    return None


async def _ask(ours: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(ours, _REQUEST)
    answer = b""
    while len(answer) < _MAX_BYTES and (data := await loop.sock_recv(ours, _MAX_BYTES)):
        answer += data
    return answer
