"""From what happens on the server to log lines.

Owns the words and levels. Info has the life of connections, publications and views, so many lines a second for each
address; the rest is counted, and told once a second. Warnings are what an operator may have to act on, at most one a
second of each sort, with the number of those held back; debug has every protocol message. Fields are those that `logs`
names.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.logs import OncePerSecond, get_logger
from penstock.protocol.connection import MessageTrace
from penstock.protocol.message import Message, MessageType
from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer
from penstock.serve.streams.publisher import Publisher
from penstock.serve.streams.viewer import Viewer
from penstock.serve.telemetry.address_quota import AddressQuota

_COMMANDS: Final = frozenset((MessageType.AMF0_COMMAND, MessageType.AMF3_COMMAND))


class LogObserver(Observer):
    """Says what happens. To be made after logs are configured."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, quota: AddressQuota | None = None) -> None:
        self._log = get_logger()
        self._clock = clock
        self._quota = quota or AddressQuota()
        self._published_from: dict[LiveStream, str] = {}
        """The address of the last publisher: what is told of a stream is on its account."""
        self._limiters: dict[str, OncePerSecond] = {}

    # Connections.

    def connection_opened(self, connection: MediaConnection) -> None:
        """A socket was accepted."""
        self._info(f"Connection accepted from {connection.address}", connection)

    def handshake_completed(self, connection: MediaConnection) -> None:
        """The RTMP handshake is done."""
        self._info("Handshake completed", connection)

    def connected(self, connection: MediaConnection) -> None:
        """A connect was accepted."""
        self._info(
            f"connect command from app={connection.app}", connection, app=connection.app, client=connection.client
        )

    def stream_created(self, connection: MediaConnection, stream_id: int) -> None:
        """A message stream was made."""
        self._info(f"createStream allocated streamID={stream_id}", connection, msid=stream_id)

    def connection_closed(self, connection: MediaConnection, reason: str) -> None:
        """A connection is gone."""
        self._info(f"Connection closed: {reason}", connection, reason=reason)

    def tls_failed(self, address: str, reason: str) -> None:
        """A TLS handshake came to nothing."""
        if self._quota.admit(address, self._clock()):
            self._log.info(f"TLS handshake failed: {reason}", peer_addr=address, reason=reason)

    # Streams.

    def publish_started(self, publisher: Publisher, live_stream: LiveStream, publishing_type: str) -> None:
        """A publication began."""
        self._published_from[live_stream] = publisher.address
        source = {} if publisher.pulled_from is None else {"pulled_from": publisher.pulled_from}
        self._info(
            f"publish started: {live_stream.key}",
            publisher,
            stream_key=live_stream.key,
            role="publisher",
            publishing_type=publishing_type,
            **source,
        )

    def publish_stopped(self, publisher: Publisher, live_stream: LiveStream, reason: str) -> None:
        """A publication ended."""
        self._info(f"publish stopped: {live_stream.key}", publisher, stream_key=live_stream.key, reason=reason)

    def codecs_known(self, live_stream: LiveStream, text: str) -> None:
        """What a stream consists of."""
        self._info_of_stream(
            f"Stream {live_stream.key}: {text}",
            self._published_from.get(live_stream),
            stream_key=live_stream.key,
            codecs=text,
        )

    def stream_left(self, live_stream: LiveStream) -> None:
        """A stream goes on in another worker."""
        publisher = self._published_from.pop(live_stream, None)
        self._info_of_stream(f"Stream {live_stream.key} goes on elsewhere", publisher, stream_key=live_stream.key)

    def stream_closed(self, live_stream: LiveStream) -> None:
        """A stream is over."""
        publisher = self._published_from.pop(live_stream, None)
        self._info_of_stream(f"Stream {live_stream.key} ended", publisher, stream_key=live_stream.key)

    def play_started(self, viewer: Viewer) -> None:
        """A viewer was let in."""
        self._info(f"play started: {viewer.key}", viewer.connection, stream_key=viewer.key, role="viewer")

    def play_stopped(self, viewer: Viewer, reason: str) -> None:
        """A viewer is gone, or its stream is."""
        self._info(
            f"play stopped: {viewer.key}",
            viewer.connection,
            stream_key=viewer.key,
            reason=reason,
            sent_bytes=viewer.sent_bytes,
            skips=viewer.skips,
        )

    def second_passed(self, now: float) -> None:  # noqa: ARG002
        """Tell what was held back."""
        held_back = self._quota.take_held_back()
        if held_back is not None:
            total, addresses, address, lines = held_back
            self._log.warning(
                "Log lines held back", address=address, lines=lines, addresses=addresses, total_lines=total
            )

    # What an operator may have to act on.

    def violation(self, connection: MediaConnection, violation: ProtocolViolation) -> None:
        """A peer broke the protocol."""
        self._warn("Protocol violation", conn_id=connection.id, peer_addr=connection.address, reason=str(violation))

    def limit_hit(self, limit: str, detail: str) -> None:
        """Somebody was turned away."""
        self._warn(f"Limit hit: {limit}", limit=limit, reason=detail)

    def publish_refused(self, connection: MediaConnection, key: str, reason: str) -> None:
        """A publication was turned away."""
        self._warn(
            "Publish refused", conn_id=connection.id, peer_addr=connection.address, stream_key=key, reason=reason
        )

    def viewer_skipped(self, viewer: Viewer, skipped_bytes: int) -> None:
        """A viewer fell behind and lost some."""
        self._warn_of_viewer("Slow viewer skipped to the newest key frame", viewer, skipped_bytes=skipped_bytes)

    def viewer_stalled(self, viewer: Viewer, stalled_s: float) -> None:
        """A viewer takes nothing."""
        self._warn_of_viewer("Slow viewer takes nothing", viewer, stalled_s=round(stalled_s, 1))

    def error(self, connection: MediaConnection | None, error: BaseException) -> None:
        """A bug of ours was caught."""
        fields = {} if connection is None else {"conn_id": connection.id, "peer_addr": connection.address}
        swallowed = self._admit("error")
        if swallowed is not None:
            self._log.error("Internal error", swallowed=swallowed, exc_info=error, **fields)

    def message_ignored(self, connection: MediaConnection, type_id: int, reason: str) -> None:
        """A message changed nothing."""
        self._log.debug("Message ignored", conn_id=connection.id, msg_type=type_id, reason=reason)

    def _info(self, text: str, of: MediaConnection | Publisher, **fields: object) -> None:
        if self._quota.admit(of.address, self._clock()):
            self._log.info(text, conn_id=of.id, peer_addr=of.address, **fields)

    def _info_of_stream(self, text: str, publisher: str | None, **fields: object) -> None:
        if publisher is None or self._quota.admit(publisher, self._clock()):
            self._log.info(text, **fields)

    def _warn_of_viewer(self, text: str, viewer: Viewer, **fields: object) -> None:
        connection = viewer.connection
        self._warn(text, conn_id=connection.id, peer_addr=connection.address, stream_key=viewer.key, **fields)

    def _warn(self, text: str, **fields: object) -> None:
        swallowed = self._admit(text)
        if swallowed is not None:
            self._log.warning(text, **fields, swallowed=swallowed)

    def _admit(self, sort: str) -> int | None:
        # The texts are ours and few, so this does not grow.
        limiter = self._limiters.get(sort)
        if limiter is None:
            limiter = self._limiters[sort] = OncePerSecond(self._clock)
        return limiter.admit()


def message_trace(
    conn_id: str, hex_dump_bytes: int, hides_commands: Callable[[], bool] = lambda: False
) -> MessageTrace | None:
    """What a session shows its messages to: a debug line each. None where debug is off, at no cost at all.

    `hides_commands`: whether commands are told without their bytes, since they hold keys and tokens.
    """
    log = get_logger(conn_id=conn_id)
    if not log.is_enabled_for(logging.DEBUG):
        return None

    def trace(direction: str, message: Message) -> None:
        is_shown = hex_dump_bytes > 0 and not (message.type_id in _COMMANDS and hides_commands())
        fields: dict[str, object] = {"bytes": message.payload[:hex_dump_bytes]} if is_shown else {}
        log.debug(
            f"Message {direction}",
            msg_type=message.type_id,
            csid=message.chunk_stream_id,
            msid=message.stream_id,
            timestamp=message.timestamp_ms,
            length=len(message.payload),
            **fields,
        )

    return trace
