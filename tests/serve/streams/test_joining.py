"""Where those who come begin: at a key frame, at the next one, live, or with the publication they waited for."""

import pytest

from penstock.relay.readable_log import LogLimits
from penstock.serve.settings import AppSettings, JoinPolicy
from tests.relay.support import audio, audio_setup, inter, key, metadata, video_setup
from tests.serve.streams.stream_stage import StreamStage, in_step, published

NEXT = AppSettings(join=JoinPolicy.NEXT)
LIVE = AppSettings(join=JoinPolicy.LIVE)
FFMPEG = "LNX 9,0,124,2"


def test_one_who_joins_gets_the_codec_configuration_and_everything_from_the_newest_key_frame() -> None:
    on = published()
    on.send(audio(60, b"a1"))
    watcher = on.watch()
    assert watcher.heard() == ["metadata", "avc", "aac", "k0", "i1", "a1"]
    assert on.notes.admitted == on.notes.seated == [watcher.viewer]
    on.send(key(80, b"k2"), inter(120, b"i3"))
    assert on.watch().heard() == ["metadata", "avc", "aac", "k2", "i3"]


def test_the_codec_configuration_has_the_time_of_the_place_and_metadata_none() -> None:
    on = published()
    on.send(key(5000, b"k2"))
    watcher = on.watch()
    assert [(message.type_id, message.timestamp) for message in watcher.messages] == [
        (18, 0),
        (9, 5000),
        (8, 5000),
        (9, 5000),
    ]


def test_the_codec_configuration_is_that_which_was_in_force_at_the_place() -> None:
    on = published()
    on.send(video_setup(80, b"later"), inter(80, b"i2"))
    assert on.watch().heard() == ["metadata", "avc", "aac", "k0", "i1", "later", "i2"]


def test_what_was_appended_and_not_flushed_is_flushed_when_somebody_comes() -> None:
    on = StreamStage()
    on.begin()
    on.stream.append(video_setup(), on.loop.now)
    on.stream.append(key(0, b"k0"), on.loop.now)
    watcher = on.watch()
    assert (watcher.heard(), on.notes.dirty) == ([], 1)
    on.flush()
    assert watcher.heard() == ["metadata", "avc", "k0"]


def test_one_who_wants_the_next_key_frame_gets_none_that_came_before_flushed_or_not() -> None:
    on = published(NEXT)
    on.stream.append(key(80, b"k2"), on.loop.now)
    watcher = on.watch()
    on.flush()
    on.send(inter(120, b"i3"))
    assert watcher.heard() == []
    on.send(key(160, b"k4"))
    assert watcher.heard() == ["metadata", "avc", "aac", "k4"]


@pytest.mark.parametrize("app", [NEXT, AppSettings()])
def test_of_two_key_frames_that_come_at_once_one_who_waited_begins_with_the_first(app: AppSettings) -> None:
    on = StreamStage(app)
    on.begin()
    on.send(video_setup(), inter(0, b"i0"))
    watcher = on.watch()
    on.send(key(40, b"k1"), inter(80, b"i2"), key(120, b"k3"))
    assert watcher.heard() == ["metadata", "avc", "k1", "i2", "k3"]


def test_one_who_wants_to_be_live_begins_with_whatever_comes_next() -> None:
    on = published(LIVE)
    watcher = on.watch()
    assert watcher.heard() == ["metadata", "avc", "aac"]
    on.send(inter(80, b"i2"))
    assert watcher.heard() == ["i2"]


@pytest.mark.parametrize("join", [JoinPolicy.KEYFRAME, JoinPolicy.NEXT])
def test_one_who_has_waited_long_for_a_key_frame_begins_without_one(join: JoinPolicy) -> None:
    on = StreamStage(AppSettings(join=join, keyframe_wait_s=3.0))
    on.begin()
    on.send(video_setup(), inter(0, b"i0"))
    watcher = on.watch()
    on.loop.advance(2.9)
    on.stream.call_waiting(on.loop.now)
    on.send(inter(40, b"i1"))
    assert watcher.heard() == []
    on.loop.advance(0.1)
    on.stream.call_waiting(on.loop.now)
    on.loop.settle()
    on.send(inter(80, b"i2"))
    assert watcher.heard() == ["metadata", "avc", "i2"]


def test_a_player_made_with_ffmpeg_begins_as_far_back_as_it_looks_at_a_stream() -> None:
    on = StreamStage(limits=LogLimits(lookback_s=5.5))
    on.begin()
    for number in range(100):
        on.send(key(number * 100, b"k%d" % number))
        on.loop.advance(0.1)
    watcher = on.watch(client=FFMPEG)
    first, second, *_ = watcher.heard()
    assert first == "metadata"
    assert second in {"k39", "k40", "k41", "k42", "k43", "k44", "k45"}, "5.5 s back, or half a second more"
    assert watcher.viewer.is_in_step
    assert on.watch(client="another").heard() == ["metadata", "k99"]


def test_many_who_come_are_each_sent_in_a_turn_of_their_own() -> None:
    on = StreamStage()
    on.begin()
    watchers = [on.watch() for _ in range(3)]
    on.stream.append(key(0, b"k0"), on.loop.now)
    on.stream.flush(on.loop.now)
    assert on.loop.queued_turns == 3
    assert [watcher.heard() for watcher in watchers] == [[], [], []]
    on.loop.settle()
    assert [watcher.heard() for watcher in watchers] == [["metadata", "k0"]] * 3


def test_a_large_codec_configuration_counts_toward_what_one_who_joins_may_ask_for() -> None:
    on = StreamStage()
    on.begin()
    on.send(video_setup(0, bytes(200_000)), key(0, b"k0"))
    watcher = on.watch()
    assert watcher.connection.rates.limit is None
    for _ in range(30):
        on.stream.unseat(watcher.viewer)
        on.stream.wait(watcher.viewer, on.loop.now)
        watcher.viewer.left_off_position = 0
        watcher.connection.request_turn()
        on.loop.settle()
    assert watcher.connection.rates.limit == "messages"


# Those who were there before the publication.


def test_one_who_waited_gets_the_publication_from_its_very_first_message() -> None:
    on = StreamStage()
    watcher = on.watch()
    on.begin()
    on.send(metadata(), audio_setup(), video_setup(), audio(0, b"a0"), flushes_each=True)
    watcher.connection.request_turn()
    on.loop.settle()
    assert watcher.heard() == []
    on.send(key(20, b"k1"))
    assert watcher.heard() == ["metadata", "aac", "avc", "a0", "k1"]
    assert watcher.viewer.is_in_step


def test_one_who_waited_for_a_stream_without_metadata_gets_one_that_names_its_tracks() -> None:
    on = StreamStage()
    watcher = on.watch()
    on.begin()
    on.send(audio_setup(), audio(0, b"a0"))
    assert watcher.heard() == ["metadata", "aac", "a0"]


def test_one_who_waited_gets_an_encoders_first_second_that_comes_at_once_whole() -> None:
    on = StreamStage()
    watcher = on.watch()
    on.begin()
    on.send(video_setup(), key(0, b"k0"), inter(40, b"i1"), key(80, b"k2"), inter(120, b"i3"))
    assert watcher.heard() == ["metadata", "avc", "k0", "i1", "k2", "i3"]


def test_one_who_waited_and_wants_to_be_live_gets_the_codec_configuration_first() -> None:
    on = StreamStage(LIVE)
    watcher = on.watch()
    on.begin()
    on.send(metadata(), video_setup(), audio_setup(), key(0, b"k0"))
    on.send(key(40, b"k1"))
    assert watcher.heard() == ["metadata", "avc", "aac", "k1"]


def test_one_who_waited_for_longer_than_the_first_message_is_kept_gets_the_codec_configuration() -> None:
    on = StreamStage()
    watcher = on.watch()
    on.begin()
    on.send(metadata(), video_setup(), audio_setup(), inter(0, b"i0"))
    on.stream.log.drop_everything()
    on.send(key(40, b"k1"))
    assert watcher.heard() == ["metadata", "avc", "aac", "k1"]
    assert watcher.viewer.skips == 0


def test_one_who_waited_in_vain_for_a_key_frame_gets_everything_so_far() -> None:
    on = StreamStage(AppSettings(keyframe_wait_s=3.0))
    watcher = on.watch()
    on.begin()
    on.send(video_setup(), inter(0, b"i0"))
    on.loop.advance(3.0)
    on.stream.call_waiting(on.loop.now)
    on.loop.settle()
    assert watcher.heard() == ["metadata", "avc", "i0"]


def test_one_who_came_while_the_publisher_was_lost_gets_the_next_publication_and_nothing_older() -> None:
    on = published()
    in_step(on)
    on.stream.lose(on.loop.now)
    watcher = on.watch()
    on.loop.advance(1.0)
    assert watcher.heard() == []
    on.begin()
    on.send(video_setup(0, b"new"), audio(0, b"a0"), key(0, b"k0"))
    assert watcher.heard() == ["metadata", "new", "a0", "k0"]


def test_one_who_waits_for_a_key_frame_when_the_publisher_is_lost_gets_the_next_publication_whole() -> None:
    on = StreamStage()
    on.begin()
    on.send(video_setup(), inter(0, b"i0"))
    watcher = on.watch()
    on.stream.lose(on.loop.now)
    on.begin()
    on.send(video_setup(0, b"new"), audio(0, b"a0"), key(0, b"k0"))
    assert watcher.heard() == ["metadata", "new", "a0", "k0"]


def test_one_who_gives_up_its_place_and_comes_back_gets_nothing_twice() -> None:
    on = StreamStage()
    watcher = on.watch()
    on.begin()
    on.send(video_setup(), key(0, b"k0"), inter(40, b"i1"))
    watcher.heard()
    on.stream.unseat(watcher.viewer)
    on.send(inter(80, b"i2"))
    on.stream.wait(watcher.viewer, on.loop.now)
    watcher.connection.request_turn()
    on.loop.settle()
    assert watcher.heard() == []
    on.send(key(120, b"k3"))
    assert watcher.heard() == ["metadata", "avc", "k3"]


def test_one_in_step_when_the_publisher_is_lost_goes_on_where_it_is() -> None:
    on = published()
    watcher = in_step(on)
    on.stream.lose(on.loop.now)
    on.begin()
    on.send(video_setup(0, b"new"), key(0, b"k0"))
    assert watcher.heard() == ["new", "k0"]


def test_one_who_came_after_the_publication_began_is_not_sent_its_codec_configuration_twice() -> None:
    on = StreamStage()
    on.begin()
    on.send(metadata(), video_setup())
    watcher = on.watch()
    on.send(key(0, b"k0"))
    assert watcher.heard() == ["metadata", "avc", "k0"]
