"""Addresses of media over HTTP: from a path to an app, a stream and what is wanted of it, and back.

Owns which paths the workers answer, `/{app}/{stream}.flv` and its siblings and all below `/{app}/{stream}/`, and which
names no app may have since their paths are web's. One segment of the path each for app and stream, percent-encoded: an
app `a/b` is `a%2Fb`. The last suffix alone is one. Refuses what two addresses would be for, by finding nothing there.
"""

import enum
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

RESERVED_APPS: Final = frozenset(
    ("api", "metrics", "healthz", "readyz", "beacon", "watch", "page", "favicon.ico", "assets", "docs")
)
"""First segments of paths that web answers."""
MAX_PATH_CHARACTERS: Final = 8 * 1024
MAX_NAME_BYTES: Final = 1024
"""Of an app or a stream, as over RTMP."""


class MediaKind(enum.Enum):
    """What is wanted of a stream."""

    FLV = ".flv"
    MP4 = ".mp4"
    PLAYLIST = ".m3u8"
    PICTURE = ".jpg"
    BELOW = "/"
    """Something that a playlist names."""


_KINDS: Final = {kind.value: kind for kind in MediaKind if kind is not MediaKind.BELOW}


class MediaPath(NamedTuple):
    """A path that a worker answers."""

    app: str
    stream: str
    kind: MediaKind
    rest: str = ""
    """What follows `/{app}/{stream}/`, as it was written; empty for every other kind."""

    @property
    def key(self) -> str:
        """The stream's name, APP/STREAM."""
        return f"{self.app}/{self.stream}"


def is_reserved(app: str) -> bool:
    """Whether an app of this name would be in the way of web's paths."""
    # Web knows no %2F: an app `api/v1` would be looked for below /api/v1.
    return app.partition("/")[0] in RESERVED_APPS


def read_media_path(path: str) -> MediaPath | None:
    """What a path without its query stands for; None: it is not a worker's to answer."""
    if len(path) > MAX_PATH_CHARACTERS or not path.startswith("/"):
        return None
    segment, slash, remainder = path[1:].partition("/")
    app = _name_of(segment)
    if not slash or app is None or app != app.strip("/") or is_reserved(app):
        return None
    segment, slash, rest = remainder.partition("/")
    if slash:
        stream = _name_of(segment)
        return MediaPath(app, stream, MediaKind.BELOW, rest) if stream is not None and rest else None
    before, dot, suffix = segment.rpartition(".")
    kind = _KINDS.get(dot + suffix)
    stream = _name_of(before)
    return None if kind is None or stream is None else MediaPath(app, stream, kind)


def media_path(app: str, stream: str, kind: MediaKind, rest: str = "") -> str:
    """The path by which a stream is asked for; `rest`, for what is below it, is taken as it is."""
    return f"{watch_path(app, stream)}{kind.value}{rest}"


def watch_path(app: str, stream: str) -> str:
    """The path of a stream's watch page."""
    return f"/{_segment_of(app)}/{_segment_of(stream)}"


def _name_of(segment: str) -> str | None:
    name = unquote(segment, errors="surrogateescape")
    # Over RTMP a name ends where its query begins.
    if not name or name in (".", "..") or "?" in name:
        return None
    return name if len(name.encode("utf-8", "surrogateescape")) <= MAX_NAME_BYTES else None


def _segment_of(name: str) -> str:
    return quote(name, safe="", errors="surrogateescape")
