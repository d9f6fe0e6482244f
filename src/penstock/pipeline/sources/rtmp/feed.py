"""A thread that plays a live stream and writes its messages into a spool.

Owns the connection: it is opened again whenever it is lost or the stream ends, with pauses that double from half a
second to ten. A server that refuses the very first play ends the feed, and the reader raises the reason; after that a
refusal is retried, since a publisher may come back. While the spool is full nothing is read from the server, which is
back-pressure by TCP: the server treats it as a slow viewer.
"""

import asyncio
import threading
import time
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from penstock.client import Backoff, Timeouts, play
from penstock.errors import MalformedInput, ProtocolViolation, RemoteError, RemoteRefused
from penstock.media.frame import Frame, FrameKind
from penstock.pipeline.sources.arrow_columns import arrow_schema, binaries, numbers, strings, truths
from penstock.pipeline.sources.flv.tag_traits import Described, describe_payload
from penstock.pipeline.sources.rtmp.spool import Spool

RTMP_SCHEMA: Final = StructType(
    [
        StructField("arrival_us", LongType()),
        StructField("connection", LongType()),
        StructField("kind", StringType()),
        StructField("track", IntegerType()),
        StructField("codec", StringType()),
        StructField("dts_ms", LongType()),
        StructField("pts_ms", LongType()),
        StructField("is_key", BooleanType()),
        StructField("size", LongType()),
        StructField("role", StringType()),
        StructField("error", StringType()),
        StructField("payload", BinaryType()),
    ]
)
_SCHEMA: Final = arrow_schema(RTMP_SCHEMA)
_BACKOFF: Final = Backoff()
# A machine that vanished looks like a stream without a publisher; in both cases a new connection does no harm.
_TIMEOUTS: Final = Timeouts(silence_s=60.0)
_FLUSH_S: Final = 0.25
_FLUSH_BYTES: Final = 4 * 1024 * 1024
_FULL_PAUSE_S: Final = 0.05
_STOP_S: Final = 5.0

_Row = tuple[int, int, Frame, Described]


class Feed:
    """Plays one stream into a spool. Call `start` once; `stop` may be repeated."""

    def __init__(self, url: str, spool: Spool, max_spool_bytes: int, *, has_payload: bool) -> None:
        self._url = url
        self._spool = spool
        self._max_spool_bytes = max_spool_bytes
        self._has_payload = has_payload
        # A time, not a count: it tells connections apart over restarts too.
        self._connection = 0
        self._pending: list[_Row] = []
        self._pending_bytes = 0
        self._is_stopped = threading.Event()
        self._has_rows = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="rtmp feed", daemon=True)

    def start(self) -> None:
        self._spool.own()
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def wait_for_rows(self, seconds: float) -> None:
        """Return once this feed has put anything into the spool, or after a while, or when it has failed."""
        self._has_rows.wait(seconds)

    def check(self) -> None:
        """Raise what ended the feed, if anything did."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._feed())
        except (RemoteError, MalformedInput, OSError) as error:
            self._failure = error
            self._has_rows.set()

    async def _feed(self) -> None:
        flushing = asyncio.create_task(self._flush_repeatedly())
        playing = asyncio.create_task(self._play_repeatedly())
        done, left = await asyncio.wait((flushing, playing), return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for task in done:
            task.result()

    async def _flush_repeatedly(self) -> None:
        while not self._is_stopped.is_set():
            await asyncio.sleep(_FLUSH_S)
            if not self._flush():
                return

    async def _play_repeatedly(self) -> None:
        tries = 0
        while True:
            connections = self._connection
            try:
                await self._play()
            except (RemoteError, ProtocolViolation) as error:
                if isinstance(error, RemoteRefused) and self._connection == 0:
                    raise
            tries = 0 if self._connection > connections else tries + 1
            await asyncio.sleep(_BACKOFF.pause_s(tries))

    async def _play(self) -> None:
        async with play(self._url, timeouts=_TIMEOUTS) as stream:
            self._connection = time.time_ns() // 1000
            async for frame in stream:
                described = describe_payload(frame.kind, frame.payload)
                self._pending.append((time.time_ns() // 1000, self._connection, frame, described))
                self._pending_bytes += len(frame.payload)
                if self._pending_bytes >= _FLUSH_BYTES and not self._flush():
                    return
                while self._spool.spooled_bytes >= self._max_spool_bytes:
                    await asyncio.sleep(_FULL_PAUSE_S)

    def _flush(self) -> bool:
        """Write what has come into the spool. False if the spool has another writer by now."""
        rows, self._pending, self._pending_bytes = self._pending, [], 0
        if rows and not self._spool.append(_batch_of(rows, self._has_payload)):
            self._is_stopped.set()
            return False
        if rows:
            self._has_rows.set()
        return True


def _batch_of(rows: list[_Row], has_payload: bool) -> pa.RecordBatch:
    arrivals_us, connections, frames, found = zip(*rows, strict=True)
    dts_ms = np.array([frame.timestamp_ms for frame in frames], np.int64)
    tracks = np.array([-1 if each.track_id is None else each.track_id for each in found], np.int32)
    columns = [
        numbers(np.array(arrivals_us, np.int64)),
        numbers(np.array(connections, np.int64)),
        strings([FrameKind(frame.kind).name.lower() for frame in frames]),
        numbers(tracks, tracks < 0),
        strings([None if each.codec is None else each.codec.label for each in found]),
        numbers(dts_ms),
        numbers(dts_ms + np.array([each.composition_time_ms for each in found], np.int64)),
        truths(np.array([each.is_key for each in found], np.bool_)),
        numbers(np.array([len(frame.payload) for frame in frames], np.int64)),
        strings([each.role for each in found]),
        strings([each.error for each in found]),
        binaries([frame.payload if has_payload else None for frame in frames]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
