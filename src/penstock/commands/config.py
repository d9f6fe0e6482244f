"""`penstock config check|show`: what the configuration is and where it comes from, without starting anything.

Owns the way back from the configuration to TOML. What `show` prints is the same configuration when it is loaded again,
but for secrets, which are not shown: those of webhooks, the names of streams with which addresses of pushes end, and
what addresses carry in front of a host or behind `?`.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.commands.options import add_config_arguments, load_from_arguments

if TYPE_CHECKING:
    from pydantic import BaseModel

    from penstock.config_sources import LoadedConfig

HELP = "check the configuration, or show what is in force and where it comes from"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    for name, text in (("check", "say whether the configuration is valid"), ("show", "print it as TOML")):
        add_config_arguments(actions.add_parser(name, help=text, description=text.capitalize() + "."))


def run(arguments: argparse.Namespace) -> int:
    loaded = load_from_arguments(arguments)
    if arguments.action == "show":
        sys.stdout.write("\n".join(toml_lines(loaded)) + "\n")
    else:
        sys.stdout.write("The configuration is valid.\n")
    return 0


def toml_lines(loaded: "LoadedConfig") -> Iterator[str]:
    """Every key with its value; what a source has set says which source. Of an app, what differs from the defaults."""
    from penstock.pushes.config import PushConfig

    for section, table in loaded.config:
        if isinstance(table, Mapping):
            for name, app in table.items():
                own = {key[-1] for key in loaded.origins if key[:-1] == (section, name)}
                set_here = [(key, value) for key, value in app if key in own]
                inner = [(key, value) for key, value in set_here if isinstance(value, Mapping)]
                plain = [item for item in set_here if item not in inner]
                yield from _table((section, name), plain, loaded.origins)
                for key, value in inner:
                    yield from _table((section, name, key), list(value.items()), loaded.origins)
        elif isinstance(table, tuple):
            for each in table:
                yield f"[[{section}]]" + _comment(loaded.origins.get((section,)))
                names = {name: field.alias or name for name, field in type(each).model_fields.items()}
                set_here = [(name, value) for name, value in each if name in each.model_fields_set]
                if isinstance(each, PushConfig):
                    # Many put the key of the target behind its address.
                    set_here = [(name, each.address.shown if name == "url" else value) for name, value in set_here]
                yield from (f"{names[name]} = {_toml(value)}" for name, value in set_here)
                yield ""
        else:
            yield from _section((section,), table, loaded.origins)


def _section(path: tuple[str, ...], table: "BaseModel", origins: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    """The keys of a section, and the sections inside it."""
    from pydantic import BaseModel

    yield from _table(path, [(name, value) for name, value in table if not isinstance(value, BaseModel)], origins)
    for name, value in table:
        if isinstance(value, BaseModel):
            yield from _section((*path, name), value, origins)


def _table(
    path: tuple[str, ...], items: list[tuple[str, object]], origins: Mapping[tuple[str, ...], str]
) -> Iterator[str]:
    yield f"[{'.'.join(map(_key, path))}]"
    for name, value in items:
        yield f"{_key(name)} = {_toml(value)}" + _comment(origins.get((*path, name)))
    yield ""


def _comment(origin: str | None) -> str:
    return "" if origin is None else f"  # {origin}"


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else _text(name)


def _toml(value: object) -> str:
    from penstock.config_access import shown
    from penstock.config_units import FlushGrid

    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value:_}"
        case float():
            return f"{value:_.15g}"
        case None:
            return '"none"'
        case FlushGrid():
            return f'"{value.period_ms}ms"'
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case _:
            return _text(shown(str(value)))


def _text(text: str) -> str:
    # JSON escapes as TOML does, but for the one control character that JSON leaves alone.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
