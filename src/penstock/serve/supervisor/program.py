"""The server as a program: configuration in, a supervisor with its children, exit status out.

Owns what is taken before anything starts (locks, addresses), what signals do, and what is said at start and end.
"""

import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock import __version__
from penstock.config import Config
from penstock.config_sources import LoadedConfig
from penstock.config_units import Address
from penstock.control.allowance import is_loopback
from penstock.control.messages import NOBODY
from penstock.errors import ConfigError
from penstock.logs import configure_logs, get_logger, is_for_programs
from penstock.serve.reactor import Reactor
from penstock.serve.supervisor.cgroup import usable_cores
from penstock.serve.supervisor.children import Patience
from penstock.serve.supervisor.control_socket import ControlSocket, is_served
from penstock.serve.supervisor.folder_locks import lock_data, lock_recordings
from penstock.serve.supervisor.listeners import bind, inherited_listeners
from penstock.serve.supervisor.notify import Notifier
from penstock.serve.supervisor.supervisor import Supervisor
from penstock.serve.welcome import welcome

_LEFTOVERS_S: Final = 35.0
"""Workers whose supervisor was killed end within 30 s."""
_FOLDER_MODES: Final = {"private": 0o700, "group": 0o750, "world": 0o755}
_FILE_MODES: Final = {"private": 0o600, "group": 0o640, "world": 0o644}
_OF_WEB: Final = "web_"
"""Before the scheme of the port that web has for itself."""

WORKER_COMMAND: Final = (sys.executable, "-m", "penstock.serve.worker")
WEB_COMMAND: Final = (sys.executable, "-m", "penstock.web")


def run(
    loaded: LoadedConfig,
    reload: Callable[[], LoadedConfig] | None = None,
    on_stop: Callable[[], None] = lambda: None,
    *,
    worker_command: tuple[str, ...] = WORKER_COMMAND,
    web_command: tuple[str, ...] = WEB_COMMAND,
    patience: Patience | None = None,
) -> int:
    """Serve until a signal says otherwise. `on_stop` is called for each that does, on the loop."""
    config = loaded.config
    lines = configure_logs(config.logs.level, config.logs.format)
    log = get_logger()
    descriptors = _raise_descriptor_limit()
    log.info("capacity", max_descriptors=descriptors, max_connections=config.limits.max_connections)
    reactor = Reactor(lambda error: log.error("Internal error", exc_info=error))
    locks: list[int] = []
    supervisor: Supervisor | None = None
    control: ControlSocket | None = None
    try:
        locks += _lock_folders(config)
        notifier = Notifier(os.environ, os.getpid())
        workers = usable_cores() if config.server.workers == "auto" else config.server.workers
        commands = dict.fromkeys(range(1, workers + 1), worker_command)
        addresses: dict[str, tuple[str, int]] = {}

        def on_started() -> None:
            where = {
                name: f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                for name, (host, port) in addresses.items()
            }
            log.info("server started", version=__version__, data=str(config.server.data_dir), workers=workers, **where)
            if not is_for_programs(config.logs.format):
                lines.write(welcome(addresses, config.server.data_dir, config.recording.streams))
            notifier.ready()

        listening = _listen(config)
        web_listener = next((listener for name, listener in listening if name.startswith(_OF_WEB)), None)
        if web_listener is not None or any(name.startswith("http") for name, _ in listening):
            commands[NOBODY] = web_command
        supervisor = Supervisor(
            reactor,
            loaded,
            commands,
            pid=os.getpid(),
            patience=patience or Patience(),
            on_started=on_started,
            locks=tuple(locks),
            web_listener=web_listener,
        )
        for name, listener in listening:
            if listener is not web_listener:
                supervisor.listeners.add(name, listener)
            addresses.setdefault(name, listener.getsockname()[:2])
        if not config.access:
            _say_open(listening)
        control = ControlSocket(reactor, config.server.data_dir, _answers(supervisor))
        _heed_signals(reactor, supervisor, notifier, reload, on_stop)
        supervisor.start()
        reactor.run()
        if supervisor.failure is not None:
            raise ConfigError(supervisor.failure)
    finally:
        if control is not None:
            control.close()
        if supervisor is not None:
            supervisor.close()
            log.info("server stopped")
        for descriptor in locks:
            os.close(descriptor)
        reactor.close()
        lines.close()
    return 0


def _heed_signals(
    reactor: Reactor,
    supervisor: Supervisor,
    notifier: Notifier,
    reload: Callable[[], LoadedConfig] | None,
    on_stop: Callable[[], None],
) -> None:
    def stop() -> None:
        notifier.stopping()
        on_stop()
        supervisor.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        reactor.on_signal(number, stop)
    supervisor.on_drained = stop
    if reload is not None:

        def take_over() -> str | None:
            notifier.reloading()
            complaint = supervisor.reload(reload)
            notifier.ready()
            return complaint

        def on_hang_up() -> None:
            take_over()

        reactor.on_signal(signal.SIGHUP, on_hang_up)
        supervisor.reload_as_asked = take_over
    watchdog_s = notifier.watchdog_s
    if watchdog_s is not None:

        def ping() -> None:
            notifier.alive()
            reactor.call_later(watchdog_s, ping)

        ping()


def _answers(supervisor: Supervisor) -> Callable[[dict[str, object]], dict[str, object]]:
    def answer(question: dict[str, object]) -> dict[str, object]:
        if question.get("ask") == "status":
            return supervisor.status()
        return {"error": f"unknown question: {question.get('ask')!r}"}

    return answer


def _lock_folders(config: Config) -> list[int]:
    """One server to a data folder, and one to a folder of recordings."""
    data, mode = config.server.data_dir, config.server.data_mode
    _make_folder(data, _FOLDER_MODES[mode], "server.data_dir")
    wait_s = 0.0 if is_served(data) else _LEFTOVERS_S
    locks = [lock_data(data, wait_s, lambda: get_logger().warning("workers of a lost server are waited for"))]
    if config.recording.streams:
        _make_folder(config.recordings_dir, _FOLDER_MODES[mode], "recording.folder")
        try:
            locks.append(lock_recordings(config.recordings_dir, _FILE_MODES[mode]))
        except ConfigError:
            os.close(locks[0])
            raise
    return locks


def _make_folder(folder: Path, mode: int, key: str) -> None:
    try:
        for each in (*reversed(folder.parents), folder):
            each.mkdir(mode, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{key}: cannot make {folder}: {error.strerror}") from error


def _listen(config: Config) -> list[tuple[str, socket.socket]]:
    """What systemd gives us, and what we bind ourselves of the rest."""
    listening = inherited_listeners(os.environ, os.getpid())
    given = {name for name, _ in listening}
    wanted = [("rtmp", "rtmp.listen", config.rtmp.listen)]
    if config.tls.listen is not None:
        wanted.append(("rtmps", "tls.listen", config.tls.listen))
    scheme = "http" if config.http.cert is None else "https"
    if config.http.listen is not None:
        wanted.append((scheme, "http.listen", config.http.listen))
    if config.http.web_listen is not None:
        wanted.append((_OF_WEB + scheme, "http.web_listen", config.http.web_listen))
    for name, key, address in wanted:
        if name in given:
            continue
        try:
            listening.append((name, bind(_host(address), address.port)))
        except OSError as error:
            for _, listener in listening:
                listener.close()
            raise ConfigError(f"{key}: cannot listen at {address}: {error.strerror}") from error
    return listening


def _say_open(listening: list[tuple[str, socket.socket]]) -> None:
    """Whoever serves strangers without rules should know it."""
    names = [(name, listener.getsockname()[:2]) for name, listener in listening if name.startswith("rtmp")]
    beyond = {name: f"{host}:{port}" for name, (host, port) in names if not is_loopback(host)}
    if beyond:
        get_logger().warning("anybody who reaches this server may publish and play: there is no [access]", **beyond)


def _host(address: Address) -> str:
    return address.host or "0.0.0.0"  # noqa: S104 - an address without a host is every interface, as the operator wrote


def _raise_descriptor_limit() -> int:
    """All that the system allows, for the children, which inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
