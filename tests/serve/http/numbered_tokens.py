"""Tokens of views that count up, for tests of sites."""

from itertools import count

from penstock.serve.streams.viewer import Viewer


class NumberedTokens:
    """What players name views by: `view-1`, `view-2` and so on."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._by_viewer: dict[Viewer, str] = {}

    def draw(self) -> str:
        return f"view-{next(self._numbers)}"

    def bind(self, token: str, viewer: Viewer) -> None:
        self._by_viewer[viewer] = token

    def token_of(self, viewer: Viewer) -> str:
        if viewer not in self._by_viewer:
            self._by_viewer[viewer] = self.draw()
        return self._by_viewer[viewer]
