"""A stage with rules, a web process that answers when the test says so, and a reaper that comes round."""

from collections.abc import Mapping

from penstock.access.keys import key_line, read_key_line
from penstock.access.policy import AppAccess, Policy
from penstock.access.rules import read_rule_text, rules_of
from penstock.access.signing import signature
from penstock.control.live import AccessAnswer, AccessQuestion
from penstock.serve.settings import AppSettings
from tests.serve.fake_peer import FakePeer, codes
from tests.serve.streams.stage import Stage

KEY = "correcthorsebatterystaple2345678"
OTHER_KEY = "anotherkeyofanotherstudio2345678"
SALT = "c2FsdHNhbHQ"
SIGNING = b"a secret that signs links, and nothing else"
DENIED = "NetStream.Publish.Denied"
FAILED = "NetStream.Play.Failed"
PUBLISHED = "NetStream.Publish.Start"
PLAYED = "NetStream.Play.Start"


def app_access(
    publish: list[object],
    play: list[object] | None = None,
    aliases: Mapping[str, str] | None = None,
    *,
    keys: Mapping[str, str] | None = None,
    has_adobe: bool = False,
) -> AppAccess:
    lines = {"studio": KEY, "other": OTHER_KEY} if keys is None else keys
    salt = SALT if has_adobe else None
    return AppAccess(
        publish=rules_of(read_rule_text(publish)),
        play=rules_of(read_rule_text(["open"] if play is None else play)),
        keys=tuple(read_key_line(key_line(name, key, salt)) for name, key in lines.items()),
        aliases=aliases or {},
    )


def signed(action: str, path: str, expires_at: float) -> str:
    exp = str(int(expires_at))
    return f"exp={exp}&sig={signature(SIGNING, 'play' if action == 'play' else 'publish', path, exp, '')}"


class GateStage(Stage):
    """By these rules for the app `live`."""

    def __init__(self, access: AppAccess, app: AppSettings | None = None) -> None:
        super().__init__(app=app)
        self.questions: list[AccessQuestion] = []
        self.gatekeeper = self.broker.gatekeeper
        self.gatekeeper.ask_web = self.questions.append
        self.rule(access)
        self.reaper.start()

    def rule(self, access: AppAccess) -> None:
        """The rules have changed."""
        self.gatekeeper.apply(Policy({"live": access}, (SIGNING,), "e1"))

    def answer(self, question: AccessQuestion, *, is_allowed: bool = True, **more: str | float) -> None:
        """Web answers."""
        rule = str(more.pop("rule", "jwt"))
        told = AccessAnswer(question.request, is_allowed, has_credentials=True, rule=rule, **more)  # type: ignore[arg-type]
        self.gatekeeper.answered(told)
        self.loop.settle()


def heard(peer: FakePeer) -> list[str]:
    """The codes that came since the last time."""
    return codes(peer.hear())
