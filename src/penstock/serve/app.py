"""The server as a program: configuration in, a running server, exit status out.

Owns which parts run together, what signals do, and how the process is tuned. The parts themselves know nothing of the
configuration file: they are given plain settings.
"""

import gc
import signal
import sys
from collections.abc import Callable
from functools import cache

from penstock import __version__
from penstock.config import AppConfig, Config
from penstock.config_units import Address, FlushGrid
from penstock.errors import ConfigError
from penstock.protocol.connection import ConnectionSettings
from penstock.relay.log import LogLimits
from penstock.relay.tap import TapLimits
from penstock.serve.logs import configure_logs, get_logger
from penstock.serve.memfd import MemfdStore, best_store
from penstock.serve.observer import ObserverGroup
from penstock.serve.server import Server, raise_descriptor_limit
from penstock.serve.settings import AppSettings, FlushPolicy, JoinPolicy, ServerSettings

_SWITCH_INTERVAL_S = 0.0005
"""How long another thread may keep the interpreter while the loop wants it: a send to a thousand viewers gives it up a
thousand times, so the default of 5 ms would be felt."""


def settings_of(config: Config) -> ServerSettings:
    """What the parts of the server need to know of the configuration."""
    limits, relay, recording = config.limits, config.relay, config.recording

    @cache
    def app(name: str) -> AppSettings:
        return _app_settings(config.app(name), limits.max_viewers_per_stream)

    return ServerSettings(
        app=app,
        connection=ConnectionSettings(
            window_bytes=config.rtmp.window_bytes,
            peer_bandwidth_bytes=config.rtmp.peer_bandwidth_bytes,
            chunk_size=config.rtmp.chunk_bytes,
            max_message_bytes=limits.max_message_bytes,
        ),
        log_limits=LogLimits(max_gops=relay.max_log_gops, max_age_s=relay.max_log_s, max_bytes=relay.max_log_bytes),
        tap_limits=TapLimits(max_bytes=recording.max_backlog_bytes, max_age_s=recording.max_backlog_s),
        max_total_log_bytes=relay.max_total_log_bytes,
        max_connections=limits.max_connections,
        max_connections_per_ip=limits.max_connections_per_ip,
        exempts_loopback=limits.exempts_loopback,
        max_publish_bps=limits.max_publish_bps,
        handshake_deadline_s=limits.handshake_deadline_s,
        connect_deadline_s=limits.connect_deadline_s,
        ping_interval_s=limits.ping_interval_s,
        silent_peer_s=limits.silent_peer_s,
        slow_viewer_s=relay.slow_viewer_s,
    )


def _app_settings(app: AppConfig, max_viewers_per_stream: int) -> AppSettings:
    grid_s = app.flush.period_ms / 1000 if isinstance(app.flush, FlushGrid) else None
    return AppSettings(
        join=JoinPolicy(app.join),
        flush=FlushPolicy(grid_s=grid_s, widens=app.flush == "auto"),
        may_replace_publisher=app.takeover == "replace",
        grace_s=app.grace_s,
        play_wait_s=app.play_wait_s,
        max_viewers_per_stream=max_viewers_per_stream,
    )


def run(config: Config, reload: Callable[[], Config] | None = None) -> int:
    """Serve until a signal says otherwise."""
    lines = configure_logs(config.logs.level, config.logs.format)
    log = get_logger()
    descriptors = raise_descriptor_limit()
    _tune_interpreter()
    store = best_store()
    if not isinstance(store, MemfdStore):
        log.warning("no shared memory on this system: streams are sent by copies, which costs more")
    server = Server(settings_of(config), ObserverGroup(), store)
    try:
        address = _listen(server, config.rtmp.listen)
    except OSError as error:
        raise ConfigError(f"rtmp.listen: cannot listen at {config.rtmp.listen}: {error.strerror}") from error
    log.info("server started", version=__version__, rtmp=address, max_descriptors=descriptors)
    for number in (signal.SIGTERM, signal.SIGINT):
        server.reactor.on_signal(number, server.shut_down)
    if reload is not None:
        server.reactor.on_signal(signal.SIGHUP, lambda: _reload(server, reload))
    server.run()
    log.info("server stopped")
    lines.close()
    return 0


def _listen(server: Server, address: Address) -> str:
    host = address.host or "0.0.0.0"  # noqa: S104 - an address without a host is every interface, as the operator wrote
    port = server.listen(host, address.port)
    return f"{host}:{port}"


def _reload(server: Server, reload: Callable[[], Config]) -> None:
    """Take over what can change while connections are open; a wrong file changes nothing."""
    log = get_logger()
    try:
        server.station.apply(settings_of(reload()))
    except ConfigError as error:
        log.warning("configuration not reloaded", reason=str(error))
    else:
        log.info("configuration reloaded")


def _tune_interpreter() -> None:
    # Everything made while starting stays; a full collection walks every live message of every log, so they are rare.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
