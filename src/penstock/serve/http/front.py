"""The front: every connection over HTTP, what its requests are, and who answers them.

Owns which requests are for media and which are web's, how long a head may take, that access is asked before a site is,
and how answers that many wait for go out: all together, media before playlists, in slices. What is answered is the
matter of the sites, by the kind of address; what was laid out before is found by the line that asks for it.
"""

import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from penstock.access.request import AccessRequest, Refused
from penstock.media_paths import MediaKind
from penstock.serve.connections.transport import Transport
from penstock.serve.http.answers import AnswerTable, Laid
from penstock.serve.http.connection import HttpConnection
from penstock.serve.http.cors import Cors
from penstock.serve.http.deadlines import Deadlines
from penstock.serve.http.handover import OnGone, WebHandover
from penstock.serve.http.layout import error_of
from penstock.serve.http.proxies import TrustedProxies
from penstock.serve.http.requests import MAX_HEAD_BYTES, Head, Traits, basic_of, bearer_of, read_head, read_traits
from penstock.serve.http.site import (
    ANSWER_PARAMETERS,
    SECRET_PARAMETERS,
    Answer,
    MediaRequest,
    Rank,
    Site,
    Stream,
    Wait,
    Waiter,
)
from penstock.serve.reactor import Loop, Timer, Turn
from penstock.serve.sending.fan_out import FanOut, Sending
from penstock.serve.streams.access.gatekeeper import Gatekeeper
from penstock.serve.streams.access.grant import Grant

MAX_WAITING: Final = 1024
"""Connections that have not asked for anything yet, of a crowd that comes within one round trip too."""
HEAD_S: Final = 10.0
"""How long a head may take, the time before its first byte included where it is the first."""
IDLE_S: Final = 60.0
"""How long a connection may rest between two requests."""
SLOW_S: Final = 10.0
"""An answer of which nothing is taken for this long is given up, and so is one of what is gone by then."""
_PER_SLICE: Final = 32
_SLICE_BYTES: Final = 1024 * 1024
"""What is sent to several at once takes about half a millisecond at most, whatever its size."""
_PROTOCOLS: Final = {MediaKind.FLV: "http-flv", MediaKind.MP4: "http-mp4"}
_ALLOW: Final = b"Allow: GET, HEAD, OPTIONS\r\n"
_BEARER: Final = b'WWW-Authenticate: Bearer realm="penstock"\r\n'
_BASIC: Final = b'WWW-Authenticate: Basic realm="penstock", charset="UTF-8"\r\n'


def _nothing() -> None:
    """Nobody wants to know."""


class _Caller(NamedTuple):
    """Whom the gatekeeper is asked about."""

    address: str


class _Asked(NamedTuple):
    """A request about which the gatekeeper is asked."""

    connection: HttpConnection
    head: Head
    traits: Traits
    address: str
    site: Site


class HttpFront:
    """All connections over HTTP that are in this worker and not handed over or given away."""

    def __init__(
        self,
        loop: Loop,
        handover: WebHandover,
        gatekeeper: Gatekeeper,
        fan_out: FanOut,
        *,
        cors: Cors,
        proxies: TrustedProxies,
        on_error: Callable[[Exception], None],
    ) -> None:
        """`on_error`: told what cost a connection and should not have."""
        self.sites: dict[MediaKind, Site] = {}
        """Who answers which addresses; where nobody does, nothing is there."""
        self.table = AnswerTable()
        self.cors = cors
        self._loop = loop
        self._handover = handover
        self._gatekeeper = gatekeeper
        self._fan_out = fan_out
        self._proxies = proxies
        self._on_error = on_error
        self._connections: set[HttpConnection] = set()
        self._heads = Deadlines[HttpConnection](loop, HEAD_S, self.on_lost)
        self._idle = Deadlines[HttpConnection](loop, IDLE_S, self.on_lost)
        self._slow = Deadlines[HttpConnection](loop, SLOW_S, self.on_lost)
        self._ready: dict[Rank, deque[Wait]] = {rank: deque() for rank in Rank}
        self._turn = Turn(self._send_ready, is_background=True)
        self._timers: dict[Wait, Timer] = {}

    def __len__(self) -> int:
        return len(self._connections)

    # Connections.

    def accept(self, connection: socket.socket, address: str, on_gone: OnGone = _nothing) -> None:
        """Take over a non-blocking socket. `on_gone` is called once, when this worker has no more to do with it."""
        self._open(connection, None, address, on_gone)

    def accept_tls(self, transport: Transport, address: str, on_gone: OnGone = _nothing) -> None:
        """The same for one whose TLS handshake is done."""
        # Records that came right behind the handshake do not make the socket readable any more.
        self._open(None, transport, address, on_gone).look()

    def _open(
        self, connection: socket.socket | None, transport: Transport | None, address: str, on_gone: OnGone
    ) -> HttpConnection:
        if len(self._heads) >= MAX_WAITING and (oldest := self._heads.oldest) is not None:
            # Many are accepted before any of them is read: its request may be there.
            oldest.look()
            if self._heads.oldest is oldest:
                self.on_lost(oldest)
        opened = HttpConnection(
            self._loop, self, connection=connection, transport=transport, address=address, on_gone=on_gone
        )
        self._connections.add(opened)
        self._heads.begin(opened)
        return opened

    def close(self) -> None:
        """Close every connection that is still here."""
        for connection in list(self._connections):
            self.on_lost(connection)
        for deadlines in (self._heads, self._idle, self._slow):
            deadlines.close()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._handover.close()

    def _forget(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        for deadlines in (self._heads, self._idle, self._slow):
            deadlines.end(connection)

    def on_lost(self, connection: HttpConnection) -> None:
        """It is gone, or has to go."""
        self._forget(connection)
        connection.close()

    def on_bug(self, connection: HttpConnection, error: Exception) -> None:
        """One exception costs one connection."""
        self._on_error(error)
        self.on_lost(connection)

    def on_progress(self, connection: HttpConnection) -> None:
        """A part of its answer was taken. One who is behind has no more time: it would hold memory for as long as it
        likes, byte by byte."""
        if not connection.is_behind or connection not in self._slow:
            self._slow.begin(connection)

    def on_sent(self, connection: HttpConnection) -> None:
        """Its answer was taken to the end."""
        self._slow.end(connection)
        if connection.is_last:
            self.on_lost(connection)
        else:
            self._idle.begin(connection)

    # Requests.

    def on_data(self, connection: HttpConnection, data: bytes) -> None:
        """What it has sent, from the beginning of a request."""
        head = self._remembered(data) or read_head(data)
        if isinstance(head, Head):
            self._heads.end(connection)
            self._idle.end(connection)
            connection.take_request(head)
            self._on_head(connection, head)
            connection.rest()
        elif head is False:
            self._forget(connection)
            connection.give_to_web(self._handover.give, self._handover.give_tls)
        elif len(data) >= MAX_HEAD_BYTES:
            self._refuse(connection, 431)
        else:
            if self._idle.end(connection):
                self._heads.begin(connection)
            connection.wait_for_more(len(data))

    def _remembered(self, data: bytes) -> Head | None:
        """By its line alone, where the answer is laid out."""
        end = data.find(b"\r\n")
        laid = self.table.get(data[:end])
        end_of_head = data.find(b"\r\n\r\n", end)
        if laid is None or end_of_head < 0:
            return None
        block = data[end + 2 : end_of_head + 4]
        return Head(data[:end], laid.line, block, end_of_head + 4)

    def _on_head(self, connection: HttpConnection, head: Head) -> None:
        traits = self._traits_of(head)
        method, path, _ = head.line
        connection.is_last = not traits.stays_open
        connection.takes_head_only = method == b"HEAD"
        connection.wanted_etags = traits.if_none_match
        connection.own_head_lines = self.cors.own_line(traits.origin)
        if traits.fault is not None:
            self._refuse(connection, traits.fault)
        elif method == b"OPTIONS":
            connection.take_answer(self.cors.options(path.app))
        elif method not in (b"GET", b"HEAD"):
            self._refuse(connection, 405, _ALLOW)
        else:
            self._serve(connection, head, traits)

    def _traits_of(self, head: Head) -> Traits:
        is_newest = head.raw_line.endswith(b"/1.1")
        traits = self.table.traits_of(head.block) if is_newest else None
        if traits is None:
            traits = read_traits(head.raw_line, head.block)
            if is_newest and traits.fault is None:
                self.table.remember(head.block, traits)
        return traits

    def _serve(self, connection: HttpConnection, head: Head, traits: Traits) -> None:
        path = head.line.path
        address = self._proxies.address_of(connection.address, traits.headers)
        caller = _Caller(address)
        laid = self.table.get(head.raw_line)
        is_let_in = laid is not None and (laid.is_free or self._gatekeeper.is_open)
        if laid is not None and is_let_in and not self._gatekeeper.is_blocked(caller):
            is_given = self._give(connection, laid, address, traits)
            if is_given:
                return
        site = self.sites.get(path.kind)
        if site is None:
            self._refuse(connection, 404, self.cors.shared_lines(path.app), closes=False)
            return
        is_websocket = traits.headers.get(b"upgrade", b"").lower() == b"websocket"
        if is_websocket and not self.cors.admits_socket(path.app, traits.headers):
            self._refuse(connection, 403)
            return
        if site.is_free(path) and not self._gatekeeper.is_blocked(caller):
            self._decided(_Asked(connection, head, traits, address, site), None)
            return
        request = AccessRequest(
            action="play",
            app=path.app,
            stream=path.stream,
            protocol="ws-flv" if is_websocket else _PROTOCOLS.get(path.kind, "hls"),
            peer_ip=address.rpartition(":")[0].strip("[]"),
            stream_query=head.line.query,
            bearer=bearer_of(traits.headers),
            basic=basic_of(traits.headers),
        )
        asked = _Asked(connection, head, traits, address, site)
        self._gatekeeper.decide(caller, request, partial(self._decided, asked))

    def _decided(self, asked: _Asked, decision: Grant | Refused | None) -> None:
        connection, head, traits, address, site = asked
        if connection.head is not head:
            return  # it did not wait for that
        path = head.line.path
        cors = self.cors.shared_lines(path.app)
        if isinstance(decision, Refused):
            if decision.has_credentials:
                self._refuse(connection, 403, cors, closes=False)
            else:
                # A browser would ask its user for a password, though a script has asked that can ask better.
                is_script = traits.headers.get(b"sec-fetch-mode", b"navigate") != b"navigate"
                challenges = _BEARER if is_script else _BEARER + _BASIC
                self._refuse(connection, 401, challenges + cors, closes=False)
            return
        public, credentials = self._split(path.app, head.line.query)
        stream = path.stream if decision is None else decision.stream
        if stream == path.stream:
            laid = self.table.get(_with_query(head.raw_line, public))
            if laid is not None and self._give(connection, laid, address, traits):
                return
        request = MediaRequest(
            path=path,
            stream=stream,
            parameters=dict(parse_qsl(public, keep_blank_values=True)),
            credentials=credentials,
            query=head.line.query,
            headers=traits.headers,
            address=address,
            is_encrypted=self._proxies.is_encrypted(
                connection.address, traits.headers, is_encrypted=connection.is_encrypted
            ),
            is_head=connection.takes_head_only,
            grant=decision,
            cors=cors,
        )
        try:
            answer = site.answer(request)
            connection.own_head_lines += b"".join(request.own_lines)
            self._settle(connection, answer)
        except Exception as error:  # the site's, and it costs its own connection alone
            self.on_bug(connection, error)

    def _split(self, app: str, query: str) -> tuple[str, str]:
        """What of a query names an answer, and what lets in. What a callback wants to see only the callback knows."""
        is_for_callback = self._gatekeeper.asks_callback(app)
        parts: tuple[list[str], list[str]] = [], []
        for pair in filter(None, query.split("&")):
            name = unquote_plus(pair.partition("=")[0])
            lets_in = name in SECRET_PARAMETERS or (is_for_callback and name not in ANSWER_PARAMETERS)
            parts[lets_in].append(pair)
        public, credentials = map("&".join, parts)
        return public, credentials

    # Answers.

    def _give(self, connection: HttpConnection, laid: Laid, address: str, traits: Traits) -> bool:
        if laid.on_hit is not None and not laid.on_hit(address, traits):
            return False
        compressed = laid.compressed
        self._settle(connection, compressed if compressed is not None and traits.takes_gzip else laid.answer)
        return True

    def _settle(self, connection: HttpConnection, answer: Answer | Wait | Stream) -> None:
        match answer:
            case Answer():
                connection.take_answer(answer)
            case Wait() if answer.answer is not None:
                connection.take_answer(answer.answer)
            case Wait():
                connection.join(answer, self._on_ready)
                if answer not in self._timers:
                    self._timers[answer] = self._loop.call_at(answer.until, partial(self._give_up, answer))
            case Stream():
                self._forget(connection)
                taken = connection.give_away()
                if taken is not None:
                    answer.begin(taken)

    def _give_up(self, wait: Wait) -> None:
        self._timers.pop(wait, None)
        wait.fulfil(wait.late)

    def _on_ready(self, wait: Wait) -> None:
        if wait.answer is not None:
            # Until all have had it, whatever becomes of it for others.
            wait.answer.flush.segment.pin()
        self._ready[wait.rank].append(wait)
        self._loop.queue(self._turn)

    def _send_ready(self, _events: int) -> None:
        """Those who waited for the same are sent the same, some at a time, media first."""
        while (wait := next((queue[0] for queue in self._ready.values() if queue), None)) is not None:
            answer = wait.answer
            if answer is not None and wait.waiters:
                count = max(1, min(_PER_SLICE, _SLICE_BYTES // answer.size))
                self._send_to_all(answer, list(islice(wait.waiters, count)))
            if not wait.waiters:
                self._ready[wait.rank].popleft()
                if answer is not None:
                    answer.keeper.unpin(answer.flush.segment)
                timer = self._timers.pop(wait, None)
                if timer is not None:
                    timer.cancel()
            if self._loop.clock() >= self._loop.turn_ends_at:
                if any(self._ready.values()):
                    self._loop.queue(self._turn)
                return

    def _send_to_all(self, answer: Answer, waiters: list[Waiter]) -> None:
        sharing = [each for each in waiters if each.takes_shared_bytes]
        particular = [each for each in waiters if not each.takes_shared_bytes]
        (sent_to_each,) = self._fan_out.send([Sending(answer.flush, [each.descriptor for each in sharing])])
        for each, sent_bytes in zip(sharing, sent_to_each, strict=True):
            each.take_answer(answer, sent_bytes)
        for each in particular:
            each.take_answer(answer)

    def _refuse(self, connection: HttpConnection, status: int, headers: bytes = b"", *, closes: bool = True) -> None:
        is_last = closes or connection.is_last
        connection.wanted_etags = None
        connection.take_answer(error_of(status, headers=(headers,), is_last=is_last))


def _with_query(raw_line: bytes, query: str) -> bytes:
    """The same line with another query."""
    method, target, version = raw_line.split(b" ")
    path = target.partition(b"?")[0]
    return b" ".join((method, path + b"?" + query.encode("ascii") if query else path, version))
