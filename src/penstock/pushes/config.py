"""The settings of pushes: `[[push]]`, how it is spelled, and what of it may be shown.

Owns the bounds. The address is checked by `push_address`; the key is a reference, which is followed by `config_secrets`
in the worker that needs it.
"""

import re
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, PlainValidator, model_validator

from penstock.config_access import read_reference
from penstock.config_units import NONE_WORD, read_patterns
from penstock.errors import MalformedInput
from penstock.pushes.address import PushAddress, read_push_address

MAX_PUSHES: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_MAX_URL_CHARACTERS: Final = 2048


def read_push_name(value: object) -> str:
    """What a target is called, in the API too."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ValueError("should be up to 64 letters, digits, - and _")


def read_push_url(value: object) -> str:
    """Bounds alone: whether it is an address depends on the key."""
    if isinstance(value, str) and len(value) <= _MAX_URL_CHARACTERS:
        return value
    raise ValueError(f"should be a URL of up to {_MAX_URL_CHARACTERS} characters")


def _read_key(value: Any) -> str | None:
    return None if value is None or value == NONE_WORD else read_reference(value)


class PushConfig(BaseModel):
    """A server that streams are sent on to."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, PlainValidator(read_push_name)]
    streams: Annotated[tuple[str, ...], PlainValidator(read_patterns)]
    url: Annotated[str, PlainValidator(read_push_url)]
    """With {app}, {stream} and {key} where those belong."""
    key: Annotated[str | None, PlainValidator(_read_key)] = None
    """Where the stream key of the target is. Without {key} in the url it is the stream's name there."""

    @model_validator(mode="after")
    def _is_an_address(self) -> Self:
        try:
            self.address  # noqa: B018 - it raises
        except MalformedInput as fault:
            raise ValueError(f"url {fault.detail}") from None
        return self

    @property
    def address(self) -> PushAddress:
        """The url, split."""
        return read_push_address(self.url, has_key=self.key is not None)
