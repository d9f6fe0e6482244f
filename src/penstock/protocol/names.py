"""Names as peers write them: app and stream names with queries, slashes and quotes around them."""

from typing import NamedTuple

MAX_STREAM_NAME_BYTES = 1024
"""Room for a token used as a name. Each status repeats the name, so a long one would let few bytes ask for many."""


class NameAndQuery(NamedTuple):
    """A name to match by, and the query that came with it, for authentication."""

    name: str
    query: str | None


def size_of(text: str) -> int:
    """The bytes that the text has on the wire."""
    return len(text.encode("utf-8", "surrogateescape"))


def cut_name(name: str) -> str:
    """As much of a name as an answer repeats."""
    return name.encode("utf-8", "surrogateescape")[:MAX_STREAM_NAME_BYTES].decode("utf-8", "surrogateescape")


def split_query(text: str) -> NameAndQuery:
    """Split at the first question mark. A query may be there and empty."""
    name, mark, query = text.partition("?")
    return NameAndQuery(name, query if mark else None)


def split_app(text: str) -> NameAndQuery:
    """An app as sent in connect: FFmpeg and OBS leave slashes at its ends, and `a/b` is one app."""
    name, query = split_query(text)
    return NameAndQuery(name.strip("/"), query)


def unquoted(text: str) -> str:
    """Some encoders send tcUrl with the quotes of their configuration file."""
    return text.strip().strip("\"'")
