"""From the name of a stream to where it is pulled from.

Owns how `{app}`, `{stream}` and `{key}` are filled in, and what may be shown of the outcome. Names are of strangers:
they are put into the app and the stream of an address that was split before, so that none of them can lead elsewhere.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.amf import printable
from penstock.rtmp_address import StreamAddress, secrets_in

_PLACE: Final = re.compile(r"\{(app|stream|key)\}")


@dataclass(frozen=True, slots=True)
class PullRule:
    """One `[[pull]]` of the configuration, its key read."""

    streams: tuple[str, ...]
    """Patterns of APP/STREAM."""
    address: StreamAddress
    """With places to be filled in."""
    idle_s: float = 10.0
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one stream is pulled from."""

    address: StreamAddress
    shown: str
    """The same for everybody to see."""
    idle_s: float
    secrets: tuple[str, ...]
    """Texts that no log line and no fact may have."""


def covers(rules: Iterable[PullRule], key: str) -> bool:
    """Whether a stream is pulled when it is not here."""
    return _rule_of(rules, key) is not None


def origin_of(rules: Iterable[PullRule], key: str, app_name: str) -> Origin | None:
    """Where a stream is, by the first rule that has a pattern of it."""
    rule = _rule_of(rules, key)
    if rule is None:
        return None
    template, stream_name = rule.address, key.removeprefix(f"{app_name}/")
    places = {"app": app_name, "stream": stream_name, "key": rule.key or ""}
    app, stream = _filled(template.app, places), _filled(template.stream, places)
    if rule.key is not None and "{key}" not in template.app + template.stream:
        stream += f"{'&' if '?' in template.stream else '?'}key={rule.key}"
    hidden = {**places, "key": "***"}
    shown_name = template.stream.partition("?")[0]
    secrets = secrets_in(stream.partition("?")[2]) | ({rule.key} if rule.key else set())
    return Origin(
        replace(template, app=app, stream=stream),
        printable(f"{replace(template, app=_filled(template.app, hidden)).tc_url}/{_filled(shown_name, hidden)}"),
        rule.idle_s,
        tuple(sorted(secrets)),
    )


def _rule_of(rules: Iterable[PullRule], key: str) -> PullRule | None:
    return next((rule for rule in rules if any(fnmatch.fnmatchcase(key, each) for each in rule.streams)), None)


def _filled(template: str, places: Mapping[str, str]) -> str:
    """In one go: what is filled in is not looked at for more to fill in."""
    return _PLACE.sub(lambda place: places[place[1]], template)
