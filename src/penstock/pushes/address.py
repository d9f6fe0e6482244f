"""Where streams are pushed to: a URL with places to be filled in, and what of it may be shown.

Owns `{app}`, `{stream}` and `{key}` in a URL. The URL is split first and filled in then, so that no name of a stream
can become a host or an app of its own. With a key and no place for it, the URL names the app and the key is the name of
the stream there, as encoders ask for "server" and "stream key". No error repeats a URL: there may be a key in it.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from penstock.errors import MalformedInput
from penstock.rtmp_address import StreamAddress, read_address, secrets_in

_LAYER: Final = "push url"
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_PLACES: Final = frozenset(("app", "stream", "key"))
_DEFAULT_PORTS: Final = {False: 1935, True: 443}
_HIDDEN: Final = "…"


@dataclass(frozen=True, slots=True)
class PushAddress:
    """A URL with places. Equal ones lead to the same streams."""

    _template: StreamAddress

    @property
    def takes_many(self) -> bool:
        """Whether each stream has an address of its own; else one stream at a time is sent there."""
        return "{stream}" in self._template.app or "{stream}" in self._template.stream

    @property
    def shown(self) -> str:
        """For logs, facts and operators: no query, no key, and no name that was written out and may be one."""
        address = self._template
        host = f"[{address.host}]" if ":" in address.host else address.host
        port = "" if address.port == _DEFAULT_PORTS[address.is_tls] else f":{address.port}"
        name = self._name
        is_shown = "{key}" not in name and "{stream}" in name
        shown_name = f"/{name}" if is_shown else "" if name == "{key}" else f"/{_HIDDEN}"
        app = address.app.replace("{key}", _HIDDEN)
        return f"{'rtmps' if address.is_tls else 'rtmp'}://{host}{port}/{app}{shown_name}"

    @property
    def _name(self) -> str:
        return self._template.stream.partition("?")[0]

    def address_of(self, app: str, stream: str, key: str | None) -> StreamAddress:
        """Where a stream goes."""
        texts = {"app": app, "stream": stream, "key": key or ""}

        def fill(text: str) -> str:
            return _PLACE.sub(lambda place: texts[place[1]], text)

        return replace(self._template, app=fill(self._template.app), stream=fill(self._template.stream))

    def secrets_of(self, app: str, stream: str, key: str | None) -> tuple[str, ...]:
        """What no text about a push may show: the key, and whatever else was written into the URL to get in."""
        name, _, query = self.address_of(app, stream, key).stream.partition("?")
        secrets = secrets_in(query)
        if key:
            secrets.add(key)
        if "{stream}" not in self._name:
            secrets.add(name)
        return tuple(sorted(secrets))


def read_push_address(url: str, *, has_key: bool) -> PushAddress:
    """Check a URL and split it. MalformedInput says what is wrong, without the URL."""
    places = set(_PLACE.findall(url))
    if unknown := places - _PLACES:
        raise MalformedInput(
            _LAYER, f"has a place for {len(unknown)} unknown words; there are {{app}}, {{stream}}, {{key}}"
        )
    if not url.isprintable() or " " in url:
        raise MalformedInput(_LAYER, "has characters that no URL has")
    if "key" in places and not has_key:
        raise MalformedInput(_LAYER, "has a place for a key, and there is none")
    if has_key and "stream" in places and "key" not in places:
        raise MalformedInput(_LAYER, "names the stream by {stream}, and so needs {key} where the key belongs")
    is_server = has_key and "key" not in places
    try:
        template = read_address(url, stream="{key}" if is_server else None)
    except MalformedInput:
        wanted = (
            "rtmp://HOST[:PORT]/APP beside a key" if is_server else "rtmp://HOST[:PORT]/APP/STREAM, or a key beside it"
        )
        raise MalformedInput(_LAYER, f"should be {wanted}; rtmps:// is under TLS") from None
    if _PLACE.search(template.host) or "{" in template.host:
        raise MalformedInput(_LAYER, "should have a host that is written out")
    return PushAddress(template)
