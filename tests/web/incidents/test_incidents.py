"""Incidents while they happen: literal samples in, what began and ended out, and when it was told."""

from penstock.web.incidents.incidents import MAX_ENDED, MAX_STREAMS, Incidents
from tests.web.incidents.seconds import MIDNIGHT, SECOND, sample, second, times_of


def test_a_stall_begins_with_its_third_second_and_ends_with_the_first_byte() -> None:
    incidents = Incidents("b1")
    told = sample(incidents, 500, 0, 0, 0, 0, 500)
    (begun_at, begun), (ended_at, ended) = told
    assert (begun_at, begun.kind, times_of(begun), begun.evidence) == (
        3,
        "ingest_stalled",
        (1.0, None),
        "nothing came for 3.0 s",
    )
    assert (ended_at, times_of(ended), ended.evidence) == (5, (1.0, 5.0), "nothing came for 4.0 s")
    assert begun.incident_id == ended.incident_id == "b1-i1"
    assert begun.advice.startswith("Check the encoder and its network")
    assert (incidents.open, incidents.ended, incidents.begun) == ([], [ended], {"ingest_stalled": 1})


def test_one_that_lasts_is_open_with_its_newest_figures() -> None:
    incidents = Incidents("b1")
    sample(incidents, *[0] * 7)
    (lasting,) = incidents.open
    assert (lasting.evidence, lasting.ended_at_us) == ("nothing came for 7.0 s", None)


def test_two_seconds_of_silence_are_no_incident() -> None:
    assert sample(Incidents("b1"), 500, 0, 0, 500, 0, 0, 500) == []


def test_a_stall_whose_publisher_goes_ends_when_nothing_can_follow_any_more() -> None:
    incidents = Incidents("b1")
    sample(incidents, *[0] * 4)
    assert incidents.passed(MIDNIGHT + 7 * SECOND) == []
    (ended,) = incidents.passed(MIDNIGHT + 7 * SECOND + 1)
    assert times_of(ended) == (0.0, 4.0)
    assert incidents.passed(MIDNIGHT + 8 * SECOND) == []


def test_a_bitrate_far_below_the_median_of_what_has_passed_is_a_collapse_after_ten_seconds() -> None:
    incidents = Incidents("b1")
    told = sample(incidents, *[4_000_000] * 30, *[800_000] * 9, 0, 720_000, 4_000_000)
    (begun_at, begun), (_, ended) = told
    assert (begun_at, begun.kind, times_of(begun)) == (39, "bitrate_collapse", (30.0, None))
    assert times_of(ended) == (30.0, 41.0)
    assert ended.evidence == "bitrate down to 0 kbit/s, 0 % of the hour's median of 4030 kbit/s, for 11.0 s"


def test_without_enough_that_has_passed_there_is_no_collapse() -> None:
    assert sample(Incidents("b1"), *[4_000_000] * 9, *[800_000] * 15) == []


def test_silence_alone_is_no_collapse() -> None:
    told = sample(Incidents("b1"), *[4_000_000] * 30, *[0] * 15, 4_000_000)
    assert {incident.kind for _, incident in told} == {"ingest_stalled"}


def test_the_median_of_the_hour_before_counts_in_the_first_minutes_of_an_hour() -> None:
    incidents, hour = Incidents("b1"), 3600
    sample(incidents, *[4_000_000] * 60, begin=hour - 60)
    (_, begun), _ = sample(incidents, *[800_000] * 12, 4_000_000, begin=hour)
    assert begun.evidence.startswith("bitrate down to 800 kbit/s, 19 % of the hour's median of 4030 kbit/s")


def test_key_frames_too_far_apart_are_told_after_ten_seconds() -> None:
    told = sample(Incidents("b1"), *[500] * 12, keyframe_interval_ms=8340)
    ((begun_at, begun),) = told
    assert (begun_at, begun.kind, begun.evidence) == (
        9,
        "keyframe_interval",
        "key frames up to 8.3 s apart for 10.0 s",
    )


def test_a_stream_without_a_second_key_frame_is_told_too() -> None:
    incidents = Incidents("b1")
    ((_, begun),) = sample(incidents, *[500] * 12, keyframe_interval_ms=None)
    assert begun.evidence == "no second key frame for 10.0 s"
    ((_, ended),) = sample(incidents, 500, begin=12)
    assert (ended.ended_at_us or 0) - ended.started_at_us == 12 * SECOND


def test_a_stream_that_has_just_begun_or_has_no_video_needs_no_key_frames() -> None:
    incidents = Incidents("b1")
    assert sample(incidents, *[500] * 9, keyframe_interval_ms=None) == []
    assert sample(incidents, *[500] * 30, begin=9, keyframe_interval_ms=None, fps=0.0) == []


def test_audio_and_video_that_are_apart_are_told() -> None:
    told = sample(Incidents("b1"), *[500] * 10, av_skew_ms=-320.5, media_ms=61_500, wall_ms=60_000)
    ((_, begun),) = told
    evidence = "audio and video up to 320 ms apart and media time up to 1500 ms off the clock for 10.0 s"
    assert (begun.kind, begun.evidence) == ("av_drift", evidence)


def test_drift_is_allowed_to_grow_with_the_age_of_a_publication() -> None:
    assert sample(Incidents("b1"), *[500] * 12, media_ms=1_801_500, wall_ms=1_800_000) == []
    ((_, begun),) = sample(Incidents("b1"), *[500] * 12, media_ms=601_500, wall_ms=600_000)
    assert begun.evidence == "media time up to 1500 ms off the clock for 10.0 s"


def test_five_timestamp_jumps_within_a_minute_are_told_and_end_a_minute_after_the_last() -> None:
    incidents = Incidents("b1")
    told = sample(incidents, *[500] * 4, interval_timestamp_jumps=1)
    told += sample(incidents, *[500] * 20, begin=4)
    told += sample(incidents, 500, begin=24, interval_timestamp_jumps=2)
    ((begun_at, begun),) = told
    assert (begun_at, begun.kind, times_of(begun), begun.evidence) == (
        24,
        "timestamp_jumps",
        (0.0, None),
        "6 timestamp jumps within a minute",
    )
    assert incidents.passed(MIDNIGHT + 85 * SECOND) == []
    (ended,) = incidents.passed(MIDNIGHT + 85 * SECOND + 1)
    assert times_of(ended) == (0.0, 25.0)


def test_jumps_that_are_rare_are_no_incident() -> None:
    incidents = Incidents("b1")
    assert [
        incident
        for minute in range(9)
        for incident in incidents.sampled(second(61 * minute, interval_timestamp_jumps=4))
    ] == []


def test_a_publisher_that_comes_back_five_times_in_five_minutes_is_told() -> None:
    incidents = Incidents("b1")
    told = [incidents.published("live", "a", MIDNIGHT + minute * 60 * SECOND) for minute in range(6)]
    assert [len(each) for each in told] == [0, 0, 0, 0, 1, 0]
    (begun,) = told[4]
    assert (begun.kind, times_of(begun), begun.evidence) == (
        "reconnect_storm",
        (0.0, None),
        "5 publications within 5 minutes",
    )
    (ended,) = incidents.passed(MIDNIGHT + 601 * SECOND)
    assert (times_of(ended), ended.evidence) == ((0.0, 300.0), "6 publications within 5 minutes")


def test_streams_have_nothing_to_do_with_each_other() -> None:
    incidents = Incidents("b1")
    for place in range(4):
        assert incidents.published("live", f"s{place}", MIDNIGHT) == []
    sample(incidents, *[0] * 2)
    assert sample(incidents, *[0] * 2, begin=2, stream="b") == []


def test_a_stream_that_does_well_is_healthy() -> None:
    incidents = Incidents("b1")
    sample(incidents, *[4_000_000] * 30)
    assert incidents.health("live", "a", MIDNIGHT + 30 * SECOND) == ("healthy", [])
    assert incidents.health("live", "nobody", MIDNIGHT) == ("not sampled yet", [])


def test_a_verdict_is_about_the_last_minute_with_advice_on_each_complaint() -> None:
    incidents = Incidents("b1")
    sample(incidents, *[4_000_000] * 90)
    sample(incidents, *[0] * 4, *[4_000_000] * 5, begin=90, keyframe_interval_ms=6250, interval_timestamp_jumps=1)
    verdict, advice = incidents.health("live", "a", MIDNIGHT + 99 * SECOND)
    assert verdict == "no data for 4 s; key frames 6.2 s apart; 9 timestamp jumps"
    assert [text.split()[0] for text in advice] == ["Check", "Set", "Restart"]
    assert incidents.health("live", "a", MIDNIGHT + 170 * SECOND)[0] == "not sampled yet"


def test_a_verdict_names_skew_drift_and_a_low_bitrate() -> None:
    incidents = Incidents("b1")
    sample(incidents, *[4_000_000] * 120)
    fields = {"av_skew_ms": 250.4, "media_ms": 8_000, "wall_ms": 9_500}
    sample(incidents, *[1_000_000] * 70, begin=120, **fields)
    verdict, _ = incidents.health("live", "a", MIDNIGHT + 190 * SECOND)
    assert verdict == (
        "bitrate fell to 24 % of the hour's median; audio and video 250 ms apart; media time 1500 ms behind the clock"
    )


def test_a_stream_that_is_long_gone_is_forgotten() -> None:
    incidents = Incidents("b1")
    sample(incidents, 4_000_000)
    incidents.passed(MIDNIGHT + 3601 * SECOND)
    assert incidents.health("live", "a", MIDNIGHT + SECOND).verdict == "healthy"
    incidents.passed(MIDNIGHT + 3602 * SECOND)
    assert incidents.health("live", "a", MIDNIGHT + SECOND).verdict == "not sampled yet"


def test_of_too_many_streams_the_quietest_is_forgotten() -> None:
    incidents = Incidents("b1")
    sample(incidents, 4_000_000)
    sample(incidents, 4_000_000, stream="b")
    for place in range(MAX_STREAMS - 1):
        incidents.published("live", f"s{place}", MIDNIGHT + SECOND)
    incidents.passed(MIDNIGHT + SECOND)
    assert incidents.health("live", "a", MIDNIGHT + SECOND).verdict == "not sampled yet"
    assert incidents.health("live", "b", MIDNIGHT + SECOND).verdict == "healthy"


def test_only_the_newest_of_those_that_are_over_are_kept() -> None:
    incidents = Incidents("b1")
    for place in range(MAX_ENDED + 1):
        sample(incidents, 0, 0, 0, 500, begin=4 * place)
    assert len(incidents.ended) == MAX_ENDED
    assert incidents.ended[0].incident_id == f"b1-i{MAX_ENDED + 1}"
