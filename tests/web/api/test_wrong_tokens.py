"""Callers with a token that is not known: counted, told once a second, and held up longer and longer."""

import asyncio
import io
import json
from collections import Counter

import pytest

from penstock.logs import configure_logs
from penstock.web.api.wrong_tokens import LIMIT, MAX_WAITING, WrongTokens


class Stage:
    """A clock that stands still, and sleepers that are noted and let go at once, or never."""

    def __init__(self, *, never_wakes: bool = False) -> None:
        self.now = 100.0
        self.counts: Counter[str] = Counter()
        self.slept_s: list[float] = []
        self._wakes = asyncio.Event()
        if not never_wakes:
            self._wakes.set()
        self.wrong_tokens = WrongTokens(lambda: self.now, self.counts, self._sleep)

    async def _sleep(self, delay_s: float) -> None:
        self.slept_s.append(delay_s)
        await self._wakes.wait()

    def show(self, *addresses: str | None) -> None:
        async def all_of_them() -> None:
            for address in addresses:
                await self.wrong_tokens.shown(address)

        asyncio.run(all_of_them())


def test_each_wrong_token_of_an_address_waits_longer_than_the_one_before() -> None:
    stage = Stage()
    stage.show(*["192.0.2.1"] * 8)
    assert stage.slept_s == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])
    assert stage.counts == {LIMIT: 8}


def test_addresses_do_not_wait_for_each_other() -> None:
    stage = Stage()
    stage.show("192.0.2.1", "192.0.2.2", "2001:db8::1", None)
    assert stage.slept_s == []


def test_what_is_no_address_counts_as_one_that_is_not_known() -> None:
    stage = Stage()
    stage.show(None, "unknown", "\x1b[2J")
    assert stage.slept_s == pytest.approx([0.1, 0.2])


def test_answers_that_wait_leave_room_for_others() -> None:
    async def many(stage: Stage) -> int:
        waiting = [asyncio.ensure_future(stage.wrong_tokens.shown("192.0.2.1")) for _ in range(MAX_WAITING + 5)]
        await asyncio.sleep(0)
        answered = sum(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.wait_for(stage.wrong_tokens.shown("192.0.2.9"), 1)
        return answered

    # The first of an address never waits.
    assert asyncio.run(many(Stage(never_wakes=True))) == 1 + 4


def test_the_log_has_one_line_a_second_and_no_address_that_is_none() -> None:
    stage = Stage()
    stream = io.StringIO()
    writer = configure_logs("info", "json", stream)
    stage.show("192.0.2.1", "192.0.2.2", "192.0.2.3")
    stage.now += 1
    stage.show("evil\nline")
    assert writer.flush(5.0)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    writer.close()
    assert [(line["msg"], line["reason"], line["swallowed"]) for line in lines] == [
        ("Limit hit: api tokens", "a token that is not known, from 192.0.2.1", 0),
        ("Limit hit: api tokens", "a token that is not known, from an unknown address", 2),
    ]
