"""Names to streams: one publisher each, who may replace whom, and what a stream keeps over its publications."""

from penstock.relay.hub import Hub, HubSettings, PublishAnswer
from penstock.relay.log import LogBudget
from tests.relay.support import CountingStore, audio, audio_setup, inter, key, metadata, new_log, video_setup


def new_hub(store: CountingStore | None = None, budget: LogBudget | None = None) -> Hub:
    return Hub(lambda: new_log(budget=budget, store=store), HubSettings(silent_publisher_s=3.0, liveness_wait_s=2.0))


def test_a_free_name_is_for_whoever_asks() -> None:
    assert new_hub().ask_to_publish("live/a", 0.0, may_replace=False) is PublishAnswer.ACCEPT


def test_a_name_in_use_is_for_nobody_else_before_the_first_was_looked_at() -> None:
    hub = new_hub()
    hub.begin("live/a", "first", 10.0)
    assert hub.ask_to_publish("live/a", 12.9, may_replace=False) is PublishAnswer.WAIT
    assert hub.ask_to_publish("live/b", 12.9, may_replace=False) is PublishAnswer.ACCEPT


def test_a_publisher_that_never_sent_anything_is_replaced_after_a_while() -> None:
    hub = new_hub()
    hub.begin("live/a", "first", 10.0)
    assert hub.ask_to_publish("live/a", 13.0, may_replace=False) is PublishAnswer.REPLACE


def test_a_publisher_that_fell_silent_is_replaced_and_one_that_sends_is_not() -> None:
    hub = new_hub()
    stream = hub.begin("live/a", "first", 10.0)
    stream.append(audio(0), 20.0)
    assert hub.ask_to_publish("live/a", 22.0, may_replace=False) is PublishAnswer.WAIT
    assert hub.ask_to_publish("live/a", 23.0, may_replace=False) is PublishAnswer.REPLACE


def test_where_takeover_is_the_policy_the_second_replaces_the_first_at_once() -> None:
    hub = new_hub()
    hub.begin("live/a", "first", 10.0).append(audio(0), 10.0)
    assert hub.ask_to_publish("live/a", 10.0, may_replace=True) is PublishAnswer.REPLACE


def test_a_stream_that_lost_its_publisher_is_for_the_next_who_asks() -> None:
    hub = new_hub()
    stream = hub.begin("live/a", "first", 10.0)
    stream.lose(11.0, grace_s=5.0)
    assert not stream.is_live
    assert hub.ask_to_publish("live/a", 11.0, may_replace=False) is PublishAnswer.ACCEPT


def test_a_stream_expires_when_its_grace_is_over_and_nobody_came_back() -> None:
    hub = new_hub()
    stream = hub.begin("live/a", "first", 10.0)
    hub.begin("live/b", "other", 10.0)
    assert hub.expired(1e9) == []
    stream.lose(11.0, grace_s=5.0)
    assert hub.expired(15.9) == []
    assert hub.expired(16.0) == [stream]
    hub.begin("live/a", "second", 15.0)
    assert hub.expired(1e9) == []


def test_a_publisher_that_comes_back_goes_on_in_the_same_log() -> None:
    hub = new_hub()
    stream = hub.begin("live/a", "first", 10.0)
    stream.append(key(5000), 10.0)
    stream.lose(10.0, grace_s=5.0)
    again = hub.begin("live/a", "second", 12.0)
    assert again is stream
    assert again.publications == 2
    again.append(video_setup(0), 12.0)
    again.append(key(0), 12.0)
    flush = stream.log.flush(12.0)
    assert flush is not None
    assert [entry.timestamp_ms for entry in flush.entries] == [5000, 7000, 7000]


def test_the_wall_time_counts_from_the_last_frame_even_over_a_publisher_that_sent_none() -> None:
    hub = new_hub()
    stream = hub.begin("live/a", "first", 10.0)
    stream.append(key(5000), 10.0)
    stream.lose(10.0, grace_s=5.0)
    hub.begin("live/a", "second", 14.0).append(video_setup(0), 14.0)
    stream.lose(15.0, grace_s=5.0)
    hub.begin("live/a", "third", 18.0).append(key(0), 18.0)
    assert stream.log.last_timestamp_ms == 13_000


def test_nobody_begins_with_the_pictures_of_a_publisher_that_is_gone() -> None:
    hub = new_hub()
    stream = hub.begin("live/a", "first", 10.0)
    stream.append(key(0), 10.0)
    stream.log.flush(10.0)
    assert stream.log.newest_point is not None
    stream.lose(10.5, grace_s=5.0)
    assert stream.log.newest_point is None


def test_what_a_stream_consists_of_is_for_each_publication_to_say() -> None:
    hub = new_hub()
    stream = hub.begin("live/a", "first", 10.0)
    for frame in (metadata(), video_setup(), audio_setup(), key(0), audio(0)):
        stream.append(frame, 10.0)
    stream.log.flush(10.0)
    stream.begin("second", 11.0)
    for frame in (audio_setup(body=b"new"), audio(0)):
        stream.append(frame, 11.0)
    stream.log.flush(11.0)
    point = stream.log.newest_point
    assert point is not None, "audio alone is a place to begin"
    assert [frame.payload for frame in point.setup.frames] == [audio_setup(body=b"new").payload]
    assert point.setup.video_codec_id is None


def test_a_publication_that_keeps_the_clock_is_appended_as_it_came() -> None:
    hub = new_hub()
    stream = hub.begin("live/a", "first", 10.0)
    stream.append(inter(5000), 10.0)
    stream.begin("second", 11.0)
    stream.append(inter(6020), 11.0)
    stream.append(inter(6060), 11.1)
    flush = stream.log.flush(11.1)
    assert flush is not None
    assert [entry.timestamp_ms for entry in flush.entries] == [5000, 6020, 6060]


def test_a_stream_that_ends_gives_all_its_memory_back() -> None:
    store, budget = CountingStore(), LogBudget(1 << 30)
    hub = new_hub(store, budget)
    stream = hub.begin("live/a", "first", 10.0)
    stream.append(key(0), 10.0)
    stream.log.flush(10.0)
    assert len(store.open_buffers) == 1
    assert hub.end("live/a") is stream
    assert hub.end("live/a") is None
    assert store.open_buffers == set()
    assert budget.used_bytes == 0
    assert hub.ask_to_publish("live/a", 10.0, may_replace=False) is PublishAnswer.ACCEPT


def test_the_defaults_are_those_that_publishers_were_told() -> None:
    assert Hub(new_log).settings == HubSettings(silent_publisher_s=3.0, liveness_wait_s=2.0)
