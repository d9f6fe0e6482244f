"""HTTP-FLV, FLV over WebSocket and live MP4: answers that last as long as the stream.

Owns how a request becomes a viewer like any other: the head of its answer, the refusal in its place, how long it may
wait for a stream that is not there, and the handshake of a WebSocket. What it is sent is the stream's matter.
"""

import itertools
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from penstock.control.messages import NOBODY, SeatAnswer
from penstock.media_paths import MediaKind, MediaPath
from penstock.protocol.status import StatusCode
from penstock.relay.encodings.encoding import EncodingKind
from penstock.relay.encodings.flv import FILE_HEADER, message_head
from penstock.serve.connections.http_viewer import HttpViewer, Spoken
from penstock.serve.connections.websocket import ViewerFrames, accept_value
from penstock.serve.http.layout import NO_STORE, error_of, head_of, not_found
from penstock.serve.http.site import Answer, MediaRequest, Stream, Taken, Wait
from penstock.serve.http.view_tokens import ViewTokens, view_line
from penstock.serve.reactor import Loop
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.dimensions import dimensions_of, own_name
from penstock.serve.streams.playing import AT_LEAST_S
from penstock.serve.streams.viewer import Viewer

_STREAM_ID: Final = 1
"""The only play of its connection, and the message stream that is sent as it is in the log."""
_WEBSOCKET_VERSION: Final = b"13"


@dataclass(frozen=True, slots=True)
class _Output:
    """What is answered with."""

    kind: EncodingKind
    content_type: bytes
    preface: bytes
    """What comes before the first frame, for everybody."""


_FLV: Final = _Output(EncodingKind.FLV, b"video/x-flv", FILE_HEADER)
_MP4: Final = _Output(EncodingKind.MP4, b"video/mp4", b"")
_WEBSOCKET: Final = _Output(EncodingKind.WEBSOCKET_FLV, b"", message_head(len(FILE_HEADER)) + FILE_HEADER)
OUTPUTS: Final[Mapping[MediaKind, _Output]] = {MediaKind.FLV: _FLV, MediaKind.MP4: _MP4}


class LiveSite:
    """The answers of one kind of address."""

    def __init__(self, broker: Broker, kind: MediaKind, loop: Loop, tokens: ViewTokens) -> None:
        self._broker = broker
        self._tokens = tokens
        self._output = OUTPUTS[kind]
        self._loop = loop
        self._numbers = itertools.count(1)
        self._boot = f"{secrets.token_hex(3)}-{kind.name.lower()}"

    def is_free(self, path: MediaPath) -> bool:  # noqa: ARG002
        """Each view is asked about."""
        return False

    def answer(self, request: MediaRequest) -> Answer | Wait | Stream:
        """A stream without an end, or what is wrong with the request."""
        if not request.is_websocket:
            lines = _head_lines(self._output.content_type, request.cors)
            if request.is_head:
                return self._head_alone(request, lines)
            return Stream(partial(self._begin, request, self._output, partial(head_of, 200), lines))
        accept = accept_value(request.headers.get(b"sec-websocket-key", b""))
        if self._output is not _FLV or accept is None or request.is_head:
            return error_of(400, "This is no WebSocket's request for FLV.", is_last=True)
        if request.headers.get(b"sec-websocket-version") != _WEBSOCKET_VERSION:
            return error_of(426, headers=(b"Sec-WebSocket-Version: 13\r\n",), is_last=True)
        lines = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n" % accept
        return Stream(partial(self._begin, request, _WEBSOCKET, partial(head_of, 101), lines))

    def _head_alone(self, request: MediaRequest, lines: bytes) -> Wait:
        """What GET would begin with now. Nobody takes a seat, and nothing is pulled."""
        late = error_of(503, headers=(b"Retry-After: 5\r\n", request.cors), is_last=True)
        wait = Wait(self._loop.now + AT_LEAST_S, late)
        table = self._broker.table

        def located(seat: SeatAnswer) -> None:
            is_there = seat.owner != NOBODY or table.puller.may_pull(request.key)
            found = Answer.of_bytes(head_of(200, lines), is_last=True)
            wait.fulfil(found if is_there else not_found(request.cors))

        table.registry.watch(request.key, 0, located)
        return wait

    def _begin(
        self, request: MediaRequest, output: _Output, head: Callable[[bytes], bytes], lines: bytes, taken: Taken
    ) -> None:
        broker, settings = self._broker, self._broker.settings
        if broker.is_closing:
            taken.transport.close()
            taken.on_gone()
            return
        app = settings.app(request.path.app)
        wait_s = min(_seconds_of(request.parameters.get("wait_s", "")), app.play_wait_s)
        token = self._tokens.draw()
        said = partial(self._head, request.key, output, head(lines + view_line(token)))
        spoken = Spoken(said, partial(_refusal, request))
        connection = HttpViewer(
            f"{self._boot}{next(self._numbers)}",
            taken.transport,
            request.address,
            app=request.path.app,
            client=request.client,
            protocol=output.kind.value,
            spoken=spoken,
            loop=self._loop,
            owner=broker,
            on_gone=taken.on_gone,
            frames=ViewerFrames() if output is _WEBSOCKET else None,
        )
        broker.connections[connection.id] = connection
        broker.observer.connection_opened(connection)
        wanted = broker.table.request(request.path.app, request.stream)
        viewer = Viewer(
            connection,
            _STREAM_ID,
            wanted.key,
            own_name(request.query),
            self._loop.now,
            dimensions=dimensions_of(settings.dimension_parameters, {}, request.query),
            grant=request.grant,
            encoding=output.kind,
        )
        self._tokens.bind(token, viewer)
        broker.playing.enter(viewer, replace(wanted, app=replace(app, play_wait_s=wait_s)))
        if taken.received:
            connection.receive(taken.received)

    def _head(self, key: str, output: _Output, head: bytes) -> bytes:
        """What is said before the first frame; tracks that are left out are named in the head."""
        stream = self._broker.streams.get(key)
        encoded = None if stream is None else stream.encodings.get(output.kind)
        left_out = () if encoded is None else encoded.left_out
        lines = b"".join(b"Penstock-Left-Out: %s\r\n" % _header_text(f"{each.what}: {each.why}") for each in left_out)
        return head[:-2] + lines + head[-2:] + output.preface


def _head_lines(content_type: bytes, cors: bytes) -> bytes:
    # The end of the answer is the end of the connection, so that all who watch share each byte.
    return b"Content-Type: %s\r\n" % content_type + NO_STORE + b"X-Accel-Buffering: no\r\nConnection: close\r\n" + cors


def _refusal(request: MediaRequest, code: StatusCode) -> bytes:
    if code is StatusCode.PLAY_STREAM_NOT_FOUND:
        answer = not_found(request.cors + b"Connection: close\r\n")
    else:
        answer = error_of(503, headers=(b"Retry-After: 5\r\n", request.cors), is_last=True)
    return answer.flush.data


def _seconds_of(text: str) -> float:
    """What a client may wait; what is no number is none."""
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0.0


def _header_text(text: str) -> bytes:
    return "".join(each if each.isprintable() else " " for each in text).encode("ascii", "replace")
