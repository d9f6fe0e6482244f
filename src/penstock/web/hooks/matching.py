"""Which events a hook wants."""

import fnmatch
from dataclasses import dataclass
from typing import Protocol


class Told(Protocol):
    """What is asked of an event."""

    @property
    def kind(self) -> str: ...

    @property
    def app(self) -> str | None: ...

    @property
    def stream(self) -> str | None: ...

    @property
    def is_sample(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """Patterns of kinds and of APP/STREAM; none: all of them."""

    events: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()

    def has(self, event: Told) -> bool:
        """Samples come each second from each stream: no pattern brings them, only their name."""
        if event.is_sample:
            if event.kind not in self.events:
                return False
        elif self.events and not any(fnmatch.fnmatchcase(event.kind, each) for each in self.events):
            return False
        return self.has_stream(event.app, event.stream)

    def has_stream(self, app: str | None, stream: str | None) -> bool:
        """What is about no stream goes to hooks for all of them."""
        if not self.streams or self.streams == ("*/*",):
            return True
        key = f"{app}/{stream}"
        return app is not None and stream is not None and any(fnmatch.fnmatchcase(key, each) for each in self.streams)
