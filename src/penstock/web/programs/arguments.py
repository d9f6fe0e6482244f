"""What a program is started with: its arguments and its environment.

Owns how names of apps and streams get into them. They are chosen by whoever may publish, so they are never read by a
shell, never begin an argument with `-`, and lead to no folder above and none from the root.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_PLACE: Final = re.compile(r"\{(app|stream|event)\}")
_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class UnfitName(ValueError):
    """A name that is not given to a program."""


def arguments_of(template: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The template with values in the places that it has for them. A value that must not be there raises UnfitName."""
    return [template[0], *(_filled(each, values) for each in template[1:])]


def environment_of(values: Mapping[str, str], data: bytes | None, outer: Mapping[str, str]) -> dict[str, str]:
    """All that the program finds: the path, and what happened. Nothing of the server's own."""
    environment = {
        "PATH": outer.get("PATH", _DEFAULT_PATH),
        "LANG": "C.UTF-8",
        **{f"PENSTOCK_{name.upper()}": value for name, value in values.items()},
    }
    if data is not None:
        environment["PENSTOCK_DATA"] = data.decode()
    return environment


def _filled(template: str, values: Mapping[str, str]) -> str:
    filled = _PLACE.sub(lambda place: _fit(values[place[1]], template[: place.start()]), template)
    if filled != template:
        if filled.startswith("-") and not template.startswith("-"):
            raise UnfitName("a name would begin an argument with -")
        # Two names may make one of what neither has.
        if filled.split("/").count("..") > template.split("/").count(".."):
            raise UnfitName("a name would lead to a folder above")
    return filled


def _fit(value: str, before: str) -> str:
    # Wherever it is put: `--out={stream}` has a path too.
    if ".." in value.split("/"):
        raise UnfitName("a name would lead to a folder above")
    if value.startswith("/") and not before.endswith("/"):
        raise UnfitName("a name would lead to a folder from the root")
    if "\0" in value:
        raise UnfitName("a name has a null character")
    return value
