"""Once a second: who keeps us waiting too long is closed with a reason, and quiet peers are pinged."""

import struct

import pytest

from penstock.serve.connections.media_connection import MediaConnection
from penstock.serve.settings import AppSettings, ServerSettings
from penstock.serve.streams.reaper import Reaper
from tests.serve.fake_peer import HELLO, FakePeer, audio, codes, ping, video
from tests.serve.streams.stage import Stage
from tests.support.hostile_clients import GREETING, USER_CONTROL, command, connect_command, control, full_header

PONG = control(USER_CONTROL, struct.pack(">HI", 7, 0))


def reaping(settings: ServerSettings | None = None, app: AppSettings | None = None) -> Stage:
    on = Stage(settings, app)
    on.reaper.start()
    return on


def keep_alive(on: Stage, peer: FakePeer, seconds: int) -> None:
    """Let time pass while a peer says just enough not to be silent."""
    for _ in range(seconds):
        peer.transport.feed(PONG)
        on.loop.advance(1.0)


def pings(peer: FakePeer) -> int:
    return sum(each.type_id == 4 and each.payload[:2] == b"\x00\x06" for each in peer.hear())


# Deadlines of connections.


def test_a_handshake_has_five_seconds() -> None:
    on = reaping()
    quiet, half = on.peer(), on.peer()
    half.say(GREETING)
    on.loop.advance(4.9)
    assert on.notes.closings == {}
    on.loop.advance(0.2)
    assert on.why_closed(quiet) == on.why_closed(half) == "handshake not finished in 5 s"


def test_a_connect_has_thirty_seconds_from_the_opening_on() -> None:
    on = reaping()
    peer = on.peer()
    on.loop.advance(3.0)
    peer.say(HELLO)
    keep_alive(on, peer, 26)
    assert not on.is_closed(peer)
    keep_alive(on, peer, 1)
    assert on.why_closed(peer) == "no connect within 30 s"


def test_one_that_has_connected_has_done_so_for_good() -> None:
    on = reaping()
    peer = on.peer()
    peer.say(HELLO, connect_command())
    keep_alive(on, peer, 40)
    assert not on.is_closed(peer)


def test_one_of_whom_nothing_is_heard_for_thirty_seconds_is_closed() -> None:
    on = reaping()
    peer = on.peer().connected()
    on.loop.advance(29.5)
    assert not on.is_closed(peer)
    on.loop.advance(1.0)
    assert on.why_closed(peer) == "nothing heard for 30 s"


def test_one_that_answers_pings_stays() -> None:
    on = reaping()
    peer = on.peer().connected()
    for _ in range(200):
        on.loop.advance(1.0)
        if pings(peer):
            peer.say(PONG)
    assert not on.is_closed(peer)


def test_answers_that_are_not_read_for_ten_seconds_end_the_connection() -> None:
    on = reaping()
    peer = on.peer().connected()
    peer.transport.room_bytes = 0
    peer.say(ping())
    keep_alive(on, peer, 9)
    assert not on.is_closed(peer)
    keep_alive(on, peer, 2)
    assert on.why_closed(peer) == "answers not read for 10 s"


def test_answers_that_are_read_in_the_end_are_no_reason() -> None:
    on = reaping()
    peer = on.peer().connected()
    peer.transport.room_bytes = 0
    peer.say(ping())
    keep_alive(on, peer, 9)
    peer.transport.room_bytes = 10**9
    keep_alive(on, peer, 9)
    assert not on.is_closed(peer)


def test_a_message_that_does_not_end_in_ten_seconds_ends_the_connection() -> None:
    on = reaping()
    peer = on.peer().connected()
    peer.say(full_header(8, 20, 1000) + bytes(128))
    keep_alive(on, peer, 9)
    assert not on.is_closed(peer)
    keep_alive(on, peer, 1)
    assert on.why_closed(peer) == "a message not finished in 10 s"


def test_one_that_is_slowed_down_for_five_seconds_is_closed_and_told_of() -> None:
    on = reaping(ServerSettings(max_messages_per_s=100))
    peer = on.peer().connected()
    peer.say(ping() * 20_000)
    on.loop.advance(4.5)
    assert not on.is_closed(peer)
    on.loop.advance(1.0)
    assert on.why_closed(peer) == "too fast for 5 s: messages"
    assert on.notes.limits == ["messages"]


def test_one_that_was_slowed_down_once_stays() -> None:
    on = reaping(ServerSettings(max_messages_per_s=100))
    peer = on.peer().connected()
    peer.say(ping() * 550)
    assert peer.connection.rates.limit == "messages"
    keep_alive(on, peer, 60)
    assert not on.is_closed(peer)


# Pings.


def test_a_quiet_peer_is_pinged_each_ten_seconds_and_one_that_sends_each_sixty() -> None:
    on = reaping()
    quiet, busy = on.peer().connected(), on.publisher()
    counts = [0, 0]
    for second in range(120):
        busy.transport.feed(audio(second * 1000))
        if counts[0] and second % 10 == 5:
            quiet.say(PONG)
        on.loop.advance(1.0)
        counts[0] += pings(quiet)
        counts[1] += pings(busy)
    assert 7 <= counts[0] <= 12
    assert counts[1] == 2


def test_nobody_is_pinged_before_its_connect() -> None:
    on = reaping()
    peer = on.peer()
    peer.say(HELLO)
    on.loop.advance(15.0)
    assert pings(peer) == 0
    assert not on.is_closed(peer)


def test_the_answer_to_a_ping_is_read_at_once_and_tells_how_far_away_a_peer_is() -> None:
    on = reaping()
    publisher = on.publisher()
    assert publisher.transport.descriptor in on.loop.paces
    on.broker.ping(publisher.connection)
    assert publisher.transport.descriptor not in on.loop.paces
    (request,) = [each for each in publisher.hear() if each.type_id == 4 and each.payload[1] == 6]
    publisher.say(control(USER_CONTROL, b"\x00\x07" + request.payload[2:]))
    assert publisher.connection.round_trip_ms is not None
    assert publisher.connection.round_trip_ms < 60_000
    assert publisher.transport.descriptor in on.loop.paces


def test_viewers_that_have_settled_are_read_with_others_from_the_next_second_on() -> None:
    on = reaping()
    on.publisher().say(video(0, is_key=True))
    viewer = on.viewer()
    assert viewer.transport.descriptor not in on.loop.paces
    on.loop.advance(3.0)
    assert viewer.transport.descriptor in on.loop.paces


# Viewers.


def watched(on: Stage) -> tuple[FakePeer, FakePeer]:
    """A publisher and its viewer, who is in step."""
    publisher = on.publisher()
    publisher.say(video(0, is_key=True))
    viewer = on.viewer()
    assert on.viewer_of(viewer).is_in_step
    return publisher, viewer


def go_on(on: Stage, publisher: FakePeer, viewer: FakePeer, seconds: int) -> None:
    """A frame each second, and a viewer that is alive."""
    for second in range(seconds):
        publisher.transport.feed(video(second * 1000, bytes(1000), is_key=True))
        viewer.transport.feed(PONG)
        on.loop.advance(1.0)


def test_a_viewer_that_takes_no_whole_message_is_warned_of_and_then_closed() -> None:
    on = reaping()
    publisher, viewer = watched(on)
    viewer.transport.room_bytes = 0
    go_on(on, publisher, viewer, 4)
    assert on.notes.stalls == []
    go_on(on, publisher, viewer, 2)
    assert on.notes.stalls == [on.viewer_of(viewer)]
    go_on(on, publisher, viewer, 3)
    assert not on.is_closed(viewer)
    go_on(on, publisher, viewer, 2)
    assert on.why_closed(viewer) == "no whole message delivered in 10 s"
    assert len(on.notes.stalls) == 1, "once is enough"


@pytest.mark.parametrize("room_bytes", [1017, 1500], ids=["whole messages", "some more"])
def test_a_viewer_that_takes_a_message_now_and_then_stays(room_bytes: int) -> None:
    on = reaping()
    publisher, viewer = watched(on)
    viewer.transport.room_bytes = 0
    for _ in range(10):
        go_on(on, publisher, viewer, 4)
        viewer.transport.room_bytes = room_bytes
    assert not on.is_closed(viewer)


def test_a_viewer_that_stalls_again_is_warned_of_again() -> None:
    on = reaping()
    publisher, viewer = watched(on)
    viewer.transport.room_bytes = 0
    for _ in range(2):
        go_on(on, publisher, viewer, 7)
        viewer.transport.room_bytes = 1017
    assert len(on.notes.stalls) == 2


def test_a_filtered_viewer_that_never_has_everything_stays_while_it_takes_some() -> None:
    on = reaping()
    publisher, viewer = watched(on)
    viewer.say(command("receiveAudio", 0.0, None, False, stream_id=1))
    viewer.transport.room_bytes = 0
    for second in range(30):
        publisher.transport.feed(video(second * 1000, bytes(200_000), is_key=second % 5 == 0))
        viewer.transport.feed(PONG)
        viewer.transport.room_bytes += 50_000
        on.loop.advance(1.0)
    assert on.viewer_of(viewer).position < on.stream().log.head
    assert not on.is_closed(viewer)


def test_a_viewer_in_step_of_a_stream_that_sends_nothing_stays() -> None:
    on = reaping()
    publisher, viewer = watched(on)
    for _ in range(25):
        publisher.transport.feed(PONG)
        keep_alive(on, viewer, 1)
    assert not on.is_closed(viewer)


@pytest.mark.parametrize("wants", ["receiveAudio", "receiveVideo"])
def test_a_filtered_viewer_that_has_everything_of_a_stream_that_sends_nothing_stays(wants: str) -> None:
    on = reaping()
    publisher, viewer = watched(on)
    viewer.say(command(wants, 0.0, None, False, stream_id=1))
    for _ in range(25):
        publisher.transport.feed(PONG)
        keep_alive(on, viewer, 1)
    assert not on.is_closed(viewer)
    assert on.notes.stalls == []


def test_a_viewer_that_waits_for_a_key_frame_begins_without_one_after_a_while() -> None:
    on = reaping(app=AppSettings(keyframe_wait_s=3.0))
    publisher = on.publisher()
    publisher.say(video(0, b"i0"))
    viewer = on.viewer()
    for second in range(1, 6):
        publisher.transport.feed(video(second * 1000, b"i%d" % second))
        on.loop.advance(1.0)
    bodies = [each.payload[5:] for each in viewer.hear() if each.type_id == 9]
    assert bodies[-1] == b"i5"
    assert b"i1" not in bodies


# The walk.


def test_it_tells_each_second_that_it_has_passed() -> None:
    on = reaping()
    on.loop.advance(7.5)
    assert on.notes.seconds == 7


class Looking(Reaper):
    """Writes down whom it looks at."""

    def __init__(self, on: Stage) -> None:
        super().__init__(on.broker, on.loop)
        self.looked_at: list[str] = []

    def look_at(self, connection: MediaConnection, now: float) -> None:
        self.looked_at.append(connection.id)


def test_a_walk_over_many_gives_way_and_goes_on_where_it_was() -> None:
    on = Stage()
    for _ in range(100):
        on.peer()
    reaper = Looking(on)
    reaper.start()
    on.loop.look_costs_s = 0.0021
    on.loop.pass_time(1.0)
    on.loop.run_turns()
    assert len(reaper.looked_at) == 32, "it looks at the clock after so many"
    for _ in range(3):
        on.loop.run_turns()
    assert reaper.looked_at == list(on.broker.connections)
    assert on.loop.queued_turns == 0


def test_a_walk_that_is_not_done_in_a_second_is_not_begun_anew() -> None:
    on = Stage()
    for _ in range(50):
        on.peer()
    reaper = Looking(on)
    reaper.start()
    on.loop.look_costs_s = 1.0
    on.loop.pass_time(1.0)
    on.loop.run_turns()
    on.loop.pass_time(1.0)
    on.loop.run_turns()
    assert reaper.looked_at == list(on.broker.connections)


def test_one_that_was_closed_since_the_walk_began_is_passed_over() -> None:
    on = reaping()
    peers = [on.peer() for _ in range(3)]
    on.loop.pass_time(1.0)
    peers[1].connection.close("gone")
    on.loop.pass_time(10.0)
    on.loop.run_turns()
    assert on.why_closed(peers[1]) == "gone"
    assert on.why_closed(peers[2]) == "handshake not finished in 5 s"


def test_one_that_is_lost_while_it_is_told_that_it_waited_in_vain_costs_nobody_else() -> None:
    on = reaping(app=AppSettings(play_wait_s=3.0))
    lost, other = on.peer().with_streams(2), on.peer().with_streams()
    assert lost.play("a", stream_id=1) == lost.play("a", stream_id=2) == other.play("a") == []
    lost.transport.fault = ConnectionResetError(104, "Connection reset by peer")
    on.loop.advance(4.0)
    assert on.why_closed(lost) == "connection lost: Connection reset by peer"
    assert codes(other.hear()) == ["NetStream.Play.StreamNotFound"]


def test_many_streams_do_not_end_in_one_go() -> None:
    on = Stage(app=AppSettings(grace_s=0.5))
    for number in range(40):
        on.publisher(f"s{number}").hang_up()
    on.reaper.start()
    on.loop.look_costs_s = 0.0021
    on.loop.pass_time(1.0)
    on.loop.run_turns()
    assert len(on.broker.streams) == 8
    on.loop.run_turns()
    assert on.broker.streams == {}
