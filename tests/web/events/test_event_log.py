"""The log of events: what it keeps, and what a client hears that comes back."""

import pytest

from penstock.web.events.event_log import MAX_SAMPLES, Event, EventLog


def log_of(kinds: str, **bounds: float) -> EventLog:
    """An event a second for each letter; a small one is a sample."""
    log = EventLog("b1", **bounds)  # type: ignore[arg-type]
    for now, kind in enumerate(kinds):
        log.append(kind, "live", "a", b"{}", float(now), is_sample=kind.islower())
    return log


def kinds_of(events: list[Event] | None) -> str | None:
    return None if events is None else "".join(event.kind for event in events)


def test_events_are_numbered_from_one_in_the_order_in_which_they_happened() -> None:
    log = log_of("AB")
    assert log.after(0) == [Event(1, "A", "live", "a", False, b"{}"), Event(2, "B", "live", "a", False, b"{}")]
    assert log.newest == 2


def test_who_comes_back_hears_what_came_after() -> None:
    assert kinds_of(log_of("ABCD").after(2)) == "CD"


def test_who_has_heard_everything_hears_nothing() -> None:
    assert log_of("AB").after(2) == []
    assert log_of("").after(0) == []


def test_samples_are_among_the_others_for_who_wants_them() -> None:
    log = log_of("AxByC")
    assert kinds_of(log.after(0)) == "ABC"
    assert kinds_of(log.after(0, with_samples=True)) == "AxByC"
    assert kinds_of(log.after(3, with_samples=True)) == "yC"


def test_what_is_pushed_out_is_a_gap_for_who_missed_it() -> None:
    log = log_of("ABCD", max_events=2)
    assert kinds_of(log.after(1)) is None
    assert kinds_of(log.after(2)) == "CD"


def test_what_is_too_old_is_a_gap_when_something_newer_comes() -> None:
    log = log_of("ABCD", max_age_s=1.0)
    assert kinds_of(log.after(1)) is None
    assert kinds_of(log.after(2)) == "CD"


def test_silence_makes_no_gap() -> None:
    log = log_of("AB", max_age_s=600.0)
    log.append("C", None, None, b"{}", 10_000.0)
    assert kinds_of(log.after(2)) == "C"


def test_samples_push_out_samples_alone() -> None:
    log = log_of("A" + "x" * (MAX_SAMPLES + 1), max_age_s=1e9)
    assert kinds_of(log.after(0)) == "A"
    assert log.after(0, with_samples=True) is None
    assert len(log.after(2, with_samples=True) or []) == MAX_SAMPLES


def test_large_events_push_each_other_out_by_their_bytes() -> None:
    log = EventLog("b1")
    for _ in range(5):
        log.append("A", None, None, bytes(5 * 1024 * 1024), 0.0)
    assert log.after(1) is None
    assert len(log.after(2) or []) == 3


def test_what_was_lost_on_the_way_is_a_gap_for_everybody() -> None:
    log = log_of("Ax")
    log.lose()
    log.append("B", None, None, b"{}", 2.0)
    assert (log.after(2), log.after(2, with_samples=True)) == (None, None)
    assert kinds_of(log.after(3)) == "B"


def test_an_event_that_never_was_is_a_gap() -> None:
    assert log_of("AB").after(3) is None


@pytest.mark.parametrize(
    ("event_id", "number"),
    [("b1:7", 7), ("b1:0", 0), ("b2:7", None), ("7", None), ("", None), ("b1:-7", None), ("b1:x", None)],
)
def test_an_id_counts_in_the_boot_that_gave_it(event_id: str, number: int | None) -> None:
    assert EventLog("b1").number_of(event_id) == number


def test_an_id_is_boot_and_number() -> None:
    log = log_of("A")
    assert log.id_of(log.newest) == "b1:1"
