"""The desk: by which rules it answers, and what it refuses without asking anybody."""

import asyncio
from typing import Any

import pytest

from penstock.config import Config
from penstock.config_secrets import policy_of
from penstock.control.live import AccessAnswer, AccessQuestion
from penstock.errors import ConfigError
from penstock.web.access.desk import MAX_OPEN, AccessDesk

ENVIRONMENT = {"JWT": "0123456789abcdef0123456789abcdef"}


def config(rule: str) -> Config:
    return Config.model_validate({"access": {"live": {"publish": [rule]}}, "auth": {"jwt": "env:JWT"}})


def question(edition: str = "") -> AccessQuestion:
    values: dict[str, Any] = {"app": "live", "stream": "x", "protocol": "rtmp", "peer_addr": "192.0.2.1:4000"}
    return AccessQuestion(
        1, "publish", **values, app_query="", stream_query="token=t", user=None, is_held=False, edition=edition
    )


def edition_of(rule: str) -> str:
    return policy_of(config(rule), ENVIRONMENT).edition


def reason(answer: AccessAnswer) -> str:
    assert not answer.is_allowed
    return answer.rule


def test_questions_are_answered_by_the_rules_in_force() -> None:
    async def scene() -> None:
        desk = AccessDesk(config("jwt"), ENVIRONMENT)
        assert reason(await desk.answer(question(edition_of("jwt")))) == "not let in by the rules of the app: jwt"
        assert reason(await desk.answer(question())) == "not let in by the rules of the app: jwt"
        await desk.close()

    asyncio.run(scene())


def test_a_worker_that_knows_newer_rules_waits_for_them_to_come_here() -> None:
    async def scene() -> None:
        desk = AccessDesk(config("open"), ENVIRONMENT)
        asked = asyncio.create_task(desk.answer(question(edition_of("jwt"))))
        await asyncio.sleep(0.01)
        assert not asked.done()
        desk.reload(config("jwt"))
        assert reason(await asked) == "not let in by the rules of the app: jwt"
        await desk.close()

    asyncio.run(scene())


def test_where_they_do_not_come_it_refuses() -> None:
    async def scene() -> None:
        desk = AccessDesk(config("jwt"), ENVIRONMENT, reload_s=0.01)
        assert reason(await desk.answer(question("another"))) == "the rules are being changed"
        await desk.close()

    asyncio.run(scene())


def test_where_others_come_instead_it_refuses() -> None:
    async def scene() -> None:
        desk = AccessDesk(config("jwt"), ENVIRONMENT)
        asked = asyncio.create_task(desk.answer(question("another")))
        await asyncio.sleep(0.01)
        desk.reload(Config.model_validate({"access": {"*": {"play": ["jwt"]}}, "auth": {"jwt": "env:JWT"}}))
        assert reason(await asked) == "the rules are being changed"
        await desk.close()

    asyncio.run(scene())


def test_a_reload_whose_secrets_cannot_be_read_changes_nothing() -> None:
    async def scene() -> None:
        desk = AccessDesk(config("jwt"), ENVIRONMENT)
        wrong = Config.model_validate({"access": {"live": {"publish": ["jwt"]}}, "auth": {"jwt": "env:GONE"}})
        with pytest.raises(ConfigError, match="GONE"):
            desk.reload(wrong)
        assert reason(await desk.answer(question(edition_of("jwt")))) == "not let in by the rules of the app: jwt"
        await desk.close()

    asyncio.run(scene())


def test_more_questions_than_anybody_answers_are_refused() -> None:
    async def scene() -> list[str]:
        desk = AccessDesk(config("open"), ENVIRONMENT)
        tasks = [desk.answer(question(edition_of("jwt"))) for _ in range(MAX_OPEN + 1)]
        asked = [asyncio.create_task(task) for task in tasks]
        await asyncio.sleep(0)
        desk.reload(config("jwt"))
        reasons = [reason(answer) for answer in await asyncio.gather(*asked)]
        await desk.close()
        return reasons

    assert asyncio.run(scene()).count("too many questions") == 1
