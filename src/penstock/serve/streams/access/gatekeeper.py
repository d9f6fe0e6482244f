"""The gatekeeper: who may connect, publish and play, decided before anything is claimed, and again while it lasts.

Owns the rules and blocks in force, what was asked of web and not answered yet, and how refusals are slowed down and
counted. What the rules say without network is decided here and now (`penstock.access`); the rest is asked of the web
process, which may be killed meanwhile and is asked again when it is back. What becomes of a decision is the matter of
whoever asked. Nothing that a peer said beside its app is told to anybody: a refused name may be a key.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, assert_never
from urllib.parse import quote

from penstock.access.policy import ConnectProved, ConnectRejected, Policy
from penstock.access.request import AccessRequest, Action, Allowed, Refused, Undecided
from penstock.control import live
from penstock.control.live import AccessAnswer, AccessQuestion
from penstock.control.slowdown import Slowdown
from penstock.protocol.events import ConnectRequested
from penstock.serve.reactor import Loop, Timer
from penstock.serve.streams.access.blocks import Blocks
from penstock.serve.streams.access.grant import Grant
from penstock.serve.streams.observer import Observer

LIMIT: Final = "access"
"""What refusals are counted as, among the limits."""
EXPIRED: Final = "access expired"
REVOKED: Final = "access revoked"
BLOCKED: Final = "blocked"
ANSWER_WITHIN_S: Final = 5.0
"""How long web may take, a restart of it included."""
MAX_ASKED_ANEW: Final = 1000
"""How many of those who were let in web is asked about at a time; it answers thousands a second."""

OnDecided = Callable[[Grant | Refused], None]
"""Told what lets somebody in, or that it is refused."""
OnLost = Callable[[str], None]
"""Told why what was let in may not go on."""


class Caller(Protocol):
    """Whoever asks: a connection, or a request over HTTP."""

    @property
    def address(self) -> str:
        """Of the peer, with its port."""


class Connecting(Caller, Protocol):
    """A connection that asks for several things, one after the other."""

    user_proved: str | None

    @property
    def app(self) -> str:
        """What it is connected to."""

    @property
    def app_query(self) -> str | None:
        """What came with the app's name."""

    @property
    def protocol(self) -> str:
        """As facts call it."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What web has yet to answer."""

    question: AccessQuestion
    answer: Callable[[AccessAnswer | None], None]
    """None: there was no answer in time."""
    timer: Timer


class Gatekeeper:
    """Decides who may, by the rules in force. Without any, everybody may everything who is not blocked."""

    def __init__(self, loop: Loop, observer: Observer, wall_clock: Callable[[], float] = time.time) -> None:
        self._loop = loop
        self._observer = observer
        self._wall_clock = wall_clock
        self._policy = Policy()
        self._blocks = Blocks()
        self._version = 0
        """Counted up whenever what was let in has to be decided anew."""
        self._slowdown = Slowdown()
        self._numbers = itertools.count(1)
        self._asked: dict[int, _Asked] = {}
        self._asked_anew = 0
        self.ask_web: Callable[[AccessQuestion], object] = lambda _question: None
        """Sends a question to the web process, if there is one."""
        self.is_web_busy: Callable[[], bool] = lambda: False
        """Whether what can wait should not be asked now; also while there is none."""

    # What is in force.

    @property
    def is_open(self) -> bool:
        """Whether there are no rules at all, and so no credentials to keep to ourselves."""
        return self._policy.is_open

    def admits_by_address(self, app: str) -> bool:
        """Whether somebody may play in an app by nothing but the address, and not everybody may."""
        return self._policy.admits_by_address(app)

    def asks_callback(self, app: str) -> bool:
        """Whether a callback may be asked who plays in an app."""
        return self._policy.asks_callback(app)

    def apply(self, policy: Policy) -> None:
        """Go by other rules. What web goes by may have changed too, so all that was let in is decided anew."""
        self._policy = policy
        self._version += 1

    def block(self, blocks: live.Blocks) -> None:
        """These are blocked from now on, and no others."""
        self._blocks = Blocks(blocks)
        self._version += 1

    def is_blocked(self, connection: Caller) -> bool:
        """Whether nobody from there is served now."""
        # Asked for every connection once a second.
        return self._blocks.has_addresses and self._blocks.has_address(_ip_of(connection), self._wall_clock())

    # Those who come.

    def connect(self, connection: Connecting, event: ConnectRequested) -> ConnectRejected | None:
        """What Adobe's challenge has to say to a connect; None: it is accepted. Keeps whose key was proved."""
        answer = self._policy.connect(
            event.app, event.flash_version, event.app_query, _ip_of(connection), self._wall_clock()
        )
        if isinstance(answer, ConnectProved):
            connection.user_proved = answer.user
            return None
        return answer

    def ask(self, connection: Connecting, action: Action, name: str, query: str | None, answer: OnDecided) -> None:
        """Decide about one who wants to publish or play. The answer comes within the call, or later."""
        request = AccessRequest(
            action=action,
            app=connection.app,
            stream=name,
            protocol=connection.protocol,
            peer_ip=_ip_of(connection),
            app_query=connection.app_query or "",
            stream_query=query or "",
            user_proved=connection.user_proved,
        )
        self.decide(connection, request, answer)

    def decide(self, caller: Caller, request: AccessRequest, answer: OnDecided) -> None:
        """Decide about a request. The answer comes within the call, or later."""
        version = self._version
        if self.is_blocked(caller):
            self._refuse(caller, request, Refused(BLOCKED, has_credentials=True), answer)
            return
        decision = self._policy.decide(request, self._wall_clock())
        match decision:
            case Allowed():
                self._let_in(caller, Grant(request, decision, version), answer)
            case Refused():
                self._refuse(caller, request, decision, answer)
            case Undecided():

                def on_answer(told: AccessAnswer | None) -> None:
                    if told is not None and told.is_allowed:
                        self._let_in(caller, Grant(request, _allowed_by(told, request), version), answer)
                    elif told is not None and version != self._version:
                        # Refused perhaps for this alone: the rules have changed while web was asked.
                        self.decide(caller, request, answer)
                    elif told is not None:
                        self._refuse(caller, request, Refused(told.rule, told.has_credentials), answer)
                    else:
                        has_credentials = decision.refused.has_credentials
                        self._refuse(caller, request, Refused("web did not answer in time", has_credentials), answer)

                self._ask(caller, request, on_answer)
            case _:
                assert_never(decision)

    def _let_in(self, caller: Caller, grant: Grant, answer: OnDecided) -> None:
        if self._blocks.has_subject(grant.subject, self._wall_clock()):
            self._refuse(caller, grant.request, Refused(BLOCKED, has_credentials=True), answer)
        else:
            answer(grant)

    def _refuse(self, caller: Caller, request: AccessRequest, refused: Refused, answer: OnDecided) -> None:
        detail = f"{caller.address} may not {request.action} in {request.app}: {refused.reason}"
        self.after_failure(caller, detail, lambda: answer(refused))

    def after_failure(self, connection: Caller, detail: str, call: Callable[[], None]) -> None:
        """Count a failure of a peer, and go on when its address has waited for it."""
        self._observer.limit_hit(LIMIT, detail)
        delay_s = self._slowdown.failed(_ip_of(connection), self._loop.now)
        if delay_s > 0:
            self._loop.call_later(delay_s, call)
        else:
            call()

    # Those who are there.

    def look_at(self, grant: Grant, connection: Caller, end: OnLost) -> None:
        """Whether what was let in may go on: asked once a second, so cheap where nothing has changed."""
        expires_at = grant.allowed.expires_at
        if expires_at is None and grant.version == self._version:
            return
        now = self._wall_clock()
        if expires_at is not None and now >= expires_at:
            end(EXPIRED)
        elif grant.version != self._version and not grant.is_asked:
            self._decide_anew(grant, connection, now, end)

    def _decide_anew(self, grant: Grant, connection: Caller, now: float, end: OnLost) -> None:
        version = self._version
        if self.is_blocked(connection) or self._blocks.has_subject(grant.subject, now):
            end(BLOCKED)
            return
        decision = self._policy.decide(grant.request, now)
        match decision:
            case Allowed():
                self._renew(grant, decision, version, end)
            case Refused():
                end(REVOKED)
            case Undecided():
                if self._asked_anew >= MAX_ASKED_ANEW or self.is_web_busy():
                    return  # looked at again in a second

                def on_answer(told: AccessAnswer | None) -> None:
                    grant.is_asked = False
                    self._asked_anew -= 1
                    if told is None or version != self._version:
                        return  # web is being replaced, or the rules were: it is asked again before anything ends
                    if told.is_allowed:
                        self._renew(grant, _allowed_by(told, grant.request), version, end)
                    else:
                        end(REVOKED)

                grant.is_asked = True
                self._asked_anew += 1
                self._ask(connection, grant.request, on_answer, held_by=grant.allowed.rule)
            case _:
                assert_never(decision)

    def _renew(self, grant: Grant, allowed: Allowed, version: int, end: OnLost) -> None:
        before, expires_at = grant.allowed, allowed.expires_at
        if all("callback" in each.rule.split("+") for each in (before, allowed)):
            # It is not asked again, so what it answered before still holds, another name included.
            expires_at = before.expires_at if expires_at is None else expires_at
        elif allowed.stream != before.stream:
            end(REVOKED)
            return
        # Facts have told the subject already.
        grant.allowed = Allowed(allowed.rule, before.subject, before.stream, expires_at, allowed.is_by_web)
        grant.version = version

    # Web.

    def answered(self, answer: AccessAnswer) -> None:
        """Web has decided."""
        asked = self._asked.pop(answer.request, None)
        if asked is not None:
            asked.timer.cancel()
            asked.answer(answer)

    def ask_again(self) -> None:
        """There is a new web process, which knows nothing of what the one before was asked."""
        for asked in list(self._asked.values()):
            self.ask_web(asked.question)

    def _ask(
        self,
        connection: Caller,
        request: AccessRequest,
        answer: Callable[[AccessAnswer | None], None],
        held_by: str | None = None,
    ) -> None:
        """`held_by`: the rule that let it in before."""
        number = next(self._numbers)
        question = AccessQuestion(
            request=number,
            action=request.action,
            app=request.app,
            stream=request.stream,
            protocol=request.protocol,
            peer_addr=connection.address,
            app_query=request.app_query or _query_of_header(request),
            stream_query=request.stream_query,
            user=request.user_proved,
            is_held=held_by is not None,
            held_rule=held_by or "",
            edition=self._policy.edition,
        )
        timer = self._loop.call_later(ANSWER_WITHIN_S, lambda: self._give_up(number))
        self._asked[number] = _Asked(question, answer, timer)
        self.ask_web(question)

    def _give_up(self, number: int) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked.answer(None)


def _allowed_by(answer: AccessAnswer, request: AccessRequest) -> Allowed:
    stream = request.stream if answer.stream is None else answer.stream
    return Allowed(answer.rule, answer.subject, stream, answer.expires_at, is_by_web=True)


def _query_of_header(request: AccessRequest) -> str:
    """What came in HTTP's `Authorization`, where web looks for credentials last as well."""
    if request.bearer is not None:
        return f"{'token' if '.' in request.bearer else 'key'}={quote(request.bearer, safe='')}"
    return "" if request.basic is None else f"key={quote(request.basic[1], safe='')}"


def _ip_of(connection: Caller) -> str:
    return connection.address.rpartition(":")[0].strip("[]")
