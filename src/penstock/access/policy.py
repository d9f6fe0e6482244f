"""The policy: rules, keys, aliases and signing secrets of a configuration, and what they say to a request.

Owns every decision that needs neither network nor a library for tokens. What does is left `Undecided`, with the
alternatives that could still let in; the web process verifies those. A worker and the web process make equal policies
of one configuration.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Final, assert_never

from penstock.access import adobe
from penstock.access.keys import NAME, KeyLine, find_key
from penstock.access.request import (
    CREDENTIAL_PARAMETERS,
    AccessRequest,
    Action,
    Allowed,
    Credentials,
    Decision,
    Grant,
    Pending,
    Refused,
    Undecided,
    WebCondition,
    credentials_of,
    earliest,
    parameters_of,
)
from penstock.access.rules import Alternative, PeerIp, Rules, ip_of
from penstock.access.signing import expiry_of_signed

ALL_OTHERS: Final = "*"
"""The app whose rules hold for those that are not named."""

BY_SERVER: Final = "server"
"""What lets in whom the server itself gave a link, as log lines and answers call it."""

_ENCODER_PREFIX: Final = "FMLE/"
"""What OBS, FFmpeg and hardware encoders call themselves when they publish."""


@dataclass(frozen=True, slots=True)
class AppAccess:
    """What holds in one app."""

    publish: Rules = ()
    play: Rules = ()
    keys: tuple[KeyLine, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    """From the name of a key to the one stream that it is for."""

    def rules(self, action: Action) -> Rules:
        return self.publish if action == "publish" else self.play


@dataclass(frozen=True, slots=True)
class ConnectRejected:
    """A connect is to be rejected with this description; an encoder that has user and password comes again."""

    description: str
    is_failure: bool
    """Whether a wrong password was tried, rather than none."""


@dataclass(frozen=True, slots=True)
class ConnectProved:
    """Whose key it is, to be kept as `AccessRequest.user_proved`."""

    user: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may. Without any app everybody may everything; with one, what no rule lets in may nothing."""

    apps: Mapping[str, AppAccess] = field(default_factory=dict)
    signing: tuple[bytes, ...] = field(default=(), repr=False)
    edition: str = ""
    """Which configuration this is of: a worker and web may for a moment go by different ones."""
    own_secret: bytes = field(default=b"", repr=False)
    """What the server's own links are signed by, the same in all of its processes; empty: it makes none."""

    @property
    def is_open(self) -> bool:
        return not self.apps

    @property
    def needs_web(self) -> bool:
        """Whether any rule can only be decided by the web process."""
        rules = (each for app in self.apps.values() for each in (*app.publish, *app.play))
        return any(each.needs_web for each in rules)

    def app(self, name: str) -> AppAccess | None:
        return self.apps.get(name, self.apps.get(ALL_OTHERS))

    def admits_by_address(self, app_name: str) -> bool:
        """Whether somebody may play by nothing but the address, and not everybody may."""
        app = self.app(app_name)
        if app is None or any(each.conditions == ("open",) for each in app.play):
            return False
        return any(
            all(isinstance(each, IPv4Network | IPv6Network) or each == "open" for each in alternative.conditions)
            for alternative in app.play
        )

    def asks_callback(self, app_name: str) -> bool:
        """Whether a callback may be asked about who plays."""
        app = self.app(app_name)
        return app is not None and any("callback" in alternative.conditions for alternative in app.play)

    def decide(self, request: AccessRequest, now: float) -> Decision:
        """What the rules say, at a time in seconds since 1970.

        The first alternative that lets in without asking anybody does; only if there is none is web to be asked.
        """
        if self.is_open:
            return Allowed("open", None, request.stream, None)
        credentials = credentials_of(request)
        app = self.app(request.app)
        if app is None:
            return Refused("no rule for this app", _has_any(request, credentials))
        return _Hearing(self, app, request, credentials, now).decide()

    def connect(
        self, app_name: str, flash_version: str | None, app_query: str | None, peer_ip: str | None, now: float
    ) -> ConnectRejected | ConnectProved | None:
        """What Adobe's challenge has to do with a connect; None: nothing, it is to be accepted.

        An encoder tells nothing of its stream before it is connected. So where an app has keys for the challenge, every
        encoder is challenged that could get in by a key and shows no credentials behind the app's name.
        """
        app = self.app(app_name)
        if app is None or not any(line.adobe is not None for line in app.keys) or not _takes_keys(app.publish):
            return None
        fields = adobe.fields_of(app_query or "")
        if fields.get("authmod") == "adobe":
            return _answer_of(app, fields, peer_ip, now)
        if flash_version is None or not flash_version.startswith(_ENCODER_PREFIX):
            return None
        shows_others = not CREDENTIAL_PARAMETERS.isdisjoint(parameters_of(app_query or ""))
        if shows_others or _lets_in_address(app.publish, ip_of(peer_ip)):
            return None
        return ConnectRejected(adobe.NEED_AUTH, is_failure=False)


class _Hearing:
    """One request before the rules of its app."""

    def __init__(
        self, policy: Policy, app: AppAccess, request: AccessRequest, credentials: Credentials, now: float
    ) -> None:
        self._policy = policy
        self._app = app
        self._request = request
        self._credentials = credentials
        self._now = now
        self._peer = ip_of(request.peer_ip)
        aliased = [line for line in app.keys if line.name in app.aliases]
        self._named = find_key(aliased, request.stream)
        # A key that was given as the name of a stream is shown to nobody, whichever rule lets it in.
        self._stream = request.stream if self._named is None else app.aliases[self._named.name]
        self._key = self._named or self._proved_key()

    def decide(self) -> Decision:
        rules = self._app.rules(self._request.action)
        for alternative in rules:
            if not alternative.needs_web and (pending := self._heard(alternative)) is not None:
                grant = pending.so_far
                return Allowed(pending.rule, grant.subject, pending.stream, grant.expires_at)
        # Behind the rules that a worker decides, since what a link lets in ends with it; before what web is asked for.
        if (expires_at := self._own_link_expiry(rules)) is not None:
            return Allowed(BY_SERVER, None, self._stream, expires_at)
        names = ", ".join(each.name for each in rules) or "none"
        refused = Refused(f"not let in by the rules of the app: {names}", self._has_credentials)
        left = tuple(pending for each in rules if each.needs_web and (pending := self._heard(each)) is not None)
        # Messages between processes are UTF-8, and so is what a callback is sent.
        if not left or not _is_text(self._request):
            return refused
        return Undecided(left, self._credentials.token, refused)

    @property
    def _has_credentials(self) -> bool:
        return self._named is not None or _has_any(self._request, self._credentials)

    def _heard(self, alternative: Alternative) -> Pending | None:
        """An alternative, none of whose conditions has failed, with those that web is to be asked for."""
        grants: list[Grant] = []
        asks: list[WebCondition] = []
        stream = self._stream
        for condition in alternative.conditions:
            grant: Grant | None = None
            match condition:
                case "open":
                    grant = Grant()
                case "deny":
                    pass
                case IPv4Network() | IPv6Network():
                    grant = Grant() if self._peer is not None and self._peer in condition else None
                case "key":
                    grant = self._by_key()
                    stream = stream if grant is None or grant.stream is None else grant.stream
                case "signed":
                    grant = self._by_signature()
                case "jwt":
                    grant = None if self._credentials.token is None else Grant()
                    asks.append(condition)
                case "callback":
                    grant = Grant()
                    asks.append(condition)
                case _:
                    assert_never(condition)
            if grant is None:
                return None
            grants.append(grant)
        subject = next((each.subject for each in grants if each.subject is not None), None)
        return Pending(alternative.name, tuple(asks), stream, Grant(subject, earliest(grants)))

    def _by_key(self) -> Grant | None:
        key = self._key
        if key is None:
            return None
        alias = self._app.aliases.get(key.name)
        if alias is not None and self._named is None and self._request.stream not in (alias, key.name):
            return None
        return Grant(key.name, stream=alias)

    def _by_signature(self) -> Grant | None:
        expires_at = self._signed_until(self._policy.signing)
        return None if expires_at is None else Grant(expires_at=expires_at)

    def _own_link_expiry(self, rules: Rules) -> float | None:
        """When a link of the server's own ends, which counts under every rule but `deny`; None: there is none."""
        secret = self._policy.own_secret
        is_denied = all("deny" in each.conditions for each in rules)
        return None if not secret or is_denied else self._signed_until((secret,))

    def _signed_until(self, secrets: tuple[bytes, ...]) -> float | None:
        part = self._credentials.signed
        if part is None:
            return None
        return expiry_of_signed(
            part,
            secrets,
            action=self._request.action,
            path=f"{self._request.app}/{self._stream}",
            peer=self._peer,
            now=self._now,
        )

    def _proved_key(self) -> KeyLine | None:
        """The key that was proved by the challenge, by the query or by Basic, in this order."""
        keys, request = self._app.keys, self._request
        if request.user_proved is not None:
            return _line_of_proof(keys, request.user_proved)
        if self._credentials.key is not None:
            return find_key(keys, self._credentials.key)
        if request.basic is not None:
            name, password = request.basic
            return find_key((line for line in keys if line.name == name), password)
        return None


def _answer_of(
    app: AppAccess, fields: dict[str, str], peer_ip: str | None, now: float
) -> ConnectRejected | ConnectProved:
    user = fields.get("user", "")
    if not NAME.fullmatch(user):
        # A text of ours repeats the user, so it is one that no client can misread.
        return ConnectRejected(adobe.FAILED if user else adobe.NEED_AUTH, is_failure=bool(user))
    lines = [line for line in app.keys if line.adobe is not None and line.name == user]
    if "response" not in fields:
        if lines:
            return ConnectRejected(adobe.challenge_text(lines[0], peer_ip, now), is_failure=False)
        return ConnectRejected(adobe.decoy_text(user, _seed_of(app.keys), peer_ip, now), is_failure=False)
    if lines and adobe.is_answered(lines[0], fields, peer_ip, now):
        return ConnectProved(adobe.proof_of(lines[0]))
    return ConnectRejected(adobe.FAILED, is_failure=True)


def _seed_of(keys: Iterable[KeyLine]) -> bytes:
    """What only those know who have the configuration; the same in every worker."""
    return hashlib.sha256(b"".join(line.digest for line in keys)).digest()


def _line_of_proof(keys: Iterable[KeyLine], proof: str) -> KeyLine | None:
    for line in keys:
        if line.adobe is not None and hmac.compare_digest(adobe.proof_of(line).encode(), proof.encode()):
            return line
    return None


def _has_any(request: AccessRequest, credentials: Credentials) -> bool:
    return credentials.is_any or request.basic is not None or request.user_proved is not None


def _is_text(request: AccessRequest) -> bool:
    try:
        for each in (request.app, request.stream, request.app_query, request.stream_query):
            each.encode()
    except UnicodeEncodeError:
        return False
    return True


def _takes_keys(rules: Rules) -> bool:
    return any("key" in each.conditions for each in rules)


def _lets_in_address(rules: Rules, peer: PeerIp | None) -> bool:
    """Whether somebody gets in by nothing but the address."""
    return any(
        all(
            each == "open" or (isinstance(each, IPv4Network | IPv6Network) and peer is not None and peer in each)
            for each in alternative.conditions
        )
        for alternative in rules
    )
