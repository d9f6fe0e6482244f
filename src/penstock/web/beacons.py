"""What viewers saw, as their players tell it: `POST /beacon`.

The contract, for whoever writes a player. The answer that begins to play (`.flv`, `.mp4`, the multivariant `.m3u8`) has
a header `X-Penstock-View`, which pages of other sites may read. Its value is a secret between server and player and
names this view alone. The player sends it back with what its viewer saw, as JSON of at most 8 KiB:

    {"beacons": [{"view": "1.Zm9vYmFyYmF6cXV4cXV1eA", "startup_ms": 312, "played_ms": 10000,
                  "stalls": 1, "stalled_ms": 840, "latency_ms": 420, "dropped_frames": 3}]}

At most 16 beacons, each about one view. All figures may be left out or null; they are whole numbers, none negative.

    startup_ms      from the viewer's click, or the page's decision to play, to the first picture on the screen
    played_ms       how long it has played since then, without stalls and pauses
    stalls          how often the picture stood still since it first moved, though nobody had asked for that
    stalled_ms      for how long in all
    latency_ms      how far behind the live edge it plays now, as the player reckons it
    dropped_frames  pictures that were decoded too late to be shown (VideoPlaybackQuality.droppedVideoFrames)

All but startup_ms and latency_ms count from the start of the view, so a beacon that is lost costs nothing. One is due
with the first picture, one every 10 s, and one when the page goes (`visibilitychange` to hidden). The content type does
not matter: `navigator.sendBeacon("/beacon", text)` needs no preflight, nor does
`fetch("/beacon", {method: "POST", body: text, keepalive: true, credentials: "omit"})`. The last beacon may come up to a
minute after the view has ended.

The answer is 204 for every batch in this form, whether its views are known or not, and whether it was one too many; 400
for other forms, 413 for larger ones. Any site may send; no cookie is looked at, set or needed.

Owns form and rates, of each address and of all together; which view it is, and how often one may tell, is the matter of
the worker that has it.
"""

from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from penstock.control.allowance import AddressAllowances, Allowance, address_group, is_loopback
from penstock.control.live import ViewBeacon
from penstock.web.asgi import App, Receive, Scope, Send
from penstock.web.site import brings_body, linger, path_of

PATH: Final = "/beacon"
MAX_BYTES: Final = 8 * 1024
MAX_BEACONS: Final = 16
ADDRESS_PER_S: Final = 20.0
ADDRESS_BURST: Final = 200.0
"""A crowd behind one address: 200 viewers that tell every 10 s."""
ALL_PER_S: Final = 500.0
ALL_BURST: Final = 1000.0
"""What workers are bothered with at most: it shares a link with the orders of operators."""
_UNKNOWN: Final = "unknown"

_MAX_MS: Final = 400 * 24 * 3600 * 1000
_MAX_COUNT: Final = 10**10
_Ms = Annotated[int, msgspec.Meta(ge=0, le=_MAX_MS)] | None
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COUNT)] | None


class _Told(msgspec.Struct, frozen=True):
    """One beacon. Fields that are not known yet are passed over: players may be newer than their server."""

    view: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,4}\.[A-Za-z0-9_-]{22}\Z")]
    startup_ms: _Ms = None
    played_ms: _Ms = None
    stalls: _Count = None
    stalled_ms: _Ms = None
    latency_ms: _Ms = None
    dropped_frames: _Count = None


class _Batch(msgspec.Struct, frozen=True):
    beacons: Annotated[list[_Told], msgspec.Meta(max_length=MAX_BEACONS)]


_decode: Final = msgspec.json.Decoder(_Batch).decode


class Beacons:
    """A site with `/beacon` in front of it."""

    def __init__(
        self,
        to_worker: Callable[[int, ViewBeacon], bool],
        clock: Callable[[], float],
        site: App,
    ) -> None:
        """`to_worker`: pass it on to a worker. False: there is none of that number now."""
        self._to_worker = to_worker
        self._clock = clock
        self._site = site
        self._of_addresses = AddressAllowances(ADDRESS_PER_S, ADDRESS_BURST)
        self._of_all = Allowance(ALL_PER_S, ALL_BURST, clock())
        self.counts: Counter[str] = Counter()
        """What became of those that went to no worker: malformed, limited, unknown."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, to here or to the site."""
        if scope["type"] != "http" or path_of(scope) != PATH:
            await self._site(scope, receive, send)
            return
        status, has_more = await self._status(scope, receive)
        await send({"type": "http.response.start", "status": status.value, "headers": _headers(status)})
        await send({"type": "http.response.body", "body": b"", "more_body": has_more})
        if has_more:
            await linger(receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _status(self, scope: Scope, receive: Receive) -> tuple[HTTPStatus, bool]:
        """What is answered, and whether there is more of the request than was read."""
        if scope["method"] == "OPTIONS":
            return HTTPStatus.NO_CONTENT, brings_body(scope)
        if scope["method"] != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED, brings_body(scope)
        body = await _read(receive)
        if body is None:
            self.counts["malformed"] += 1
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, True
        try:
            batch = _decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.counts["malformed"] += 1
            return HTTPStatus.BAD_REQUEST, False
        address = scope["client"][0] if scope.get("client") else None
        for told in batch.beacons:
            self._pass_on(told, address)
        return HTTPStatus.NO_CONTENT, False

    def _pass_on(self, told: _Told, address: str | None) -> None:
        if not self._admits(address):
            self.counts["limited"] += 1
            return
        worker = int(told.view.partition(".")[0])
        beacon = ViewBeacon(
            told.view,
            told.startup_ms,
            told.played_ms,
            told.stalls,
            told.stalled_ms,
            told.latency_ms,
            told.dropped_frames,
        )
        if not self._to_worker(worker, beacon):
            self.counts["unknown"] += 1

    def _admits(self, address: str | None) -> bool:
        now = self._clock()
        return self._is_within(address, now) and self._of_all.covers(1.0, now)

    def _is_within(self, address: str | None, now: float) -> bool:
        try:
            # Proxies and load tests come from this machine, many viewers behind one address.
            if address is not None and is_loopback(address):
                return True
            group = _UNKNOWN if address is None else address_group(address)
        except ValueError:  # a trusted proxy passes on what it was told
            group = _UNKNOWN
        return self._of_addresses.admits(group, now)


async def _read(receive: Receive) -> bytes | None:
    """The body; None: it is too large. How long it may take is bounded for every request."""
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] != "http.request":  # gone meanwhile
            return bytes(body)
        body += event.get("body", b"")
        if len(body) > MAX_BYTES:
            return None
        if not event.get("more_body", False):
            return bytes(body)


def _headers(status: HTTPStatus) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"date", formatdate(usegmt=True).encode()),
        (b"access-control-allow-origin", b"*"),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST, OPTIONS"))
    if status is HTTPStatus.NO_CONTENT:
        headers += [
            (b"access-control-allow-methods", b"POST"),
            (b"access-control-allow-headers", b"content-type"),
            (b"access-control-max-age", b"86400"),
        ]
    else:
        headers.append((b"content-length", b"0"))
    return headers
