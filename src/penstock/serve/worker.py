"""A media worker: `python -m penstock.serve.worker DESCRIPTOR`, started by the supervisor.

Owns the life of the process: it begins with the supervisor's welcome, ends when it is told to or when the supervisor is
gone, and says once a second that its loop comes round. What the supervisor says goes to the part that it is about.
"""

import socket
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.config_sources import config_from_values
from penstock.control.messages import (
    Accepted,
    Alive,
    Challenge,
    Decoder,
    Draining,
    Failed,
    FromWorker,
    Left,
    Linked,
    LoadBeside,
    Missed,
    Orphaned,
    Over,
    Owner,
    PublishAnswer,
    Ready,
    Refused,
    Reload,
    SeatAnswer,
    Stop,
    TargetAnswer,
    ToWorker,
    TurnedAway,
    Watched,
    Welcome,
)
from penstock.errors import ConfigError
from penstock.logs import configure_logs, get_logger
from penstock.serve.app import Program
from penstock.serve.connections.descriptors import raise_descriptor_limit
from penstock.serve.links.link import Link
from penstock.serve.reactor import Reactor

_ALIVE_S: Final = 1.0
_LEFT_S: Final = 0.05
"""A thousand connections that go at once are told of by one message."""
_DRAIN_S: Final = 30.0
"""For how long streams go on without a supervisor."""


class Worker:
    """This process, as the supervisor knows it."""

    def __init__(self, sock: socket.socket, make_program: Callable[..., Program] = Program) -> None:
        self._make_program = make_program
        self._reactor = Reactor(self._on_error)
        decoder = msgspec.msgpack.Decoder(ToWorker)
        self._link: Link[ToWorker] = Link(self._reactor, sock, decoder, self._on_message, self._on_supervisor_lost)
        self._early: list[tuple[ToWorker, tuple[int, ...]]] = []
        """What came before there was anybody to tell."""
        self._left: list[int] = []
        self._program: Program | None = None

    def run(self) -> int:
        """Until it is told to end. The exit status."""
        self._reactor.run()
        welcome = self._early.pop(0)[0] if self._early else None
        if not isinstance(welcome, Welcome):
            return 1
        config = config_from_values(welcome.config)
        lines = configure_logs(config.logs.level, config.logs.format, worker=welcome.worker)
        raise_descriptor_limit()
        try:
            try:
                program = self._make_program(config, welcome, self._reactor, self._send, self._leave)
            except ConfigError as error:
                self._send(Failed(str(error)))
                return 1
            try:
                program.open()
                self._program = program
                self._send(Ready(program.has_ring))
                self._pulse()
                early, self._early = self._early, []
                for message, descriptors in early:
                    self._on_message(message, descriptors)
                if not program.server.broker.is_closing:
                    program.server.run()
            finally:
                program.close()
        finally:
            self._link.close()
            self._reactor.close()
            lines.close()
        return 0

    def _send(self, message: FromWorker) -> None:
        self._link.send(message)

    def _leave(self, number: int) -> None:
        """A connection is gone."""
        if not self._left:
            self._reactor.call_later(_LEFT_S, self._tell_left)
        self._left.append(number)

    def _tell_left(self) -> None:
        left, self._left = self._left, []
        self._send(Left(left))

    def _pulse(self) -> None:
        self._reactor.call_later(_ALIVE_S, self._pulse)
        if self._program is not None and not self._link.is_congested:
            self._program.take_figures(lambda figures: self._send(Alive(figures)))

    def _on_message(self, message: ToWorker, descriptors: tuple[int, ...]) -> None:
        program = self._program
        if program is None:
            self._early.append((message, descriptors))
            self._reactor.stop()
            return
        match message:
            case Accepted():
                program.take(message, descriptors)
            case Linked():
                program.link(message.peer, descriptors)
            case PublishAnswer() | SeatAnswer() | Challenge() | Owner() | Over() | Watched() | Missed() | Orphaned():
                program.registry.handle(message)
            case TargetAnswer():
                program.pusher.answered(message)
            case Decoder():
                program.take_decoder(descriptors)
            case Refused():
                program.refuse(message)
            case TurnedAway():
                program.tell_turned_away(message)
            case LoadBeside():
                program.server.flusher.foreground_share_beside = message.foreground_share
            case Reload():
                program.reload(config_from_values(message.config))
            case Draining():
                program.server.ask_to_reconnect()
            case Stop():
                program.stop(is_at_once=message.is_at_once)
            case Welcome():
                pass

    def _on_supervisor_lost(self) -> None:
        if self._program is None:
            self._reactor.stop()
            return
        get_logger().warning("the supervisor is gone: this worker takes nobody any more, and ends", within_s=_DRAIN_S)
        self._program.drain(_DRAIN_S)

    def _on_error(self, error: BaseException) -> None:
        if self._program is not None:
            self._program.observer.error(None, error)
        else:
            get_logger().error("worker failed to start", exc_info=error)


def main() -> int:
    """The descriptor of the link to the supervisor is the one argument."""
    return Worker(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    sys.exit(main())
