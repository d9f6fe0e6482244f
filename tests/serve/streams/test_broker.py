"""The rules between connections: who may connect, publish and play, who waits, takeover and grace."""

import pytest

from penstock.serve.settings import AppSettings
from tests.serve.fake_peer import HELLO, FakePeer, audio, codes, media, ping, video
from tests.serve.streams.stage import Stage
from tests.support.hostile_clients import command, connect_command, message

STARTED = ["NetStream.Publish.Start"]
PLAYING = ["NetStream.Play.Start"]
NO_WAIT = AppSettings(play_wait_s=0.0)


def bodies(peer: FakePeer) -> list[bytes]:
    """What came of media, without the bytes that say what it is."""
    return [payload[2 if payload[0] >> 4 == 10 else 5 :] for _, payload in media(peer.hear())]


# Connecting.


def test_a_connect_is_accepted_and_remembered() -> None:
    on = Stage()
    peer = on.peer()
    assert codes(peer.say(HELLO, connect_command("live"))) == ["NetConnection.Connect.Success"]
    assert (peer.connection.app, peer.connection.client) == ("live", "hostile")
    assert peer.connection.connected_at == peer.connection.handshaken_at == on.loop.now


@pytest.mark.parametrize("app", ["", "x" * 2000, "live?" + "q" * 5000])
def test_a_connect_to_no_app_or_too_long_a_one_is_refused_and_closed(app: str) -> None:
    on = Stage()
    peer = on.peer()
    heard = codes(peer.say(HELLO, connect_command(app)))
    assert heard == ["NetConnection.Connect.InvalidApp"]
    assert on.why_closed(peer) == "closed by the server"


@pytest.mark.parametrize("app", ["api", "watch", "api/v1"])
def test_an_app_in_the_way_of_webs_paths_is_refused_and_closed(app: str) -> None:
    on = Stage()
    peer = on.peer()
    assert codes(peer.say(HELLO, connect_command(app))) == ["NetConnection.Connect.InvalidApp"]
    assert on.why_closed(peer) == "closed by the server"


# Publishing and playing.


def test_what_is_published_is_played() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.peer().with_streams()
    assert viewer.play() == PLAYING
    assert media(viewer.messages) == [(0, b"\x17\x01\x00\x00\x00k0")]
    publisher.say(video(40, b"i1"))
    assert bodies(viewer) == [b"i1"]
    assert on.notes.heard == ["live/a published", "live/a played"]


def test_streams_of_the_same_name_in_two_apps_are_two_streams() -> None:
    on = Stage()
    on.publisher()
    other = on.peer().connected("other")
    other.say(command("createStream", 2.0, None))
    assert other.publish() == STARTED
    assert set(on.broker.streams) == {"live/a", "other/a"}


def test_data_reaches_viewers_and_metadata_taken_back_those_who_join_no_more() -> None:
    on = Stage()
    publisher = on.publisher()
    width = b"\x02\x00\x0aonMetaData\x08\x00\x00\x00\x01\x00\x05width" + bytes.fromhex("00 4094000000000000 000009")
    publisher.say(message(18, b"\x02\x00\x0d@setDataFrame" + width, csid=4, stream_id=1), video(0, is_key=True))
    viewer = on.viewer()
    assert any(b"width" in each.payload for each in viewer.messages)
    publisher.say(message(18, b"\x02\x00\x0f@clearDataFrame\x02\x00\x0aonMetaData", csid=4, stream_id=1))
    publisher.say(video(40, is_key=True))
    assert not any(b"width" in each.payload for each in on.viewer().messages)


def test_a_play_of_a_stream_that_is_not_there_waits_for_it() -> None:
    on = Stage()
    viewer = on.viewer()
    assert codes(viewer.messages)[-1] == "_result", "nothing is said to the play yet"
    publisher = on.publisher()
    assert codes(viewer.hear()) == PLAYING
    publisher.say(audio(0, b"a0"), video(0, b"k0", is_key=True), audio(20, b"a1"))
    assert bodies(viewer) == [b"a0", b"k0", b"a1"]


def test_a_play_waits_no_longer_than_the_setting() -> None:
    on = Stage(app=AppSettings(play_wait_s=5.0))
    on.reaper.start()
    viewer = on.viewer()
    on.loop.advance(4.9)
    assert viewer.hear() == []
    on.loop.advance(1.0)
    assert codes(viewer.hear()) == ["NetStream.Play.StreamNotFound"]
    on.loop.advance(2.0)
    assert viewer.hear() == []
    assert viewer.play("b") == [], "and may ask for another"
    on.publisher()
    assert viewer.hear() == []


def test_where_nobody_waits_a_stream_that_is_not_there_is_not_found() -> None:
    on = Stage(app=NO_WAIT)
    assert on.peer().with_streams().play() == ["NetStream.Play.StreamNotFound"]
    assert on.notes.heard == ["live/a left: stream not found"]


def test_plays_that_wait_count_as_viewers() -> None:
    on = Stage(app=AppSettings(max_viewers_per_stream=2))
    waiting = [on.viewer() for _ in range(2)]
    assert on.peer().with_streams().play() == ["NetStream.Play.Failed"]
    assert on.notes.limits == ["viewers per stream"]
    waiting[0].hang_up()
    assert on.peer().with_streams().play() == []
    on.publisher()
    assert on.peer().with_streams().play() == ["NetStream.Play.Failed"]


def test_those_who_waited_and_left_are_forgotten() -> None:
    on = Stage()
    viewer = on.viewer()
    viewer.close_stream()
    assert on.broker.table.waiting == {}
    on.publisher().say(video(0, is_key=True))
    assert viewer.hear() == []


def test_a_connection_has_room_for_eight_plays() -> None:
    on = Stage()
    peer = on.peer().with_streams(9)
    for stream_id in range(1, 9):
        assert peer.play(f"s{stream_id}", stream_id=stream_id) == []
    assert peer.play("s9", stream_id=9) == ["NetStream.Play.Failed"]
    assert on.notes.limits == ["plays per connection"]
    peer.close_stream(3)
    assert peer.play("s9", stream_id=9) == []
    peer.play("s9", stream_id=9)
    assert len(peer.connection.plays) == 8, "one anew on the same message stream takes the place of the first"


def test_a_connection_has_room_for_eight_publications() -> None:
    on = Stage()
    peer = on.peer().with_streams(9)
    for stream_id in range(1, 9):
        assert "NetStream.Publish.Start" in peer.publish(f"s{stream_id}", stream_id=stream_id)
    assert peer.publish("s9", stream_id=9) == ["NetStream.Publish.BadName"]
    assert on.notes.limits == ["publications per connection"]
    assert "live/s9" not in on.broker.streams


def test_a_second_play_on_a_connection_leaves_the_first_whole() -> None:
    on = Stage()
    one, two = on.publisher("one"), on.publisher("two")
    one.say(video(0, b"k1", is_key=True))
    two.say(video(0, b"k2", is_key=True))
    peer = on.peer().with_streams(2)
    peer.play("one", stream_id=1)
    assert on.viewer_of(peer, 1).is_in_step
    peer.play("two", stream_id=2)
    assert not on.viewer_of(peer, 1).is_in_step
    one.say(video(40, b"i1"))
    two.say(video(40, b"i2"))
    peer.hear()
    sent = [(each.stream_id, each.payload[5:]) for each in peer.messages if each.type_id == 9]
    assert sent == [(1, b"k1"), (2, b"k2"), (1, b"i1"), (2, b"i2")]
    peer.close_stream(2)
    assert on.viewer_of(peer, 1).is_in_step, "alone it is sent the shared encoding again"


def test_one_that_leaves_inside_a_message_gets_the_rest_of_it_before_anything_else() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer()
    viewer.hear()
    viewer.transport.room_bytes = 50
    publisher.say(video(40, b"i1" * 100))
    viewer.say(command("closeStream", 4.0, None, stream_id=1), command("play", 5.0, None, "a", stream_id=1))
    viewer.transport.room_bytes = 10**9
    on.loop.settle()
    assert bodies(viewer) == [b"i1" * 100, b"k0", b"i1" * 100]
    assert viewer.is_between_messages


def test_one_that_publishes_may_send_as_much_as_publishers_may_and_one_that_ceased_may_not() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(audio() * 20_000)
    assert publisher.connection.rates.limit is None
    publisher.close_stream()
    on.loop.advance(5.0)
    publisher.say(ping() * 6_000)
    assert publisher.connection.rates.limit == "messages"


def test_a_viewer_may_name_itself() -> None:
    on = Stage()
    peer = on.peer().with_streams()
    peer.play("a?viewer=me&viewer=other&x=1")
    assert on.viewer_of(peer).own_name == "me"
    other = on.peer().connected("live?viewer=app")
    other.say(command("createStream", 2.0, None))
    other.play("a")
    assert on.viewer_of(other).own_name == "app"


def test_a_seek_is_refused() -> None:
    on = Stage()
    on.publisher()
    assert codes(on.viewer().say(command("seek", 5.0, None, 1000.0, stream_id=1))) == ["NetStream.Seek.Failed"]


# Pause, and audio or video alone.


def test_one_that_pauses_is_sent_nothing_and_goes_on_at_the_next_key_frame() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer()
    viewer.hear()
    assert codes(viewer.say(command("pause", 0.0, None, True, 0.0, stream_id=1))) == ["NetStream.Pause.Notify"]
    publisher.say(video(40, b"i1"))
    assert bodies(viewer) == []
    viewer.say(command("pause", 0.0, None, False, 0.0, stream_id=1))
    publisher.say(video(80, b"i2"), video(120, b"k3", is_key=True))
    assert bodies(viewer) == [b"k3"]


def test_one_that_pauses_inside_a_message_gets_the_rest_before_the_notice() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer()
    viewer.hear()
    viewer.transport.room_bytes = 50
    publisher.say(video(40, b"i1" * 100))
    viewer.say(command("pause", 0.0, None, True, 0.0, stream_id=1))
    viewer.transport.room_bytes = 10**9
    on.loop.settle()
    heard = viewer.hear()
    assert [each.type_id for each in heard][:2] == [9, 20]
    assert codes(heard) == ["NetStream.Pause.Notify"]


def test_one_that_wants_no_video_gets_it_again_from_a_key_frame_on() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer()
    viewer.hear()
    viewer.say(command("receiveVideo", 0.0, None, False, stream_id=1))
    publisher.say(video(40, b"i1"), audio(50, b"a1"))
    assert bodies(viewer) == [b"a1"]
    viewer.say(command("receiveVideo", 0.0, None, True, stream_id=1))
    publisher.say(video(80, b"i2"), audio(90, b"a2"), video(120, b"k3", is_key=True), audio(130, b"a3"))
    assert bodies(viewer) == [b"k3", b"a3"]


def test_one_that_wants_no_audio_goes_on_without() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, b"k0", is_key=True))
    viewer = on.viewer()
    viewer.hear()
    viewer.say(command("receiveAudio", 0.0, None, False, stream_id=1))
    publisher.say(audio(20, b"a1"), video(40, b"i1"))
    assert bodies(viewer) == [b"i1"]
    viewer.say(command("receiveAudio", 0.0, None, True, stream_id=1))
    publisher.say(audio(60, b"a2"), video(80, b"i2"))
    assert bodies(viewer) == [b"a2", b"i2"]


def test_what_is_wanted_of_a_stream_that_is_not_there_holds_when_it_comes() -> None:
    on = Stage()
    viewer = on.viewer()
    viewer.say(command("receiveAudio", 0.0, None, False, stream_id=1))
    on.publisher().say(audio(0, b"a0"), video(0, b"k0", is_key=True))
    assert bodies(viewer) == [b"k0"]
