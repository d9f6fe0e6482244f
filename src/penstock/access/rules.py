"""Rules: what lets somebody in. Any one of an action's alternatives does, and an alternative needs all its conditions.

Owns how rules are spelled in the configuration and what they mean as values. Which of them hold for a request is
decided by `policy`.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final, Literal

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
PeerIp = ipaddress.IPv4Address | ipaddress.IPv6Address

Word = Literal["open", "deny", "key", "jwt", "signed", "callback"]
Condition = Word | Network
WORDS: Final[tuple[Word, ...]] = ("open", "deny", "key", "jwt", "signed", "callback")
NEEDS_WEB: Final[frozenset[Condition]] = frozenset(("jwt", "callback"))
"""Conditions that a worker does not decide: they take cryptography of a library, or the network."""

RuleText = tuple[str | tuple[str, ...], ...]
"""Rules as the configuration has them."""

_NETWORK_PREFIX: Final = "ip:"
_MAX_ALTERNATIVES: Final = 64
_ALLOWED: Final = (
    'should be a list of rules, such as ["key", ["ip:10.0.0.0/8", "jwt"]]: open, deny, key, jwt, signed, callback or '
    "ip:CIDR; any one lets in, an inner list needs all of its own"
)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Conditions that let in together."""

    conditions: tuple[Condition, ...]

    @property
    def name(self) -> str:
        """As log lines and answers call it: `ip:10.0.0.0/8+jwt`."""
        return "+".join(each if isinstance(each, str) else f"{_NETWORK_PREFIX}{each}" for each in self.conditions)

    @property
    def needs_web(self) -> bool:
        return any(each in NEEDS_WEB for each in self.conditions)


Rules = tuple[Alternative, ...]


def read_rule_text(value: object) -> RuleText:
    """Rules as TOML gives them, checked and with networks in their one spelling. Raises ValueError."""
    if not isinstance(value, list | tuple) or len(value) > _MAX_ALTERNATIVES:
        raise ValueError(_ALLOWED)
    return tuple(_one(each) if isinstance(each, str) else tuple(map(_one, _inner(each))) for each in value)


def rules_of(text: RuleText) -> Rules:
    """What a text that was read means."""
    alternatives = ((each,) if isinstance(each, str) else each for each in text)
    return tuple(Alternative(tuple(map(_condition, conditions))) for conditions in alternatives)


def ip_of(text: str | None) -> PeerIp | None:
    """A peer's address as rules compare it: an IPv4 address that a socket spells as IPv6 is the IPv4 address."""
    if text is None:
        return None
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _inner(value: object) -> list[object] | tuple[object, ...]:
    # All of nothing would be open to everybody.
    if not isinstance(value, list | tuple) or not 0 < len(value) <= _MAX_ALTERNATIVES:
        raise ValueError(_ALLOWED)
    return value


def _one(value: object) -> str:
    condition = _condition(value)
    return condition if isinstance(condition, str) else f"{_NETWORK_PREFIX}{condition}"


def _condition(text: object) -> Condition:
    for word in WORDS:
        if text == word:
            return word
    if not isinstance(text, str) or not text.startswith(_NETWORK_PREFIX):
        raise ValueError(_ALLOWED)
    try:
        return ipaddress.ip_network(text.removeprefix(_NETWORK_PREFIX))
    except ValueError as error:
        raise ValueError(f"{_ALLOWED}: {error}") from error
