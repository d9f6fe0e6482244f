"""Which events a client asks for."""

import fnmatch
from dataclasses import dataclass

from penstock.web.events.event_log import Event


@dataclass(frozen=True, slots=True)
class EventFilter:
    """One app, one name of streams, patterns of kinds; what is absent filters nothing. Samples only on request."""

    app: str | None = None
    stream: str | None = None
    kinds: tuple[str, ...] = ()
    samples: bool = False

    def has(self, event: Event) -> bool:
        """Whether the client asks for it."""
        return (
            (self.samples or not event.is_sample)
            and self.app in (None, event.app)
            and self.stream in (None, event.stream)
            and (not self.kinds or any(fnmatch.fnmatchcase(event.kind, each) for each in self.kinds))
        )
