"""The messages of one webhook on their way: at least once each, in order per stream, until taken or given up.

Owns which are under way and when the next attempt is due. Each hook has its own, so that a slow receiver delays only
itself. Bodies stay on disk until they are sent.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, Protocol

from penstock.logs import get_logger
from penstock.web.hooks.lanes import Lane, Lanes
from penstock.web.hooks.receivers import Outcome
from penstock.web.hooks.retries import Retries
from penstock.web.hooks.settings import WebhookSettings
from penstock.web.hooks.store import Attempted, Store, Waiting
from penstock.web.hooks.store_thread import StoreThread

MAX_UNDER_WAY: Final = 8
MAX_WAITING: Final = 10_000
_DISPLACED_AT_ONCE: Final = 100
_TELL_EVERY_S: Final = 60.0

Post = Callable[[str, dict[str, str], bytes, float], Awaitable[Outcome]]


class Clocks(Protocol):
    """What time it is: the wall clock for what is kept and signed, the monotonic one for waiting."""

    def wall(self) -> float: ...

    def monotonic(self) -> float: ...


class Deliveries:
    """Of one hook."""

    def __init__(
        self,
        hook: WebhookSettings,
        disk: StoreThread,
        post: Post,
        clocks: Clocks,
        retries: Retries | None = None,
        *,
        max_waiting: int = MAX_WAITING,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.hook = hook
        """May be replaced by one of the same key: attempts to come meet the new one."""
        self._disk = disk
        self._post = post
        self._clocks = clocks
        self._retries = retries or Retries()
        self._max_waiting = max_waiting
        self._chance = chance
        self._lanes = Lanes()
        self._changed = asyncio.Event()
        self._is_failing = False
        self._tell_at = -math.inf

    @property
    def waiting(self) -> int:
        """How many messages have not been taken."""
        return self._lanes.count

    def add(self, messages: Iterable[Waiting]) -> None:
        """Have messages sent that are on disk."""
        wall, now = self._clocks.wall(), self._clocks.monotonic()
        for each in messages:
            # The wall clock may have been set meanwhile: no wait is longer than the longest delay.
            delay_s = min(max(0.0, each.due_at - wall), self._retries.longest_s)
            self._lanes.add(each.number, each.lane, now + delay_s)
        self._changed.set()

    async def run(self) -> None:
        """Deliver until cancelled. What was under way then is sent again by the next life."""
        sending: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._changed.clear()
                await self._make_room()
                while len(sending) < MAX_UNDER_WAY and (taken := self._lanes.take(self._clocks.monotonic())):
                    task = asyncio.create_task(self._deliver(*taken))
                    sending.add(task)
                    task.add_done_callback(sending.discard)
                    task.add_done_callback(lambda _: self._changed.set())
                await self._wait(is_full=len(sending) >= MAX_UNDER_WAY)
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _wait(self, *, is_full: bool) -> None:
        due_at = None if is_full else self._lanes.next_due_at
        wait_s = None if due_at is None else max(0.0, due_at - self._clocks.monotonic())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._changed.wait()

    async def _make_room(self) -> None:
        if self._lanes.count <= self._max_waiting:
            return
        count = self._lanes.count - self._max_waiting + _DISPLACED_AT_ONCE
        spared, at = self._lanes.under_way, self._clocks.wall()
        displaced = await self._disk.insist(
            lambda store: store.displace(self.hook.key, count, spared, f"more than {self._max_waiting} waited", at)
        )
        self._lanes.remove(set(displaced), self._clocks.monotonic())
        get_logger().warning("webhook messages given up", hook=self.hook.name, messages=len(displaced))

    async def _deliver(self, number: int, lane: Lane) -> None:
        message = await self._disk.insist(partial(Store.attempted, number=number))
        if message is None:
            self._lanes.done(lane, self._clocks.monotonic())
            return
        outcome = await self._attempt(message)
        self._tell(outcome)
        if outcome.is_taken:
            await self._disk.insist(partial(Store.taken, number=number))
            self._lanes.done(lane, self._clocks.monotonic())
            return
        wall = self._clocks.wall()
        attempts = message.attempts + 1
        age_s = wall - message.accepted_at
        delay_s = None if outcome.is_final else self._retries.delay_s(attempts, self._chance(), age_s, outcome.asked_s)
        if delay_s is None:
            await self._disk.insist(partial(Store.given_up, number=number, reason=outcome.reason, at=wall))
            get_logger().warning(
                "webhook message given up", hook=self.hook.name, id=message.id, attempts=attempts, reason=outcome.reason
            )
            self._lanes.done(lane, self._clocks.monotonic())
        else:
            await self._disk.insist(partial(Store.failed, number=number, reason=outcome.reason, due_at=wall + delay_s))
            self._lanes.again(lane, self._clocks.monotonic() + delay_s)

    async def _attempt(self, message: Attempted) -> Outcome:
        hook, at = self.hook, self._clocks.wall()
        if hook.secret is None:
            headers = {"webhook-id": message.id, "webhook-timestamp": str(int(at))}
        else:
            headers = hook.secret.headers(message.id, at, message.body)
        try:
            return await self._post(hook.url, headers, message.body, hook.timeout_s)
        except Exception as error:  # a message that we fail at ourselves holds up its stream for a day, not the process
            get_logger().error("webhook attempt failed", hook=hook.name, exc_info=error)
            return Outcome(is_taken=False, reason=type(error).__name__)

    def _tell(self, outcome: Outcome) -> None:
        """When a receiver stops taking messages, and when it takes them again: not each time."""
        now = self._clocks.monotonic()
        if outcome.is_taken and self._is_failing:
            self._is_failing = False
            get_logger().info("webhook receiver takes messages again", hook=self.hook.name)
        elif not outcome.is_taken and not self._is_failing and now >= self._tell_at:
            self._is_failing = True
            self._tell_at = now + _TELL_EVERY_S
            get_logger().warning("webhook receiver does not take messages", hook=self.hook.name, reason=outcome.reason)
