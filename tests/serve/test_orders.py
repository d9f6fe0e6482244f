"""What web orders of a worker: by real links to parts on a stage."""

import socket
from typing import cast

from penstock.access.policy import Policy
from penstock.control.live import AccessAnswer, Blocks, DeleteRecording, Kick, SetRecording
from penstock.serve.links.web_link import WebLink
from penstock.serve.orders import Orders
from penstock.serve.recording.recorder import Recorder
from penstock.serve.streams.live_stream import LiveStream
from tests.serve.fake_peer import codes, video
from tests.serve.fakes import START, FakeLoop
from tests.serve.streams.access.gate_stage import GateStage, app_access, heard
from tests.serve.streams.stage import Stage


class FakeRecorder:
    """Writes orders down."""

    def __init__(self) -> None:
        self.orders: list[object] = []

    def set_recording(self, live_stream: LiveStream, *, is_recording: bool) -> None:
        self.orders.append((live_stream.key, is_recording))

    def delete(self, recording_id: str, segment: int) -> None:
        self.orders.append((recording_id, segment))


def orders_for(on: Stage, recorder: FakeRecorder | None = None) -> Orders:
    return Orders(on.broker, cast("Recorder | None", recorder), lambda _view_id: None)


def test_a_kicked_connection_is_gone_with_all_it_does() -> None:
    on = Stage()
    publisher, viewer = on.publisher("a"), on.viewer("a")
    orders = orders_for(on)
    orders.kick(Kick(conn_id=publisher.connection.id, view_id=None))
    on.loop.settle()
    assert on.why_closed(publisher) == "kicked"
    assert not on.is_closed(viewer)
    assert heard(viewer)[-1] == "NetStream.Play.Stop"


def test_a_connection_that_has_another_name_since_the_clock_was_set_is_kicked_by_it() -> None:
    on = Stage()
    viewer = on.viewer("a")
    orders_for(on).kick(Kick(conn_id=f"{viewer.connection.id}~2", view_id=None))
    on.loop.settle()
    assert on.why_closed(viewer) == "kicked"


def test_a_kicked_view_ends_and_with_the_last_one_its_connection() -> None:
    on = Stage()
    on.publisher("a").say(video(0, b"p0", is_key=True))
    viewer = on.peer().with_streams(2)
    viewer.play("a")
    viewer.play("a", stream_id=2)
    orders = orders_for(on)
    views = {"v1": on.viewer_of(viewer), "v2": on.viewer_of(viewer, 2)}
    orders.viewer_of = views.get
    orders.kick(Kick(conn_id=None, view_id="v1"))
    on.loop.settle()
    assert codes(viewer.hear())[-1] == "NetStream.Play.Failed"
    assert list(viewer.connection.plays) == [2]
    assert "live/a left: kicked" in on.notes.heard
    orders.kick(Kick(conn_id=None, view_id="v2"))
    on.loop.settle()
    assert on.why_closed(viewer) == "kicked"


def test_nobody_is_kicked_by_a_name_that_nobody_has() -> None:
    on = Stage()
    viewer = on.viewer("a")
    orders = orders_for(on)
    orders.kick(Kick(conn_id="c-9", view_id=None))
    orders.kick(Kick(conn_id=None, view_id="v-9"))
    orders.kick(Kick(conn_id=None, view_id=None))
    on.loop.advance(1)
    assert not on.is_closed(viewer)


def test_recordings_are_the_recorders_matter_and_streams_elsewhere_those_of_others() -> None:
    on = Stage()
    recorder = FakeRecorder()
    orders = orders_for(on, recorder)
    on.publisher("a")
    orders.set_recording(SetRecording("live", "a", is_recording=False))
    orders.set_recording(SetRecording("live", "b", is_recording=False))
    on.stream("a").epoch = None
    orders.set_recording(SetRecording("live", "a", is_recording=True))
    orders.delete_recording(DeleteRecording("r1", 2))
    assert recorder.orders == [("live/a", False), ("r1", 2)]


def test_a_server_that_records_nothing_deletes_nothing() -> None:
    on = Stage()
    on.publisher("a")
    orders = orders_for(on)
    orders.set_recording(SetRecording("live", "a", is_recording=True))
    orders.delete_recording(DeleteRecording("r1", 2))


class Handlers(WebLink):
    """A link without a process behind it."""

    def __init__(self) -> None:
        super().__init__(FakeLoop())

    def hear(self, message: object) -> None:
        self._handlers[type(message)](message)


def test_answers_and_blocks_go_to_the_gatekeeper_and_its_questions_to_web() -> None:
    on = GateStage(app_access(["jwt"]))
    web = Handlers()
    orders_for(on).listen(web)
    peer = on.peer().with_streams()
    peer.publish("a?token=x.y.z")
    near, far = socket.socketpair()
    web.take(near)
    assert b"x.y.z" in far.recv(4096), "asked as soon as there is a web process"
    web.hear(AccessAnswer(1, is_allowed=True, has_credentials=True, rule="jwt"))
    on.loop.settle()
    assert heard(peer) == ["NetStream.Publish.Start"]
    web.hear(Blocks({"192.0.2.1": START + 100}, {}))
    on.loop.advance(2)
    assert on.why_closed(peer) == "blocked"
    on.gatekeeper.apply(Policy())
    web.close()
    far.close()
