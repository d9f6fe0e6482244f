"""What becomes of pushes, as facts."""

from penstock import facts
from penstock.serve.pushing.push import Push, PushListener
from penstock.serve.telemetry.facts_writer import FactsWriter
from penstock.serve.telemetry.told_sessions import names_of, text


class PushFacts(PushListener):
    """Tells facts of pushes: that one began, what state it is in, that it is over."""

    def __init__(self, writer: FactsWriter) -> None:
        self._writer = writer
        self._ids: dict[Push, str] = {}

    def push_started(self, push: Push) -> None:
        """A stream is to be sent to a target."""
        fact = facts.PushStarted(push.target.name, push.target.address.shown, *_stream_of(push))
        self._ids[push] = self._writer.emit(fact)

    def push_changed(self, push: Push) -> None:
        """Its state is another one."""
        push_id = self._ids.get(push)
        if push_id is not None:
            error = None if push.last_error is None else text(push.last_error)
            self._writer.emit(
                facts.PushState(
                    push_id,
                    push.target.name,
                    *_stream_of(push),
                    push.state.value,
                    push.attempts,
                    error,
                    push.sent_bytes,
                )
            )

    def push_stopped(self, push: Push, reason: str) -> None:
        """It is over."""
        push_id = self._ids.pop(push, None)
        if push_id is not None:
            duration_us = max(0, self._writer.clock.mono_us() - round(push.started_at * 1_000_000))
            self._writer.emit(
                facts.PushStopped(
                    push_id,
                    push.target.name,
                    *_stream_of(push),
                    text(reason),
                    duration_us,
                    push.attempts,
                    push.sent_bytes,
                    push.skips,
                )
            )


def _stream_of(push: Push) -> tuple[str, str]:
    return names_of(push.live_stream.app_name, push.live_stream.key)
