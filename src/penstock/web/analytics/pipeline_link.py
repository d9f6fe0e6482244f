"""The way to a pipeline that runs on this data folder: the socket by which `penstock pipeline sql` asks it too.

Owns one question, for fresh tables, and how its answer reads. Only a socket of our own user, or root's, is believed.
"""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import orjson

from penstock.pipeline_figures import SOCKET_NAME

_CONNECT_S: Final = 2.0
_REFRESH: Final = b'{"refresh": true}\n'
_MAX_LINE_BYTES: Final = 64 * 1024
_PEER: Final = struct.Struct("3i")
"""Process, user and group of whoever listens, as Linux tells them."""


class NoPipeline(Exception):
    """None runs on this data folder, or none that can be believed."""


class PipelineFailed(Exception):
    """It did not do what it was asked, for a reason in its own words."""


class PipelineLink:
    """Asks the pipeline of a data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def is_there(self) -> bool:
        """Whether one runs."""
        try:
            async with self._connected():
                return True
        except NoPipeline:
            return False

    async def refresh(self, on_sent: asyncio.Future[None]) -> str | None:
        """Have what has landed taken into the tables. What it says of a delay, or None.

        Resolves `on_sent` when the pipeline has been asked. May take minutes.
        """
        async with self._connected() as (reader, writer):
            try:
                writer.write(_REFRESH)
                await writer.drain()
            except OSError as error:
                raise NoPipeline from error
            on_sent.set_result(None)
            notice: str | None = None
            while True:
                match await _next_answer(reader):
                    case {"notice": str(text)}:
                        notice = text
                    case {"error": str(text)}:
                        raise PipelineFailed(text)
                    case _:
                        return notice

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await self._connect()
        except (OSError, TimeoutError) as error:
            raise NoPipeline from error
        try:
            peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            if _PEER.unpack(peer)[1] not in (os.getuid(), 0):
                raise NoPipeline
            yield reader, writer
        finally:
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # By way of the folder's descriptor: Linux takes no path of more than 107 bytes.
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{SOCKET_NAME}", limit=_MAX_LINE_BYTES)
        finally:
            os.close(folder)


async def _next_answer(reader: asyncio.StreamReader) -> object:
    try:
        line = await reader.readline()
        answer: object = orjson.loads(line)
    except (OSError, ValueError):
        raise PipelineFailed("The pipeline ended, or did not answer.") from None
    return answer
