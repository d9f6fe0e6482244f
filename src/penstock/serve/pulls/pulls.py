"""All streams that this worker pulls.

Owns which stream is pulled by which rule, the way of a pull from the first viewer to its end, and what is counted. That
a stream is pulled once in the whole server is seen to by the registry of names; a stream is published by the parts that
publish for connections too.
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.control.messages import GRANTED, PublishAnswer, Verdict
from penstock.logs import OncePerSecond, get_logger
from penstock.protocol.status import StatusCode
from penstock.protocol.via import MOST, write_via
from penstock.pulls.origins import PullRule, covers, origin_of
from penstock.rtmp_address import StreamAddress
from penstock.serve.outgoing.connection import (
    OutgoingConnection,
    OutgoingOwner,
    OutgoingTimeouts,
    Purpose,
)
from penstock.serve.outgoing.dialer import Dialer
from penstock.serve.outgoing.words import Failure
from penstock.serve.pulls.pull import Pull, Source, Wanted
from penstock.serve.reactor import Loop
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.playing import AT_LEAST_S
from penstock.serve.streams.publisher import Publisher

LIMIT: Final = "pulls"
_CLOSING: Final = "server shut down"

Open = Callable[[StreamAddress, OutgoingOwner, Pull], Source]
"""Opens a connection to play a stream."""


class Pulls:
    """Pulls streams when they are wanted."""

    def __init__(self, broker: Broker, open_connection: Open, server_id: str, boot: str) -> None:
        """`server_id`: how this server is told from others that pull. `boot` begins the names of pulls."""
        self.rules: tuple[PullRule, ...] = ()
        """By which new ones are made; those that there are go on."""
        self.max_pulls = 0
        """In all workers."""
        self.misses = 0
        self.losses = 0
        """Connections that were lost, and tries that failed, without the origin saying no."""
        self._broker = broker
        self._table = broker.table
        self._open = open_connection
        self.own_via = (server_id,)
        self._boot = boot
        self._numbers = itertools.count(1)
        self._pulls: dict[str, Pull] = {}
        self._past_bytes = 0
        self._is_closed = False
        self._warnings = OncePerSecond(broker.loop.clock)
        self._misses_told = OncePerSecond(broker.loop.clock)
        self._log = get_logger()
        self._table.puller = self

    def __len__(self) -> int:
        return len(self._pulls)

    @property
    def loop(self) -> Loop:
        """The worker's."""
        return self._broker.loop

    @property
    def received_bytes(self) -> int:
        """From all origins."""
        return self._past_bytes + sum(pull.received_bytes for pull in self._pulls.values())

    def close(self) -> None:
        """The worker ends; its streams have ended already, and their pulls with them."""
        self._is_closed = True
        for pull in list(self._pulls.values()):
            self._forget(pull, _CLOSING)

    # What the media path asks.

    def is_asked_by_itself(self, via: tuple[str, ...]) -> bool:
        """Whether a connection is of a pull or push that this server itself has caused."""
        return self.own_via[0] in via or len(via) > MOST

    def may_pull(self, key: str) -> bool:
        """Whether a stream is pulled from elsewhere when it is not here."""
        return not self._is_closed and covers(self.rules, key)

    def want(self, key: str, app_name: str, via: tuple[str, ...]) -> None:
        """A stream is waited for here that is not there."""
        origin = origin_of(self.rules, key, app_name)
        if key in self._pulls or origin is None or self._is_closed or self._table.is_closing:
            return
        name = f"{self._boot}-p{next(self._numbers)}"
        pull = self._pulls[key] = Pull(self, name, Wanted(key, app_name), origin, (*via, *self.own_via))
        self._table.registry.claim_to_pull(
            key,
            pull.id,
            max_pulls=self.max_pulls,
            grace_s=self._table.settings.app(app_name).grace_s,
            answer=partial(self._decided, pull),
        )

    def _decided(self, pull: Pull, grant: PublishAnswer) -> None:
        if grant.verdict in GRANTED:
            if pull.is_over or self._table.is_closing:
                self._table.registry.ended(pull.key, grant.epoch)
                self._forget(pull, _CLOSING)
            else:
                app = self._table.settings.app(pull.app_name)
                pull.begin(grant, max(app.play_wait_s, AT_LEAST_S))
            return
        self._forget(pull, "the name is not to be had")
        if grant.verdict is Verdict.FULL:
            self._broker.observer.limit_hit(LIMIT, f"{pull.key} would be one more than {self.max_pulls}")
        if grant.verdict is not Verdict.REFUSE:
            self._broker.playing.missed(pull.key)

    def give_way(self, key: str) -> None:
        """A publisher takes the name of a stream."""
        pull = self._pulls.get(key)
        if pull is not None and pull.grant is not None:
            self._forget(pull, "a publisher has taken over")

    def stream_over(self, key: str) -> None:
        """A stream of this worker is over."""
        pull = self._pulls.get(key)
        if pull is not None and pull.stream is not None:
            self._forget(pull, "the stream is over")

    def watched(self, key: str, epoch: int, *, is_watched: bool) -> None:
        """Whether anybody watches a stream that is pulled here has changed."""
        pull = self._pulls.get(key)
        if pull is not None and pull.grant is not None and pull.grant.epoch == epoch:
            pull.watched(is_watched=is_watched)

    def _forget(self, pull: Pull, reason: str) -> None:
        if self._pulls.get(pull.key) is pull:
            del self._pulls[pull.key]
            self._past_bytes += pull.received_bytes
        pull.drop(reason)

    # What a pull asks.

    def open(self, pull: Pull, address: StreamAddress, owner: OutgoingOwner) -> Source:
        """Open a connection to play a stream."""
        return self._open(address, owner, pull)

    def begin(self, pull: Pull, grant: PublishAnswer, publisher: Publisher) -> LiveStream:
        """Media has come."""
        return self._broker.publishing.begin_pulled(publisher, pull.key, pull.app_name, grant)

    def stop(self, publisher: Publisher, stream: LiveStream, reason: str) -> None:
        """Another connection brings it from now on."""
        self._broker.publishing.stop_pulled(publisher, stream, reason)

    def end(self, pull: Pull, publisher: Publisher | None, reason: str, *, has_grace: bool) -> None:
        """It comes no more."""
        stream = pull.stream
        if stream is not None and publisher is not None:
            self._broker.publishing.end_pulled(publisher, stream, reason, has_grace=has_grace)
        elif stream is not None:
            # Its publication has ended before, and it waits for the next one.
            self._table.end_stream(stream)
        elif pull.grant is not None:
            self._table.registry.ended(pull.key, pull.grant.epoch)
            self._forget(pull, reason)

    def miss(self, pull: Pull, failure: Failure) -> None:
        """It is not to be had."""
        self.misses += 1
        if failure.code == StatusCode.PLAY_STREAM_NOT_FOUND:
            # Whoever may ask for names makes these, as many as there are names.
            self._tell("Pull missed", pull, failure.reason, self._log.info, self._misses_told)
        else:
            self._tell("Pull came to nothing", pull, failure.reason, self._log.warning, self._warnings)
        self._forget(pull, failure.reason)
        if pull.grant is not None:
            self._table.registry.not_there(pull.key, pull.grant.epoch)

    def lost(self, pull: Pull, reason: str) -> None:
        """A try has failed."""
        self.losses += 1
        self._tell("Pull failed, and is tried again", pull, reason, self._log.warning, self._warnings)

    @staticmethod
    def _tell(text: str, pull: Pull, reason: str, write: Callable[..., object], rate: OncePerSecond) -> None:
        if (swallowed := rate.admit()) is not None:
            write(text, stream_key=pull.key, pulled_from=pull.origin.shown, reason=reason, swallowed=swallowed)

    def bug(self, error: Exception) -> None:
        """An error of ours."""
        self._broker.observer.error(None, error)


def opener(dialer: Dialer, broker: Broker) -> Open:
    """Opens connections as the settings in force say."""

    def open_connection(address: StreamAddress, owner: OutgoingOwner, pull: Pull) -> OutgoingConnection:
        settings = broker.settings
        app = settings.app(pull.app_name)
        timeouts = OutgoingTimeouts(
            play_answer_s=max(app.play_wait_s, AT_LEAST_S) + app.grace_s, silence_s=settings.silent_peer_s
        )
        return OutgoingConnection(
            dialer,
            address,
            Purpose.PLAY,
            owner,
            settings=settings.connection,
            timeouts=timeouts,
            secrets=pull.origin.secrets,
            connect_properties=write_via(pull.via),
        )

    return open_connection
