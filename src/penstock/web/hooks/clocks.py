"""What time it is."""

import time


class SystemClocks:
    """The clocks of this machine."""

    def wall(self) -> float:
        """In seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """For differences."""
        return time.monotonic()
