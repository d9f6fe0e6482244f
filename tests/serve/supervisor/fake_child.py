"""A worker or web process that speaks the supervisor's protocol and serves nothing: `fake_child.py KIND DESCRIPTOR`.

Each connection that it is given is sent one line of JSON: who has it, and by which listener it came. What it was told
is sent to whoever sends a line on such a connection. Web writes what it is told of the past, and of live workers as it
begins, to standard error, and asks for a drain at SIGUSR1 and for a reload at SIGUSR2. A worker has sent 1000 bytes
since it began, and is a quarter as busy as its number.
"""

import json
import os
import signal
import socket
import sys

import msgspec

from penstock.control.messages import (
    Accepted,
    Alive,
    AskReload,
    Drain,
    Entrance,
    Failed,
    Figures,
    FromProxy,
    Left,
    Linked,
    Listening,
    LoadBeside,
    Origins,
    PastFigures,
    Ready,
    Refused,
    Reload,
    Reloaded,
    Stop,
    ToWeb,
    ToWorker,
    TurnedAway,
    Unlinked,
    Welcome,
)
from penstock.serve.links.link import Link
from penstock.serve.reactor import READ, Reactor


class FakeChild:
    def __init__(self, kind: str, sock: socket.socket) -> None:
        self.kind = kind
        self.reactor = Reactor(self.fail)
        self.welcome: Welcome | None = None
        self.told: list[object] = []
        self.connections: dict[int, socket.socket] = {}
        self.is_draining = False
        self.link = Link(self.reactor, sock, msgspec.msgpack.Decoder(ToWorker | ToWeb), self.hear, self.reactor.stop)

    def fail(self, error: BaseException) -> None:
        raise SystemExit(str(error))

    def hear(self, message: object, descriptors: tuple[int, ...]) -> None:
        match message:
            case Welcome():
                self.welcome = message
                if self.kind == "refusing":
                    self.link.send(Failed("tls.cert: no such file"))
                    self.reactor.call_later(0.05, lambda: os._exit(1))
                    return
                if self.kind == "dying":
                    os._exit(3)
                self.link.send(Ready())
                self.pulse()
            case Accepted():
                self.take(message, socket.socket(fileno=descriptors[0]))
            case Linked():
                self.told.append(["linked", message.peer])
                for descriptor in descriptors:
                    os.close(descriptor)
            case Stop():
                self.told.append(["stop", message.is_at_once])
                if self.kind != "deaf" or message.is_at_once:
                    self.reactor.stop()
            case Reload():
                self.told.append(["reload", message.config.get("limits", {})])
            case Refused():
                self.told.append(["refused", message.number, message.limit])
            case TurnedAway():
                self.told.append(["turned away", message.limit, message.hits, message.detail])
            case LoadBeside():
                self.told.append(["load beside", message.foreground_share])
            case PastFigures():
                self.say("past figures", sent_bytes=message.figures["sent_bytes"])
            case Figures():
                self.told.append(["figures", message.worker, message.figures])
                if len(self.told) <= 2 and message.figures is not None:
                    self.say("figures at once", worker=message.worker, sent_bytes=message.figures["sent_bytes"])
            case Entrance(is_draining=True) if not self.is_draining:
                self.is_draining = True
                self.say("draining heard", connections=message.connections)
            case Origins():
                self.say("origins", **message.origins)
            case Reloaded():
                self.say("reloaded", request=message.request, complaint=message.complaint)
            case Listening():
                (descriptor,) = descriptors
                with socket.socket(fileno=descriptor) as listener:
                    self.say("listening", port=listener.getsockname()[1])

    def say(self, msg: str, **values: int | str | None) -> None:
        sys.stderr.write(json.dumps({"msg": msg, **values}) + "\n")
        sys.stderr.flush()

    def take(self, accepted: Accepted, connection: socket.socket) -> None:
        assert self.welcome is not None
        self.connections[accepted.number] = connection
        who = {
            "worker": self.welcome.worker,
            "pid": os.getpid(),
            "boot_id": self.welcome.boot_id,
            "recovers": self.welcome.recovers,
            "number": accepted.number,
            "listener": accepted.listener,
            "address": accepted.address,
        }
        connection.sendall(json.dumps(who).encode() + b"\n")

        def on_events(_events: int) -> None:
            try:
                data = connection.recv(4096)
            except ConnectionResetError:
                data = b""
            if data.startswith(b"from "):
                self.link.send(FromProxy(accepted.number, data[5:].strip().decode()))
            elif data.startswith(b"unlinked "):
                self.link.send(Unlinked(int(data.split()[1])))
            elif data:
                connection.sendall(json.dumps(self.told).encode() + b"\n")
            else:
                self.reactor.remove(connection.fileno())
                connection.close()
                self.link.send(Left([accepted.number]))

        self.reactor.add(connection.fileno(), READ, on_events)

    def pulse(self) -> None:
        self.reactor.call_later(0.1, self.pulse)
        assert self.welcome is not None
        busy_share = self.welcome.worker / 4
        figures = {"connections": len(self.connections), "sent_bytes": 1000, "foreground_share": busy_share}
        self.link.send(Alive(figures))


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    child = FakeChild(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
    if child.kind == "web":
        child.reactor.on_signal(signal.SIGUSR1, lambda: child.link.send(Drain(within_s=5.0)))
        child.reactor.on_signal(signal.SIGUSR2, lambda: child.link.send(AskReload(7)))
    child.reactor.run()


if __name__ == "__main__":
    main()
