"""File names of recordings: `{app}_{stream}_{time}.flv`, safe whatever publishers call their streams.

Owns the spelling. Names are for people; which app and stream a file holds is told by the manifest and is never read
back from its name. A name that could not be kept as it is, being too long or having other characters than letters,
digits, `.`, `-` and `_`, gets a mark of its own, so that two streams never look like one.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

SUFFIX: Final = ".flv"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
# Both parts, the mark, the time and a number for collisions stay below the 255 bytes that file systems allow.
_MAX_PART_CHARACTERS: Final = 90
_MARK_CHARACTERS: Final = 8
_MAX_COLLISIONS: Final = 1000


def file_names(app: str, stream: str, started_at: datetime) -> Iterator[str]:
    """The name to use, and those to try next when a file of that name is there already."""
    parts = [_safe(app), _safe(stream)]
    if parts != [app, stream]:
        # Surrogates can stand in a name that was decoded leniently.
        identity = f"{len(app)}/{app}/{stream}".encode(errors="surrogatepass")
        parts.append(hashlib.sha256(identity).hexdigest()[:_MARK_CHARACTERS])
    name = "_".join([*parts, f"{started_at:%Y%m%d_%H%M%S}"])
    yield name + SUFFIX
    for number in range(2, _MAX_COLLISIONS + 1):
        yield f"{name}-{number}{SUFFIX}"


def _safe(part: str) -> str:
    # A name that begins with a dot is hidden from people and from readers of the folder; one that begins with a dash
    # is an option to the tools that people use on the folder.
    return _UNSAFE.sub("-", part).lstrip(".-")[:_MAX_PART_CHARACTERS]
