"""HLS: which request is for which playlist or segment, of which stream, and whose view it belongs to.

Owns the addresses below a stream, the channels of streams while somebody asks for them, and the views of those who do.
A stream that is not there is refused, or waited for, as every viewer does. Names of segments cannot be guessed, so
nobody is asked about them; whoever was sent away is refused for a while all the same.
"""

# Long because: whose view a request is, whether it has room, and what becomes of its channel decide each other.

import itertools
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from penstock.control.live import SentAway
from penstock.control.messages import key_of, name_of
from penstock.media_paths import MediaKind, MediaPath
from penstock.protocol.status import StatusCode
from penstock.relay.packaging.names import Name, Names, read_name
from penstock.relay.packaging.window import Place
from penstock.serve.http.answers import AnswerTable
from penstock.serve.http.hls.channel import CLASSIC, LOW_LATENCY, HlsChannel, Multivariant
from penstock.serve.http.hls.playlists import Form
from penstock.serve.http.hls.views import STREAM_ID, Caller, View
from penstock.serve.http.layout import error_of, not_found
from penstock.serve.http.requests import Traits, takes_gzip
from penstock.serve.http.site import Answer, MediaRequest, Wait, client_of
from penstock.serve.http.view_tokens import ViewTokens, view_line
from penstock.serve.reactor import Loop
from penstock.serve.streams.access.gatekeeper import EXPIRED
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.dimensions import dimensions_of, named_parameters, own_name
from penstock.serve.streams.live_stream import LiveStream

REFUSED_S: Final = 60.0
"""For so long one who was sent away is refused."""
VIEW_TARGET_DURATIONS: Final = 3
"""Who asks for nothing during so many of them is gone."""
NO_ROOM_S: Final = 5.0
"""For so long one for whom a stream had no room hears so without being looked at again."""
_LOOK_S: Final = 1.0
_NO_REQUEST: Final = "no request"
_KICKED: Final = "kicked"
_MOST_DIGITS: Final = 12
_MOST_KNOWN: Final = 20_000
_MOST_KNOWN_BYTES: Final = 1024
"""Of what a head says, where it is remembered whose it is."""
_LOOPBACK: Final = frozenset(("127.0.0.1", "::1"))


_Held = TypeVar("_Held")


class HlsSite:
    """All of HLS in one worker."""

    def __init__(
        self,
        broker: Broker,
        table: AnswerTable,
        loop: Loop,
        *,
        secret: bytes,
        cors_of: Callable[[str], bytes],
        tokens: ViewTokens,
    ) -> None:
        """`secret`: the same in all workers. `cors_of`: lines of the heads of an app's answers."""
        self._broker = broker
        self._table = table
        self._loop = loop
        self._secret = secret
        self._cors_of = cors_of
        self._tokens = tokens
        self._channels: dict[str, HlsChannel] = {}
        self._streams: dict[str, LiveStream] = {}
        """What channels listen to."""
        self._closing_at: dict[str, float] = {}
        """Of channels whose stream is over."""
        self._views: dict[tuple[Caller, str | None], View] = {}
        self._views_per_ip: Counter[str] = Counter()
        self._by_caller: dict[Caller, View] = {}
        """The last view of each caller, whoever it said to be."""
        self._known: dict[tuple[str, str], tuple[Traits, View]] = {}
        """Whose requests came from an address and a port, while they say the same of themselves."""
        self._refused: dict[tuple[Caller, str | None], float] = {}
        """Views that were sent away, and until when they are."""
        self._refused_callers: dict[Caller, float] = {}
        """The same for requests of which nobody asks whose they are."""
        self._no_room: dict[Caller, float] = {}
        """Who was told that a stream has no room, and until when nobody is asked again."""
        self.tell_sent_away: Callable[[SentAway], object] = lambda _message: None
        """Tells all other workers."""
        self._numbers = itertools.count(1)
        self._boot = f"{secrets.token_hex(3)}-hls"
        self._is_looking = False

    @property
    def now(self) -> float:
        """By the clock of the loop."""
        return self._loop.now

    @property
    def channels(self) -> int:
        """How many streams are packaged."""
        return len(self._channels)

    # Requests.

    def is_free(self, path: MediaPath) -> bool:
        """Segments, parts and init segments: their names have a part that nobody can guess."""
        return path.kind is MediaKind.BELOW and read_name(path.rest) is not None

    def answer(self, request: MediaRequest) -> Answer | Wait:
        """What becomes of a request."""
        caller = Caller(request.key, _ip_of(request.address), request.client)
        subject = None if request.grant is None else request.grant.subject
        if self._is_refused(caller, subject, is_named=self.is_free(request.path)):
            return error_of(403, headers=(request.cors,))
        if self._no_room.get(caller, 0.0) > self._loop.now:
            return _no_room(request)
        if request.path.kind is MediaKind.PLAYLIST:
            return self._answer_multivariant(request, caller)
        if request.path.rest in (LOW_LATENCY, CLASSIC):
            return self._answer_playlist(request, caller)
        name = read_name(request.path.rest)
        return not_found(request.cors) if name is None else self._answer_name(request, caller, name)

    def _answer_multivariant(self, request: MediaRequest, caller: Caller) -> Answer | Wait:
        channel = self._channel_for(request)
        view = self._see(request, caller, channel, is_playlist=True)
        if view is None and self._may_not_watch(caller, channel):
            return _no_room(request)
        is_low_latency = request.parameters.get("ll") != "0"
        if view is not None:
            request.own_lines.append(view_line(self._tokens.token_of(view)))
        asked = Multivariant(is_low_latency, takes_gzip(request.headers), request.credentials)
        answer = channel.multivariant(asked, self._wait_s(request))
        if isinstance(answer, Wait) and view is not None:
            channel.owe_playlist(answer, view)
        return self._count(view, answer)

    def _answer_playlist(self, request: MediaRequest, caller: Caller) -> Answer | Wait:
        try:
            place = _place_of(request)
        except ValueError:
            return error_of(400, "These are no numbers of a segment and a part.", (request.cors,))
        channel = self._channel_for(request)
        view = self._see(request, caller, channel, is_playlist=True)
        if view is None and self._may_not_watch(caller, channel):
            return _no_room(request)
        is_low_latency = request.path.rest == LOW_LATENCY
        is_delta = is_low_latency and request.parameters.get("_HLS_skip") in ("YES", "v2")
        form = Form(is_low_latency, is_delta, takes_gzip(request.headers), is_awaited=place is not None)
        answer = channel.playlist(form, place)
        if isinstance(answer, Wait) and view is not None:
            channel.owe_playlist(answer, view)
        return self._count(view, answer)

    def _answer_name(self, request: MediaRequest, caller: Caller, name: Name) -> Answer | Wait:
        if not self._may_be_named(request.key, name):
            return not_found(request.cors)
        channel = self._channel_for(request)
        view = self._see(request, caller, channel, is_playlist=False)
        if view is None and self._may_not_watch(caller, channel):
            return _no_room(request)
        answer = channel.named(name) or not_found(request.cors)
        if isinstance(answer, Wait) and view is not None:
            channel.owe(name, view)
        return self._count(view, answer, is_media=True)

    def _may_be_named(self, key: str, name: Name) -> bool:
        """Nobody is asked about it, so nothing is begun for one who guesses, where the stream is known here."""
        stream = self._broker.streams.get(key)
        numbering = None if stream is None else stream.log.numbering
        return numbering is None or Names(self._secret, key, numbering.began_s).token == name.token

    def _wait_s(self, request: MediaRequest) -> float:
        text = request.parameters.get("wait_s", "")
        wanted_s = float(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0.0
        return min(wanted_s, self._broker.settings.app(request.path.app).play_wait_s)

    # Channels.

    def _channel_for(self, request: MediaRequest) -> HlsChannel:
        key = request.key
        channel = self._channels.get(key)
        if channel is not None and key in self._closing_at and key in self._broker.streams:
            # Another stream has begun under the name.
            self._close_channel(key)
            channel = None
        if channel is None:
            channel = self._channels[key] = self._new_channel(request.path.app, request.stream)
        return channel

    def _new_channel(self, app: str, stream_name: str) -> HlsChannel:
        settings = self._broker.settings
        return HlsChannel(
            app,
            stream_name,
            settings.hls,
            secret=self._secret,
            chunk_size=settings.connection.chunk_size,
            budget=self._broker.budget,
            max_bytes=self._share,
            table=self._table,
            loop=self._loop,
            cors=partial(self._cors_of, app),
            is_guarded=lambda: not self._broker.gatekeeper.is_open,
            view_of=self._view_of,
        )

    def _share(self) -> int:
        """What one channel may hold. Half of all memory is left to logs, which would be cut back for it to nothing."""
        of_all = self._broker.budget.max_bytes // 2 // max(1, len(self._channels))
        return min(of_all, self._broker.settings.log_limits.max_bytes)

    def _attach(self, channel: HlsChannel, stream: LiveStream) -> None:
        self._streams[channel.key] = stream
        stream.listeners.append(channel)
        channel.attach(stream)
        self._keep(channel, stream)

    def _keep(self, channel: HlsChannel, stream: LiveStream) -> None:
        stream.not_packaged = channel.left_out
        if stream.packaged_ms != channel.kept_ms:
            stream.keep(channel.kept_ms)
            self._broker.peers.followed.viewers_changed(channel.key)

    def _end_channel(self, channel: HlsChannel) -> None:
        """Its stream is over: what is left stays for those who have yet to ask for it."""
        self._leave_stream(channel)
        linger_s = VIEW_TARGET_DURATIONS * channel.target_duration_s
        self._closing_at[channel.key] = self._loop.now + linger_s
        channel.end()

    def _leave_stream(self, channel: HlsChannel) -> None:
        stream = self._streams.pop(channel.key, None)
        if stream is not None:
            stream.listeners.remove(channel)
            stream.keep(0)
            stream.not_packaged = ()
            self._broker.peers.followed.viewers_changed(channel.key)

    def _close_channel(self, key: str) -> None:
        self._closing_at.pop(key, None)
        channel = self._channels.pop(key)
        self._leave_stream(channel)
        channel.close()

    # Views.

    def _see(self, request: MediaRequest, caller: Caller, channel: HlsChannel, *, is_playlist: bool) -> View | None:
        """Whose request it is: a new view, where there is none. None: of a stream that is over."""
        subject = None if request.grant is None else request.grant.subject
        view = self._views.get((caller, subject)) if is_playlist else self._by_caller.get(caller)
        if channel.key in self._closing_at:
            return None
        if view is None:
            if self._has_too_many(caller):
                self._broker.observer.limit_hit("views per address", f"{caller.ip} has as many as it may")
                return None
            view = self._begin(request, caller, is_playlist=is_playlist)
            if view.stand_in.is_closed:
                return None  # there is no such stream, and that was known at once
        view.seen_at = self._loop.now
        self._by_caller[caller] = view
        if is_playlist and not view.has_asked_for_playlist:
            view.has_asked_for_playlist = True
            view.work(self._loop.now)
        return view

    def _may_not_watch(self, caller: Caller, channel: HlsChannel) -> bool:
        """Whether one without a view is none of those who ask for the rest of a stream that is over."""
        if caller in self._no_room:
            return True
        # What is left of a stream is answered to anybody.
        return not channel.is_closed and channel.key not in self._closing_at and self._has_too_many(caller)

    def _has_too_many(self, caller: Caller) -> bool:
        settings = self._broker.settings
        if settings.exempts_loopback and caller.ip in _LOOPBACK:
            return False
        return self._views_per_ip[caller.ip] >= settings.max_connections_per_ip

    def _begin(self, request: MediaRequest, caller: Caller, *, is_playlist: bool) -> View:
        broker, settings = self._broker, self._broker.settings
        names = settings.dimension_parameters
        view = View(
            self,
            f"{self._boot}{next(self._numbers)}",
            caller,
            address=request.address,
            app=request.path.app,
            loop=self._loop,
            own_name=own_name(request.query),
            dimensions=dimensions_of(names, named_parameters(names, None), request.query),
            grant=request.grant,
        )
        self._views[caller, view.subject] = view
        self._views_per_ip[caller.ip] += 1
        broker.connections[view.connection.id] = view.connection
        wanted = broker.table.request(request.path.app, request.stream)
        app = replace(wanted.app, play_wait_s=self._wait_s(request) if is_playlist else 0.0)
        # Of a name nobody was asked whether it may be watched: it is looked for in this server, and nothing is begun.
        broker.playing.enter(view, replace(wanted, app=app, may_be_pulled=is_playlist))
        self._look_soon()
        return view

    def on_view_ready(self, view: View, now: float) -> None:
        """Its stream is there, or has ended."""
        stream, channel = self._broker.streams.get(view.key), self._channels.get(view.key)
        if isinstance(view.stream, LiveStream) and view.stream.is_over:
            if channel is not None and view.key not in self._closing_at:
                self._end_channel(channel)
            self._broker.playing.end_play(view)
            return
        if stream is not None and channel is not None and not channel.is_attached:
            self._attach(channel, stream)
        if view.has_asked_for_playlist and not view.is_admitted:
            # Until now it could not ask for anything more.
            view.seen_at = now
            self._broker.playing.admit(view)

    def on_view_refused(self, view: View, code: StatusCode) -> None:
        """It comes to nothing: whoever waits for the stream is told so."""
        if code is not StatusCode.PLAY_STREAM_NOT_FOUND and len(self._no_room) < _MOST_KNOWN:
            self._no_room[view.caller] = self._loop.now + NO_ROOM_S
        self._forget(view)
        channel = self._channels.get(view.key)
        if channel is not None and not channel.is_attached:
            self._close_channel(view.key)

    def on_view_ended(self, view: View) -> None:
        """Its stream is over; under its name there may be another."""
        self._forget(view)

    def on_view_revoked(self, view: View, reason: str) -> None:
        """It may not go on, nor come back at once, unless with another token than one that has expired."""
        caller, subject = view.caller, view.subject
        if EXPIRED not in reason and not self._is_refused(caller, subject, is_named=False):
            self._refuse(caller, subject)
            self.tell_sent_away(SentAway(name_of(caller.key), caller.ip, caller.client, subject))

    def sent_away(self, message: SentAway) -> None:
        """Another worker has ended a view. Of the same player there may be one here, or there soon would be."""
        caller = Caller(key_of(message.name), message.ip, message.client)
        self._refuse(caller, message.subject)
        view = self._views.get((caller, message.subject))
        if view is not None:
            self._broker.playing.end(view, _KICKED)

    def _refuse(self, caller: Caller, subject: str | None) -> None:
        self._refused[caller, subject] = self._refused_callers[caller] = self._loop.now + REFUSED_S
        self._look_soon()

    def on_view_closed(self, view: View, reason: str) -> None:
        """The connection that it stands for is to be closed."""
        self._broker.playing.stop(view.connection, STREAM_ID, reason)
        self._forget(view)

    def _forget(self, view: View) -> None:
        if self._views.pop((view.caller, view.subject), None) is not None:
            ip = view.caller.ip
            self._views_per_ip[ip] -= 1
            if not self._views_per_ip[ip]:
                del self._views_per_ip[ip]
        if self._by_caller.get(view.caller) is view:
            del self._by_caller[view.caller]
        self._broker.connections.pop(view.connection.id, None)
        view.stand_in.is_closed = True

    def _is_refused(self, caller: Caller, subject: str | None, *, is_named: bool) -> bool:
        now = self._loop.now
        if not is_named:
            return self._refused.get((caller, subject), 0.0) > now
        # Whose request for a segment it is, nobody was asked: it may be of another one with such a player behind the
        # same address, who watches.
        return self._refused_callers.get(caller, 0.0) > now and caller not in self._by_caller

    def _view_of(self, key: str, address: str, traits: Traits) -> View | None:
        """Whose request the table is about to answer; None: it has to be looked at closely."""
        known = self._known.get((key, address))
        if known is not None and known[0] is traits and not known[1].stand_in.is_closed:
            view = known[1]
        else:
            found = self._by_caller.get(Caller(key, _ip_of(address), client_of(traits.headers)))
            if found is None:
                return None
            view = found
            # What is kept for each port of an address is not to be large.
            if sum(map(len, traits.headers.values())) <= _MOST_KNOWN_BYTES:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[key, address] = traits, view
        view.seen_at = self._loop.now
        return view

    def _count(self, view: View | None, answer: Answer | Wait, *, is_media: bool = False) -> Answer | Wait:
        if view is not None and isinstance(answer, Answer):
            view.took(answer.size, is_media=is_media)
        return answer

    def on_first_media(self, view: View) -> None:
        """A view is answered with media for the first time."""
        self._broker.first_frame_sent(view)

    # Once a second.

    def _look_soon(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        now = self._loop.now
        for view in list(self._views.values()):
            channel = self._channels.get(view.key)
            target_s, first_s = (2, 0.0) if channel is None else (channel.target_duration_s, channel.first_wait_s)
            is_waiting = view.stream is None
            if not is_waiting and now - view.seen_at >= VIEW_TARGET_DURATIONS * target_s + first_s:
                view.connection.close(_NO_REQUEST)
        self._known = {place: known for place, known in self._known.items() if not known[1].stand_in.is_closed}
        self._refused, self._refused_callers, self._no_room = (
            _still(self._refused, now),
            _still(self._refused_callers, now),
            _still(self._no_room, now),
        )
        for key in [key for key, at in self._closing_at.items() if at <= now]:
            self._close_channel(key)
        watched = {view.key for view in self._views.values()}
        for key in [key for key in self._channels if key not in watched and key not in self._closing_at]:
            self._close_channel(key)
        for key, stream in self._streams.items():
            self._keep(self._channels[key], stream)
        self._is_looking = bool(self._views or self._channels or self._refused or self._no_room)
        if self._is_looking:
            self._loop.call_later(_LOOK_S, self._look)


def _still(held: dict[_Held, float], now: float) -> dict[_Held, float]:
    return {each: until for each, until in held.items() if until > now}


def _no_room(request: MediaRequest) -> Answer:
    return error_of(503, "There is no room for more viewers.", (b"Retry-After: %d\r\n" % NO_ROOM_S, request.cors))


def _place_of(request: MediaRequest) -> Place | None:
    """Up to where the playlist is to reach; None: as it is now. What makes no sense raises ValueError."""
    segment, part = (request.parameters.get(name) for name in ("_HLS_msn", "_HLS_part"))
    if segment is None and part is None:
        return None
    if segment is None or not _is_number(segment) or (part is not None and not _is_number(part)):
        raise ValueError("these are no numbers of a segment and a part")
    return Place(int(segment), None if part is None else int(part))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _ip_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
