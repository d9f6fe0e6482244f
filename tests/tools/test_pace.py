"""When frames are due, and the line that shows how a command is getting on."""

import io

import pytest
from rich.console import Console

from penstock.tools.pace import Pacer, RateMeter, clock_text, progress_line


def test_frames_are_sent_when_their_time_has_come() -> None:
    pacer = Pacer()
    assert pacer.delay_s(5000, 100.0) == 0
    assert pacer.delay_s(5040, 100.0) == pytest.approx(0.04)
    assert pacer.delay_s(5080, 100.05) == pytest.approx(0.03)
    assert pacer.delay_s(5060, 100.09) == 0


@pytest.mark.parametrize("jump_ms", [-20_000, 20_000])
def test_nobody_waits_for_a_time_that_is_not_in_the_file(jump_ms: int) -> None:
    pacer = Pacer()
    pacer.delay_s(50_000, 100.0)
    assert pacer.delay_s(50_000 + jump_ms, 100.0) == 0
    assert pacer.delay_s(50_040 + jump_ms, 100.0) == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "0:00:00.0"), (-5, "0:00:00.0"), (61_260, "0:01:01.2"), (3_723_400, "1:02:03.4")]
)
def test_time_is_shown_as_on_a_clock(milliseconds: float, text: str) -> None:
    assert clock_text(milliseconds) == text


def test_a_meter_tells_rates_since_it_was_last_asked() -> None:
    meter = RateMeter(10.0)
    meter.add(1000, is_picture=True)
    meter.add(250, is_picture=False)
    assert meter.take(10.5).split() == ["2.0", "fps", "20", "kbit/s"]
    assert meter.take(11.0).split() == ["0.0", "fps", "0", "kbit/s"]


def test_progress_is_shown_on_terminals_only() -> None:
    texts: list[str] = []

    def make_text() -> str:
        texts.append("asked")
        return "0:00:01.0"

    screen = io.StringIO()
    with progress_line(Console(file=screen)) as show:
        show(make_text)
    assert (texts, screen.getvalue()) == ([], "")


def test_progress_is_shown_a_few_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("penstock.tools.pace.time.monotonic", lambda: now[0])
    screen = io.StringIO()
    with progress_line(Console(file=screen, force_terminal=True)) as show:
        for step in range(11):
            now[0] = step / 10
            show(lambda: f"at {now[0]}")
    shown = [time for time in ("0.1", "0.2", "0.3", "0.5", "0.6", "0.9", "1.0") if f"at {time}" in screen.getvalue()]
    assert shown == ["0.3", "0.6", "0.9"]
