"""Names of workers that are lost: what they published goes on where it was last seen, and in its recording."""

from penstock.control.messages import (
    Begun,
    Continuation,
    Ended,
    LastSeen,
    Over,
    Owner,
    PublishAnswer,
    Recorded,
    Verdict,
    Watch,
    Yielded,
)
from penstock.control.names import Names
from tests.control.names_support import CAM, WHERE, claim, owned_by, tell


def test_a_name_of_a_lost_worker_waits_for_its_publisher_where_others_last_saw_it() -> None:
    names = owned_by(1)
    tell(names, (2, Watch(5, CAM, 10)), (3, Watch(5, CAM, 10)))
    assert names.worker_lost(1, now=100.0) == []
    tell(names, (2, LastSeen(CAM, 1, WHERE)))
    tell(names, (3, LastSeen(CAM, 1, Continuation(899, 3960, 99.4))))
    assert names.tick(109.9) == []
    assert tell(names, (3, claim(4))) == [(3, PublishAnswer(4, Verdict.ADMIT, 2, WHERE))]
    assert names.tick(200.0) == []
    assert tell(names, (3, Begun(CAM, 2))) == [(2, Owner(CAM, 3, 2))]


def test_a_claim_waits_until_all_who_followed_a_lost_stream_have_said_how_far_it_had_come() -> None:
    names = owned_by(1)
    tell(names, (2, Watch(5, CAM, 10)), (3, Watch(5, CAM, 10)))
    assert names.worker_lost(1, now=100.0) == []
    assert tell(names, (4, claim(4)), now=100.0) == []
    assert tell(names, (3, LastSeen(CAM, 1, Continuation(899, 3960, 99.4))), now=100.01) == []
    assert tell(names, (2, LastSeen(CAM, 1, WHERE)), now=100.02) == [(4, PublishAnswer(4, Verdict.ADMIT, 2, WHERE))]


def test_a_claim_waits_no_longer_than_half_a_second_for_who_does_not_say() -> None:
    names = owned_by(1)
    tell(names, (2, Watch(5, CAM, 10)), (3, Watch(5, CAM, 10)))
    names.worker_lost(1, now=100.0)
    tell(names, (2, LastSeen(CAM, 1, WHERE)), (4, claim(4)), now=100.0)
    assert names.tick(100.4) == []
    assert names.tick(100.5) == [(4, PublishAnswer(4, Verdict.ADMIT, 2, WHERE))]


def test_who_has_said_so_before_the_loss_was_noticed_is_not_waited_for() -> None:
    names = owned_by(1)
    tell(names, (2, Watch(5, CAM, 10)), (2, LastSeen(CAM, 1, WHERE)), now=99.9)
    names.worker_lost(1, now=100.0)
    assert tell(names, (4, claim(4))) == [(4, PublishAnswer(4, Verdict.ADMIT, 2, WHERE))]


def test_who_said_so_long_before_has_followed_it_since_and_is_waited_for() -> None:
    names = owned_by(1)
    tell(names, (2, Watch(5, CAM, 10)), (2, LastSeen(CAM, 1, Continuation(100, 400, 50.0))), now=50.0)
    names.worker_lost(1, now=100.0)
    assert tell(names, (4, claim(4)), now=100.0) == []
    assert tell(names, (2, LastSeen(CAM, 1, WHERE)), now=100.1) == [(4, PublishAnswer(4, Verdict.ADMIT, 2, WHERE))]


def test_nobody_waits_for_one_who_is_lost_too() -> None:
    names = owned_by(1)
    tell(names, (2, Watch(5, CAM, 10)))
    names.worker_lost(1, now=100.0)
    tell(names, (4, claim(4)))
    assert names.worker_lost(2, now=100.1) == [(4, PublishAnswer(4, Verdict.ADMIT, 2, None))]


def test_a_claim_that_came_within_a_short_grace_is_granted_though_it_had_to_wait() -> None:
    names = Names()
    tell(names, (1, claim(grace_s=0.1)), (1, Begun(CAM, 1)), (2, Watch(5, CAM, 10)))
    names.worker_lost(1, now=100.0)
    tell(names, (4, claim(4)), now=100.05)
    assert names.tick(100.25) == []
    assert names.tick(100.5) == [(4, PublishAnswer(4, Verdict.ADMIT, 2, None))]


def test_a_name_whose_short_grace_is_over_is_new_whoever_has_not_said_how_far_it_had_come() -> None:
    names = Names()
    tell(names, (1, claim(grace_s=0.1)), (1, Begun(CAM, 1)), (2, Watch(5, CAM, 10)))
    names.worker_lost(1, now=100.0)
    assert names.tick(100.25) == [(2, Over(CAM, 1))]
    assert tell(names, (4, claim(4)), now=100.3) == [(4, PublishAnswer(4, Verdict.ADMIT, 2, None))]


def test_the_recording_of_a_stream_goes_with_its_name() -> None:
    names = owned_by(1)
    tell(names, (1, Recorded(CAM, 1, "r1")))
    moved = tell(names, (2, claim(8)), (1, Yielded(1, Verdict.REPLACE, WHERE)))
    assert moved == [(2, PublishAnswer(8, Verdict.REPLACE, 2, WHERE, "r1"))]
    names.worker_lost(2, now=50.0)
    assert tell(names, (3, claim(9))) == [(3, PublishAnswer(9, Verdict.ADMIT, 3, WHERE, "r1"))]


def test_the_recording_of_a_lost_worker_goes_on_though_nobody_followed_the_stream() -> None:
    names = owned_by(1)
    tell(names, (1, Recorded(CAM, 1, "r1")), (1, Recorded(CAM, 1, "r2")))
    names.worker_lost(1, now=50.0)
    assert tell(names, (2, claim(9))) == [(2, PublishAnswer(9, Verdict.ADMIT, 2, None, "r2"))]


def test_a_recording_that_was_stopped_stays_so_wherever_its_stream_goes_on() -> None:
    names = owned_by(1)
    tell(names, (1, Recorded(CAM, 1, "r1")), (1, Recorded(CAM, 1, None)))
    moved = tell(names, (2, claim(8)), (1, Yielded(1, Verdict.REPLACE, WHERE)))
    assert moved == [(2, PublishAnswer(8, Verdict.REPLACE, 2, WHERE, None, is_recording_stopped=True))]
    names.worker_lost(2, now=50.0)
    back = tell(names, (3, claim(9)))
    assert back == [(3, PublishAnswer(9, Verdict.ADMIT, 3, WHERE, None, is_recording_stopped=True))]
    tell(names, (3, Recorded(CAM, 3, "r2")))
    names.worker_lost(3, now=60.0)
    assert tell(names, (2, claim(10))) == [(2, PublishAnswer(10, Verdict.ADMIT, 4, WHERE, "r2"))]


def test_a_stream_that_begins_anew_is_recorded_again() -> None:
    names = owned_by(1)
    tell(names, (1, Recorded(CAM, 1, None)), (2, Watch(5, CAM, 10)), (1, Ended(CAM, 1)))
    assert tell(names, (1, claim(9))) == [(1, PublishAnswer(9, Verdict.ADMIT, 2, None))]
    tell(names, (1, Recorded(CAM, 2, None)))
    names.worker_lost(1, now=100.0)
    names.tick(110.0)
    assert tell(names, (1, claim(9))) == [(1, PublishAnswer(9, Verdict.ADMIT, 3, None))]


def test_a_recording_is_over_with_its_stream_and_after_the_grace() -> None:
    names = owned_by(1)
    tell(names, (1, Recorded(CAM, 1, "r1")), (2, Watch(5, CAM, 10)), (1, Ended(CAM, 1)))
    assert tell(names, (1, claim(9))) == [(1, PublishAnswer(9, Verdict.ADMIT, 2, None))]
    tell(names, (1, Recorded(CAM, 2, "r2")))
    names.worker_lost(1, now=100.0)
    names.tick(110.0)
    assert tell(names, (1, claim(9))) == [(1, PublishAnswer(9, Verdict.ADMIT, 3, None))]


def test_what_a_worker_says_of_the_recording_of_a_name_that_is_not_its_own_counts_for_nothing() -> None:
    names = owned_by(1)
    tell(names, (2, Recorded(CAM, 1, "r1")), (1, Recorded(CAM, 7, "r2")))
    names.worker_lost(1, now=50.0)
    assert tell(names, (2, claim(9))) == [(2, PublishAnswer(9, Verdict.ADMIT, 2, None))]


def test_after_the_grace_the_stream_of_a_lost_worker_is_over_and_the_name_is_new() -> None:
    names = owned_by(1)
    tell(names, (2, Watch(5, CAM, 10)))
    names.worker_lost(1, now=100.0)
    tell(names, (2, LastSeen(CAM, 1, WHERE)))
    assert names.tick(110.0) == [(2, Over(CAM, 1))]
    assert names.tick(111.0) == []
    assert tell(names, (3, claim(4))) == [(3, PublishAnswer(4, Verdict.ADMIT, 2, None))]


def test_where_a_stream_was_is_kept_until_its_next_owner_has_begun() -> None:
    names = owned_by(1)
    tell(names, (2, claim(8)), (1, Yielded(1, Verdict.REPLACE, WHERE)))
    names.worker_lost(2, now=50.0)
    assert tell(names, (1, claim(9))) == [(1, PublishAnswer(9, Verdict.ADMIT, 3, WHERE))]


def test_a_claim_that_waits_for_a_lost_worker_is_granted() -> None:
    names = owned_by(1)
    tell(names, (2, claim(8)))
    assert names.worker_lost(1, now=50.0) == [(2, PublishAnswer(8, Verdict.ADMIT, 2, None))]


def test_a_name_that_was_yielded_to_a_lost_worker_goes_to_the_next_or_waits() -> None:
    names = owned_by(1)
    tell(names, (2, claim(8)), (3, claim(9)))
    assert names.worker_lost(2, now=50.0) == []
    assert tell(names, (1, Yielded(1, Verdict.REPLACE, WHERE))) == [(3, PublishAnswer(9, Verdict.ADMIT, 2, WHERE))]
    names = owned_by(1)
    tell(names, (2, claim(8)))
    names.worker_lost(2, now=50.0)
    assert tell(names, (1, Yielded(1, Verdict.REPLACE, WHERE)), now=51.0) == []
    assert tell(names, (3, claim(9))) == [(3, PublishAnswer(9, Verdict.ADMIT, 2, WHERE))]
