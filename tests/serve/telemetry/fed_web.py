"""Web as a worker's feed knows it: somebody to tell, who may be away or slow. Keeps what it was told."""

from collections.abc import Callable

from penstock.control.live import Live
from penstock.web.live.state import LiveState


class FedWeb:
    """Takes messages as web does."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.on_linked: list[Callable[[], None]] = []
        self.is_open = is_open
        self.is_slow = False
        self.told: list[Live] = []
        self.state = LiveState()

    @property
    def is_congested(self) -> bool:
        return self.is_slow or not self.is_open

    def send(self, message: Live) -> bool:
        assert self.is_open
        self.told.append(message)
        self.state.receive(1, message)
        return True

    def link(self) -> None:
        """There is a new web process."""
        self.is_open = True
        self.told, self.state = [], LiveState()
        for tell in self.on_linked:
            tell()

    @property
    def facts(self) -> list[bytes]:
        return [fact for message in self.told for fact in message.facts]
