"""The settings of pulls: `[[pull]]`, and how the address of an origin is spelled.

Owns which places a URL may have, and where: names of streams are of strangers, and so have no place in the host or in
the query. The key is a reference, which is followed by `config_secrets` in the worker that needs it.
"""

import re
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, PlainValidator, model_validator

from penstock.config_access import read_reference
from penstock.config_units import NONE_WORD, read_patterns, read_seconds
from penstock.errors import MalformedInput
from penstock.rtmp_address import StreamAddress, read_address

MAX_PULLS_SECTIONS: Final = 64
_ALLOWED: Final = "should be rtmp://HOST[:PORT]/APP/STREAM, such as rtmp://origin/{app}/{stream}; rtmps:// is under TLS"
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_MAX_URL_CHARACTERS: Final = 2048
_WILD: Final = frozenset("*?[")
_HOUR: Final = 3600


def read_pull_url(value: object) -> str:
    """Where streams are pulled from. What is wrong with it is told without it, since a key may be in it."""
    if not isinstance(value, str) or len(value) > _MAX_URL_CHARACTERS or not value.isprintable() or " " in value:
        raise ValueError(_ALLOWED)
    try:
        address = read_address(value)
    except MalformedInput:
        raise ValueError(_ALLOWED) from None
    if unknown := sorted(set(_PLACE.findall(value)) - {"app", "stream", "key"}):
        raise ValueError(f"should have no place for {len(unknown)} other words than {{app}}, {{stream}} and {{key}}")
    if "{" in address.host or any(
        place in text.partition("?")[2] for text in (address.app, address.stream) for place in ("{app}", "{stream}")
    ):
        raise ValueError("should have {app} and {stream} in its path alone")
    return value


def _read_key(value: Any) -> str | None:
    return None if value is None or value == NONE_WORD else read_reference(value)


class PullConfig(BaseModel):
    """A server that streams are fetched from while somebody watches them here."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    streams: Annotated[tuple[str, ...], PlainValidator(read_patterns)]
    url: Annotated[str, PlainValidator(read_pull_url)]
    """With {app}, {stream} and {key} where those belong."""
    idle_s: Annotated[float, PlainValidator(lambda value: read_seconds(value, low=0, high=24 * _HOUR))] = 10.0
    """How long a stream is pulled after its last viewer."""
    key: Annotated[str | None, PlainValidator(_read_key)] = None
    """Where the key is that the origin wants. Without {key} in the url it goes behind the stream, as ?key=."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if "{key}" in self.url and self.key is None:
            raise ValueError("has {key} in its url, and no key")
        names_many = len(self.streams) > 1 or any(_WILD & set(each) for each in self.streams)
        if "{stream}" not in self.url and names_many:
            raise ValueError("has many streams, and no {stream} in its url")
        return self

    @property
    def address(self) -> StreamAddress:
        """The url, split, with its places."""
        return read_address(self.url)
