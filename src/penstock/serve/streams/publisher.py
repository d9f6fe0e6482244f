"""Whoever publishes a stream here: a connection that asked for it, or a pull that fetches it from another server.

Owns what both have in common, for those who tell of publications, and what the media path asks of pulls. Pulls
themselves are in `serve.pulls`, which knows this one; a server that pulls nothing has `NoPulls`.
"""

from typing import Final, Protocol

LOOP: Final = "The stream has come through this server, or would: pulls or pushes go in a circle."


class Publisher(Protocol):
    """Whoever publishes."""

    @property
    def id(self) -> str:
        """What it is called in log lines and facts."""

    @property
    def address(self) -> str:
        """Of the other side, with its port."""

    @property
    def protocol(self) -> str:
        """By which it is sent here, as facts call it."""

    @property
    def client(self) -> str:
        """What the other side calls itself; may be empty."""

    @property
    def heard_at(self) -> float:
        """When something came from it last, by the loop's clock."""

    @property
    def via(self) -> tuple[str, ...]:
        """The servers that it has come through, as far as they are known."""

    @property
    def pulled_from(self) -> str | None:
        """The address of the stream at the server that it is pulled from, without keys; None: it is published here."""


class Puller(Protocol):
    """Fetches streams from other servers when somebody wants to watch them."""

    @property
    def own_via(self) -> tuple[str, ...]:
        """What this server is called among servers that streams come through."""

    def is_asked_by_itself(self, via: tuple[str, ...]) -> bool:
        """Whether a connection is of a pull or push that this server itself has caused, through others or not."""

    def may_pull(self, key: str) -> bool:
        """Whether a stream is pulled from elsewhere when it is not here."""

    def want(self, key: str, app_name: str, via: tuple[str, ...]) -> None:
        """A stream is waited for here that is not there. `via`: the servers that have asked for it, if one did."""

    def give_way(self, key: str) -> None:
        """A publisher takes the name of a stream: it is not pulled any more."""

    def stream_over(self, key: str) -> None:
        """A stream of this worker is over."""

    def watched(self, key: str, epoch: int, *, is_watched: bool) -> None:
        """Whether anybody watches a stream that is pulled here has changed."""


class NoPulls:
    """Of a server that pulls nothing."""

    own_via: Final[tuple[str, ...]] = ()

    def is_asked_by_itself(self, via: tuple[str, ...]) -> bool:  # noqa: ARG002
        return False

    def may_pull(self, key: str) -> bool:  # noqa: ARG002
        return False

    def want(self, key: str, app_name: str, via: tuple[str, ...]) -> None:
        """Nobody is asked."""

    def give_way(self, key: str) -> None:
        """There is nothing to give up."""

    def stream_over(self, key: str) -> None:
        """It was not pulled."""

    def watched(self, key: str, epoch: int, *, is_watched: bool) -> None:
        """It is not pulled."""
