"""The landed facts of a server on their way to a lake elsewhere (`[ship]`), beside the server.

Owns the rhythm and the words: a round every so often and one at the end, when the server has flushed its last facts. A
target that cannot be reached is told once, and the files wait. They are copied by pyarrow, outside of Python's lock.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from penstock.commands.extra_packages import missing_package
from penstock.commands.stopping import Stops
from penstock.config import Config
from penstock.errors import PipelineError
from penstock.logs import configure_logs, get_logger

_LAST_ROUND_S: Final = 30.0


@contextlib.contextmanager
def shipping(config: Config, to: str) -> Iterator[Stops]:
    """Ship for as long as the server runs in the block, and what it lands when it ends; told when it is to end."""
    # The server opens its log late and closes it early, and there may be words before and after.
    configure_logs(config.logs.level, config.logs.format)
    stops = Stops()
    shipper = Shipping(config, to, stops)
    shipper.start()
    try:
        yield stops
    finally:
        last_words = configure_logs(config.logs.level, config.logs.format)
        with stops.heard():
            shipper.stop()
        last_words.close()


class Shipping:
    """Ships in a thread; `stop` once the server has flushed its facts."""

    def __init__(self, config: Config, to: str, stops: Stops) -> None:
        self._landing = config.facts_dir
        self._to = to
        self._every_s = config.ship.every_s
        self._kept_us = round(config.retention.landing_s * 1_000_000)
        self._stops = stops
        self._is_stopping = threading.Event()
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ship what landed last, and end; or end at once, if that is asked for."""
        self._is_stopping.set()
        if not self._stops.wait_for(self._has_ended, _LAST_ROUND_S):
            reason = "was not waited for" if self._stops.is_at_once.is_set() else "takes too long to end"
            get_logger().warning(f"shipping {reason}: what is left is shipped at the next start")

    def _has_ended(self, wait_s: float) -> bool:
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            # Loaded here: the server starts without waiting for it.
            from penstock.pipeline.lake.storage import Storage
            from penstock.pipeline.ops.ship import ship_landed
        except ImportError as error:
            reason = missing_package(error) or f"an import failed: {error}"
            get_logger().warning("facts are not shipped: they stay here", reason=reason)
            return
        is_last = False
        while not is_last:
            is_last = self._is_stopping.wait(self._every_s)
            try:
                shipped = ship_landed(
                    Storage(self._landing), Storage(self._to), time.time_ns() // 1000, kept_us=self._kept_us
                )
            # pyarrow has errors of its own for addresses that it cannot use.
            except (PipelineError, OSError, ValueError) as error:
                self._tell_trouble(str(error))
                continue
            if self._trouble is not None:
                self._trouble = None
                get_logger().info("facts are shipped again", to=self._to)
            if shipped.files:
                get_logger().debug("facts shipped", files=shipped.files, bytes=shipped.bytes, to=self._to)

    def _tell_trouble(self, trouble: str) -> None:
        # The message names the file, which is the same one as long as it cannot be sent.
        if trouble != self._trouble:
            get_logger().warning("facts are not shipped and wait here", reason=trouble)
        self._trouble = trouble
