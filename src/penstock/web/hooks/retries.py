"""When a message that was not taken is tried again.

Owns the delays and the point at which it is given up. Chance is an argument, so this knows no clock and rolls no dice.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retries:
    """Exponential backoff. Half of each delay is jitter, so that receivers that come back are not met by a wave."""

    first_s: float = 1.0
    longest_s: float = 3600.0
    give_up_after_s: float = 86_400.0
    """After the event. A last attempt is made at this time."""

    def delay_s(self, attempts: int, chance: float, age_s: float, asked_s: float | None = None) -> float | None:
        """Until the next attempt, after so many; None: there is no more.

        `chance` is from 0 to 1. `asked_s` is what the receiver asked for; it may ask for more than we would wait.
        """
        left_s = self.give_up_after_s - age_s
        if left_s <= 0:
            return None
        delay_s = min(self.first_s * 2.0 ** min(attempts - 1, 30), self.longest_s) * (0.5 + chance / 2)
        if asked_s is not None:
            delay_s = max(delay_s, min(asked_s, self.longest_s))
        return min(delay_s, left_s)
