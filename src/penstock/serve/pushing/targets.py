"""Where targets come from: the configuration, and operators who add some through the API.

Owns how the two are joined. The configuration wins where both use a name. A key that cannot be read leaves the targets
of the configuration as they were.
"""

from collections.abc import Callable, Iterable, Mapping

from penstock.config import Config
from penstock.config_secrets import push_key
from penstock.control.live import Pushes
from penstock.errors import ConfigError, MalformedInput
from penstock.logs import get_logger
from penstock.pushes.address import read_push_address
from penstock.serve.pushing.target import PushTarget


def targets_of(config: Config, environment: Mapping[str, str]) -> list[PushTarget]:
    """Those of the configuration. A key that cannot be read raises ConfigError."""
    return [PushTarget(each.name, each.streams, each.address, push_key(each, environment)) for each in config.push]


class Targets:
    """All targets that are in force."""

    def __init__(self, configure: Callable[[Iterable[PushTarget]], None]) -> None:
        """`configure` is told all of them whenever they change."""
        self._configure = configure
        self._configured: list[PushTarget] = []
        self._added: list[PushTarget] = []

    def apply(self, config: Config, environment: Mapping[str, str]) -> None:
        """Go by this configuration from now on."""
        try:
            self._configured = targets_of(config, environment)
        except ConfigError as error:
            # It was read a moment ago by another process, so it is being changed.
            get_logger().warning("pushes go on by the configuration before", reason=str(error))
        self._tell()

    def set_added(self, pushes: Pushes) -> None:
        """Web tells all those that were added."""
        added = []
        for each in pushes.targets:
            try:
                address = read_push_address(each.url, has_key=each.key is not None)
            except MalformedInput as fault:
                get_logger().error("push target left out", target=each.name, reason=str(fault))
            else:
                added.append(PushTarget(each.name, tuple(each.streams), address, each.key))
        self._added = added
        self._tell()

    def _tell(self) -> None:
        names = {target.name for target in self._configured}
        self._configure([*self._configured, *(target for target in self._added if target.name not in names)])
