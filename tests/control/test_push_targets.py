"""Which stream a target is sent that takes one at a time."""

from penstock.control.messages import ClaimTarget, GiveTargetBack, TargetAnswer
from penstock.control.push_targets import PushTargets


def test_the_first_has_it_and_a_second_hears_who() -> None:
    targets = PushTargets()
    assert targets.claim(1, ClaimTarget("yt", b"live/a")) == TargetAnswer("yt", b"live/a", None)
    assert targets.claim(2, ClaimTarget("yt", b"live/b")) == TargetAnswer("yt", b"live/b", b"live/a")
    assert targets.claim(2, ClaimTarget("fb", b"live/b")).held_by is None
    targets.give_back(1, GiveTargetBack("yt", b"live/a"))
    assert targets.claim(2, ClaimTarget("yt", b"live/b")).held_by is None


def test_a_stream_that_moves_takes_its_target_along() -> None:
    targets = PushTargets()
    targets.claim(1, ClaimTarget("yt", b"live/a"))
    assert targets.claim(2, ClaimTarget("yt", b"live/a")).held_by is None
    targets.give_back(1, GiveTargetBack("yt", b"live/a"))
    assert targets.claim(1, ClaimTarget("yt", b"live/b")).held_by == b"live/a"


def test_what_a_lost_worker_had_is_free() -> None:
    targets = PushTargets()
    targets.claim(1, ClaimTarget("yt", b"live/a"))
    targets.worker_lost(1)
    assert targets.claim(2, ClaimTarget("yt", b"live/b")).held_by is None
