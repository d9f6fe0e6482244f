"""When a stream is flushed, and how the interval widens and narrows with the load."""

import pytest

from penstock.serve.sending.pacer import Pacer, Waiting
from penstock.serve.settings import AppSettings, FlushPolicy, ServerSettings

EACH_FRAME = FlushPolicy(adapts=False)
MAX_WAIT_S = 0.040


ADAPTING = FlushPolicy()


def due(pacer: Pacer, policy: FlushPolicy, appended_at: float, *, has_video: bool = True) -> float:
    return pacer.due_at(policy, Waiting(appended_at, has_video), MAX_WAIT_S, busy_share=0.0)


def audio_waits_s(busy_share: float, video_in_s: float | None) -> float:
    """How long audio waits that came at 5.0, when video is due after a while."""
    waiting = Waiting(5.0, has_video=False, next_video_at=None if video_in_s is None else 5.0 + video_in_s)
    return Pacer().due_at(ADAPTING, waiting, MAX_WAIT_S, busy_share) - 5.0


def after_load(pacer: Pacer, lag_s: float, seconds: float, start: float, *, busy_share: float | None = None) -> float:
    """Thirty rounds a second that each took this long, in a loop that does nothing else; the time afterwards."""
    rounds = round(seconds * 30)
    for number in range(rounds):
        pacer.observe_round(lag_s, start + number / 30, min(lag_s * 30, 1.0) if busy_share is None else busy_share)
    return start + rounds / 30


def test_a_video_frame_is_sent_at_once_and_audio_waits_for_one_but_not_for_long() -> None:
    pacer = Pacer()
    assert due(pacer, EACH_FRAME, 5.0) == 5.0
    assert due(pacer, EACH_FRAME, 5.0, has_video=False) == 5.0 + MAX_WAIT_S


def test_a_policy_that_adapts_sends_audio_at_once_while_there_is_time_to_spare() -> None:
    assert audio_waits_s(0.0, 0.030) == 0
    assert audio_waits_s(0.1, 0.030) == 0
    assert audio_waits_s(0.3, 0.030) == 0


@pytest.mark.parametrize(("busy_share", "patience_s"), [(0.1, 0.040 / 9), (0.2, 0.010), (1 / 3, 0.020), (0.5, 0.040)])
def test_the_busier_the_server_the_longer_audio_waits_for_a_video_frame(busy_share: float, patience_s: float) -> None:
    assert audio_waits_s(busy_share, patience_s - 0.001) == pytest.approx(patience_s)
    assert audio_waits_s(busy_share, patience_s + 0.001) == 0


@pytest.mark.parametrize("busy_share", [0.5, 0.9, 1.0, 1.7])
def test_audio_never_waits_for_longer_than_the_setting_however_busy_the_server_is(busy_share: float) -> None:
    assert audio_waits_s(busy_share, 0.039) == pytest.approx(MAX_WAIT_S)


def test_audio_waits_no_longer_for_a_video_frame_that_is_late_than_for_one_to_come() -> None:
    assert audio_waits_s(0.2, -5.0) == pytest.approx(0.010)


def test_audio_without_video_waits_for_more_of_its_kind_when_the_server_is_busy() -> None:
    assert audio_waits_s(0.0, None) == 0
    assert audio_waits_s(0.2, None) == pytest.approx(0.010)


@pytest.mark.parametrize("has_video", [True, False])
@pytest.mark.parametrize(("appended_at", "sent_at"), [(5.0, 5.0), (5.001, 5.1), (5.0999, 5.1), (5.1001, 5.2)])
def test_on_a_grid_everything_waits_for_the_next_line(appended_at: float, sent_at: float, has_video: bool) -> None:
    assert due(Pacer(), FlushPolicy(0.1), appended_at, has_video=has_video) == pytest.approx(sent_at)


def test_a_quiet_server_never_widens() -> None:
    pacer = Pacer()
    after_load(pacer, 0.019, 60, 100.0, busy_share=0.9)
    assert pacer.grid_s is None


def test_under_load_the_interval_widens_to_50_and_then_to_100_ms() -> None:
    pacer = Pacer()
    now = after_load(pacer, 0.030, 0.5, 100.0)
    assert pacer.grid_s == 0.050
    assert due(pacer, ADAPTING, 7.01) == pytest.approx(7.05)
    now = after_load(pacer, 0.030, 0.6, now)
    assert pacer.grid_s == 0.050, "the wider interval must show its effect first"
    now = after_load(pacer, 0.030, 1.5, now)
    assert pacer.grid_s == 0.100
    after_load(pacer, 0.500, 60, now)
    assert pacer.grid_s == 0.100


def test_one_long_round_is_no_load() -> None:
    pacer = Pacer()
    pacer.observe_round(0.090, 100.0, busy_share=0.9)
    after_load(pacer, 0.001, 1, 100.0)
    assert pacer.grid_s is None


def test_when_load_is_gone_the_interval_narrows_step_by_step() -> None:
    pacer = Pacer()
    now = after_load(pacer, 0.030, 1.5, 100.0)
    assert pacer.grid_s == 0.100
    now = after_load(pacer, 0.001, 4, now)
    assert pacer.grid_s == 0.100, "a step is kept for a while"
    now = after_load(pacer, 0.001, 3, now)
    assert pacer.grid_s == 0.050
    now = after_load(pacer, 0.001, 2, now)
    assert pacer.grid_s == 0.050
    after_load(pacer, 0.001, 4, now)
    assert pacer.grid_s is None


def test_a_load_between_the_two_limits_changes_nothing() -> None:
    pacer = Pacer()
    now = after_load(pacer, 0.030, 0.5, 100.0)
    now = after_load(pacer, 0.030, 60, now, busy_share=0.59)
    assert pacer.grid_s == 0.050
    after_load(pacer, 0.001, 60, now, busy_share=0.31)
    assert pacer.grid_s == 0.050


def test_long_rounds_of_a_loop_that_sleeps_between_them_are_no_load() -> None:
    pacer = Pacer()
    after_load(pacer, 0.030, 60, 100.0, busy_share=0.5)
    assert pacer.grid_s is None


def test_a_wide_interval_does_not_keep_itself_wide_by_the_long_rounds_that_it_makes() -> None:
    pacer = Pacer()
    now = after_load(pacer, 0.030, 1.5, 100.0)
    assert pacer.grid_s == 0.100
    now = after_load(pacer, 0.025, 6, now, busy_share=0.25)
    assert pacer.grid_s == 0.050
    after_load(pacer, 0.025, 6, now, busy_share=0.25)
    assert pacer.grid_s is None


def test_load_widens_a_grid_that_is_narrower_and_leaves_a_wider_one() -> None:
    pacer = Pacer()
    after_load(pacer, 0.030, 0.5, 100.0)
    assert due(pacer, FlushPolicy(0.020), 7.01) == pytest.approx(7.05)
    assert due(pacer, FlushPolicy(0.350), 7.01) == pytest.approx(7.35)


def test_a_policy_may_take_no_notice_of_load() -> None:
    pacer = Pacer()
    after_load(pacer, 0.030, 4, 100.0)
    assert due(pacer, FlushPolicy(adapts=False), 7.01) == 7.01
    assert due(pacer, FlushPolicy(0.020, adapts=False), 7.01) == pytest.approx(7.02)


def test_the_settings_are_those_that_the_design_promises() -> None:
    settings = ServerSettings()
    assert (settings.max_flush_wait_s, settings.slow_viewer_s, settings.notsent_lowat_bytes) == (0.040, 10.0, 131_072)
    assert settings.app("any") == AppSettings()
    assert AppSettings().keyframe_wait_s == 3.0
