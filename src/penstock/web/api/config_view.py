"""The configuration in force as the API shows it: every key, its value and where that comes from, without secrets.

Owns the way from settings to JSON. What is a secret among them is known by `config_access`; references to secrets are
shown, and never followed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from penstock.config import Config
from penstock.config_access import HookConfig, shown
from penstock.config_sources import dotted
from penstock.config_units import FlushGrid
from penstock.pushes.config import PushConfig
from penstock.web.hooks.settings import name_of

_DEFAULT: Final = "default"


class ConfigView:
    """The configuration, and the origins that the supervisor told."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.origins: Mapping[str, str] = {}
        """By dotted key, of what no default gave."""

    def settings(self) -> dict[str, dict[str, Any]]:
        """Every key with its value and its origin."""
        return {
            key: {"value": value, "origin": self.origins.get(key, _DEFAULT)} for key, value in _settings(self.config)
        }


def _settings(model: BaseModel, above: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, value in model:
        key = (*above, name)
        if isinstance(value, BaseModel):
            yield from _settings(value, key)
        elif isinstance(value, Mapping) and any(isinstance(each, BaseModel) for each in value.values()):
            for inner, section in value.items():
                yield from _settings(section, (*key, inner))
        elif value != {}:
            yield dotted(key), _plain(value)


def _plain(value: object) -> Any:
    """A value as JSON has it."""
    match value:
        case None | bool() | int() | float():
            return value
        case HookConfig():
            # Whose paths and arguments are often secrets: chat rooms to write to, streams to publish elsewhere.
            url = None if value.url is None else f"{name_of(value.url)}/…"
            program = None if value.exec is None else [value.exec[0], *("…" for _ in value.exec[1:])]
            return {**_fields(value), "url": url, "exec": program}
        case PushConfig():
            # Many put the key of the target behind its address.
            return {**_fields(value), "url": value.address.shown}
        case BaseModel():
            return _fields(value)
        case Mapping():
            return {str(inner): _plain(each) for inner, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case FlushGrid(period_ms=period_ms):
            return f"{period_ms}ms"
        case _:
            return shown(str(value))


def _fields(model: BaseModel) -> dict[str, Any]:
    names = {inner: field.alias or inner for inner, field in type(model).model_fields.items()}
    return {names[inner]: _plain(each) for inner, each in model}
