"""Pictures of streams, asked of the worker that has the stream: so each is decoded once, wherever it is wanted.

Owns what was asked and is not answered. How a picture is made is not known here.
"""

from collections.abc import Callable, Mapping

from penstock.control.messages import key_of, name_of
from penstock.relay.following import Picture, WantPicture
from penstock.serve.streams.workers.peer import Peer

OnPicture = Callable[[Picture | None], None]
"""None: the worker that was asked is gone."""


class Pictures:
    """Those that are on their way between workers."""

    def __init__(self, peers: Mapping[int, Peer]) -> None:
        self._peers = peers
        self._asked: dict[tuple[int, bytes], list[OnPicture]] = {}
        self.make: Callable[[str, Callable[[Picture], None]], None] | None = None
        """Has the picture of a stream of this worker made, for another one; None: nobody does here."""

    def ask(self, worker: int, key: str, done: OnPicture) -> None:
        """Ask another worker for the picture of its stream."""
        peer, name = self._peers.get(worker), name_of(key)
        if peer is None:
            done(None)
            return
        asked = self._asked.setdefault((worker, name), [])
        asked.append(done)
        if len(asked) == 1:
            peer.link.send(WantPicture(name))

    def receive(self, peer: Peer, message: WantPicture | Picture) -> None:
        """What another worker asks, or answers."""
        match message:
            case WantPicture():
                if self.make is not None:
                    self.make(key_of(message.name), peer.link.send)
            case Picture():
                for done in self._asked.pop((peer.number, message.name), ()):
                    done(message)

    def lose(self, peer: Peer) -> None:
        """A link has ended, and with it what was asked over it."""
        for worker, name in [asked for asked in self._asked if asked[0] == peer.number]:
            for done in self._asked.pop((worker, name)):
                done(None)
