"""How a player learns by what it may tell of its view: a header of the answer that begins to play.

Owns the header's name. Whoever has tokens is somewhere else; what a player does with one is in `penstock.web.beacons`.
"""

from typing import Protocol

from penstock.serve.streams.viewer import Viewer


class ViewTokens(Protocol):
    """By what players name views."""

    def draw(self) -> str:
        """One for a view that is about to begin. To be told to its viewer and to nobody else."""

    def bind(self, token: str, viewer: Viewer) -> None:
        """It names the view of this viewer from now on, let in or not."""

    def token_of(self, viewer: Viewer) -> str:
        """The one that names this view, drawn now if nobody has asked before."""


def view_line(token: str) -> bytes:
    """The line of a head that tells it."""
    return b"X-Penstock-View: %s\r\n" % token.encode("ascii")
