"""Viewers with wishes of their own: another stream id, no audio or no video, or several plays on one connection."""

from penstock.relay.track_filter import TrackFilter
from tests.relay.support import audio, inter, key, video_setup
from tests.serve.streams.stream_stage import StreamStage, Watcher, in_step, published


def without_audio(on: StreamStage, watcher: Watcher) -> None:
    watcher.viewer.track_filter = TrackFilter(wants_audio=False)
    on.stream.change_filter(watcher.viewer)
    on.loop.settle()


def test_another_stream_id_is_in_every_message() -> None:
    on = published()
    watcher = on.watch(stream_id=3)
    on.send(audio(80, b"a2"))
    assert watcher.heard() == ["metadata", "avc", "aac", "k0", "i1", "a2"]
    assert {message.stream_id for message in watcher.messages} == {3}
    assert not watcher.viewer.is_in_step, "it is never sent the shared encoding"


def test_what_is_flushed_reaches_it_in_a_turn_of_its_connection() -> None:
    on = published()
    watcher = on.watch(stream_id=3)
    watcher.heard()
    on.stream.append(inter(80, b"i2"), on.loop.now)
    on.stream.flush(on.loop.now)
    assert (watcher.heard(), on.loop.queued_turns) == ([], 1)
    on.loop.run_turns()
    assert watcher.heard() == ["i2"]


def test_a_connection_with_several_plays_has_one_turn_for_each_flush() -> None:
    on = published()
    watcher = on.watch(stream_id=2)
    on.add_play(watcher.transport, watcher.connection, TrackFilter(3))
    watcher.heard()
    on.stream.append(inter(80, b"i2"), on.loop.now)
    on.stream.flush(on.loop.now)
    assert on.loop.queued_turns == 1
    on.loop.settle()
    assert watcher.heard() == ["i2", "i2"]
    assert [message.stream_id for message in watcher.messages[-2:]] == [2, 3]


def test_one_that_wants_no_audio_any_more_goes_on_where_it_is() -> None:
    on = published()
    watcher = in_step(on)
    without_audio(on, watcher)
    on.send(audio(80, b"a2"), inter(80, b"i2"), audio(100, b"a3"))
    assert watcher.heard() == ["i2"]


def test_one_that_wants_everything_again_comes_back_into_step() -> None:
    on = published()
    watcher = in_step(on)
    without_audio(on, watcher)
    watcher.viewer.track_filter = TrackFilter()
    on.stream.change_filter(watcher.viewer)
    on.loop.settle()
    assert watcher.viewer.is_in_step
    on.stream.append(audio(80, b"a2"), on.loop.now)
    on.stream.flush(on.loop.now)
    assert watcher.heard() == ["a2"]
    assert on.loop.queued_turns == 0


def test_the_message_in_hand_is_finished_before_a_filter_holds() -> None:
    on = published()
    watcher = in_step(on)
    watcher.transport.room_bytes = 20
    on.send(audio(80, b"a2" + bytes(100)), inter(80, b"i2"))
    without_audio(on, watcher)
    on.send(audio(100, b"a3"))
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard() == ["a2", "i2"]
    assert watcher.half_bytes == 0


def test_a_large_message_is_not_copied_for_one_that_does_not_read() -> None:
    on = published()
    watcher = on.watch(stream_id=3)
    watcher.heard()
    watcher.transport.room_bytes = 5
    before_bytes = on.store.copied_bytes
    on.send(inter(80, b"large" + bytes(1_000_000)))
    assert on.store.copied_bytes - before_bytes < 100_000
    assert watcher.connection.queue.queued_bytes > 999_000
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard() == ["large"]
    assert watcher.messages[-1].stream_id == 3


def test_a_large_message_that_is_not_wanted_is_passed_over() -> None:
    on = published()
    watcher = in_step(on)
    without_audio(on, watcher)
    on.send(audio(80, bytes(1_000_000)), inter(80, b"i2"))
    assert watcher.heard() == ["i2"]


def test_one_that_leaves_inside_a_large_message_costs_no_copy_and_no_memory_when_it_is_gone() -> None:
    on = published()
    watcher = in_step(on)
    watcher.transport.room_bytes = 100
    on.send(inter(80, b"large" + bytes(1_000_000)))
    before_bytes = on.store.copied_bytes
    on.leave(watcher)
    assert on.store.copied_bytes == before_bytes
    on.stream.log.drop_everything()
    assert len(on.store.open_buffers) == 1, "the rest is owed to it"
    watcher.connection.close("connection lost")
    assert on.store.open_buffers == set()


def test_one_who_joins_without_video_gets_no_codec_configuration_of_it() -> None:
    on = published()
    on.send(audio(80, b"a2"))
    transport, connection = on.connection()
    watcher = on.add_play(transport, connection, TrackFilter(wants_video=False))
    assert watcher.heard() == ["metadata", "aac", "a2"]


def test_a_filtered_viewer_that_lags_too_far_goes_on_at_the_newest_key_frame() -> None:
    on = published()
    watcher = on.watch(stream_id=3)
    watcher.heard()
    watcher.transport.room_bytes = 0
    on.send(inter(80, bytes(200_000)))
    on.send(inter(120, bytes(200_000)))
    on.send(key(160, b"k4"))
    on.log.cut_back()
    on.stream.log.drop_everything()
    on.send(key(200, b"k5"))
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert watcher.heard()[-4:] == ["metadata", "avc", "aac", "k5"]
    assert watcher.viewer.skips == 1


def test_of_several_plays_of_one_that_does_not_read_only_as_many_are_given_a_place_as_its_queue_has_room_for() -> None:
    on = StreamStage()
    on.begin()
    on.send(video_setup(0, b"avc" + bytes(200_000)), key(0, b"k0"))
    watcher = on.watch(stream_id=2)
    watcher.transport.room_bytes = 0
    for stream_id in range(3, 9):
        on.add_play(watcher.transport, watcher.connection, TrackFilter(stream_id))
    assert watcher.connection.queue.queued_bytes < 600_000
    watcher.transport.room_bytes = 10**9
    on.loop.settle()
    assert sorted(watcher.heard()) == ["avc"] * 7 + ["k0"] * 7 + ["metadata"] * 7
