"""Where the configuration comes from: defaults < TOML file < environment < flags, and whose fault a wrong value is.

Owns the names of variables and flags, the order in which sources win, and the one line that says what is wrong: source,
key, value, what is allowed. Raises ConfigError and nothing else. What is allowed is decided by `config`.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from penstock.config import AppConfig, Config
from penstock.config_access import VARIABLE_PREFIX, AccessConfig, HookConfig, may_hold_secret
from penstock.errors import ConfigError
from penstock.pulls.config import PullConfig
from penstock.pushes.config import PushConfig

ENVIRONMENT_PREFIX = "PENSTOCK_"
FILE_VARIABLE = "PENSTOCK_CONFIG"
"""Names the file, as the flag --config does."""
_NO_SETTINGS = frozenset(("PENSTOCK_TOKEN",))
"""What our commands show to the API of a running server."""

# Kubernetes and Docker links set these by themselves where a service is called penstock.
_FOREIGN_VARIABLE = re.compile(r"PENSTOCK_(SERVICE_.*|PORT(_.*)?)")

Key = tuple[str, ...]
"""Section and name, with the section inside the section between where there is one; for an app "apps", the app and the
name."""

FLAGS: Mapping[str, Key] = {
    "--rtmp": ("rtmp", "listen"),
    "--rtmps": ("tls", "listen"),
    "--cert": ("tls", "cert"),
    "--key": ("tls", "key"),
    "--http": ("http", "listen"),
    "--data": ("server", "data_dir"),
    "--lake": ("pipeline", "lake"),
    "--master": ("pipeline", "master"),
    "--record": ("recording", "streams"),
    "--workers": ("server", "workers"),
    "--log-level": ("logs", "level"),
    "--log-format": ("logs", "format"),
}

_MAX_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration and where each value came from that no default gave."""

    config: Config
    origins: Mapping[Key, str]
    values: Mapping[str, Any]
    """What the sources gave, one over the other, for another process to make the same configuration of."""


def load_config(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """The one configuration of all sources. Flags are given as typed: {"--rtmp": ":1935"}."""
    return load_with_origins(file, environment, flags).config


def load_with_origins(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> LoadedConfig:
    """The same, for those who want to show it."""
    # What an orchestrator leaves empty was not meant to be set.
    variables = {name: value for name, value in environment.items() if value and name.startswith(ENVIRONMENT_PREFIX)}
    named_file = variables.pop(FILE_VARIABLE, None)
    if file is None and named_file is not None:
        file = Path(named_file)
    values, origins = ({}, {}) if file is None else _read_file(file)
    ours = {name: text for name, text in variables.items() if name in VARIABLES}
    for name, text in sorted(ours.items()):
        _put(values, origins, VARIABLES[name], text, f"environment {name}")
    for flag, value in flags.items():
        _put(values, origins, FLAGS[flag], value, f"flag {flag}")
    referred = set(_referred_variables(values))
    for name in sorted(variables.keys() - ours.keys() - referred - _NO_SETTINGS):
        if not _FOREIGN_VARIABLE.fullmatch(name):
            raise ConfigError(f"environment {_named(name)}: unknown variable{_nearest(name, VARIABLES)}")
    return _validated(values, origins)


def load_text(data: bytes, shown: str) -> LoadedConfig:
    """The configuration of a file's text alone; `shown` is what errors call it. No reference in it is followed."""
    return _validated(*_read_text(data, shown))


def _validated(values: dict[str, Any], origins: dict[Key, str]) -> LoadedConfig:
    try:
        return LoadedConfig(Config.model_validate(values), origins, values)
    except ValidationError as error:
        raise ConfigError(_blame(error, values, origins)) from None


def config_from_values(values: Mapping[str, Any]) -> Config:
    """The configuration of values that were found valid before, in the process that read the sources."""
    return Config.model_validate(values)


def dotted(key: Key) -> str:
    """A key as it is written in TOML."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else _clipped(repr(part)) for part in key)


def _known_keys(model: type[BaseModel] = Config, above: Key = ()) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _known_keys(field.annotation, (*above, name))
        elif above:
            yield (*above, name)


VARIABLES: Mapping[str, Key] = {f"{ENVIRONMENT_PREFIX}{'_'.join(key).upper()}": key for key in _known_keys()}
"""Every variable. Apps are set in the file alone: a variable cannot spell their names."""


def _referred_variables(value: object) -> Iterator[str]:
    """Variables that hold secrets which the values refer to: those may be called what they like."""
    match value:
        case str():
            for each in value.split(","):
                if each.strip().startswith(VARIABLE_PREFIX):
                    yield each.strip().removeprefix(VARIABLE_PREFIX)
        case dict():
            for each in value.values():
                yield from _referred_variables(each)
        case list() | tuple():
            for each in value:
                yield from _referred_variables(each)


def _put(values: dict[str, Any], origins: dict[Key, str], key: Key, value: object, origin: str) -> None:
    *sections, name = key
    for section in sections:
        values = values.setdefault(section, {})
    values[name] = value
    origins[key] = origin


def _read_file(file: Path) -> tuple[dict[str, Any], dict[Key, str]]:
    shown = _named(str(file))
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror}") from None
    return _read_text(data, shown)


def _read_text(data: bytes, shown: str) -> tuple[dict[str, Any], dict[Key, str]]:
    try:
        text = data.decode()
        values = tomllib.loads(text)
        lines, keys = key_lines(text), list(_paths(values))
    # Besides its own error, tomllib lets through what int() and nesting without end give; tables of dotted keys are
    # nested without end by one line that it reads.
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shown}: no TOML: {_clipped(' '.join(str(error).split()))}") from None
    origins = {key: f"{shown} line {lines[key]}" if key in lines else shown for key in keys}
    for key, origin in origins.items():
        if _is_table(key) and not isinstance(found := _at(values, key), dict):
            value = "" if may_hold_secret(key) else f" = {_shown(found)}"
            raise ConfigError(f"{origin}: {dotted(key)}{value}: should be a table")
    return values, origins


def key_lines(text: str) -> dict[Key, int]:
    """The line on which each key and table of a valid TOML text begins.

    tomllib tells no lines. Statement by statement, a text that parses together with its table's header is complete.
    """
    found: dict[Key, int] = {}
    header = statement = ""
    first_line = 1
    for number, line in enumerate(text.split("\n"), start=1):
        first_line = first_line if statement else number
        statement += line + "\n"
        is_header = statement.lstrip().startswith("[")
        try:
            parsed = tomllib.loads(statement if is_header else header + statement)
        except tomllib.TOMLDecodeError:
            continue
        for key in _paths(parsed):
            found.setdefault(key, first_line)
        header = statement if is_header else header
        statement = ""
    return found


_TABLES = {key[:depth] for key in VARIABLES.values() for depth in range(1, len(key))}
"""Sections, and sections inside sections."""


_MODELS_OF_MANY: Mapping[str, Iterable[str]] = {
    "apps": AppConfig.model_fields,
    "access": AccessConfig.model_fields,
    "hooks": [field.alias or name for name, field in HookConfig.model_fields.items()],
    "push": PushConfig.model_fields,
    "pull": PullConfig.model_fields,
}
"""The keys of tables whose names the operator chooses, and of lists of tables."""


def _is_table(key: Key) -> bool:
    match key:
        case ("apps", *rest):
            return len(rest) < 2
        case ("access", *rest):
            return len(rest) < 2 or (len(rest) == 2 and rest[1] == "aliases")
        case ("hooks" | "push" | "pull", *rest):
            return bool(rest)
    return len(key) == 1 or key in _TABLES


def _paths(values: Mapping[str, Any], above: Key = ()) -> Iterator[Key]:
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))


def _at(values: Mapping[str, Any], key: Key) -> Any:
    found: Any = values
    for part in key:
        found = found[part]
    return found


def _blame(error: ValidationError, values: Mapping[str, Any], origins: Mapping[Key, str]) -> str:
    """The line about the first of the errors."""
    first = error.errors(include_url=False)[0]
    key = tuple(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        if key[0] in _MODELS_OF_MANY:
            nearest = _nearest(key[-1], _MODELS_OF_MANY[key[0]])
        else:
            nearest = _nearest(dotted(key), [*Config.model_fields, *map(dotted, _known_keys())])
        return f"{_origin(key, origins)}: {dotted(key)}: unknown key{nearest}"
    allowed = _sentence(first["type"], first["msg"], key)
    if key == () or (_is_table(key) and key[0] not in ("hooks", "push", "pull", "access")):
        # The values of a section do not fit together: blame one that was set, best one that the sentence names.
        set_here = [each for each in origins if not key or each[:-1] == key]
        named = (each for each in set_here if dotted(each) in allowed or ".".join(each) in allowed)
        key = max(named, key=len, default=set_here[0])
    value = "" if may_hold_secret(key) else f" = {_shown(_at(values, key))}"
    return f"{_origin(key, origins)}: {dotted(key)}{value}: {allowed}"


def _origin(key: Key, origins: Mapping[Key, str]) -> str:
    """Of what is inside a list, where the list is."""
    while key not in origins:
        key = key[:-1]
    return origins[key]


def _sentence(kind: str, message: str, key: Key) -> str:
    if kind.startswith("bool"):
        return "should be true or false"
    if kind in ("tuple_type", "model_type"):
        return f"should be a list of tables, as [[{key[0]}]] makes it"
    return message.removeprefix("Value error, ").replace("Input should be", "should be")


def _nearest(name: str, known: Iterable[str]) -> str:
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def _named(name: str) -> str:
    return _clipped(name if name.isprintable() else repr(name))


def _shown(value: object) -> str:
    return _clipped(repr(value))


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else text[: _MAX_SHOWN_CHARACTERS - 1] + "…"
