"""Where those begin who waited for a publication, and what joiners are sent first."""

from penstock.media.frame import FrameKind
from penstock.relay.readable_log import LogLimits
from tests.relay.support import audio, audio_setup, fill, inter, key, messages_of, metadata, new_log, video_setup


def test_one_who_waited_begins_with_the_first_place_since() -> None:
    log = new_log(LogLimits(max_gops=3))
    fill(log, [key(0), key(40), inter(80), key(120)])
    points = [log.first_point_from(position) for position in (0, 1, 21, 62, 63)]
    assert [point and point.timestamp_ms for point in points] == [0, 40, 120, 120, None]


def test_of_too_many_places_the_first_that_is_kept_counts() -> None:
    log = new_log(LogLimits(max_gops=2))
    fill(log, [key(0), key(40), key(80)])
    point = log.first_point_from(0)
    assert point is not None
    assert point.timestamp_ms == 40


def test_the_first_place_of_a_flush_is_told_with_it() -> None:
    log = new_log()
    for frame in (inter(0), key(40), key(80)):
        log.append(frame, 0.0)
    flush = log.flush(0.0)
    assert flush is not None
    assert flush.first_point is not None
    assert flush.first_point.timestamp_ms == 40
    log.append(inter(120), 0.0)
    flush = log.flush(0.0)
    assert flush is not None
    assert flush.first_point is None


def test_a_publication_starts_behind_all_that_was_appended_before_flushed_or_not() -> None:
    log = new_log()
    assert log.publication_start == 0
    fill(log, [key(0)])
    log.append(inter(40), 0.0)
    log.begin_anew()
    assert log.publication_start == log.head + log.unflushed_bytes == 20 + 22
    assert log.newest_point is None
    fill(log, [audio(0)])
    assert log.publication_start == 42
    assert log.newest_point is not None, "audio alone, as no video has come of this publication"


def test_a_publication_begins_without_the_set_up_of_the_one_before() -> None:
    log = new_log()
    fill(log, [metadata(), video_setup(), audio_setup(), key(0)])
    log.begin_anew()
    fill(log, [audio_setup(0, b"new")])
    assert [frame.payload for frame in log.config.frames] == [audio_setup(0, b"new").payload]
    assert log.config.video_codec_id is None


# What joiners are sent first.


def test_what_joiners_are_sent_first_is_encoded_at_the_time_of_their_place() -> None:
    log = new_log()
    fill(log, [video_setup(), audio_setup(), key(5000), audio(5000)])
    messages, _ = messages_of(b"".join(message.encoded for message in log.joining_messages(log.config, 5000)))
    assert [(message.type_id, message.timestamp) for message in messages] == [(18, 0), (9, 5000), (8, 5000)]


def test_all_who_join_at_one_place_share_one_encoding() -> None:
    log = new_log()
    fill(log, [video_setup(), key(0)])
    config = log.config
    first = log.joining_messages(config, 0)
    assert log.joining_messages(config, 0) is first
    later = log.joining_messages(config, 40)
    assert [message.encoded[1:4] for message in later if message.kind is FrameKind.VIDEO] == [b"\x00\x00\x28"]
    fill(log, [video_setup(0, b"new")])
    (newer,) = [message for message in log.joining_messages(log.config, 40) if message.kind is FrameKind.VIDEO]
    assert newer.encoded.endswith(b"new")
