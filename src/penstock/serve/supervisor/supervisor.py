"""The supervisor: how listeners, limits, names and children of one server are joined.

Owns what each message of a child leads to, what is told to a child that begins, and the order of starting and ending.
Connections, names and figures pass through it; no media byte does, and nothing here waits for a child.
"""

# Long because: every message of every child leads somewhere from here.

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_network
from socket import socket, socketpair
from typing import Any, Final

from penstock import __version__
from penstock.config import Config
from penstock.config_sources import LoadedConfig, dotted
from penstock.control.entrance import Admission, Entrance, EntranceLimits
from penstock.control.figures import Figures as WorkerFigures
from penstock.control.figures import FiguresSum
from penstock.control.messages import (
    NOBODY,
    Accepted,
    Alive,
    AskReload,
    Begun,
    Claim,
    ClaimTarget,
    Decoder,
    Drain,
    Draining,
    Ended,
    Failed,
    Figures,
    FromProxy,
    FromWeb,
    FromWorker,
    GiveTargetBack,
    LastSeen,
    Left,
    Linked,
    Listening,
    LoadBeside,
    NotThere,
    Origins,
    PastFigures,
    Ready,
    Recorded,
    Refused,
    Reload,
    Reloaded,
    Stop,
    TurnedAway,
    Unlinked,
    Unwatch,
    WantDecoder,
    Watch,
    Welcome,
    Yielded,
)
from penstock.control.messages import Entrance as EntranceFigures
from penstock.control.names import Names, Outgoing
from penstock.control.push_targets import PushTargets
from penstock.errors import ConfigError
from penstock.logs import OncePerSecond, get_logger
from penstock.serve.reactor import Reactor
from penstock.serve.supervisor.children import Child, Children, Patience
from penstock.serve.supervisor.decoders import Decoders
from penstock.serve.supervisor.listeners import Arrival, Listeners

_TICK_S: Final = 0.25
_FIGURES_S: Final = 1.0
_LINK_SECRET_BYTES: Final = 32
_WEB_WAIT_S: Final = 10.0
"""How long a server with all workers waits for web before it says that it has started."""


def limits_of(config: Config) -> EntranceLimits:
    """What the operator allows at the entrance."""
    limits = config.limits
    return EntranceLimits(
        max_connections=limits.max_connections,
        max_connections_per_ip=limits.max_connections_per_ip,
        max_new_connections_per_ip_per_s=limits.max_new_connections_per_ip_per_s,
        exempts_loopback=limits.exempts_loopback,
        behind_proxies=frozenset(
            name for name, section in (("rtmp", config.rtmp), ("rtmps", config.tls)) if section.proxy_protocol
        ),
        http_proxies=tuple(ip_network(each) for each in config.http.trusted_proxies),
    )


class Supervisor:
    """One server: its children, and what they share."""

    def __init__(
        self,
        reactor: Reactor,
        loaded: LoadedConfig,
        commands: Mapping[int, Sequence[str]],
        *,
        pid: int,
        patience: Patience,
        on_started: Callable[[], None],
        locks: tuple[int, ...] = (),
        web_listener: socket | None = None,
    ) -> None:
        """`locks` are held by every worker as well; `web_listener` is for web alone, and outlives it.

        `on_started`: all workers and web are ready for the first time.
        """
        self._reactor = reactor
        self._loaded = loaded
        self._pid = pid
        self._patience = patience
        self._on_started = on_started
        self._web_listener = web_listener
        self._log = get_logger()
        self._warnings = OncePerSecond(reactor.clock)
        self._workers = [number for number in commands if number != NOBODY]
        self.names = Names()
        self._push_targets = PushTargets()
        self.entrance = Entrance(limits_of(loaded.config))
        self.listeners = Listeners(reactor, self._on_arrival, self._on_exhausted)
        self.children = Children(
            reactor,
            commands,
            patience,
            inherited=dict.fromkeys(self._workers, locks),
            on_begun=self._on_begun,
            on_message=self._on_message,
            on_unlinked=self._on_unlinked,
            on_gone=self._on_gone,
        )
        self._decoders = Decoders(reactor, pid, self._give_decoder)
        self._reloaded: LoadedConfig | None = None
        self._link_secret = secrets.token_bytes(_LINK_SECRET_BYTES)
        """The same for every child, however often they are replaced: links outlive whoever made them."""
        self._drained_by: float | None = None
        """When the server ends though it is not empty; None: it goes on."""
        self.on_drained: Callable[[], None] = self.stop
        """Ends the server as a signal does."""
        self.reload_as_asked: Callable[[], str | None] = lambda: "this server has no configuration to read anew"
        """Reads the configuration anew, as SIGHUP does; why it could not, or None."""
        self._figures = FiguresSum()
        """For the next web process, which has heard nothing of what came before it."""
        self._untold: dict[str, tuple[int, str]] = {}
        self._workers_ready_at: float | None = None
        self.is_started = False
        self.failure: str | None = None
        """Why the server could not start."""

    # Starting and ending.

    def start(self) -> None:
        """Start the children. Connections are accepted once all of them are ready."""
        self.children.start_all()
        self._tick()
        self._tell_figures()

    def reload(self, read: Callable[[], LoadedConfig]) -> str | None:
        """Take over what can change while connections are open; a wrong file changes nothing, and is told."""
        complaint = None
        try:
            loaded = read()
        except ConfigError as error:
            complaint = str(error)
            self._log.warning("configuration not reloaded", reason=complaint)
        else:
            self._reloaded = loaded
            self.entrance.apply(limits_of(loaded.config))
            self._log.info("configuration reloaded")
        # Whatever became of the file, certificates are read anew.
        for child in self.children.living.values():
            child.link.send(self._reload_message())
        if self.children.web is not None:
            self.children.web.link.send(self._origins())
        return complaint

    def drain(self, within_s: float) -> None:
        """Let nobody in any more; end when everybody is gone, or after a while. Asked again: by the new deadline."""
        if self.children.is_stopping:
            return
        if self._drained_by is None:
            # Who asks whether the server is ready has to hear that it is not.
            self.listeners.close_all_but(("http", "https"))
            self._log.info("draining", within_s=within_s, connections=self.entrance.connections)
            for child in self.children.workers:
                child.link.send(Draining())
        self._drained_by = self._reactor.now + within_s
        self._tell_web(self._entrance_figures())

    def stop(self) -> None:
        """Have everybody say goodbye, then leave the loop. Asked a second time: at once."""
        is_at_once = self.children.is_stopping
        self.children.is_stopping = True
        self.listeners.close()
        if is_at_once:
            self._log.info("stopping at once", connections=self.entrance.connections)
        else:
            self._reactor.call_later(self._patience.stop_s, self._kill_the_rest)
        for child in self.children.living.values() if is_at_once else self.children.workers:
            child.link.send(Stop(is_at_once))
        self._stop_if_alone()

    def close(self) -> None:
        """Leave no process behind."""
        self.listeners.close()
        if self._web_listener is not None:
            self._web_listener.close()
        self.children.kill_all()
        self._decoders.close()

    def status(self) -> dict[str, Any]:
        """For the operator's commands."""
        web = self.children.web
        return {
            "server_id": self._loaded.config.server.id,
            "life_id": self.children.life_id,
            "version": __version__,
            "pid": self._pid,
            "workers": [
                {
                    "worker": child.number,
                    "pid": child.pid,
                    "boot_id": child.boot_id,
                    "started_at": child.started_at,
                    "connections": self.entrance.connections_of(child.number),
                    "is_ready": child.is_ready,
                }
                for child in self.children.workers
            ],
            "web": None if web is None else {"pid": web.pid},
        }

    def _stop_if_alone(self) -> None:
        """Web ends last: it tells how the others do."""
        if list(self.children.workers):
            return
        web = self.children.web
        if web is None:
            self._reactor.stop()
        else:
            web.link.send(Stop(is_at_once=False))

    def _kill_the_rest(self) -> None:
        for child in self.children.living.values():
            self._log.warning("a process did not end in time and is killed", worker=child.number, pid=child.pid)
        self.children.kill_all()

    def _reload_message(self) -> Reload:
        return Reload(dict(self._in_force.values))

    def _origins(self) -> Origins:
        return Origins({dotted(key): origin for key, origin in self._in_force.origins.items()})

    @property
    def _in_force(self) -> LoadedConfig:
        return self._loaded if self._reloaded is None else self._reloaded

    # Children.

    def _on_begun(self, child: Child) -> None:
        welcome = Welcome(
            worker=child.number,
            boot_id=child.boot_id,
            life_id=self.children.life_id,
            workers=len(self._workers),
            config=dict(self._loaded.values),
            recovers=child.recovers,
            listening=self.listeners.addresses,
            link_secret=self._link_secret,
        )
        child.link.send(welcome)
        if self._reloaded is not None:
            # What needs a restart of the server stays as it was; what does not is as it is in the others.
            child.link.send(self._reload_message())
        if child.number == NOBODY:
            child.link.send(self._origins())
            self._tell_all_figures(child)
            if self._web_listener is not None:
                child.link.send(Listening(), [os.dup(self._web_listener.fileno())])
        for other in self.children.living.values():
            if other is not child:
                _join(child, other)

    def _on_unlinked(self, child: Child) -> None:
        """Nobody is to be sent there any more."""
        if child.number != NOBODY:
            self.entrance.worker_lost(child.number)
            self._send_all(self.names.worker_lost(child.number, self._reactor.now))
            self._push_targets.worker_lost(child.number)
            self._figures.lost(child.number)
            self._decoders.worker_lost(child.number)
            self._tell_web(Figures(child.number, child.boot_id, child.pid, None))
            self._open_or_shut()

    def _on_gone(self, child: Child) -> None:
        is_web = child.number == NOBODY
        if not self.children.is_stopping:
            how = {"pid": child.pid, "signal": child.signal, "status": child.status}
            if is_web:
                self._log.warning("web lost", **how)
            else:
                self._log.warning("worker lost", worker=child.number, **how)
            if not self.is_started and (child.status or self.failure):
                # It would end the same way again: whoever starts the server hears of it now.
                who = "web" if is_web else f"worker {child.number}"
                self.failure = self.failure or f"{who} ended with status {child.status} while starting"
                self.stop()
        if self.children.is_stopping:
            self._stop_if_alone()

    def _on_message(self, child: Child, message: FromWorker | FromWeb) -> None:
        now, number = self._reactor.now, child.number
        match message:
            case Ready():
                self._on_ready(child, message)
            case Failed():
                self.failure = self.failure or message.reason
            case Alive():
                if number != NOBODY:
                    self._figures.told(number, child.boot_id, WorkerFigures.of_plain(message.figures))
                    self._tell_web(Figures(number, child.boot_id, child.pid, message.figures))
            case Left():
                for connection in message.numbers:
                    self.entrance.left(connection)
            case FromProxy():
                refusal = self.entrance.from_proxy(message.number, message.address, now)
                if refusal is not None:
                    self._tell_turned_away(refusal.limit, refusal.detail)
                    child.link.send(Refused(message.number, refusal.limit, refusal.detail))
            case Unlinked(peer):
                other = self.children.living.get(peer)
                if other is not None and other is not child:
                    _join(child, other)
            case Drain():
                self.drain(message.within_s)
            case WantDecoder():
                self._decoders.start(number)
            case AskReload():
                child.link.send(Reloaded(message.request, self.reload_as_asked()))
            case Claim() | Begun() | Recorded() | Ended() | NotThere() | Yielded() | Watch() | Unwatch() | LastSeen():
                self._send_all(self.names.receive(number, message, now))
            case ClaimTarget():
                child.link.send(self._push_targets.claim(number, message))
            case GiveTargetBack():
                self._push_targets.give_back(number, message)

    def _on_ready(self, child: Child, ready: Ready) -> None:
        child.is_ready = True
        if child.number == NOBODY:
            self._log.info("web started", pid=child.pid)
        else:
            self._log.info("worker started", worker=child.number, pid=child.pid, io_uring=ready.io_uring)
            self.entrance.worker_ready(child.number)
        self._look_whether_started()
        self._open_or_shut()

    def _give_decoder(self, worker: int, link: socket | None) -> None:
        child = self.children.living.get(worker)
        if child is not None:
            child.link.send(Decoder(), [] if link is None else [link.detach()])
        elif link is not None:
            link.close()

    def _look_whether_started(self) -> None:
        if self.is_started or len(self.entrance.ready_workers) < len(self._workers):
            return
        if self._workers_ready_at is None:
            self._workers_ready_at = self._reactor.now
        web = self.children.web
        is_web_awaited = web is not None and not web.is_ready
        if not is_web_awaited or self._reactor.now - self._workers_ready_at > _WEB_WAIT_S:
            self.is_started = True
            self._on_started()

    def _open_or_shut(self) -> None:
        """Without a worker, those who come wait in the kernel's queue: the next one is here in a moment."""
        self.listeners.set_open(self.is_started and bool(self.entrance.ready_workers))

    # Connections.

    def _on_arrival(self, arrival: Arrival) -> None:
        congested = [child.number for child in self.children.workers if child.link.is_congested]
        answer = self.entrance.admit(arrival.listener, arrival.ip, arrival.port, self._reactor.now, congested)
        if isinstance(answer, Admission):
            message = Accepted(answer.number, arrival.listener, answer.address)
            self.children.living[answer.worker].link.send(message, [arrival.socket.detach()])
        else:
            arrival.socket.close()
            self._tell_turned_away(answer.limit, answer.detail)

    def _on_exhausted(self, reason: str) -> None:
        self.entrance.turned_away["descriptors"] += 1
        self._tell_turned_away("descriptors", reason)

    def _tell_turned_away(self, limit: str, detail: str) -> None:
        known, _ = self._untold.get(limit, (0, ""))
        self._untold[limit] = known + 1, detail
        if (swallowed := self._warnings.admit()) is not None:
            self._log.warning(f"Limit hit: {limit}", limit=limit, reason=detail, swallowed=swallowed)

    # What comes round.

    def _tick(self) -> None:
        self._reactor.call_later(_TICK_S, self._tick)
        for child in self.children.tick():
            self._log.warning("a process is silent and is killed", worker=child.number, pid=child.pid)
        self._decoders.tick()
        self._send_all(self.names.tick(self._reactor.now))
        self._look_whether_started()
        self._open_or_shut()
        self._look_whether_drained()

    def _look_whether_drained(self) -> None:
        if self._drained_by is None or self.children.is_stopping:
            return
        # Over HTTP people watch what publishers bring, who are connections; what is pulled has none.
        is_empty = not self.entrance.connections and not self.names.pulls_for_somebody
        if is_empty or self._reactor.now >= self._drained_by:
            self.on_drained()

    def _tell_figures(self) -> None:
        self._reactor.call_later(_FIGURES_S, self._tell_figures)
        self._tell_web(self._entrance_figures())
        for child in self.children.workers:
            child.link.send(LoadBeside(self._figures.foreground_share_beside(child.number)))
        teller = next((child for child in self.children.workers if child.is_ready), None)
        if teller is not None:
            for limit, (hits, detail) in self._untold.items():
                teller.link.send(TurnedAway(limit, hits, detail))
            self._untold.clear()

    def _tell_all_figures(self, web: Child) -> None:
        """To a new web process, so that what it adds up is no less than what the one before it had."""
        web.link.send(PastFigures(self._figures.past.to_plain()))
        for worker, figures in self._figures.workers.items():
            child = self.children.living[worker]
            web.link.send(Figures(worker, child.boot_id, child.pid, figures.to_plain()))
        web.link.send(self._entrance_figures())

    def _entrance_figures(self) -> EntranceFigures:
        is_draining = self._drained_by is not None
        return EntranceFigures(self._pid, dict(self.entrance.turned_away), self.entrance.connections, is_draining)

    def _tell_web(self, message: Figures | EntranceFigures) -> None:
        web = self.children.web
        if web is not None and not web.link.is_congested:
            web.link.send(message)

    def _send_all(self, outgoing: list[Outgoing]) -> None:
        for worker, message in outgoing:
            child = self.children.living.get(worker)
            if child is not None:
                child.link.send(message)


def _join(one: Child, other: Child) -> None:
    """Give two children a link to each other."""
    try:
        ours, theirs = socketpair()
    except OSError as error:
        get_logger().error("a link cannot be made", worker=one.number, peer=other.number, reason=error.strerror)
        return
    one.link.send(Linked(other.number), [ours.detach()])
    other.link.send(Linked(one.number), [theirs.detach()])
