"""Which events a client asks for."""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.web.events.event_log import Event


@dataclass(frozen=True, slots=True)
class EventFilter:
    """One app, one name of streams, some kinds; what is absent filters nothing. Samples only on request."""

    app: str | None = None
    stream: str | None = None
    kinds: tuple[re.Pattern[str], ...] = ()
    samples: bool = False

    def has(self, event: Event) -> bool:
        """Whether the client asks for it."""
        return (
            (self.samples or not event.is_sample)
            and self.app in (None, event.app)
            and self.stream in (None, event.stream)
            and (not self.kinds or any(each.match(event.kind) for each in self.kinds))
        )


def kinds_like(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Kinds, as patterns of the shell name them.

    Compiled here, since `fnmatch` keeps 32,768 patterns of anybody for ever, and `re` a few hundred.
    """
    return tuple(re.compile(fnmatch.translate(each)) for each in patterns)
