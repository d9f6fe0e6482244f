"""Log lines about pushes.

What is told holds no key: an address is the one that may be shown, and reasons were cleaned where they came from.
"""

from penstock.amf import printable
from penstock.logs import get_logger
from penstock.serve.pushing.push import Push, PushListener


class PushLog(PushListener):
    """Log lines about pushes. The backoff bounds how many come."""

    def __init__(self) -> None:
        self._log = get_logger()

    def push_started(self, push: Push) -> None:
        self._log.info("Push started", **_fields(push), address=push.target.address.shown)

    def push_changed(self, push: Push) -> None:
        match push.state.value:
            case "live":
                self._log.info("Push live", **_fields(push), attempts=push.attempts)
            case "retrying":
                self._log.warning(
                    "Push failed",
                    **_fields(push),
                    reason=push.last_error,
                    attempts=push.attempts,
                    retry_in_s=round(push.retry_in_s, 1),
                )
            case "stopped":
                self._log.warning("Push refused", **_fields(push), reason=push.last_error)
            case _:
                pass

    def push_stopped(self, push: Push, reason: str) -> None:
        self._log.info("Push stopped", **_fields(push), reason=reason, bytes=push.sent_bytes, skips=push.skips)


def _fields(push: Push) -> dict[str, str]:
    return {"target": push.target.name, "stream_key": printable(push.live_stream.key)}
