"""Which stream each target of a push is sent that takes one at a time, over all workers.

Owns who has a target. A stream that goes on in another worker takes its targets with it; what a lost worker had is
free. Knows no sockets and no clock.
"""

from penstock.control.messages import ClaimTarget, GiveTargetBack, TargetAnswer


class PushTargets:
    """Those that are sent something."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, bytes]] = {}
        """By target, the worker and the stream."""

    def claim(self, worker: int, message: ClaimTarget) -> TargetAnswer:
        """Whether a stream may be sent to a target."""
        held = self._held.get(message.target)
        if held is not None and held[1] != message.name:
            return TargetAnswer(message.target, message.name, held[1])
        self._held[message.target] = worker, message.name
        return TargetAnswer(message.target, message.name, None)

    def give_back(self, worker: int, message: GiveTargetBack) -> None:
        """A worker sends a stream there no more; another one may do so by now."""
        if self._held.get(message.target) == (worker, message.name):
            del self._held[message.target]

    def worker_lost(self, worker: int) -> None:
        """Nothing that it had is sent anywhere now."""
        for target in [target for target, (holder, _) in self._held.items() if holder == worker]:
            del self._held[target]
