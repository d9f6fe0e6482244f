"""What workers ask about access, answered: the rules once more, with tokens verified and the callback asked.

Owns the verifiers that a configuration leads to, and the order: what needs no network is asked first. It answers every
question, since a worker refuses whoever it hears nothing of.
"""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import httpx

from penstock.access.adobe import name_of_proof
from penstock.access.policy import Policy
from penstock.access.request import AccessRequest, Allowed, Decision, Grant, Pending, Refused, Undecided
from penstock.config import Config
from penstock.config_access import JWKS_PREFIX
from penstock.config_secrets import jwt_secret
from penstock.control.live import AccessAnswer, AccessQuestion
from penstock.logs import get_logger
from penstock.web.access.callback import Callback, CallbackRequest
from penstock.web.access.key_set import Fetch, KeySet
from penstock.web.access.tokens import Keys, OneKey, Tokens

_TELL_EVERY_S: Final = 10.0
_FETCH_S: Final = 3.0
_MAX_KEY_SET_BYTES: Final = 256 * 1024


class AccessAnswers:
    """Policy and verifiers of one configuration. Secrets that cannot be read raise ConfigError."""

    def __init__(
        self,
        config: Config,
        policy: Policy,
        environment: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`transport` is for tests: where requests go instead of the network."""
        self._policy = policy
        self._clock = clock
        # What the environment says of proxies is for other programs: who is asked is in the configuration.
        self._client = httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=_FETCH_S)
        self._tokens: Tokens | None = None
        self._callback: Callback | None = None
        self._told_at: dict[str, float] = {}
        auth = config.auth
        if auth.jwt is not None:
            self._tokens = Tokens(self._keys(auth.jwt, jwt_secret(config, environment)), auth.jwt_audience)
        if auth.callback is not None:
            self._callback = Callback(
                self._client,
                auth.callback,
                style=auth.callback_style,
                timeout_s=auth.callback_timeout_s,
                fails=auth.callback_fails,
                on_failure=self._on_callback_failure,
                clock=clock,
            )

    async def close(self) -> None:
        await self._client.aclose()

    async def answer(self, question: AccessQuestion) -> AccessAnswer:
        """Whatever happens: an error of ours lets nobody in and is told."""
        try:
            decision = await self._decide(question)
        except Exception as error:
            # One request must not end the process that serves all others; and what an error says may hold a secret.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            get_logger().error("Access could not be decided", reason=f"{type(error).__name__} in {frame.name}")
            decision = Refused("internal error", has_credentials=True)
        if isinstance(decision, Allowed):
            return AccessAnswer(
                request=question.request,
                is_allowed=True,
                has_credentials=True,
                rule=decision.rule,
                subject=decision.subject,
                stream=None if decision.stream == question.stream else decision.stream,
                expires_at=decision.expires_at,
            )
        return AccessAnswer(question.request, False, decision.has_credentials, decision.reason)

    async def _decide(self, question: AccessQuestion) -> Allowed | Refused:
        request = _request_of(question)
        decision: Decision = self._policy.decide(request, self._clock())
        if not isinstance(decision, Undecided):
            return decision
        for pending in sorted(decision.alternatives, key=lambda each: "callback" in each.asks):
            grants = await self._grants(pending, question, decision.token)
            if grants is not None:
                return pending.granted(*grants)
        return decision.refused

    async def _grants(self, pending: Pending, question: AccessQuestion, token: str | None) -> list[Grant] | None:
        """What all conditions of an alternative grant; None: one of them does not."""
        grants: list[Grant] = []
        for condition in sorted(pending.asks, key=lambda each: each == "callback"):
            if condition == "jwt":
                grant = await self._by_token(pending, question, token)
            else:
                grant = await self._by_callback(pending, question, token)
            if grant is None:
                return None
            grants.append(grant)
        return grants

    async def _by_token(self, pending: Pending, question: AccessQuestion, token: str | None) -> Grant | None:
        if self._tokens is None or token is None:
            return None
        action = _request_of(question).action
        return await self._tokens.grant(token, action, question.app, pending.stream)

    async def _by_callback(self, pending: Pending, question: AccessQuestion, token: str | None) -> Grant | None:
        if self._callback is None:
            return None
        if question.is_held and "callback" in question.held_rule.split("+"):
            return Grant()
        request = CallbackRequest(
            action=question.action,
            app=question.app,
            stream=pending.stream,
            protocol=question.protocol,
            peer_addr=question.peer_addr,
            query="&".join(each for each in (question.stream_query, question.app_query) if each),
            user=None if question.user is None else name_of_proof(question.user),
            token=token,
        )
        return await self._callback.grant(request)

    def _keys(self, where: str, secret: bytes | None) -> Keys:
        if secret is not None:
            return OneKey(secret)
        place = where.removeprefix(JWKS_PREFIX)
        fetch: Fetch = self._fetched(place) if "://" in place else _read(Path(place))
        return KeySet(fetch, time.monotonic, self._on_key_failure)

    def _fetched(self, url: str) -> Fetch:
        async def fetch() -> bytes:
            try:
                # A packed answer might be any size unpacked.
                headers = {"accept-encoding": "identity"}
                async with asyncio.timeout(_FETCH_S), self._client.stream("GET", url, headers=headers) as response:
                    if response.status_code != 200:
                        raise OSError(f"status {response.status_code}")
                    body = b""
                    async for piece in response.aiter_raw():
                        body += piece
                        if len(body) > _MAX_KEY_SET_BYTES:
                            raise OSError(f"an answer above {_MAX_KEY_SET_BYTES} bytes")
                    return body
            except (httpx.HTTPError, TimeoutError) as error:
                raise OSError(type(error).__name__) from None

        return fetch

    def _on_callback_failure(self, reason: str) -> None:
        if self._is_time_to_tell("callback"):
            get_logger().warning("The callback for access gives no answer", reason=reason)

    def _on_key_failure(self, reason: str) -> None:
        if self._is_time_to_tell("keys"):
            get_logger().warning("The keys of tokens cannot be fetched", reason=reason)

    def _is_time_to_tell(self, what: str) -> bool:
        now = time.monotonic()
        if now - self._told_at.get(what, -_TELL_EVERY_S) < _TELL_EVERY_S:
            return False
        self._told_at[what] = now
        return True


def _read(path: Path) -> Fetch:
    def read() -> bytes:
        with path.open("rb") as file:
            return file.read(_MAX_KEY_SET_BYTES)

    def fetch() -> Awaitable[bytes]:
        return asyncio.to_thread(read)

    return fetch


def _request_of(question: AccessQuestion) -> AccessRequest:
    return AccessRequest(
        action="publish" if question.action == "publish" else "play",
        app=question.app,
        stream=question.stream,
        protocol=question.protocol,
        peer_ip=question.peer_addr.rpartition(":")[0].strip("[]"),
        app_query=question.app_query,
        stream_query=question.stream_query,
        user_proved=question.user,
    )
