"""A registry of names that is as slow as the test says, message by message in both directions."""

from collections import deque

from penstock.control.messages import FromWorker
from penstock.control.names import AboutNames, Answer
from penstock.serve.streams.registry import Registry
from tests.support.lone_worker import NamesHere


class SlowNames(NamesHere):
    """What workers say, and what they are answered, waits until it is delivered; in order, worker by worker."""

    def __init__(self) -> None:
        super().__init__(answers_at_once=False)
        self._up: dict[int, deque[FromWorker]] = {}
        self._down: dict[int, deque[Answer]] = {}

    def registry(self, worker: int = 1) -> Registry:
        """What one life of a worker asks. What an earlier one had to say is lost with it."""
        up: deque[FromWorker] = deque()
        self._up[worker], self._down[worker] = up, deque()
        registry = self.registries[worker] = Registry(worker, up.append)
        return registry

    def deliver_question(self, worker: int) -> bool:
        """Whether there was any."""
        if not self._up.get(worker):
            return False
        message = self._up[worker].popleft()
        assert isinstance(message, AboutNames)
        self._send(self.names.receive(worker, message, self.now))
        return True

    def deliver_answer(self, worker: int) -> bool:
        """Whether there was any."""
        if not self._down.get(worker):
            return False
        self.registries[worker].handle(self._down[worker].popleft())
        return True

    def deliver_all(self) -> bool:
        """Whether there was anything."""
        found = False
        while any(self.deliver_question(worker) or self.deliver_answer(worker) for worker in list(self._up)):
            found = True
        return found

    def lose(self, worker: int, now: float) -> None:
        """A worker was killed. What it had said before is heard."""
        self.now = now
        while self.deliver_question(worker):
            pass
        del self.registries[worker], self._up[worker], self._down[worker]
        self._send(self.names.worker_lost(worker, now))

    def tick(self, now: float) -> None:
        """Time has passed."""
        self.now = now
        self._send(self.names.tick(now))

    def _send(self, outgoing: list[tuple[int, Answer]]) -> None:
        for worker, answer in outgoing:
            if worker in self._down:
                self._down[worker].append(answer)
