"""A target: a server that streams are sent on to, and which streams."""

import fnmatch
from dataclasses import dataclass, field

from penstock.pushes.address import PushAddress
from penstock.rtmp_address import StreamAddress


@dataclass(frozen=True, slots=True)
class PushTarget:
    """One `[[push]]`, or one that was added through the API."""

    name: str
    streams: tuple[str, ...]
    """Patterns of APP/STREAM."""
    address: PushAddress
    key: str | None = field(default=None, repr=False)

    def takes(self, stream_key: str) -> bool:
        """Whether a stream is to be sent there."""
        return any(fnmatch.fnmatchcase(stream_key, pattern) for pattern in self.streams)

    def address_of(self, app: str, stream: str) -> StreamAddress:
        """Where a stream goes."""
        return self.address.address_of(app, stream, self.key)

    def secrets_of(self, app: str, stream: str) -> tuple[str, ...]:
        """What nobody is to see of that."""
        return self.address.secrets_of(app, stream, self.key)
