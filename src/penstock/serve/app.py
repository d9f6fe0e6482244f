"""The server as a program: configuration in, a running server, exit status out.

Owns which parts run together, in which order they start and end, and what signals do. The parts themselves know
nothing of the configuration file: they are given plain settings.
"""

import contextlib
import ctypes
import gc
import secrets
import signal
import sys
from collections.abc import Callable
from functools import partial

from penstock import __version__
from penstock.config import Config
from penstock.config_units import Address
from penstock.errors import ConfigError
from penstock.serve.configured import file_modes_of, quota_limits_of, recording_settings_of, settings_of
from penstock.serve.connections.acceptor import raise_descriptor_limit
from penstock.serve.connections.certificates import ReloadableTls
from penstock.serve.http.routes import OperatorRoutes
from penstock.serve.http.server import HttpServer
from penstock.serve.logs import configure_logs, get_logger, is_for_programs
from penstock.serve.reactor import Reactor
from penstock.serve.recording.listener import RecordingListener, RecordingLog
from penstock.serve.recording.recorder import Recorder
from penstock.serve.server import Server
from penstock.serve.streams.memfd import MemfdStore, best_store
from penstock.serve.streams.observer import Observer, ObserverGroup
from penstock.serve.streams.send_ring import open_send_ring
from penstock.serve.telemetry.address_quota import AddressQuota
from penstock.serve.telemetry.facts_observer import FactsObserver
from penstock.serve.telemetry.facts_writer import FactsLimits, FactsWriter
from penstock.serve.telemetry.log_observer import LogObserver, message_trace
from penstock.serve.telemetry.meter import Meters
from penstock.serve.telemetry.metrics import MetricsObserver
from penstock.serve.telemetry.recording_facts import RecordingFacts
from penstock.serve.welcome import welcome

_SWITCH_INTERVAL_S = 0.0005
"""How long another thread may keep the interpreter while the loop wants it: a send to a thousand viewers gives it up a
thousand times, so the default of 5 ms would be felt."""

_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK_BYTES = 1024 * 1024
_DISK_DEADLINE_S = 10.0
"""How long a stalled disk may hold up the end."""


class Program:
    """All parts of one server process."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._log = get_logger()
        meters = Meters()
        reactor = Reactor(lambda error: observer.error(None, error))
        self._facts_quota, self._log_quota = (AddressQuota(quota_limits_of(config)) for _ in range(2))
        self._facts = self._make_facts_writer(secrets.token_hex(4))
        self._facts_observer = self._make_facts_observer(meters, reactor)
        self._recorder = self._make_recorder()
        self._metrics = MetricsObserver(
            meters, self._facts, self._recorder, facts_quota=self._facts_quota, log_quota=self._log_quota
        )
        observers: list[Observer] = [meters, LogObserver(quota=self._log_quota), self._metrics]
        if self._facts_observer is not None:
            observers.append(self._facts_observer)
        if self._recorder is not None:
            observers.append(self._recorder)
        observer = ObserverGroup(*observers)
        store = best_store()
        if not isinstance(store, MemfdStore):
            self._log.warning("no shared memory on this system: streams are sent by copies, which costs more")
        self._ring = open_send_ring() if config.server.io_uring else None
        self.server = Server(settings_of(config), observer, store, self._ring, reactor)
        self.server.trace_of = partial(message_trace, hex_dump_bytes=config.logs.hex_dump_bytes)
        self._tls: ReloadableTls | None = None
        self._http: HttpServer | None = None

    def _make_facts_writer(self, boot_id: str) -> FactsWriter | None:
        config = self._config.facts
        if not config.enabled:
            return None
        limits = FactsLimits(
            flush_s=config.flush_s,
            rotate_s=config.rotate_s,
            rotate_bytes=config.rotate_bytes,
            max_total_bytes=config.max_total_bytes,
        )
        modes = file_modes_of(self._config)
        return FactsWriter(self._config.facts_dir, self._config.server.id, boot_id, limits, modes=modes)

    def _make_facts_observer(self, meters: Meters, reactor: Reactor) -> FactsObserver | None:
        if self._facts is None:
            return None
        config = self._config.facts
        return FactsObserver(
            self._facts,
            meters,
            reactor,
            self._facts_quota,
            stream_sample_s=config.stream_sample_s,
            viewer_sample_s=config.viewer_sample_s,
        )

    def _make_recorder(self) -> Recorder | None:
        if not self._config.recording.streams:
            return None
        listeners: list[RecordingListener] = [RecordingLog()]
        if self._facts is not None:
            listeners.append(RecordingFacts(self._facts))
        return Recorder(recording_settings_of(self._config), self._config.rtmp.chunk_bytes, listeners)

    def open(self) -> dict[str, tuple[str, int]]:
        """Take the addresses and start what runs beside the loop. The addresses, by what is served there."""
        config = self._config
        addresses = {"rtmp": self._listen("rtmp.listen", config.rtmp.listen)}
        tls = config.tls
        if tls.listen is not None and tls.cert is not None and tls.key is not None:
            self._tls = ReloadableTls(tls.cert, tls.key)
            addresses["rtmps"] = self._listen("tls.listen", tls.listen, self._tls)
        if config.http.listen is not None:
            addresses["http"] = self._serve_http(config.http.listen)
        if self._facts is not None and self._facts_observer is not None:
            self._facts.start()
            self._facts_observer.open()
        if self._recorder is not None:
            self._recorder.start()
        how = {"data": str(config.server.data_dir), "io_uring": self._ring is not None}
        where = {name: f"{host}:{port}" for name, (host, port) in addresses.items()}
        self._log.info("server started", version=__version__, **how, **where)
        return addresses

    def _listen(self, key: str, address: Address, tls: ReloadableTls | None = None) -> tuple[str, int]:
        host = _host(address)
        try:
            port = self.server.listen(host, address.port, tls)
        except OSError as error:
            raise ConfigError(f"{key}: cannot listen at {address}: {error.strerror}") from error
        return host, port

    def _serve_http(self, address: Address) -> tuple[str, int]:
        server = self.server
        routes = OperatorRoutes(
            server.reactor, server.broker, server.flusher, self._metrics, self._config.server.data_dir
        )
        self._http = HttpServer(routes.routes())
        host = _host(address)
        try:
            port = self._http.start(host, address.port)
        except OSError as error:
            raise ConfigError(f"http.listen: cannot listen at {address}: {error.strerror}") from error
        return host, port

    def reload(self, read: Callable[[], Config]) -> None:
        """Take over what can change while connections are open; a wrong file changes nothing."""
        try:
            config = read()
        except ConfigError as error:
            self._log.warning("configuration not reloaded", reason=str(error))
        else:
            self.server.broker.apply(settings_of(config))
            self._facts_quota.limits = self._log_quota.limits = quota_limits_of(config)
            self._log.info("configuration reloaded")
        if self._tls is not None:
            self._tls.reload()

    def close(self) -> None:
        """End what runs beside the loop, facts last: they tell how everything else ended."""
        if self._recorder is not None and not self._recorder.close(_DISK_DEADLINE_S):
            self._log.warning("recordings could not be finished in time; they are repaired at the next start")
        if self._http is not None:
            self._http.stop()
        if self._facts is not None and self._facts_observer is not None:
            self._facts_observer.close()
            if not self._facts.close():
                self._log.warning("facts could not be written in time")
        if self._ring is not None:
            self._ring.close()
        self._log.info("server stopped")


def run(config: Config, reload: Callable[[], Config] | None = None, on_stop: Callable[[], None] = lambda: None) -> int:
    """Serve until a signal says otherwise. `on_stop` is called for each that does, on the loop."""
    lines = configure_logs(config.logs.level, config.logs.format)
    descriptors = raise_descriptor_limit()
    get_logger().info("capacity", max_descriptors=descriptors, max_connections=config.limits.max_connections)
    program = Program(config)
    try:
        addresses = program.open()
        if not is_for_programs(config.logs.format):
            lines.write(welcome(addresses, config.server.data_dir, config.recording.streams))
        reactor = program.server.reactor

        def stop() -> None:
            on_stop()
            program.server.shut_down()

        for number in (signal.SIGTERM, signal.SIGINT):
            reactor.on_signal(number, stop)
        if reload is not None:
            reactor.on_signal(signal.SIGHUP, lambda: program.reload(reload))
        _tune_interpreter()
        program.server.run()
    finally:
        program.close()
        lines.close()
    return 0


def _host(address: Address) -> str:
    return address.host or "0.0.0.0"  # noqa: S104 - an address without a host is every interface, as the operator wrote


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
