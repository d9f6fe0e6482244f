"""What one peer may ask for each second, and whether it is being slowed down.

Owns what counts toward which limit: of a publisher messages and bits, of anybody else whatever makes work. One that is
above its rate is to be left unread until that is paid back; how long it has been so again and again is remembered, for
whoever closes it at last. Knows no sockets and no timers.
"""

from typing import Final

from penstock.control.allowance import Allowance
from penstock.serve.settings import ServerSettings

MESSAGES: Final = "messages"
PUBLISH_MESSAGES: Final = "publish messages"
PUBLISH_BANDWIDTH: Final = "publish bandwidth"
UNIT_BYTES: Final = 1024
"""Of a peer that publishes nothing, so many bytes count as a message."""
_PUBLISH_BURST_S: Final = 2.0
_BURST_S: Final = 5.0
_LEAST_PAUSE_S: Final = 0.05
_FORGIVEN_AFTER_S: Final = 5.0


class PeerRates:
    """The allowances of one peer."""

    __slots__ = ("_bits", "_is_publishing", "_received_bytes", "_units", "_work", "limit", "paused_until", "slow_since")

    def __init__(self, settings: ServerSettings, now: float) -> None:
        per_s = settings.max_messages_per_s
        self._units = Allowance(per_s, per_s * _BURST_S, now)
        self._bits = Allowance(settings.max_publish_bps, settings.max_publish_bps * _PUBLISH_BURST_S, now)
        self._is_publishing = False
        self._work = 0
        self._received_bytes = 0
        self.limit: str | None = None
        """The one that it is above, again and again since `slow_since`; None: it keeps to its rates."""
        self.slow_since = 0.0
        self.paused_until = 0.0
        """It is not to be read before."""

    def change(self, settings: ServerSettings, now: float, *, is_publishing: bool) -> None:
        """It has begun or ceased to publish."""
        self._is_publishing = is_publishing
        if is_publishing:
            per_s = settings.max_publish_messages_per_s
            self._units.change(per_s, per_s * _PUBLISH_BURST_S, now)
        else:
            self._units.change(settings.max_messages_per_s, settings.max_messages_per_s * _BURST_S, now)

    def charge(self, units: int, now: float) -> None:
        """Count work that it has caused."""
        self._slow_down(PUBLISH_MESSAGES if self._is_publishing else MESSAGES, self._units.spend(units, now), now)

    def charge_input(self, work: int, received_bytes: int, now: float) -> None:
        """Count what came from it: both figures are those since its connection began."""
        units, new_bytes = work - self._work, received_bytes - self._received_bytes
        self._work, self._received_bytes = work, received_bytes
        if self._is_publishing:
            self._slow_down(PUBLISH_BANDWIDTH, self._bits.spend(8 * new_bytes, now), now)
        else:
            units += new_bytes // UNIT_BYTES
        self.charge(units, now)

    def too_fast_for_s(self, now: float) -> float:
        """For how long it has been slowed down again and again, up to its last pause."""
        return 0.0 if self.limit is None else min(now, self.paused_until) - self.slow_since

    def _slow_down(self, limit: str, pause_s: float, now: float) -> None:
        if pause_s > 0.0:
            if self.limit is None:
                self.limit, self.slow_since = limit, now
            self.paused_until = max(self.paused_until, now + max(pause_s, _LEAST_PAUSE_S))
        elif self.limit is not None and now - self.paused_until >= _FORGIVEN_AFTER_S:
            self.limit = None
