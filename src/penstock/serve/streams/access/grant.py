"""What let somebody in: kept with what it let in, for as long as that lasts."""

from dataclasses import dataclass

from penstock.access.request import AccessRequest, Allowed


@dataclass(slots=True, eq=False)
class Grant:
    """A request that was allowed. Holds credentials, so it is shown to nobody but the gatekeeper."""

    request: AccessRequest
    allowed: Allowed
    version: int
    """Of the rules and blocks by which it was last decided."""
    is_asked: bool = False
    """Whether web has been asked whether it still holds."""

    @property
    def stream(self) -> str:
        """The name under which it goes on: the one asked for, or another."""
        return self.allowed.stream

    @property
    def subject(self) -> str | None:
        """Who it is, for facts."""
        return self.allowed.subject
