"""The counters that simulated samples and stops carry: cumulative integers that never decrease."""

from typing import Final

import numpy as np

from penstock.pipeline.simulator.plan import SECOND_US, WATCHED, Ints, Plan

GOP_US: Final = 2 * SECOND_US
SKIP_EVERY_US: Final = 30 * SECOND_US
"""A viewer who is too slow skips ahead this often."""
_FPS: Final = 30
_AUDIO_FPS: Final = 47
_CHANNEL_SHIFT: Final = 40


class _Present:
    """Sums of an amount over the viewers present at a time; `came` and `went` are keys of channel and time."""

    def __init__(self, came: Ints, went: Ints, amount: Ints) -> None:
        self._came, self._came_sum = _running(came, amount)
        self._went, self._went_sum = _running(went, amount)

    def sum_at(self, key: Ints) -> Ints:
        # Viewers of channels with smaller keys are in both sums, and cancel out.
        came, went = np.searchsorted(self._came, key, "right"), np.searchsorted(self._went, key, "right")
        present: Ints = self._came_sum[came] - self._went_sum[went]
        return present


class Counters:
    """Counters by row of the plan, each at a moment of its own."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        views = plan.views.take(np.flatnonzero(plan.views.outcome == WATCHED))
        joined, left = self._key(views.channel, views.started_us), self._key(views.channel, views.ended_us)
        self._viewers = _Present(joined, left, np.ones_like(joined))
        self._started_us = _Present(joined, left, views.started_us - plan.platform.begins_us)
        # The sums of what `of_views` gives for each view: its share of the bytes since its start, once it plays.
        views = views.take(np.flatnonzero(views.has_picture))
        placed = self._key(views.channel, views.started_us - views.waited_us + views.startup_us)
        left = self._key(views.channel, views.ended_us)
        came_before = plan.clock.bytes_so_far(views.channel, views.started_us)
        self._placed = _Present(placed, left, np.ones_like(placed))
        self._share_milli = _Present(placed, left, views.share_milli)
        self._before_milli = _Present(placed, left, views.share_milli * came_before)

    def _key(self, channel: Ints, at_us: Ints) -> Ints:
        key: Ints = (channel << _CHANNEL_SHIFT) | (at_us - self._plan.platform.begins_us)
        return key

    def viewers(self, channel: Ints, at_us: Ints) -> Ints:
        """Viewers of a channel."""
        return self._viewers.sum_at(self._key(channel, at_us))

    def of_viewers(self, channel: Ints, at_us: Ints) -> dict[str, Ints]:
        """Bytes sent to the viewers of a channel (within a byte per slow viewer), and their watch time."""
        key, clock = self._key(channel, at_us), self._plan.clock
        milli = self._share_milli.sum_at(key) * clock.bytes_so_far(channel, at_us) - self._before_milli.sum_at(key)
        since_us = at_us - self._plan.platform.begins_us
        return {
            "viewers_sent_bytes": milli // 1000 + self._placed.sum_at(key) * clock.rate[channel],
            "viewers_watched_us": self._viewers.sum_at(key) * since_us - self._started_us.sum_at(key),
        }

    def media_us(self, publication: Ints, at_us: Ints) -> Ints:
        """Media time of a publication so far."""
        publications, clock = self._plan.publications, self._plan.clock
        channel, started_us = publications.channel[publication], publications.started_us[publication]
        return clock.media_us(channel, at_us) - clock.media_us(channel, started_us)

    def of_publications(self, publication: Ints, at_us: Ints) -> dict[str, Ints]:
        """Counters of a publication's samples and stop."""
        publications, clock = self._plan.publications, self._plan.clock
        channel, started_us = publications.channel[publication], publications.started_us[publication]
        media_us = self.media_us(publication, at_us)
        video_frames, audio_frames = media_us * _FPS // SECOND_US, media_us * _AUDIO_FPS // SECOND_US
        return {
            "received_bytes": clock.bytes_so_far(channel, at_us) - clock.bytes_so_far(channel, started_us),
            "messages": video_frames + audio_frames + 3,
            "video_frames": video_frames,
            "audio_frames": audio_frames,
            "keyframes": np.where(video_frames > 0, media_us // GOP_US + 1, 0),
            "timestamp_jumps": media_us // (7200 * SECOND_US),
        }

    def of_views(self, view: Ints, at_us: Ints, watched_us: Ints) -> dict[str, Ints]:
        """Counters of a view's samples and stop."""
        views, clock = self._plan.views, self._plan.clock
        channel, share = views.channel[view], views.share_milli[view]
        has_place = views.has_picture[view] & (watched_us >= views.startup_us[view] - views.waited_us[view])
        came = clock.bytes_so_far(channel, at_us) - clock.bytes_so_far(channel, views.started_us[view])
        skips = np.where(has_place & (share < 1000), watched_us // SKIP_EVERY_US, 0)
        missed_by_one = clock.rate[channel] * (SKIP_EVERY_US // SECOND_US) * (1000 - share) // 1000
        return {
            # A viewer starts with the current GOP.
            "sent_bytes": np.where(has_place, came * share // 1000 + clock.rate[channel], 0),
            "skips": skips,
            "skipped_bytes": skips * missed_by_one,
        }


def _running(key: Ints, amount: Ints) -> tuple[Ints, Ints]:
    """Sorted keys, and the sum of the amounts before each. Sums may overflow; their differences stay right."""
    order = np.argsort(key, kind="stable")
    return key[order], np.concatenate([np.zeros(1, np.int64), np.cumsum(amount[order])])
