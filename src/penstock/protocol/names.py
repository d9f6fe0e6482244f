"""Names as peers write them: app and stream names with queries, slashes and quotes around them."""

from typing import NamedTuple

MAX_STREAM_NAME_BYTES = 1024
"""Room for a token used as a name. Each status repeats the name, so a long one would let few bytes ask for many."""

MAX_APP_NAME_BYTES = 1024
MAX_QUERY_BYTES = 4096
"""Room for a signed token in the query of an app or stream; each is kept as long as what it asks for."""
MAX_TEXT_CHARACTERS = 1024
"""What is kept of other texts of a peer, such as its tcUrl and flashVer."""


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


def name_fault(what: str, name: str, query: str | None, max_name_bytes: int) -> str | None:
    """Why a name and its query are not taken; None if they are."""
    if (name_bytes := size_of(name)) > max_name_bytes:
        return f"{what} name may have {max_name_bytes} bytes, not {name_bytes}."
    if query is not None and (query_bytes := size_of(query)) > MAX_QUERY_BYTES:
        return f"{what} query may have {MAX_QUERY_BYTES} bytes, not {query_bytes}."
    return None


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
