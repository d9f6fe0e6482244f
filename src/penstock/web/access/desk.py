"""Where workers' questions about access arrive.

What verifies tokens and asks callbacks is imported once the rules need it: it takes memory that a server without such
rules keeps, and an extra that such a server need not have installed.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.access.policy import Policy
from penstock.config import Config
from penstock.config_secrets import policy_of
from penstock.control.live import AccessAnswer, AccessQuestion

if TYPE_CHECKING:
    from penstock.web.access.answers import AccessAnswers

MAX_OPEN: Final = 4000
_RELOAD_S: Final = 2.0
"""How long a worker may have been told of a changed configuration before us."""


class AccessDesk:
    """Answers by the configuration in force. One whose secrets cannot be read raises ConfigError."""

    def __init__(self, config: Config, environment: Mapping[str, str], reload_s: float = _RELOAD_S) -> None:
        self._reload_s = reload_s
        self._environment = environment
        self._policy = policy_of(config, environment)
        self._answers = self._answers_of(config, self._policy)
        self._reloaded = asyncio.Event()
        self._retired: list[AccessAnswers] = []
        self._open = 0

    def reload(self, config: Config) -> None:
        """Answer by another configuration from now on. Who waits for an answer gets it by the one before."""
        policy = policy_of(config, self._environment)
        answers = self._answers_of(config, policy)
        if self._answers is not None:
            self._retired.append(self._answers)
        self._policy, self._answers = policy, answers
        self._reloaded.set()
        self._reloaded = asyncio.Event()

    async def close(self) -> None:
        """Let go of every connection to others."""
        for answers in [*self._retired, *([] if self._answers is None else [self._answers])]:
            await answers.close()

    async def answer(self, question: AccessQuestion) -> AccessAnswer:
        if self._open >= MAX_OPEN:
            return _refusal(question, "too many questions")
        self._open += 1
        try:
            if not await self._is_of_one_mind(question.edition) or self._answers is None:
                return _refusal(question, "the rules are being changed")
            return await self._answers.answer(question)
        finally:
            self._open -= 1
            await self._close_retired()

    async def _is_of_one_mind(self, edition: str) -> bool:
        """Whether we go by the rules that the worker goes by, now or in a moment."""
        if edition not in ("", self._policy.edition):
            # What came in the last moment counts: a reload may take long, when it imports what verifies tokens.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._reload_s):
                    await self._reloaded.wait()
        return edition in ("", self._policy.edition)

    async def _close_retired(self) -> None:
        while self._retired and self._open == 0:
            await self._retired.pop().close()

    def _answers_of(self, config: Config, policy: Policy) -> "AccessAnswers | None":
        if not policy.needs_web:
            return None
        from penstock.web.access.answers import AccessAnswers  # noqa: PLC0415 - see above

        return AccessAnswers(config, policy, self._environment)


def _refusal(question: AccessQuestion, reason: str) -> AccessAnswer:
    return AccessAnswer(question.request, is_allowed=False, has_credentials=True, rule=reason)
