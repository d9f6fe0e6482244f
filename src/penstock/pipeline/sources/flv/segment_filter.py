"""Which recorded segments are read, by the options `app`, `stream`, `since` and `until` of every format of recordings.

Owns the rule. Files are chosen by their rows in the manifest before any of them is opened, so what is left out costs
nothing. `since` and `until` are times in ISO 8601, in UTC unless they name an offset; `until` is excluded. A segment is
read as a whole if any of it is in that interval; one that is still being written has no end yet. A file that no
manifest describes belongs to no app, no stream and no time: with any of these options it is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import ConfigError
from penstock.pipeline.sources.flv.manifest import Segment
from penstock.pipeline.sources.options import time_us_of


@dataclass(frozen=True, slots=True)
class SegmentFilter:
    """What segments must be like; None: anything."""

    app: str | None = None
    stream: str | None = None
    since_us: int | None = None
    until_us: int | None = None

    def wants(self, segment: Segment | None) -> bool:
        """Whether a file is read that the manifest describes so; None: it does not describe it."""
        if segment is None:
            return self == EVERY_SEGMENT
        return (
            self.app in (None, segment.app)
            and self.stream in (None, segment.stream)
            and (self.until_us is None or segment.started_at_us < self.until_us)
            and (self.since_us is None or segment.ended_at_us is None or segment.ended_at_us >= self.since_us)
        )


EVERY_SEGMENT: Final = SegmentFilter()


def segment_filter_of(options: Mapping[str, str]) -> SegmentFilter:
    """The filter that these options ask for."""
    since_us, until_us = time_us_of(options, "since"), time_us_of(options, "until")
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise ConfigError(f"option until is {options['until']!r}, not after since, which is {options['since']!r}")
    return SegmentFilter(options.get("app"), options.get("stream"), since_us, until_us)
