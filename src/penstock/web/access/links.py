"""Links that this server makes: a stream or a recording for whoever has the address, for a few minutes.

Owns what a link is for, how long it may last, and which requests to the API it lets in: those for one recording.
Whether a stream may be played is decided where it is played, by the same secret (`penstock.access.policy`). The secret
is made anew in each life of the supervisor, and is in no file.
"""

from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from penstock.access.request import SignedPart, parameters_of
from penstock.access.signing import expiry_of_signed, signed_query
from penstock.media_paths import MediaKind, media_path, watch_path
from penstock.web.asgi import Scope

DEFAULT_LINK_S: Final = 300.0
MAX_LINK_S: Final = 3600.0
_STARTS_WITHIN_S: Final = 60.0
_RECORDINGS: Final = "/api/v1/recordings/"
_OF_RECORDINGS: Final = {"media": "media.mp4", "file": "file"}
_OF_STREAMS: Final = {
    "http-flv": MediaKind.FLV,
    "ws-flv": MediaKind.FLV,
    "http-mp4": MediaKind.MP4,
    "hls": MediaKind.PLAYLIST,
    "thumbnail": MediaKind.PICTURE,
}


def takes_links(path: str) -> bool:
    """Whether what is at a path of the API may be had by a link."""
    recording, slash, what = path.removeprefix(_RECORDINGS).rpartition("/")
    return path.startswith(_RECORDINGS) and bool(slash and recording) and what in _OF_RECORDINGS.values()


class Link(NamedTuple):
    """What somebody is given."""

    query: str
    expires_at: int
    """In seconds since 1970."""
    paths: dict[str, str]


class Links:
    """Makes links, and knows its own."""

    def __init__(self, secret: bytes, now: Callable[[], float]) -> None:
        self._secret = secret
        self._now = now

    def for_stream(self, app: str, stream: str, for_s: float) -> Link:
        """To play a stream, and see its thumbnail."""
        expires_at = int(self._now() + for_s)
        query = signed_query(self._secret, "play", f"{app}/{stream}", expires_at)
        paths = {name: media_path(app, stream, kind) for name, kind in _OF_STREAMS.items()}
        paths["page"] = watch_path(app, stream)
        return Link(query, expires_at, {name: f"{path}?{query}" for name, path in paths.items()})

    def to_publish(self, app: str, stream: str, ip: str, for_s: float) -> str:
        """The query by which this machine itself publishes a stream, from one address; it is shown to nobody else."""
        expires_at = int(self._now() + for_s + _STARTS_WITHIN_S)
        return signed_query(self._secret, "publish", f"{app}/{stream}", expires_at, ip)

    def for_recording(self, recording: str, for_s: float) -> Link:
        """To watch or fetch one recorded file."""
        expires_at = int(self._now() + for_s)
        query = signed_query(self._secret, "recording", recording, expires_at)
        path = f"{_RECORDINGS}{quote(recording, safe='')}"
        return Link(query, expires_at, {name: f"{path}/{each}?{query}" for name, each in _OF_RECORDINGS.items()})

    def admits(self, scope: Scope) -> bool:
        """Whether a request to the API is for what a link of ours in its query is for."""
        path: str = scope["path"]
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or not takes_links(path):
            return False
        recording = path.removeprefix(_RECORDINGS).rpartition("/")[0]
        query = parameters_of(scope["query_string"].decode("latin-1"))
        if not self._secret or "sig" not in query:
            return False
        part = SignedPart(query.get("exp", ""), query.get("ip", ""), query["sig"])
        expires_at = expiry_of_signed(
            part, (self._secret,), action="recording", path=unquote(recording), peer=None, now=self._now()
        )
        return expires_at is not None
