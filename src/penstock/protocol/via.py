"""Which servers ask for a stream, where servers pull from each other: told in connect, so that circles are noticed.

Owns the property `penstockVia`: the ids of servers, the one that asked first in front, with commas between them. A
server that finds its own id there is asked for what it asks for itself. It names itself in its answer, to those who do,
so that nobody sends a stream back to where it was fetched. Servers that know nothing of it ignore it, as
they do every property that they do not know. What is no list of ids is ignored, and so is all behind the first MOST.
"""

import re
from typing import Final

from penstock.amf import AmfValue

PROPERTY: Final = "penstockVia"
MOST: Final = 8
"""Servers in a row. A longer row is taken for a circle through servers that lose ids."""
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_MAX_CHARACTERS: Final = (MOST + 1) * 65


def read_via(value: AmfValue) -> tuple[str, ...]:
    """The ids in a property; at most one more than MOST."""
    if not isinstance(value, str):
        return ()
    ids = value[:_MAX_CHARACTERS].split(",")[: MOST + 1]
    return tuple(ids) if all(map(_ID.fullmatch, ids)) else ()


def write_via(via: tuple[str, ...]) -> dict[str, AmfValue]:
    """The property, for a connect or its answer."""
    return {PROPERTY: ",".join(via)}
