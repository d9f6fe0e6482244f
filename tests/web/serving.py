"""HTTP connections served in a thread of the test, with limits and routes of its own."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from penstock.web.asgi import App
from penstock.web.exchanges import HttpLimits
from penstock.web.http_connections import HttpConnections
from penstock.web.site import Handler, Site
from tests.support.rtmp_driver import LOOPBACK
from tests.web.web_process import read_all


class Served:
    """Clients, and how their connections come to be served."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: HttpConnections) -> None:
        self._loop = loop
        self.connections = connections
        self._listener = socket.create_server((LOOPBACK, 0))

    def connect(self) -> socket.socket:
        """A client over TCP, handed over already."""
        client = socket.create_connection(self._listener.getsockname(), 10)
        self.offer(self._listener.accept()[0])
        return client

    def offer(self, connection: socket.socket, address: str = "", scheme: str = "http") -> None:
        self._loop.call_soon_threadsafe(self.connections.offer, connection, address, scheme)

    def exchange(self, *pieces: bytes) -> bytes:
        """Send these pieces and read until the server closes."""
        with self.connect() as client:
            for piece in pieces:
                client.sendall(piece)
            return read_all(client)

    def exchange_by_pair(self, request: bytes, address: str, scheme: str) -> bytes:
        client, theirs = socket.socketpair()
        self.offer(theirs, address, scheme)
        with client:
            client.settimeout(10)
            client.sendall(request)
            return read_all(client)

    def close(self) -> None:
        self._listener.close()


@contextmanager
def serving(
    routes: Mapping[str, Handler] | None = None, limits: HttpLimits | None = None, app: App | None = None
) -> Iterator[Served]:
    async def serve() -> None:
        connections = HttpConnections(app or Site(routes or {}), time.monotonic, limits)
        task = asyncio.create_task(connections.run())
        made.append((Served(asyncio.get_running_loop(), connections), task))
        is_up.set()
        await asyncio.wait([task])
        # The ends of connections are told in the next round.
        await asyncio.sleep(0)

    made: list[tuple[Served, asyncio.Task[None]]] = []
    is_up = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_up.wait(10)
    ((served, task),) = made
    try:
        yield served
    finally:
        task.get_loop().call_soon_threadsafe(task.cancel)
        thread.join(10)
        served.close()
        assert not thread.is_alive()
