"""What a worker is answered: rules, tokens and callback together."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock.access.keys import key_line
from penstock.config import Config
from penstock.config_secrets import policy_of
from penstock.control.live import AccessAnswer, AccessQuestion
from penstock.errors import ConfigError
from penstock.web.access.answers import AccessAnswers

ENVIRONMENT = {"JWT": "0123456789abcdef0123456789abcdef"}
KEY = "6xygj3cykoilmjp4zqtyw27yfwcid6ro"
EXP = int(time.time()) + 600
CLAIMS = {
    "sub": "alice",
    "exp": EXP,
    "aud": "penstock",
    "penstock": {"actions": ["publish"], "streams": ["live/main"]},
}
TOKEN = jwt.encode(CLAIMS, ENVIRONMENT["JWT"], "HS256")
AUTH = {"jwt": "env:JWT", "callback": "http://127.0.0.1:9000/auth"}


class Backend:
    """The operator's service, and the address of a set of keys."""

    def __init__(self, status: int = 200, body: object = None) -> None:
        self.status = status
        self.body = json.dumps({} if body is None else body).encode()
        self.asked: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(json.loads(request.content) if request.content else {"url": str(request.url)})
        return httpx.Response(self.status, stream=httpx.ByteStream(self.body))


def question(query: str = "", stream: str = "main", **more: Any) -> AccessQuestion:
    values: dict[str, Any] = {"app": "live", "protocol": "rtmp", "peer_addr": "192.0.2.1:4000", "app_query": ""}
    values |= {"action": "publish", "user": None, "is_held": False}
    return AccessQuestion(request=7, stream=stream, stream_query=query, **(values | more))


def answered(
    publish: list[Any],
    asked: AccessQuestion,
    backend: Backend | None = None,
    auth: dict[str, Any] | None = None,
    **access: Any,
) -> AccessAnswer:
    config = Config.model_validate({"access": {"live": {"publish": publish} | access}, "auth": auth or AUTH})

    async def answer() -> AccessAnswer:
        policy = policy_of(config, ENVIRONMENT)
        transport = httpx.MockTransport(backend or Backend(500))
        answers = AccessAnswers(config, policy, ENVIRONMENT, transport=transport)
        try:
            return await answers.answer(asked)
        finally:
            await answers.close()

    return asyncio.run(answer())


def test_a_token_lets_in_with_its_subject_and_end() -> None:
    assert answered(["jwt"], question(f"token={TOKEN}")) == AccessAnswer(
        7, True, True, "jwt", "alice", None, EXP + 30.0
    )


def test_a_wrong_token_is_refused_by_the_names_of_the_rules() -> None:
    answer = answered(["jwt"], question(f"token={TOKEN}x"))
    assert answer == AccessAnswer(7, False, True, "not let in by the rules of the app: jwt")
    assert not answered(["jwt"], question(f"token={TOKEN}", stream="other")).is_allowed
    assert not answered(["jwt"], question(f"token={TOKEN}", action="play")).is_allowed


def test_what_needs_no_network_is_asked_first() -> None:
    backend = Backend()
    assert answered(["callback", "jwt"], question(f"token={TOKEN}"), backend).rule == "jwt"
    assert backend.asked == []


def test_the_callback_is_sent_names_query_and_token_and_may_rename() -> None:
    backend = Backend(body={"subject": "bob", "stream": "hall", "expires_in_s": 60})
    asked = question("a=1&token=t", app_query="b=2", user="studio#0123")
    before = time.time()
    answer = answered(["callback"], asked, backend)
    assert (answer.is_allowed, answer.rule, answer.subject, answer.stream) == (True, "callback", "bob", "hall")
    assert answer.expires_at is not None
    assert before + 60 <= answer.expires_at <= time.time() + 60
    assert backend.asked == [
        {
            "action": "publish",
            "app": "live",
            "stream": "main",
            "protocol": "rtmp",
            "peer_addr": "192.0.2.1:4000",
            "query": "a=1&token=t&b=2",
            "user": "studio",
            "token": "t",
        }
    ]


def test_an_inner_list_needs_the_key_the_token_and_the_callback() -> None:
    line = key_line("studio", KEY)
    rules = [["key", "jwt", "callback"]]
    backend = Backend(body={"subject": "bob"})
    more: dict[str, Any] = {"keys": [line], "aliases": {"studio": "main"}}
    answer = answered(rules, question(f"token={TOKEN}", stream=KEY), backend, **more)
    assert (answer.is_allowed, answer.subject, answer.stream, answer.expires_at) == (True, "studio", "main", EXP + 30.0)
    assert backend.asked[0]["stream"] == "main", "not the key"
    assert not answered(rules, question(f"token={TOKEN}", stream=KEY), Backend(403), **more).is_allowed
    assert not answered(rules, question(f"token={TOKEN}", stream="x"), backend, **more).is_allowed


def test_without_an_answer_callback_fails_decides() -> None:
    assert not answered(["callback"], question(), Backend(500)).is_allowed
    assert answered(["callback"], question(), Backend(500), AUTH | {"callback_fails": "allow"}).is_allowed


def test_who_was_let_in_by_the_callback_is_not_asked_about_again() -> None:
    backend = Backend(403)
    assert answered(["callback"], question(is_held=True, held_rule="callback"), backend).is_allowed
    assert backend.asked == []
    assert not answered(["callback"], question(is_held=True, held_rule="key"), backend).is_allowed
    assert len(backend.asked) == 1


def test_a_token_is_verified_again_while_it_lasts() -> None:
    held = question(f"token={TOKEN}", is_held=True, held_rule="jwt")
    assert answered(["jwt"], held).is_allowed
    assert not answered(["jwt"], held, auth={"jwt": "env:JWT", "jwt_audience": "another"}).is_allowed


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "address"])
def test_a_set_of_keys_is_fetched_from_where_it_is(is_file: bool, tmp_path: Path) -> None:
    private = rsa.generate_private_key(65537, 2048)
    keys = {"keys": [jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key(), as_dict=True) | {"kid": "a"}]}
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(keys), encoding="utf-8")
    backend = Backend(body=keys)
    where = f"jwks:{file}" if is_file else "jwks:https://id.example/keys"
    signed = question(f"token={jwt.encode(CLAIMS, private, 'RS256', {'kid': 'a'})}")
    assert answered(["jwt"], signed, backend, {"jwt": where}).is_allowed
    assert backend.asked == ([] if is_file else [{"url": "https://id.example/keys"}])
    assert not answered(["jwt"], signed, Backend(404), {"jwt": "jwks:https://id.example/keys"}).is_allowed


def test_an_error_of_ours_lets_nobody_in_and_tells_no_secret(capfd: pytest.CaptureFixture[str]) -> None:
    class Broken(Backend):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            raise RuntimeError(f"hunter2 {request.content!r}")

    answer = answered(["callback"], question("key=hunter2"), Broken())
    assert (answer.is_allowed, answer.rule) == (False, "internal error")
    assert "hunter2" not in "".join(capfd.readouterr())


def test_a_key_that_is_none_is_told_at_start() -> None:
    config = Config.model_validate({"auth": {"jwt": "env:PEM"}})
    environment = {"PEM": "-----BEGIN PUBLIC KEY-----\naHVudGVyMg==\n-----END PUBLIC KEY-----"}
    with pytest.raises(ConfigError, match=r"^auth\.jwt: what it refers to"):
        AccessAnswers(config, policy_of(config, environment), environment)
