"""All hooks as a part of the web process: webhooks, programs for events, programs while a stream is published.

Owns how they are made from the configuration, and what is started of them: what no hook needs is neither imported nor
opened. Needs the extra `web` for webhooks alone.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.config import Config
from penstock.config_secrets import hook_secret
from penstock.web.events.event_log import Event
from penstock.web.hooks.clocks import SystemClocks
from penstock.web.hooks.matching import Wanted
from penstock.web.hooks.settings import WebhookSettings, key_of, name_of
from penstock.web.hooks.signatures import Secret
from penstock.web.hooks.store import FILE_NAME, DeadLetter
from penstock.web.live.happenings import Happenings
from penstock.web.programs.event_programs import EventPrograms
from penstock.web.programs.launcher import Launcher
from penstock.web.programs.settings import ProgramSettings
from penstock.web.programs.while_publishing import StreamKey, WhilePublishing

if TYPE_CHECKING:
    from penstock.web.hooks.receivers import Receivers
    from penstock.web.hooks.webhooks import Webhooks


class Hooks:
    """Everybody who is told what happens without asking."""

    def __init__(self, config: Config, happenings: Happenings, environment: Mapping[str, str] = os.environ) -> None:
        """A secret that cannot be read raises ConfigError."""
        self._folder: Path = config.server.data_dir
        self._happenings = happenings
        self._environment = environment
        self._launcher = Launcher()
        self._event_programs = EventPrograms(self._launcher, environment)
        self._while_publishing = WhilePublishing(self._launcher, self._published, environment)
        self._webhooks: Webhooks | None = None
        self._receivers: Receivers | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.configure(config)
        happenings.listeners.append(self.hear)

    def configure(self, config: Config) -> None:
        """Tell these from now on. A secret that cannot be read raises ConfigError, and changes nothing."""
        webhooks = webhooks_of(config, self._environment)
        self._event_programs.configure(programs_of(config, while_publishing=False))
        self._while_publishing.configure(programs_of(config, while_publishing=True))
        if self._webhooks is None and (webhooks or (self._folder / FILE_NAME).exists()):
            self._webhooks = self._make_webhooks()
        if self._webhooks is not None:
            self._webhooks.configure(webhooks)

    def hear(self, event: Event) -> None:
        """Something happened. Never waits."""
        if self._webhooks is not None:
            self._webhooks.hear(event)
        self._event_programs.hear(event)
        if event.kind in ("publish_started", "publish_stopped"):
            self._while_publishing.look_soon()

    async def run(self) -> None:
        """Until cancelled, and end every program then."""
        self._start(self._while_publishing.run())
        try:
            await self._failed
        finally:
            # First, so that programs end at once and not one after the other.
            await self._launcher.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, self._event_programs.close(), return_exceptions=True)
            if self._receivers is not None:
                await self._receivers.close()

    async def dead_letters(self, before: int | None, limit: int) -> list[DeadLetter]:
        """What webhooks have given up, the newest first."""
        return [] if self._webhooks is None else await self._webhooks.dead_letters(before, limit)

    async def replay(self, ids: Collection[str] | None) -> int:
        """Send dead letters again, these or all. How many."""
        return 0 if self._webhooks is None else await self._webhooks.replay(ids)

    def name_of(self, key: str) -> str | None:
        """Of a webhook; None: it is no longer configured."""
        return None if self._webhooks is None else self._webhooks.name_of(key)

    def _make_webhooks(self) -> "Webhooks":
        from penstock.web.hooks.receivers import Receivers  # noqa: PLC0415 - httpx takes memory that most do not need
        from penstock.web.hooks.webhooks import Webhooks  # noqa: PLC0415

        self._receivers = Receivers()
        webhooks = Webhooks(self._folder, self._receivers.post, SystemClocks())
        self._start(webhooks.run())
        return webhooks

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _published(self) -> dict[StreamKey, str]:
        streams = self._happenings.state.streams
        return {key: each.value.publisher.publication_id for key, each in streams.items() if each.value.publisher}


def webhooks_of(config: Config, environment: Mapping[str, str]) -> list[WebhookSettings]:
    """Those of the configuration, with their secrets. One that cannot be read raises ConfigError."""
    settings = []
    seen: Counter[str] = Counter()
    for hook in config.hooks:
        if hook.url is not None:
            key = hook_secret(hook, environment)
            secret = None if key is None else Secret(key)
            wanted = Wanted(hook.events, hook.streams)
            nth = seen[hook.url]
            seen[hook.url] += 1
            settings.append(
                WebhookSettings(key_of(hook.url, nth), name_of(hook.url), hook.url, wanted, secret, hook.timeout_s)
            )
    return settings


def programs_of(config: Config, *, while_publishing: bool) -> Sequence[ProgramSettings]:
    """Those of the configuration, of one sort."""
    return [
        ProgramSettings(hook.exec, Wanted(hook.events, hook.streams), hook.timeout_s)
        for hook in config.hooks
        if hook.exec is not None and (hook.while_ is not None) == while_publishing
    ]
