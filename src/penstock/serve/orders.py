"""What web orders of a worker: whom to send away, whom not to let in, what to record, which files to delete and where
streams are sent on to.

Owns which part obeys which order. Web sends orders to the worker that has what they are about; nothing comes of one
about what is not here any more.
"""

from collections.abc import Callable
from typing import Final

from penstock.control.live import AccessAnswer, Blocks, DeleteRecording, Kick, Pushes, SetRecording
from penstock.logs import get_logger
from penstock.serve.links.web_link import WebLink
from penstock.serve.recording.recorder import Recorder
from penstock.serve.streams.broker import Broker
from penstock.serve.streams.viewer import Viewer

KICKED: Final = "kicked"
_CLOCK_STEP: Final = "~"
"""Before the number of a clock step, in ids that facts give to what goes on."""


class Orders:
    """Obeys what web says."""

    def __init__(
        self,
        broker: Broker,
        recorder: Recorder | None,
        viewer_of: Callable[[str], Viewer | None],
        set_pushes: Callable[[Pushes], None] = lambda _pushes: None,
    ) -> None:
        """`viewer_of`: who watches under a view_id. `set_pushes` takes the targets that operators have added."""
        self._broker = broker
        self._recorder = recorder
        self.viewer_of = viewer_of
        self._set_pushes = set_pushes

    def listen(self, web: WebLink) -> None:
        """Hear orders and answers from web, and ask it what the rules need it for."""
        gatekeeper = self._broker.gatekeeper
        gatekeeper.ask_web = web.send
        gatekeeper.is_web_busy = lambda: web.is_congested
        web.on_linked.append(gatekeeper.ask_again)
        web.handle(AccessAnswer, gatekeeper.answered)
        web.handle(Blocks, gatekeeper.block)
        web.handle(Kick, self.kick)
        web.handle(SetRecording, self.set_recording)
        web.handle(DeleteRecording, self.delete_recording)
        web.handle(Pushes, self._set_pushes)

    def kick(self, order: Kick) -> None:
        """A connection, or one of its views, is to be gone."""
        if order.conn_id is not None:
            connection = self._broker.connections.get(order.conn_id.partition(_CLOCK_STEP)[0])
            if connection is not None:
                self._broker.dismiss(connection, KICKED)
        elif order.view_id is not None:
            viewer = self.viewer_of(order.view_id)
            if viewer is not None:
                self._broker.playing.end(viewer, KICKED)

    def set_recording(self, order: SetRecording) -> None:
        """A stream that this worker has is to be recorded, or not."""
        stream = self._broker.streams.get(f"{order.app}/{order.stream}")
        if stream is not None and stream.epoch is not None and self._recorder is not None:
            self._recorder.set_recording(stream, is_recording=order.is_recording)

    def delete_recording(self, order: DeleteRecording) -> None:
        """A finished file is to go."""
        if self._recorder is None:
            get_logger().warning("recording not deleted: this server records nothing", recording_id=order.recording_id)
        else:
            self._recorder.delete(order.recording_id, order.segment)
