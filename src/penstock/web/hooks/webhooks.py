"""All webhooks: from events to messages on disk, and from there to receivers.

Owns the way of an event until it is kept: from then on it is delivered at least once, or becomes a dead letter. Hearing
of an event costs no wait: the disk is met in a thread, as many messages at a time as came meanwhile.
"""

import asyncio
import hashlib
import sqlite3
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.logs import get_logger
from penstock.web.events.event_log import Event
from penstock.web.hooks.deliveries import Clocks, Deliveries, Post
from penstock.web.hooks.retries import Retries
from penstock.web.hooks.settings import WebhookSettings
from penstock.web.hooks.store import DeadLetter, Message, Store
from penstock.web.hooks.store_thread import StoreThread

MAX_HEARD: Final = 10_000
"""Messages that are not on disk yet. There are as many only when the disk hangs."""
MAX_DEAD_LETTERS: Final = 10_000
DEAD_LETTERS_KEPT_S: Final = 30 * 86_400.0
_FORGET_EVERY_S: Final = 600.0
_TELL_LOST_EVERY_S: Final = 10.0


class Webhooks:
    """Receivers, and what waits for them."""

    def __init__(self, folder: Path, post: Post, clocks: Clocks, retries: Retries | None = None) -> None:
        self._disk = StoreThread(folder)
        self._post = post
        self._clocks = clocks
        self._retries = retries
        self._hooks: dict[str, Deliveries] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._not_loaded: set[str] = set()
        self._has_other_hooks = False
        self._heard: list[Message] = []
        self._lost = 0
        self._told_lost_at: float | None = None
        self._changed = asyncio.Event()

    def configure(self, hooks: Sequence[WebhookSettings]) -> None:
        """Deliver to these from now on. What waits for one that is no longer there becomes dead letters."""
        keys = {hook.key for hook in hooks}
        for key in self._hooks.keys() - keys:
            del self._hooks[key]
            self._not_loaded.discard(key)
            if (task := self._running.pop(key, None)) is not None:
                task.cancel()
        for hook in hooks:
            if hook.key in self._hooks:
                self._hooks[hook.key].hook = hook
            else:
                self._hooks[hook.key] = Deliveries(hook, self._disk, self._post, self._clocks, self._retries)
                self._not_loaded.add(hook.key)
        self._has_other_hooks = True
        self._changed.set()

    def hear(self, event: Event) -> None:
        """Something happened. Never waits."""
        wanting = [each.hook for each in self._hooks.values() if each.hook.wanted.has(event)]
        if not wanting:
            return
        if len(self._heard) >= MAX_HEARD:
            self._lost += len(wanting)
            return
        fact = orjson.loads(event.data)
        body = body_of(event, fact)
        event_id = str(fact.get("event_id", ""))
        lane = "" if event.stream is None else f"{event.app}/{event.stream}"
        now = self._clocks.wall()
        for hook in wanting:
            self._heard.append(Message(hook.key, message_id(hook.key, event_id), lane, event.kind, body, now))
        self._changed.set()

    async def run(self) -> None:
        """Keep and deliver until cancelled."""
        forget_at = 0.0
        try:
            while True:
                self._changed.clear()
                await self._load()
                await self._keep()
                if self._clocks.monotonic() >= forget_at:
                    forget_at = self._clocks.monotonic() + _FORGET_EVERY_S
                    before = self._clocks.wall() - DEAD_LETTERS_KEPT_S
                    await self._disk.insist(partial(Store.forget, dead_before=before, most=MAX_DEAD_LETTERS))
                await self._changed.wait()
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            await self._keep_last()
            await self._disk.close()

    async def dead_letters(self, before: int | None, limit: int) -> list[DeadLetter]:
        """The newest first, from below a number on. Errors are sqlite3's."""
        return await self._disk.run(partial(Store.dead_letters, before=before, limit=limit))

    async def replay(self, ids: Collection[str] | None) -> int:
        """Send dead letters again, these or all. How many."""
        at, hooks = self._clocks.wall(), set(self._hooks)
        replayed = await self._disk.run(partial(Store.replay, ids=ids, hooks=hooks, at=at))
        for key, waiting in replayed:
            if key in self._hooks and key not in self._not_loaded:
                self._hooks[key].add([waiting])
        return len(replayed)

    def name_of(self, key: str) -> str | None:
        """Of a hook; None: it is no longer configured."""
        return self._hooks[key].hook.name if key in self._hooks else None

    async def _load(self) -> None:
        """What waited for new hooks, before anything new is kept for them: it is older."""
        if self._has_other_hooks:
            self._has_other_hooks = False
            at, hooks = self._clocks.wall(), set(self._hooks)
            orphaned = await self._disk.insist(
                partial(Store.orphan, hooks=hooks, reason="the hook is not configured", at=at)
            )
            if orphaned:
                get_logger().warning("webhook messages of hooks that are gone given up", messages=orphaned)
        while self._not_loaded:
            key = next(iter(self._not_loaded))
            waiting = await self._disk.insist(partial(Store.waiting, hook=key))
            if key in self._not_loaded:  # still configured
                self._not_loaded.remove(key)
                self._hooks[key].add(waiting)
                self._running[key] = asyncio.create_task(self._hooks[key].run())

    async def _keep(self) -> None:
        while self._heard:
            messages = self._heard[:]
            added = await self._disk.insist(partial(Store.add, messages=messages))
            # Not before: who ends meanwhile keeps them once more, which does no harm.
            del self._heard[: len(messages)]
            for key, waiting in added:
                if key in self._hooks and key not in self._not_loaded:
                    self._hooks[key].add([waiting])
        self._tell_lost()

    async def _keep_last(self) -> None:
        """At the end: what was heard in the last moment is for the next life."""
        if self._heard:
            try:
                await self._disk.run(partial(Store.add, messages=self._heard))
            except (sqlite3.Error, OSError) as error:
                get_logger().error("webhook messages cannot be kept", reason=str(error))

    def _tell_lost(self) -> None:
        now = self._clocks.monotonic()
        if self._lost and (self._told_lost_at is None or now - self._told_lost_at >= _TELL_LOST_EVERY_S):
            get_logger().error("webhook messages lost, since the disk is slow", messages=self._lost)
            self._lost, self._told_lost_at = 0, now


def message_id(hook: str, event_id: str) -> str:
    """The same for the same event and hook, whenever it is sent. Has no dot, which ends it in what is signed."""
    return "msg_" + hashlib.sha256(f"{hook}\n{event_id}".encode()).hexdigest()[:32]


def body_of(event: Event, fact: dict[str, Any]) -> bytes:
    """A message as Standard Webhooks has it; the fact is in it byte by byte."""
    at_us = fact.get("at_us", 0)
    at = datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    head = orjson.dumps({"type": event.kind, "timestamp": f"{at}.{at_us % 1_000_000:06d}Z"})
    return b'%b,"data":%b}' % (head[:-1], event.data)
