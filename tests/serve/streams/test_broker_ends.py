"""How streams and connections end: publications over and taken up again, half messages, settings, and goodbye."""

from dataclasses import replace

import pytest

from penstock.protocol.connection import ConnectionSettings
from penstock.serve.settings import AppSettings, ServerSettings
from tests.serve.fake_peer import HELLO, audio, codes, media, video
from tests.serve.streams.stage import FlushNotes, Stage
from tests.support.hostile_clients import command, full_header

STARTED = ["NetStream.Publish.Start"]
ENDED = ["NetStream.Play.UnpublishNotify", "NetStream.Play.Stop"]
NO_GRACE = AppSettings(grace_s=0.0)
SHUTDOWN = "NetConnection.Connect.AppShutdown"


# The end of a publication.


def test_a_publisher_that_says_it_has_ended_ends_the_stream() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, is_key=True))
    viewer = on.viewer()
    viewer.hear()
    publisher.say(video(40, b"last"), command("closeStream", 4.0, None, stream_id=1))
    heard = viewer.hear()
    assert [payload[5:] for _, payload in media(heard)] == [b"last"]
    assert codes(heard) == ENDED
    assert on.broker.streams == {}
    assert on.notes.heard[-3:] == ["live/a stopped: closeStream", "live/a closed", "live/a left: stream ended"]
    assert viewer.connection.plays == {}


@pytest.mark.parametrize("end", ["closed", "replaced", "lost"])
def test_who_counts_its_frames_has_all_of_them_when_it_hears_of_the_end(end: str) -> None:
    on = Stage(app=AppSettings(may_replace_publisher=True))
    publisher = on.publisher()
    on.stream().listeners.append(FlushNotes(on.notes))
    publisher.say(audio())
    if end == "closed":
        publisher.close_stream()
    elif end == "replaced":
        on.publisher()
    else:
        publisher.hang_up()
    assert on.notes.heard[1] == "flushed"
    assert on.notes.heard[2].startswith("live/a stopped: ")


def test_one_that_has_ended_a_publication_may_begin_another() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.close_stream()
    assert publisher.connection.publications == {}
    assert publisher.publish("b") == STARTED


def test_a_publisher_that_is_lost_may_come_back_within_the_grace() -> None:
    on = Stage(app=AppSettings(grace_s=5.0))
    on.reaper.start()
    first = on.publisher()
    first.say(video(5000, is_key=True))
    viewer = on.viewer()
    viewer.hear()
    stream = on.stream()
    first.hang_up()
    on.loop.advance(4.0)
    assert on.notes.heard[-1] == "live/a stopped: connection lost"
    second = on.publisher()
    assert on.stream() is stream
    second.say(video(0, b"again", is_key=True))
    heard = viewer.hear()
    assert media(heard) == [(9000, b"\x17\x01\x00\x00\x00again")]
    assert codes(heard) == []
    on.loop.advance(20.0)
    assert on.broker.streams == {"live/a": stream}


def test_a_stream_is_over_when_its_grace_is_and_viewers_are_told() -> None:
    on = Stage(app=AppSettings(grace_s=5.0))
    on.reaper.start()
    publisher, other = on.publisher(), on.publisher("other")
    publisher.say(video(0, is_key=True))
    viewer = on.viewer()
    viewer.hear()
    publisher.hang_up()
    on.loop.advance(4.9)
    assert (codes(viewer.hear()), "live/a" in on.broker.streams) == ([], True)
    on.loop.advance(1.1)
    assert codes(viewer.hear()) == ENDED
    assert list(on.broker.streams) == ["live/other"]
    assert not on.is_closed(other)


def test_where_there_is_no_grace_a_lost_publisher_ends_its_stream() -> None:
    on = Stage(app=NO_GRACE)
    on.publisher().hang_up()
    assert on.broker.streams == {}
    assert on.notes.heard[-1] == "live/a closed"


def test_a_name_is_free_at_once_when_its_stream_is_over() -> None:
    on = Stage()
    first = on.publisher()
    first.say(video(0, is_key=True))
    slow = on.viewer()
    slow.transport.room_bytes = 0
    first.say(video(40, b"i1"), command("closeStream", 4.0, None, stream_id=1))
    old = on.viewer_of(slow).stream
    second = on.publisher()
    assert on.stream() is not old, "somebody is still sent the rest of the old one"
    second.say(video(0, b"new", is_key=True))
    slow.transport.room_bytes = 10**9
    on.loop.settle()
    heard = slow.hear()
    assert [payload[5:] for _, payload in media(heard)] == [b"i1"]
    assert codes(heard) == ENDED


def test_a_publish_anew_on_the_same_message_stream_ends_the_first() -> None:
    on = Stage()
    publisher = on.publisher()
    assert publisher.publish("b") == STARTED
    assert list(on.broker.streams) == ["live/b"]


def test_an_end_and_a_beginning_that_fall_into_different_turns_go_on() -> None:
    on = Stage()
    publisher = on.publisher()
    on.loop.look_costs_s = 1.0
    publisher.transport.feed(command("publish", 3.0, None, "b", "live", stream_id=1) + audio(0, b"sound"))
    for _ in range(3):
        on.loop.run_events()
        on.loop.run_turns()
    on.loop.settle()
    assert codes(publisher.hear()) == STARTED
    assert on.stream("b").last_media_at == on.loop.now
    assert on.stream("b").log.config.audio_codec_id == 10.0


def test_a_viewer_that_goes_leaves_nothing_behind() -> None:
    on = Stage(app=NO_GRACE)
    publisher = on.publisher()
    publisher.say(video(0, is_key=True))
    viewer = on.viewer()
    viewer.hang_up()
    assert on.notes.heard[-1] == "live/a left: connection lost"
    assert on.stream().viewers == set()
    publisher.hang_up()
    assert (on.store.open_buffers, on.broker.budget.used_bytes) == (set(), 0)
    assert on.broker.connections == {}


# Coalesced reads.


def test_a_publisher_that_nobody_watches_is_read_with_others() -> None:
    on = Stage()
    publisher = on.publisher()
    descriptor = publisher.transport.descriptor
    assert descriptor in on.loop.paces
    viewer = on.viewer()
    assert descriptor not in on.loop.paces
    viewer.hang_up()
    assert descriptor in on.loop.paces


def test_a_publisher_whose_viewers_waited_is_read_at_once() -> None:
    on = Stage()
    on.viewer()
    assert on.publisher().transport.descriptor not in on.loop.paces


def test_a_viewer_that_has_asked_for_nothing_for_a_while_is_read_with_others() -> None:
    on = Stage()
    on.publisher()
    viewer = on.viewer()
    on.broker.read_paces.update(viewer.connection)
    assert viewer.transport.descriptor not in on.loop.paces
    on.loop.advance(2.0)
    on.broker.read_paces.update(viewer.connection)
    assert viewer.transport.descriptor in on.loop.paces
    viewer.say(command("pause", 0.0, None, True, 0.0, stream_id=1))
    on.broker.read_paces.update(viewer.connection)
    assert viewer.transport.descriptor not in on.loop.paces


# Half messages.


def test_above_the_bound_of_half_messages_the_holder_of_most_goes() -> None:
    on = Stage(ServerSettings(max_half_message_bytes=100_000))
    small, large, newcomer = (on.peer().connected() for _ in range(3))
    small.say(full_header(8, 20, 50_000) + b"\xc8".join([bytes(128)] * 100))
    large.say(full_header(8, 20, 60_000) + b"\xc8".join([bytes(128)] * 400))
    assert on.notes.closings == {}
    newcomer.say(full_header(8, 20, 50_000) + b"\xc8".join([bytes(128)] * 300))
    assert list(on.notes.closings) == [large.connection.id]
    assert on.notes.limits == ["half messages"]
    assert on.broker._held_input_bytes == small.connection.held_bytes + newcomer.connection.held_bytes


def test_under_a_lower_bound_holders_go_one_after_another_until_it_is_kept() -> None:
    on = Stage(ServerSettings(max_half_message_bytes=100_000))
    peers = [on.peer().connected() for _ in range(4)]
    for peer, chunks in zip(peers, (50, 100, 150, 200), strict=True):
        peer.say(full_header(8, 20, 60_000) + b"\xc8".join([bytes(128)] * chunks))
    on.broker.apply(ServerSettings(max_half_message_bytes=20_000))
    peers[0].say(b"\xc8" + bytes(128))
    assert set(on.notes.closings) == {peers[2].connection.id, peers[3].connection.id}
    assert on.notes.limits == ["half messages"] * 2


def test_one_that_holds_most_itself_goes_itself() -> None:
    on = Stage(ServerSettings(max_half_message_bytes=10_000))
    peer = on.peer().connected()
    peer.say(full_header(8, 20, 50_000) + b"\xc8".join([bytes(128)] * 100))
    assert "not whole" in str(on.why_closed(peer))
    assert on.broker._held_input_bytes == 0


# Settings.


def test_settings_can_change_while_it_serves() -> None:
    on = Stage()
    on.publisher()
    app = AppSettings(grace_s=77.0)
    settings = ServerSettings(
        app=lambda _name: app, max_total_log_bytes=12345, connection=ConnectionSettings(chunk_size=999)
    )
    on.broker.apply(settings)
    assert on.stream().app is app
    assert on.broker.budget.max_bytes == 12345
    assert on.broker.settings == replace(settings, connection=ConnectionSettings()), "the chunk size is shared by all"


# Goodbye.


def test_at_the_end_everybody_is_told_and_closed() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, is_key=True))
    viewer, stranger = on.viewer(), on.peer()
    stranger.say(HELLO)
    viewer.hear()
    publisher.hear()
    on.broker.say_goodbye()
    on.loop.settle()
    assert codes(viewer.hear()) == [*ENDED, SHUTDOWN]
    assert codes(publisher.hear())[-1] == SHUTDOWN
    assert stranger.hear() == [], "one that is not connected would not know what it means"
    assert on.broker.connections == {}
    assert on.broker.streams == {}


def test_a_viewer_that_lags_gets_the_rest_before_the_end() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, is_key=True))
    viewer = on.viewer()
    viewer.hear()
    viewer.transport.room_bytes = 10
    publisher.say(video(40, b"i1"))
    on.broker.say_goodbye()
    on.loop.settle()
    assert not on.is_closed(viewer)
    viewer.transport.room_bytes = 10**9
    on.loop.settle()
    heard = viewer.hear()
    assert len(media(heard)) == 1
    assert codes(heard) == [*ENDED, SHUTDOWN]
    assert on.is_closed(viewer)


def test_what_a_publisher_has_sent_when_the_server_ends_is_no_error() -> None:
    on = Stage()
    publisher = on.publisher()
    publisher.say(video(0, is_key=True))
    on.broker.say_goodbye()
    publisher.transport.feed(video(40) * 100)
    on.loop.settle()
    assert on.why_closed(publisher) == "closed by the server"
    assert codes(publisher.hear())[-1] == SHUTDOWN


@pytest.mark.parametrize("asks", ["publish", "play"])
def test_who_asks_while_the_server_ends_gets_nothing_that_would_last(asks: str) -> None:
    on = Stage()
    peer = on.peer().with_streams()
    peer.transport.room_bytes = 0
    on.broker.say_goodbye()
    peer.transport.feed(command(asks, 3.0, None, "a", stream_id=1))
    on.loop.settle()
    assert on.broker.streams == {}
