"""Which pages of other origins may read media.

Owns the rule: those that the operator names; where none is named, all, but not where an address alone lets in, since a
page from anywhere would read there through the browser of whoever is let in.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from penstock.serve.http.layout import head_of
from penstock.serve.http.site import Answer

_ANYBODY: Final = b"Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: *\r\n"
_VARIES: Final = b"Vary: Origin\r\n"
_PREFLIGHT: Final = (
    b"Allow: GET, HEAD, OPTIONS\r\nAccess-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n"
    b"Access-Control-Allow-Headers: Authorization, Range, If-None-Match\r\nAccess-Control-Max-Age: 86400\r\n"
)


class Cors:
    """By the origins of the configuration, and an app's rules."""

    def __init__(self, origins: Sequence[str], admits_by_address: Callable[[str], bool]) -> None:
        """`admits_by_address`: whether somebody may play in an app by nothing but the address."""
        self._origins = frozenset(origin.encode() for origin in origins)
        self._admits_by_address = admits_by_address

    def shared_lines(self, app: str) -> bytes:
        """Of the head of an answer that all who ask are sent."""
        if self._origins:
            return _VARIES
        return b"" if self._admits_by_address(app) else _ANYBODY

    def own_line(self, origin: bytes | None) -> bytes:
        """What one request's answer has in its head besides."""
        return b"Access-Control-Allow-Origin: %s\r\n" % origin if origin in self._origins and origin else b""

    def admits_socket(self, app: str, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a WebSocket may be opened from where it is: browsers leave that to us."""
        origin = headers.get(b"origin")
        if origin is None or origin in self._origins:
            return True
        is_own = origin.partition(b"://")[2] == headers.get(b"host", b"")
        return is_own or (not self._origins and not self._admits_by_address(app))

    def options(self, app: str) -> Answer:
        """To OPTIONS, a browser's question before it asks."""
        return Answer.of_bytes(head_of(204, _PREFLIGHT + self.shared_lines(app)))
