"""One stream as HLS: packaged while somebody watches, its parts and playlists laid out once for all.

Owns the packager of one stream in this worker, what can be asked for under which name, and who waits for what has yet
to come: the next part and the next playlist are known before they exist, and all who wait for them are answered
together. Nothing here is per viewer. Packaging is done in turns of its own, so that no flush waits for it.
"""

# Long because: each part that comes changes what can be asked for, who is answered and what is in the table.

import itertools
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from penstock.media.fmp4_tracks import LeftOut
from penstock.media.hls import multivariant_playlist
from penstock.media_paths import MediaKind, media_path
from penstock.relay.log import LogBudget
from penstock.relay.packaging.feed import PackagerFeed
from penstock.relay.packaging.names import Name, NameKind, Names
from penstock.relay.packaging.packager import Packager
from penstock.relay.packaging.parts import Packaged, PackagedPart, SegmentStart
from penstock.relay.packaging.window import Place, Window
from penstock.relay.readable_log import Flush, ReadableLog
from penstock.serve.http.answers import AnswerTable
from penstock.serve.http.hls.playlists import Form, Playlists, playlist_answer
from penstock.serve.http.hls.shelves import IMMUTABLE, Shelf, Shelves
from penstock.serve.http.layout import answer_of, error_of, not_found
from penstock.serve.http.requests import Traits
from penstock.serve.http.site import Answer, Rank, Wait
from penstock.serve.reactor import Loop, Turn
from penstock.serve.settings import HlsSettings

LOW_LATENCY: Final = "low.m3u8"
CLASSIC: Final = "classic.m3u8"
_SPARE_SEGMENTS_MS: Final = 2000
_WAIT_TARGET_DURATIONS: Final = 3
_LONGEST_TARGET_S: Final = 75
"""The longest segment that may be configured, and a picture that is late. More is told of a stream whose sound and
pictures have clocks that are far apart; neither views nor what is left of the stream may be kept by that."""
"""Who waits for a playlist or a part for longer is told to come back (RFC 8216bis, 6.2.5.2)."""
_LAID_PLACES: Final = 3
_MOST_WAITS: Final = 512
"""More than there are places and forms that anybody may wait for at a time."""
_MOST_HEADS: Final = 10_000
"""A crowd before a stream begins, each with credentials of its own."""

Asked = TypeVar("Asked", bound=Hashable)


class Multivariant(NamedTuple):
    """Which multivariant playlist: it repeats the credentials of whoever asks."""

    is_low_latency: bool
    is_gzip: bool = False
    credentials: str = ""


class Viewing(Protocol):
    """A view, as far as it is counted what it was sent."""

    def took(self, size: int, *, is_media: bool = True) -> None:
        """An answer goes out to it."""


ViewOf = Callable[[str, str, Traits], Viewing | None]
"""Whose request it is, by stream, address and what a head says; None: it has to be looked at closely."""


class PackagedStream(Protocol):
    """A live stream as its packager knows it."""

    @property
    def log(self) -> ReadableLog:
        """Where it is read: another one where the stream goes on in another worker."""


class HlsChannel:
    """One stream."""

    def __init__(
        self,
        app: str,
        stream_name: str,
        settings: HlsSettings,
        *,
        secret: bytes,
        chunk_size: int,
        budget: LogBudget,
        max_bytes: Callable[[], int],
        table: AnswerTable,
        loop: Loop,
        cors: Callable[[], bytes],
        is_guarded: Callable[[], bool],
        view_of: ViewOf,
    ) -> None:
        """`max_bytes`: of what is laid out; then the oldest goes. `is_guarded`: whether not everybody may watch."""
        self.app = app
        self.stream_name = stream_name
        self.key = f"{app}/{stream_name}"
        self._stream: PackagedStream | None = None
        """None until it is known where the stream is."""
        self._settings = settings
        self._secret = secret
        self._shelves = Shelves(budget)
        self._max_bytes = max_bytes
        self._table = table
        self._loop = loop
        self._cors = cors
        self._is_guarded = is_guarded
        self._view_of = view_of
        self._turn = Turn(self._work, is_background=True)
        self._packager = Packager(chunk_size)
        self._feed = PackagerFeed(self._packager)
        self._names: Names | None = None
        """None until the stream is known to be counted."""
        self._window: Window | None = None
        self._on_shelf: dict[int, Shelf] = {}
        """By segment."""
        self._parts: dict[int, Answer] = {}
        self._inits: dict[str, Answer] = {}
        self._next_part: tuple[int, Wait] | None = None
        self._owed: list[Viewing] = []
        """Views that wait for it."""
        self._owed_playlists: dict[Wait, list[Viewing]] = {}
        self._laid_now: set[str] = set()
        """The addresses of playlists of this moment that are in the table."""
        self._laid_segments: set[int] = set()
        self._laid_places: deque[tuple[str, str]] = deque()
        """The addresses of the next playlist and the newest ones in the table."""
        self._playlists: Playlists | None = None
        self._awaited: dict[tuple[Form, Place | None], Wait] = {}
        self._awaited_names: dict[Name, Wait] = {}
        self._awaited_heads: dict[Multivariant, Wait] = {}
        self._has_caught_up = False
        """Whether everything was packaged that the log held at first."""
        self._is_over = False
        self.is_closed = False

    # The stream.

    @property
    def is_attached(self) -> bool:
        """Whether it is known where the stream is."""
        return self._stream is not None

    def attach(self, stream: PackagedStream) -> None:
        """Package what the stream's log holds, and what comes."""
        self._stream = stream
        self._know_names(stream.log)

    def _know_names(self, log: ReadableLog) -> None:
        numbering = log.numbering
        if self._window is None and numbering is not None:
            self._names = Names(self._secret, self.key, numbering.began_s)
            rule = self._settings.rule
            self._window = Window(self._names, self._settings.playlist_ms, rule.segment_ms if rule else 0)
            self._feed.begin(log, self._window.length_ms + _SPARE_SEGMENTS_MS)
            self._go_on()

    @property
    def kept_ms(self) -> int:
        """How much the log is to keep: what a playlist names, and one playlist more."""
        length_ms = self._settings.playlist_ms if self._window is None else self._window.length_ms
        return 2 * length_ms + _SPARE_SEGMENTS_MS

    @property
    def held_log_bytes(self) -> int:
        """How much of the log has to stay for what is being packaged."""
        return self._feed.held_bytes

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Tracks that are in the stream and not in its segments."""
        return () if self._window is None else self._window.left_out

    @property
    def target_duration_s(self) -> int:
        """As its playlists say it; where that makes no sense, as long as it can make sense."""
        return 2 if self._window is None else min(self._window.target_duration_s, _LONGEST_TARGET_S)

    @property
    def first_wait_s(self) -> float:
        """How much longer one waits as long as no segment has ended: that may take a GOP, and nobody knows of which."""
        return 0.0 if self._is_ready or self._is_over else self._settings.longest_segment_s

    def on_flush(self, flush: Flush, now: float) -> None:  # noqa: ARG002  # as all listeners are called
        """New messages are in the log."""
        if self.is_closed or self._is_over or self._stream is None:
            return
        if self._window is None:
            # What was flushed is in the log already.
            self._know_names(self._stream.log)
        else:
            self._feed.on_flush(self._stream.log, flush)
            self._go_on()

    def _go_on(self) -> None:
        if self._feed.has_pending and not self._turn.is_queued:
            self._loop.queue(self._turn)

    def _work(self, _events: int) -> None:
        while self._feed.has_pending:
            try:
                packaged = self._feed.work()
                self._take(packaged)
            except Exception:
                # It would fail again with each flush, and hold the log for good: its viewers hear the end.
                self._break()
                raise
            self._feed.release(packaged)
            if self._loop.clock() >= self._loop.turn_ends_at:
                break
        if not self._feed.has_pending and not self._has_caught_up:
            # Before that a playlist would be an old one, and what a newer one of another worker names not be there.
            self._has_caught_up = True
            self._move_on()
        self._go_on()

    def end(self) -> None:
        """The stream is over: what is there stays for a while, and nobody waits any more."""
        if self._is_over:
            return
        while self._feed.has_pending:
            packaged = self._feed.work()
            self._take(packaged)
            self._feed.release(packaged)
        self._take(self._packager.finish())
        self._is_over = self._has_caught_up = True
        if self._window is not None:
            self._window.end()
        self._feed.close()
        self._move_on()

    def _break(self) -> None:
        """It cannot go on, for a reason that should not be."""
        self._is_over = self._has_caught_up = True
        self._feed.close()
        if self._window is not None:
            self._window.end()
        self._move_on()

    def close(self) -> None:
        """Nobody watches any more."""
        self.is_closed = True
        self._feed.close()
        for number in self._parts:
            self._take_out_part(number)
        self._take_out_playlists()
        for segment in list(self._on_shelf):
            self._forget(segment, [])
        for address in itertools.chain.from_iterable(self._laid_places):
            self._table.remove(address)
        self._laid_places.clear()
        self._owed_playlists.clear()
        self._parts.clear()
        gone = not_found(self._cors())
        if self._next_part is not None:
            self._take_out_part(self._next_part[0])
            self._next_part[1].fulfil(gone)
            self._next_part = None
        for wait in (*self._awaited.values(), *self._awaited_names.values(), *self._awaited_heads.values()):
            wait.fulfil(gone)

    # What is packaged.

    def _take(self, packaged: list[Packaged]) -> None:
        window = self._window
        if window is None or not packaged:
            return
        window.part_target_ms = self._packager.part_target_ms
        window.longest_ms = max(window.longest_ms, self._packager.longest_segment_ms)
        for each in packaged:
            window.take(each)
            if isinstance(each, SegmentStart):
                self._on_shelf[each.number] = self._shelves.open(_type_of(each), self._cors(), self._loop.now)
            elif isinstance(each, PackagedPart) and not each.is_gap:
                self._lay_out(each)
        for segment in window.forget_old():
            self._forget(segment.number, [part.number for part in segment.parts])
        while self._shelves.bytes_held > self._max_bytes() and window.has_spare:
            segment = window.forget_first()
            self._forget(segment.number, [part.number for part in segment.parts])
        self._move_on()

    def _lay_out(self, part: PackagedPart) -> None:
        shelf = self._on_shelf[part.segment]
        payloads = (piece.segment.read(piece.position, piece.size) for piece in part.ranges)
        answer = shelf.add_part(part.number, [part.boxes, *payloads])
        self._parts[part.number] = answer
        self._put_part(part.number, answer)
        if self._next_part is not None and self._next_part[0] == part.number:
            _, wait = self._next_part
            self._next_part = None
            for view in self._owed:
                view.took(answer.size)
            self._owed.clear()
            wait.fulfil(answer)

    def _forget(self, segment: int, parts: list[int]) -> None:
        shelf = self._on_shelf.pop(segment, None)
        if shelf is not None:
            shelf.drop()
        if segment in self._laid_segments and self._names is not None:
            self._laid_segments.remove(segment)
            self._table.remove(self._path_of(self._names.segment(segment)))
        for number in parts:
            if self._parts.pop(number, None) is not None:
                self._take_out_part(number)

    def _move_on(self) -> None:
        """The playlists are others now, and so is what comes next."""
        window = self._window
        if window is None or self.is_closed:
            return
        self._playlists = Playlists(window, self._cors(), is_private=self._is_guarded())
        self._take_out_playlists()
        self._hint(window)
        if not self._is_ready:
            return
        for asked, wait in list(self._awaited.items()):
            if wait.answer is not None or asked[1] is None or window.reaches(asked[1]):
                del self._awaited[asked]
                if wait.waiters:
                    self._fulfil_playlist(wait, self._playlists.answer(asked[0]))
        if self._awaited_names or self._awaited_heads:
            self._answer_first()
        # Of those who were told that it is late.
        self._owed_playlists = {wait: views for wait, views in self._owed_playlists.items() if wait.answer is None}
        self._put_next_playlists(window)

    def _fulfil_playlist(self, wait: Wait, answer: Answer) -> None:
        for view in self._owed_playlists.pop(wait, ()):
            view.took(answer.size, is_media=False)
        wait.fulfil(answer)

    def _answer_first(self) -> None:
        """Those who asked before anything was known."""
        names, self._awaited_names = self._awaited_names, {}
        for name, wait in names.items():
            answer = self.named(name)
            wait.fulfil(answer if isinstance(answer, Answer) else not_found(self._cors()))
        heads, self._awaited_heads = self._awaited_heads, {}
        for head, wait in heads.items():
            self._fulfil_playlist(wait, self._multivariant(head))

    def _hint(self, window: Window) -> None:
        number = window.next_part
        hinted, self._next_part = self._next_part, None
        if hinted is not None and hinted[0] == number:
            self._next_part = hinted
            return
        if hinted is not None:
            # It did not come: the stream is over, or goes on with other numbers.
            self._take_out_part(hinted[0])
            self._owed.clear()
            hinted[1].fulfil(not_found(self._cors()))
        if number is not None:
            wait = self._new_wait(Rank.MEDIA)
            self._next_part = number, wait
            self._put_part(number, wait)

    def _new_wait(self, rank: Rank, wait_s: float = 0.0) -> Wait:
        late = error_of(503, "It is late.", (b"Retry-After: 1\r\n", self._cors()))
        return Wait(self._loop.now + wait_s + _WAIT_TARGET_DURATIONS * self.target_duration_s, late, rank)

    # What is asked for.

    @property
    def window(self) -> Window | None:
        """What is named now; None: nothing is known of the stream yet."""
        return self._window

    @property
    def _is_ready(self) -> bool:
        return (
            self._window is not None and self._playlists is not None and self._has_caught_up and self._window.is_ready
        )

    def playlist(self, form: Form, place: Place | None = None) -> Answer | Wait:
        """A media playlist: the one of this moment, or the first that reaches a place."""
        window = self._window
        if window is not None and self._playlists is not None and self._is_ready:
            if place is not None and not window.is_ended and window.is_too_far(place):
                return error_of(400, "That is too far ahead.", (self._cors(),))
            if place is None or window.reaches(place):
                answer = self._playlists.answer(form)
                if place is None and not form.is_delta:
                    self._put_playlist(form, self._playlists)
                return answer
        # Who names a place has seen a playlist.
        return self._wait_in(self._awaited, (form, place), Rank.PLAYLIST, self.first_wait_s if place is None else 0.0)

    def multivariant(self, asked: Multivariant, wait_s: float = 0.0) -> Answer | Wait:
        """The playlist that names the media playlists; so much longer than for a part the stream may be waited for."""
        if self._is_ready:
            return self._multivariant(asked)
        if len(self._awaited_heads) >= _MOST_HEADS:
            self._awaited_heads = {head: wait for head, wait in self._awaited_heads.items() if wait.waiters}
        return self._wait_in(self._awaited_heads, asked, Rank.PLAYLIST, wait_s + self.first_wait_s, most=_MOST_HEADS)

    def _multivariant(self, asked: Multivariant) -> Answer:
        window = self._window
        if window is None:
            return not_found(self._cors())
        query = f"?{asked.credentials}" if asked.credentials else ""
        name = LOW_LATENCY if asked.is_low_latency else CLASSIC
        # From where the multivariant playlist is, the folder of the stream is beside it.
        variant = window.variant(f"{quote(self.stream_name, safe='', errors='surrogateescape')}/{name}{query}")
        text = multivariant_playlist([variant], window.comments).encode()
        # Its head names the view of whoever asks, and it repeats credentials.
        return playlist_answer(text, 1, self._cors(), is_gzip=asked.is_gzip, is_private=True)

    def _wait_in(
        self, waits: dict[Asked, Wait], asked: Asked, rank: Rank, wait_s: float = 0.0, *, most: int = _MOST_WAITS
    ) -> Answer | Wait:
        if self._is_over or self.is_closed:
            return not_found(self._cors())
        wait = waits.get(asked)
        if wait is None or wait.answer is not None:
            if len(waits) >= most:
                return error_of(503, "Too much is waited for.", (b"Retry-After: 1\r\n", self._cors()))
            wait = waits[asked] = self._new_wait(rank, wait_s)
        return wait

    def named(self, name: Name) -> Answer | Wait | None:
        """What a playlist names; None: there is no such thing, or not any more."""
        if self._names is None or not self._is_ready:
            return self._wait_in(self._awaited_names, name, Rank.MEDIA)
        if name.token != self._names.token:
            return None
        match name.kind:
            case NameKind.PART:
                if self._next_part is not None and self._next_part[0] == name.number:
                    return self._wait_for_next_part(name.number, self._next_part[1])
                return self._parts.get(name.number)
            case NameKind.SEGMENT:
                shelf = self._on_shelf.get(name.number)
                segments = self._window.segments if self._window is not None else ()
                is_whole = any(each.number == name.number and each.has_data for each in segments)
                return self._whole(shelf, name.number) if shelf is not None and is_whole else None
            case NameKind.INIT:
                return self._init(name.init)

    def _whole(self, shelf: Shelf, number: int) -> Answer:
        answer = shelf.whole(number)
        if number not in self._laid_segments and self._names is not None:
            self._laid_segments.add(number)
            target = self._path_of(self._names.segment(number))
            self._table.put(target, answer, is_free=True, on_hit=partial(self._hit, answer.size))
        return answer

    def _wait_for_next_part(self, number: int, wait: Wait) -> Wait:
        if wait.answer is not None:
            # It is late, and who waited for it was told so.
            wait = self._new_wait(Rank.MEDIA)
            self._next_part = number, wait
            self._put_part(number, wait)
        return wait

    def _init(self, name: str) -> Answer | None:
        inits = self._window.inits if self._window is not None else ()
        init = next((each for each in inits if each.name == name), None)
        if init is None:
            self._inits.pop(name, None)
            return None
        if name not in self._inits:
            kind = b"video/mp4" if init.width_px is not None else b"audio/mp4"
            cache_control = IMMUTABLE.strip().partition(b": ")[2]
            self._inits[name] = answer_of(
                init.data, kind, cache_control=cache_control, etag=name.encode(), headers=self._cors()
            )
        return self._inits[name]

    # The table, for those who ask for what is laid out.

    def _path_of(self, name: str) -> str:
        return media_path(self.app, self.stream_name, MediaKind.BELOW, name)

    def _path_of_part(self, number: int) -> str:
        return self._path_of(self._names.part(number) if self._names is not None else "")

    def _put_part(self, number: int, answer: Answer | Wait) -> None:
        on_hit = partial(self._hit, answer.size) if isinstance(answer, Answer) else self._hit_next_part
        self._table.put(self._path_of_part(number), answer, is_free=True, on_hit=on_hit)

    def _hit(self, size: int, address: str, traits: Traits) -> bool:
        view = self._view_of(self.key, address, traits)
        if view is None:
            return False
        view.took(size)
        return True

    def _hit_next_part(self, address: str, traits: Traits) -> bool:
        view = self._view_of(self.key, address, traits)
        if view is None or self._next_part is None or self._next_part[1].answer is not None:
            return False
        self._owed.append(view)
        return True

    def _put_playlist(self, form: Form, playlists: Playlists) -> None:
        """Somebody has asked for the playlist of this moment: others are answered by the table until it is another."""
        name = LOW_LATENCY if form.is_low_latency else CLASSIC
        target = media_path(self.app, self.stream_name, MediaKind.BELOW, name)
        if target not in self._laid_now:
            plain, packed = (playlists.answer(form._replace(is_gzip=is_gzip)) for is_gzip in (False, True))
            on_hit = partial(self._hit_playlist, None, plain, packed)
            self._table.put(target, plain, compressed=packed, is_free=False, on_hit=on_hit)
            self._laid_now.add(target)

    def _take_out_playlists(self) -> None:
        for target in self._laid_now:
            self._table.remove(target)
        self._laid_now.clear()

    def _put_next_playlists(self, window: Window) -> None:
        """The next playlist, whole and as a delta update, as players will ask for it."""
        path = media_path(self.app, self.stream_name, MediaKind.BELOW, LOW_LATENCY)
        place = window.next_place
        target = f"{path}?_HLS_msn={place.segment}&_HLS_part={place.part}" if place is not None else ""
        if self._laid_places and self._laid_places[-1][0] == target:
            return
        if place is not None:
            delta = f"{target}&_HLS_skip=YES"
            for address, is_delta in ((target, False), (delta, True)):
                plain, packed = (
                    self.playlist(Form(is_low_latency=True, is_delta=is_delta, is_gzip=is_gzip, is_awaited=True), place)
                    for is_gzip in (False, True)
                )
                on_hit = partial(self._hit_playlist, place, plain, packed)
                self._table.put(address, plain, compressed=packed, is_free=False, on_hit=on_hit)
            self._laid_places.append((target, delta))
        while len(self._laid_places) > (_LAID_PLACES if place is not None else 0):
            for address in self._laid_places.popleft():
                self._table.remove(address)

    def _hit_playlist(
        self, place: Place | None, plain: Answer | Wait, packed: Answer | Wait, address: str, traits: Traits
    ) -> bool:
        answer = packed if traits.takes_gzip else plain
        if isinstance(answer, Wait) and (answer.answer is answer.late or self._was_let_go(answer, place)):
            return False
        view = self._view_of(self.key, address, traits)
        if view is None:
            return False
        if isinstance(answer, Wait):
            self.owe_playlist(answer, view)
        else:
            view.took(answer.size, is_media=False)
        return True

    def _was_let_go(self, wait: Wait, place: Place | None) -> bool:
        """Nobody waited for it when it was there, so it was not rendered."""
        if wait.answer is not None or self._window is None or place is None:
            return False
        return self._window.reaches(place)

    def owe_playlist(self, wait: Wait, view: Viewing) -> None:
        """A view waits for a playlist."""
        if wait.answer is not None:
            view.took(wait.answer.size, is_media=False)
        else:
            self._owed_playlists.setdefault(wait, []).append(view)

    def owe(self, name: Name, view: Viewing) -> None:
        """A view waits for what has this name."""
        if name.kind is NameKind.PART and self._next_part is not None and self._next_part[0] == name.number:
            self._owed.append(view)

    def _take_out_part(self, number: int) -> None:
        self._table.remove(self._path_of_part(number))


def _type_of(segment: SegmentStart) -> bytes:
    has_pictures = segment.init is None or segment.init.width_px is not None
    return b"video/mp4" if has_pictures else b"audio/mp4"
