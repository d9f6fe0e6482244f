"""Names of what playlists name: segments, parts and init segments of one stream.

Owns how they are spelled and read. All of them begin with a token that nobody can guess who was not shown a playlist:
an HMAC of what the publication is, by a secret that all workers share. A part's name does not depend on its segment,
since it is told before anybody knows whether a key frame comes first.
"""

import enum
import hashlib
import hmac
import re
from typing import Final, NamedTuple

_TOKEN_CHARACTERS: Final = 32
_NAME: Final = re.compile(r"([0-9a-f]{32})/(?:([sp])([1-9][0-9]{0,17})\.m4s|([0-9a-f]{16})\.mp4)", re.ASCII)


class NameKind(enum.Enum):
    """What a name stands for."""

    SEGMENT = "s"
    PART = "p"
    INIT = "i"


class Name(NamedTuple):
    """A name that was read. `number` is that of a segment or a part; `init` names an init segment."""

    token: str
    kind: NameKind
    number: int = 0
    init: str = ""


class Names:
    """How the segments of one publication are called, relative to the folder of its stream."""

    __slots__ = ("token",)

    def __init__(self, secret: bytes, key: str, began_s: int) -> None:
        """`began_s` tells streams of the same name apart; it goes on over handovers."""
        what = b"%d %s" % (began_s, key.encode("utf-8", "surrogateescape"))
        self.token: Final = hmac.new(secret, what, hashlib.sha256).hexdigest()[:_TOKEN_CHARACTERS]

    def segment(self, number: int) -> str:
        """Of a whole segment."""
        return f"{self.token}/s{number}.m4s"

    def part(self, number: int) -> str:
        """Of a part."""
        return f"{self.token}/p{number}.m4s"

    def init(self, name: str) -> str:
        """Of an init segment, by the hash of its bytes."""
        return f"{self.token}/{name}.mp4"


def read_name(text: str) -> Name | None:
    """What a name stands for; None: nothing has such a name."""
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    token, kind, number, init = found.groups()
    if init is not None:
        return Name(token, NameKind.INIT, init=init)
    return Name(token, NameKind(kind), int(number))
