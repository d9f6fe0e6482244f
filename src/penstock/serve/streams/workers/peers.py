"""The other workers, and the links to them.

Owns how links begin and end, and which messages go where: what we offer is the matter of `offers`, what we follow that
of `followed`, pictures that of `pictures`. Who has which name is the registry's matter.
"""

import os
import socket
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from penstock.errors import MalformedInput
from penstock.logs import get_logger
from penstock.relay.following import (
    VERSION,
    Follow,
    Hello,
    Picture,
    Released,
    ToFollower,
    ToWriter,
    Unfollow,
    WantPicture,
    Watching,
    check_version,
)
from penstock.relay.follows import Follows
from penstock.relay.readable_log import Flush, FrameEncoders, LogLimits
from penstock.serve.links.link import CONGESTED_FROM_BYTES, Link
from penstock.serve.sending.memfd import FollowedBuffer, read_only_copy
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.workers.followed import Followed
from penstock.serve.streams.workers.offers import Offers
from penstock.serve.streams.workers.peer import Peer, StreamKeeper
from penstock.serve.streams.workers.pictures import Pictures

_NEW_LINK_S: Final = 1.0
"""After a link had to be given up: whatever was short then may not be by now."""
_DECODER: Final[msgspec.msgpack.Decoder[ToWriter | ToFollower]] = msgspec.msgpack.Decoder(ToWriter | ToFollower)


class Peers:
    """All other workers."""

    def __init__(
        self,
        keeper: StreamKeeper,
        show: Callable[[list[tuple[LiveStream, Flush]]], None],
        encoders: FrameEncoders,
        limits: LogLimits,
        make_link: type[Link[ToWriter | ToFollower]] = Link,
    ) -> None:
        """`show`: sends what became visible to those who watch it here. `make_link` is for tests."""
        self._loop = keeper.loop
        self._encoders = encoders
        self._limits = limits
        self.make_link = make_link
        self._peers: dict[int, Peer] = {}
        self.offers = Offers(keeper, self._peers)
        self.followed = Followed(keeper, self._peers, show, self._give_up)
        self.pictures = Pictures(self._peers)
        self.ask_for_link: Callable[[int], None] = lambda _peer: None
        """Asks the supervisor for a new link to a worker."""

    def link(self, number: int, sock: socket.socket) -> None:
        """There is a link to another worker, which may be new under an old number."""
        before = self._peers.get(number)
        if before is not None:
            before.link.close()
            self._lose(before)

        def on_message(message: ToWriter | ToFollower, descriptors: tuple[int, ...]) -> None:
            self._on_message(peer, message, descriptors)

        def on_closed() -> None:
            self._lose(peer)
            if peer.link.fault is not None:
                self.want_link(number)

        link = self.make_link(self._loop, sock, _DECODER, on_message, on_closed)
        peer = self._peers[number] = Peer(number, link, Follows(FollowedBuffer, self._encoders, self._limits))
        link.send(Hello(VERSION))
        self.followed.ask_all(peer)

    def close(self) -> None:
        """This worker ends."""
        for peer in list(self._peers.values()):
            peer.link.close()
            peer.announcer.close()
        self._peers.clear()

    def finish_round(self) -> None:
        """At the end of a round of events: show what was announced, and announce what was shown."""
        self.followed.finish_round()
        for peer in list(self._peers.values()):
            for body in peer.follows.data_to_send():
                peer.link.send_body(body)
            if peer.announcer.has_news:
                self._announce(peer)

    def _announce(self, peer: Peer) -> None:
        try:
            for parcel in peer.announcer.take(CONGESTED_FROM_BYTES - peer.link.pending_bytes):
                peer.link.send_body(parcel.body, _read_only_copies(parcel.descriptors))
        except OSError as error:
            # What was taken is not sent: the other side can go on over a new link alone.
            self._give_up(peer, f"no descriptor is left: {error.strerror}")

    def _on_message(self, peer: Peer, message: ToWriter | ToFollower, descriptors: tuple[int, ...]) -> None:
        try:
            match message:
                case Hello():
                    check_version(message)
                case Follow():
                    self.offers.offer(peer, message)
                case Unfollow(number):
                    self.offers.withdraw(peer, number)
                case Released(segments):
                    peer.announcer.release(segments)
                case Watching():
                    self.offers.count(peer, message)
                case WantPicture() | Picture():
                    self.pictures.receive(peer, message)
                case _:
                    for event in peer.follows.receive(message, descriptors):
                        self.followed.on_event(peer, event)
        except MalformedInput as error:
            self._give_up(peer, str(error))

    def _give_up(self, peer: Peer, reason: str) -> None:
        get_logger().error("link between workers ended", peer=peer.number, reason=reason)
        peer.link.close()
        self._lose(peer)
        self.want_link(peer.number)

    def want_link(self, number: int) -> None:
        """Ask for a link to a worker in a while, if there is none by then."""

        def ask() -> None:
            if number not in self._peers:
                self.ask_for_link(number)

        self._loop.call_later(_NEW_LINK_S, ask)

    def _lose(self, peer: Peer) -> None:
        """A link has ended: the worker at its other end is gone, or about to be replaced."""
        if self._peers.get(peer.number) is not peer:
            return
        self.followed.show_rest()
        del self._peers[peer.number]
        self.offers.lose(peer)
        self.followed.lose(peer)
        self.pictures.lose(peer)


def _read_only_copies(descriptors: Iterable[int]) -> list[int]:
    copies: list[int] = []
    try:
        copies.extend(map(read_only_copy, descriptors))
    except OSError:
        for copy in copies:
            os.close(copy)
        raise
    return copies
