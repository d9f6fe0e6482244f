"""A port of the web process's own, where the operator gives it one.

Owns the listening socket, and whom it lets in. How they are served, and what they may cost, is that of connections that
were handed over, from the moment they are accepted: handshakes of TLS, which end here, count too.
"""

import asyncio
import socket
from typing import Final

from penstock.certificates import ReloadableTls
from penstock.logs import get_logger
from penstock.web.clients import client_of
from penstock.web.http_connections import HttpConnections

_PAUSE_S: Final = 1.0


class OwnPort:
    """One listening socket."""

    def __init__(self, listener: socket.socket, connections: HttpConnections, tls: ReloadableTls | None = None) -> None:
        """Take over a listener. Whoever comes by it joins the connections."""
        self.tls = tls
        self._listener = listener
        self._listener.setblocking(False)
        self._connections = connections

    async def run(self) -> None:
        """Accept until cancelled."""
        with self._listener:
            async with asyncio.TaskGroup() as beginnings:
                while True:
                    connection = await self._accept()
                    if connection is not None:
                        beginnings.create_task(self._begin(connection))
                    # One that could be accepted at once takes no turn of the loop by itself.
                    await asyncio.sleep(0)

    async def _accept(self) -> socket.socket | None:
        """The next one, if there is room for it."""
        try:
            connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        except OSError as error:
            get_logger().warning("HTTP connections cannot be accepted", reason=error.strerror)
            await asyncio.sleep(_PAUSE_S)
            return None
        if self._connections.has_room():
            return connection
        connection.close()
        return None

    async def _begin(self, connection: socket.socket) -> None:
        client = client_of(connection, "", "")
        if self.tls is None:
            await self._connections.begin(connection, client)
        else:
            await self._connections.begin(connection, client._replace(scheme="https"), self.tls.context)
