"""The parts of one worker: configuration in, connections and links from the supervisor, and their end.

Owns which parts run together, in which order they start and end. The parts themselves know nothing of the configuration
file: they are given plain settings. What the supervisor says is read by `worker`.
"""

# Long because: every part of a worker is made, joined and ended here.

import contextlib
import ctypes
import gc
import hashlib
import hmac
import os
import socket
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from typing import Any

from penstock.certificates import ReloadableTls
from penstock.config import Config, Http, Tls
from penstock.config_secrets import policy_of
from penstock.control.live import SentAway, ViewBeacon
from penstock.control.messages import (
    NOBODY,
    Accepted,
    FromProxy,
    FromWorker,
    HttpConnection,
    Refused,
    TurnedAway,
    Unlinked,
    WantDecoder,
    Welcome,
)
from penstock.control.refusals import NOT_FOUND, UNAVAILABLE
from penstock.errors import ConfigError
from penstock.logs import get_logger
from penstock.media_paths import MediaKind
from penstock.protocol.connection import ConnectionSettings
from penstock.protocol.via import write_via
from penstock.rtmp_address import StreamAddress
from penstock.serve.boot import Boot
from penstock.serve.configured import file_modes_of, pull_rules_of, quota_limits_of, recording_settings_of, settings_of
from penstock.serve.connections.peer_rates import PeerRates
from penstock.serve.connections.proxy_reader import ProxyReader
from penstock.serve.http.cors import Cors
from penstock.serve.http.front import HttpFront
from penstock.serve.http.handover import WebHandover
from penstock.serve.http.hls.site import HlsSite
from penstock.serve.http.live_site import OUTPUTS, LiveSite
from penstock.serve.http.proxies import TrustedProxies
from penstock.serve.links.web_link import WebLink
from penstock.serve.orders import Orders
from penstock.serve.outgoing.connection import OutgoingConnection, OutgoingOwner, Purpose
from penstock.serve.outgoing.dialer import Dialer
from penstock.serve.outgoing.helper import Helper
from penstock.serve.pulls.pulls import Pulls, opener
from penstock.serve.pushing.push_log import PushLog
from penstock.serve.pushing.pusher import Pusher
from penstock.serve.pushing.targets import Targets
from penstock.serve.reactor import Reactor
from penstock.serve.recording.listener import RecordingListener, RecordingLog
from penstock.serve.recording.recorder import Recorder
from penstock.serve.sending.memfd import MemfdStore, best_store
from penstock.serve.sending.send_ring import open_send_ring
from penstock.serve.server import Arrival, Server
from penstock.serve.settings import ServerSettings
from penstock.serve.streams.live_stream import LiveStream
from penstock.serve.streams.observer import Observer, ObserverGroup
from penstock.serve.streams.registry import Registry
from penstock.serve.telemetry.address_quota import AddressQuota
from penstock.serve.telemetry.beacons import Beacons
from penstock.serve.telemetry.facts_observer import FactsObserver
from penstock.serve.telemetry.facts_writer import FactsLimits, FactsWriter
from penstock.serve.telemetry.live_feed import LiveFeed
from penstock.serve.telemetry.live_values import LiveValues
from penstock.serve.telemetry.log_observer import LogObserver, message_trace
from penstock.serve.telemetry.meter import Meters
from penstock.serve.telemetry.metrics import MetricsObserver
from penstock.serve.telemetry.pushes.push_facts import PushFacts
from penstock.serve.telemetry.pushes.push_feed import PushFeed
from penstock.serve.telemetry.recording_facts import RecordingFacts
from penstock.serve.thumbnails.decoder import Decoder
from penstock.serve.thumbnails.site import ThumbnailSite
from penstock.serve.thumbnails.thumbnails import Thumbnails

_SWITCH_INTERVAL_S = 0.0005
"""How long another thread may keep the interpreter while the loop wants it: a send to a thousand viewers gives it up a
thousand times, so the default of 5 ms would be felt."""

_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 1024 * 1024
_DISK_DEADLINE_S = 10.0
"""How long a stalled disk may hold up the end."""


class Program:
    """All parts of one worker."""

    def __init__(
        self,
        config: Config,
        welcome: Welcome,
        reactor: Reactor,
        send: Callable[[FromWorker], None],
        leave: Callable[[int], None],
        *,
        settings: ServerSettings | None = None,
        observers: Iterable[Observer] = (),
    ) -> None:
        """`send`: to the supervisor; `leave`: a connection is gone.

        `settings` are in the place of those that the configuration gives; further `observers` are told all the same.
        """
        self._config = config
        self._welcome = welcome
        self._send = send
        self._leave = leave
        self._log = get_logger()
        self._reactor = reactor
        meters = Meters()
        self._facts_quota, self._log_quota = (AddressQuota(quota_limits_of(config)) for _ in range(2))
        self._boot = Boot(welcome.boot_id, welcome.life_id, welcome.worker, welcome.workers, tuple(welcome.recovers))
        self.web = WebLink(reactor)
        self._facts = self._make_facts_writer()
        self._facts_observer = self._make_facts_observer(meters)
        self.beacons = Beacons(welcome.worker, self._facts_observer, self._facts, lambda: reactor.now)
        """Has the tokens by which players name their views."""
        self.web.handle(ViewBeacon, self.beacons.take)
        self.decoder = Decoder(reactor, lambda: send(WantDecoder()))
        self._recorder = self._make_recorder()
        self._push_feed = PushFeed(self.web, reactor, lambda: self._facts.clock.offset_us)
        self._metrics = MetricsObserver(
            meters,
            self._facts if config.facts.enabled else None,
            self._recorder,
            pushes=self._push_feed,
            facts_quota=self._facts_quota,
            log_quota=self._log_quota,
            beacons=self.beacons,
        )
        self._feed = self._make_feed(meters)
        self.registry = Registry(welcome.worker, send)
        settings = settings or settings_of(config, welcome.workers)
        self._lookups = Helper(reactor.call_from_thread)
        self._dialer = Dialer(reactor, self._lookups, notsent_lowat_bytes=settings.notsent_lowat_bytes)
        self.pusher = Pusher(
            reactor,
            self._open_to_publish,
            self.registry,
            chunk_size=config.rtmp.chunk_bytes,
            listeners=(PushLog(), PushFacts(self._facts), self._push_feed),
            on_bug=lambda error: self.observer.error(None, error),
        )
        self._push_feed.pushes = lambda: self.pusher.pushes
        self._push_targets = Targets(self.pusher.configure)
        self._push_targets.apply(config, os.environ)
        # Feed and beacons name what ends as facts do, and so hear of it before they forget it.
        own: list[Observer] = [
            meters,
            LogObserver(quota=self._log_quota),
            self._metrics,
            self._feed,
            self.beacons,
            self._facts_observer,
            self.pusher,
        ]
        if self._recorder is not None:
            own.append(self._recorder)
        self.observer = ObserverGroup(*own, *observers)
        store = best_store()
        if not isinstance(store, MemfdStore):
            self._log.warning("no shared memory on this system: streams are sent by copies, which costs more")
        self._ring = open_send_ring() if config.server.io_uring else None
        self.server = Server(settings, self.registry, self.observer, store=store, ring=self._ring, reactor=reactor)
        gatekeeper = self.server.broker.gatekeeper
        gatekeeper.apply(policy_of(config, os.environ, welcome.link_secret))
        self.server.trace_of = partial(
            message_trace,
            hex_dump_bytes=config.logs.hex_dump_bytes,
            hides_commands=lambda: not gatekeeper.is_open,
        )
        if self._recorder is not None:
            self._recorder.on_recording = self._tell_recording
        self.server.broker.peers.ask_for_link = lambda peer: send(Unlinked(peer))
        self.pulls = Pulls(
            self.server.broker, opener(self._dialer, self.server.broker), welcome.life_id, self.server.boot
        )
        self._metrics.pulls = self.pulls
        self._apply_pulls(config)
        self._tls = _tls_of(config.tls, "tls")
        self._https = _tls_of(config.http, "http")
        self.orders = Orders(self.server.broker, self._recorder, self._feed.viewer_of, self._push_targets.set_added)
        self.orders.listen(self.web)
        # Web with a port of its own has everything there; what is left for this one is media.
        self._has_pages = config.http.web_listen is None
        self._http = HttpFront(
            reactor,
            WebHandover(reactor, self._hand_over, UNAVAILABLE if self._has_pages else NOT_FOUND),
            gatekeeper,
            self.server.fan_out,
            cors=Cors(config.http.cors_origins, gatekeeper.admits_by_address),
            proxies=TrustedProxies(config.http.trusted_proxies),
            on_error=partial(self.observer.error, None),
        )
        self._open_hls()
        for kind in OUTPUTS:
            self._http.sites[kind] = LiveSite(self.server.broker, kind, reactor, self.beacons)
        self._http.sites[MediaKind.PICTURE] = ThumbnailSite(self._make_thumbnails(), reactor, gatekeeper)
        self._proxies = ProxyReader(reactor)
        self._behind_proxy: dict[int, socket.socket] = {}
        """Connections by their numbers, which may yet be refused by the address that their proxy gave."""

    def _open_hls(self) -> None:
        """Playlists, and what they name, are answered by this worker."""
        if not self._config.hls.enabled:
            return
        secret = hmac.new(self._welcome.link_secret, b"names of HLS segments", hashlib.sha256).digest()
        broker, table, cors_of = self.server.broker, self._http.table, self._http.cors.shared_lines
        site = HlsSite(broker, table, self._reactor, secret=secret, cors_of=cors_of, tokens=self.beacons)
        site.tell_sent_away = self.web.send
        self.web.handle(SentAway, site.sent_away)
        self._http.sites[MediaKind.PLAYLIST] = self._http.sites[MediaKind.BELOW] = site

    def _make_facts_writer(self) -> FactsWriter:
        """Without facts nothing lands, and web hears of them all the same."""
        config = self._config.facts
        limits = FactsLimits(
            flush_s=config.flush_s,
            rotate_s=config.rotate_s,
            rotate_bytes=config.rotate_bytes,
            max_total_bytes=config.max_total_bytes,
        )
        modes, folder, server_id = file_modes_of(self._config), self._config.facts_dir, self._config.server.id
        return FactsWriter(folder, server_id, self._boot, limits, modes=modes, is_landing=config.enabled)

    def _make_facts_observer(self, meters: Meters) -> FactsObserver:
        config = self._config.facts
        return FactsObserver(
            self._facts,
            meters,
            self._reactor,
            self._facts_quota,
            stream_sample_s=config.stream_sample_s,
            viewer_sample_s=config.viewer_sample_s,
        )

    def _make_recorder(self) -> Recorder | None:
        if not self._config.recording.streams:
            return None
        listeners: list[RecordingListener] = [RecordingLog(), RecordingFacts(self._facts)]
        return Recorder(recording_settings_of(self._config), self._config.rtmp.chunk_bytes, listeners, self._boot)

    def _make_thumbnails(self) -> Thumbnails:
        broker = self.server.broker
        return Thumbnails(
            self._reactor,
            broker.streams,
            self.registry,
            broker.peers.pictures,
            decoder=self.decoder if find_spec("av") else None,
            chunk_size=broker.settings.connection.chunk_size,
        )

    def _make_feed(self, meters: Meters) -> LiveFeed:
        recorder = self._recorder

        def is_recording(key: str) -> bool:
            return recorder is not None and recorder.is_recording(key)

        values = LiveValues(self._facts_observer, meters, self._facts.clock, self._boot.boot_id, is_recording)
        feed = LiveFeed(self.web, values, meters, self._reactor)
        self._facts.on_fact = feed.on_fact
        return feed

    def _open_to_publish(
        self, address: StreamAddress, owner: OutgoingOwner, *, secrets: tuple[str, ...], via: tuple[str, ...]
    ) -> OutgoingConnection:
        return OutgoingConnection(
            self._dialer,
            address,
            Purpose.PUBLISH,
            owner,
            settings=ConnectionSettings(chunk_size=self._config.rtmp.chunk_bytes),
            secrets=secrets,
            connect_properties=write_via((*via, self._welcome.life_id)),
            rates=PeerRates(self.server.broker.settings, self._reactor.now),
        )

    def _tell_recording(self, live_stream: LiveStream, recording_id: str | None) -> None:
        self._feed.stream_changed(live_stream)
        if live_stream.epoch is not None:
            self.registry.recorded(live_stream.key, live_stream.epoch, recording_id)

    @property
    def has_ring(self) -> bool:
        """Whether many viewers are sent to by one system call."""
        return self._ring is not None

    def open(self) -> None:
        """Start what runs beside the loop."""
        self._facts.start()
        self._facts_observer.open()
        if self._recorder is not None:
            self._recorder.start()
        _tune_interpreter()

    # What the supervisor says.

    def take(self, accepted: Accepted, descriptors: tuple[int, ...]) -> None:
        """Serve a connection."""
        leave = partial(self._leave, accepted.number)
        if not descriptors:
            self.observer.limit_hit("descriptors", "none is left for a connection")
            leave()
            return
        arrival = Arrival(socket.socket(fileno=descriptors[0]), accepted.address, leave)
        arrival.socket.setblocking(False)
        if accepted.listener in ("http", "https"):
            self._take_http(arrival, self._https if accepted.listener == "https" else None)
            return
        is_encrypted = accepted.listener == "rtmps"
        tls = self._tls if is_encrypted else None
        if (self._config.tls if is_encrypted else self._config.rtmp).proxy_protocol:
            self._read_proxy_header(accepted.number, arrival, tls)
        else:
            self.server.take(arrival, tls)

    def _read_proxy_header(self, number: int, arrival: Arrival, tls: ReloadableTls | None) -> None:
        """Serve a connection whose proxy says first where it is from; by that address it may be over a limit."""

        def leave() -> None:
            self._behind_proxy.pop(number, None)
            arrival.leave()

        def on_address(address: str | None) -> None:
            if address is not None:
                self._behind_proxy[number] = arrival.socket
                self._send(FromProxy(number, address))
            self.server.take(Arrival(arrival.socket, address or arrival.address, leave), tls)

        def on_failed(reason: str) -> None:
            self._log.info(f"PROXY header missing: {reason}", peer_addr=arrival.address, reason=reason)
            arrival.leave()

        deadline_s = self.server.broker.settings.handshake_deadline_s
        self._proxies.read(arrival.socket, deadline_s, on_address=on_address, on_failed=on_failed)

    def refuse(self, refused: Refused) -> None:
        """A connection is over a limit by the address that its proxy gave."""
        connection = self._behind_proxy.pop(refused.number, None)
        if connection is not None:
            self.observer.limit_hit(refused.limit, refused.detail)
            # Whoever serves it finds it ended by its peer.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def tell_turned_away(self, turned_away: TurnedAway) -> None:
        """Facts about those that never came here."""
        self._facts_observer.turned_away(turned_away.limit, turned_away.hits, turned_away.detail)

    def _take_http(self, arrival: Arrival, tls: ReloadableTls | None) -> None:
        if not self.server.prepare(arrival.socket):
            arrival.socket.close()
            arrival.leave()
            return
        if tls is None:
            self._http.accept(arrival.socket, arrival.address, arrival.leave)
        else:
            self.server.shake_hands(
                arrival,
                tls,
                lambda transport: self._http.accept_tls(transport, arrival.address, arrival.leave),
            )

    def _hand_over(self, connection: HttpConnection, descriptor: int) -> bool:
        """Give a connection over HTTP to the web process, if there is one."""
        if not self._has_pages or self.web.is_congested:
            return False
        return self.web.send(connection, [descriptor])

    def link(self, peer: int, descriptors: tuple[int, ...]) -> None:
        """A link to another worker, or to web."""
        if not descriptors:
            self._log.error("a link is missing: no descriptor is left", peer=peer)
            if peer != NOBODY:
                self.server.broker.peers.want_link(peer)
            return
        sock = socket.socket(fileno=descriptors[0])
        if peer == NOBODY:
            self.web.take(sock)
        else:
            self.server.broker.peers.link(peer, sock)

    def _apply_pulls(self, config: Config) -> None:
        self.pulls.rules = pull_rules_of(config, os.environ)
        self.pulls.max_pulls = config.limits.max_pulls

    def take_decoder(self, descriptors: tuple[int, ...]) -> None:
        """The process that decodes pictures, or none."""
        self.decoder.take(socket.socket(fileno=descriptors[0]) if descriptors else None)

    def reload(self, config: Config) -> None:
        """Take over what can change while connections are open."""
        self.server.broker.apply(settings_of(config, self._welcome.workers))
        try:
            self.server.broker.gatekeeper.apply(policy_of(config, os.environ, self._welcome.link_secret))
            self._apply_pulls(config)
        except ConfigError as error:
            # The supervisor has read them a moment ago, so they are being changed.
            self._log.warning("access and pulls go on by the rules before", reason=str(error))
        self._push_targets.apply(config, os.environ)
        self._facts_quota.limits = self._log_quota.limits = quota_limits_of(config)
        for tls in (self._tls, self._https):
            if tls is not None:
                tls.reload()

    def stop(self, *, is_at_once: bool) -> None:
        """Say goodbye to everybody and end."""
        self._http.close()
        self._proxies.close()
        self.server.shut_down()
        self.pulls.close()
        if is_at_once:
            self._reactor.stop()

    def drain(self, within_s: float) -> None:
        """End when everybody is gone, or say goodbye after a while."""
        self.registry.close()
        self.server.drain(within_s)

    def take_figures(self, done: Callable[[dict[str, Any]], None]) -> None:
        """How this worker does, as a snapshot that is taken in slices."""
        self._metrics.take(self.server.broker, self.server.flusher, lambda figures: done(figures.to_plain()))

    def close(self) -> None:
        """End what runs beside the loop, facts last: they tell how everything else ended."""
        if self._recorder is not None and not self._recorder.close(_DISK_DEADLINE_S):
            self._log.warning("recordings could not be finished in time; they are repaired at the next start")
        self.pusher.close()
        self._lookups.close()
        self._facts_observer.close()
        if not self._facts.close():
            self._log.warning("facts could not be written in time")
        self._feed.tell_rest()
        self.pulls.close()
        self.web.close()
        self.decoder.close()
        if self._ring is not None:
            self._ring.close()


def _tls_of(section: Tls | Http, name: str) -> ReloadableTls | None:
    if section.cert is None or section.key is None:
        return None
    return ReloadableTls(section.cert, section.key, name)


def _tune_interpreter() -> None:
    # Everything made while starting stays; a full collection walks every live message of every log, so they are rare.
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    _give_large_messages_back()


def _give_large_messages_back() -> None:
    """Have memory of large messages returned to the system when they are gone.

    By itself glibc raises its threshold to the largest block that was freed, and one message of 16 MB among small ones
    keeps its room for good (mallopt(3), M_MMAP_THRESHOLD). Other C libraries have no such function.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
