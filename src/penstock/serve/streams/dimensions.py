"""Dimensions of plays and publications: the parameters of a URL that the operator named, and no others.

Owns what of a query may become a fact. A query also carries credentials, so nothing of it is told that was not asked
for by name, and a value that is longer than names of campaigns and regions are is told as `other`, not cut: a cut token
is still a part of a token.
"""

import json
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qsl

from penstock.amf import printable

MAX_VALUE_CHARACTERS: Final = 64
OTHER: Final = "other"
"""Stands for a value that is too long."""
_OWN_NAME: Final = "viewer"
"""The parameter by which a viewer may name itself."""


def named_parameters(names: Collection[str], query: str | None) -> dict[str, str]:
    """Those of a query, by name; the first of several of one name. A parameter without a value is none."""
    found: dict[str, str] = {}
    if names and query:
        for name, value in parse_qsl(query):
            if name in names and name not in found:
                text = printable(value)
                found[name] = text if len(text) <= MAX_VALUE_CHARACTERS else OTHER
    return found


def dimensions_text(parameters: Mapping[str, str]) -> str | None:
    """As facts tell them: a JSON object, the same for the same parameters; None if there are none."""
    if not parameters:
        return None
    return json.dumps(dict(sorted(parameters.items())), ensure_ascii=False, separators=(",", ":"))


def dimensions_of(names: Collection[str], of_app: Mapping[str, str], query: str | None) -> str | None:
    """Those of a stream's query, and of the app's where the stream's has none."""
    return dimensions_text({**of_app, **named_parameters(names, query)})


def own_name(query: str | None) -> str | None:
    """What a viewer calls itself in a query."""
    if not query or _OWN_NAME not in query:
        return None
    return next((value for name, value in parse_qsl(query) if name == _OWN_NAME), None)
