"""Names that are pulled: once in the whole server, for as long as anybody watches, and never in a publisher's way."""

from penstock.control.messages import (
    NOBODY,
    Begun,
    Challenge,
    Claim,
    Ended,
    Missed,
    NotThere,
    Orphaned,
    Over,
    Owner,
    PublishAnswer,
    SeatAnswer,
    Unwatch,
    Verdict,
    Watch,
    Watched,
    Yielded,
)
from penstock.control.misses import MISS_S
from penstock.control.names import Names
from tests.control.names_support import CAM, WHERE, claim, owned_by, tell


def pull(request: int = 1, *, name: bytes = CAM, most: int = 10) -> Claim:
    return Claim(request, name, "p1", may_replace=False, grace_s=10.0, max_pulls=most)


def watched_names(*workers: int) -> Names:
    """One viewer in each of these workers, of a stream that nobody has."""
    names = Names()
    for worker in workers:
        tell(names, (worker, Watch(1, CAM, 100)))
    return names


def pulled_by(worker: int, *watching: int) -> Names:
    """A worker pulls the stream, as epoch 1, and has it."""
    names = watched_names(*watching)
    tell(names, (worker, pull()), (worker, Begun(CAM, 1)))
    return names


def refused(worker: int, request: int, verdict: Verdict) -> list[tuple[int, PublishAnswer]]:
    return [(worker, PublishAnswer(request, verdict, 0, None))]


def test_of_two_workers_with_viewers_one_is_to_pull() -> None:
    names = watched_names(1, 2)
    assert tell(names, (1, pull(7))) == [(1, PublishAnswer(7, Verdict.ADMIT, 1, None))]
    assert tell(names, (2, pull(8))) == refused(2, 8, Verdict.REFUSE)
    assert tell(names, (1, Begun(CAM, 1))) == [(2, Owner(CAM, 1, 1))]


def test_a_name_that_a_publisher_has_or_is_awaited_by_is_not_pulled() -> None:
    names = owned_by(1)
    assert tell(names, (2, pull(8))) == refused(2, 8, Verdict.REFUSE)
    names.worker_lost(1, 0.0)
    assert tell(names, (2, pull(9))) == refused(2, 9, Verdict.REFUSE)


def test_the_puller_is_told_when_the_last_viewer_goes_and_when_one_comes() -> None:
    names = pulled_by(1, 1, 2)
    assert tell(names, (1, Unwatch(CAM))) == []
    assert tell(names, (2, Unwatch(CAM))) == [(1, Watched(CAM, 1, is_watched=False))]
    assert tell(names, (2, Watch(5, CAM, 9))) == [
        (1, Watched(CAM, 1, is_watched=True)),
        (2, SeatAnswer(5, is_admitted=True, owner=1, epoch=1)),
    ]
    assert tell(names, (2, Watch(6, CAM, 9))) == [(2, SeatAnswer(6, is_admitted=True, owner=1, epoch=1))]


def test_the_puller_is_told_when_viewers_go_with_their_worker() -> None:
    assert pulled_by(1, 2).worker_lost(2, 0.0) == [(1, Watched(CAM, 1, is_watched=False))]


def test_a_pull_that_nobody_waits_for_any_more_is_told_so_with_its_name() -> None:
    assert tell(Names(), (1, pull(7))) == [
        (1, PublishAnswer(7, Verdict.ADMIT, 1, None)),
        (1, Watched(CAM, 1, is_watched=False)),
    ]


def test_viewers_of_what_is_published_are_nothing_that_is_told() -> None:
    names = owned_by(1)
    assert tell(names, (1, Watch(5, CAM, 9))) == [(1, SeatAnswer(5, is_admitted=True, owner=1, epoch=1))]
    assert tell(names, (1, Unwatch(CAM))) == []


def test_what_an_origin_does_not_have_is_told_to_all_who_wait_and_not_asked_for_again_at_once() -> None:
    names = watched_names(1, 2)
    tell(names, (1, pull(7)))
    assert tell(names, (1, NotThere(CAM, 1)), now=100.0) == [(2, Over(CAM, 1)), (1, Missed(CAM)), (2, Missed(CAM))]
    assert names.owner_of(CAM) == NOBODY
    assert tell(names, (2, pull(8)), now=100.0 + MISS_S - 1) == refused(2, 8, Verdict.MISSED)
    names.tick(100.0 + MISS_S)
    assert tell(names, (2, pull(9)), now=100.0 + MISS_S) == [(2, PublishAnswer(9, Verdict.ADMIT, 2, None))]


def test_a_publisher_is_not_kept_waiting_by_a_miss() -> None:
    names = watched_names(1)
    tell(names, (1, pull(7)), (1, NotThere(CAM, 1)))
    assert tell(names, (2, claim(8))) == [(2, PublishAnswer(8, Verdict.ADMIT, 2, None))]


def test_a_miss_of_a_name_that_is_somebody_elses_by_now_means_nothing() -> None:
    names = owned_by(1)
    assert tell(names, (2, NotThere(CAM, 1))) == []
    assert names.owner_of(CAM) == 1


def test_those_who_wait_hear_of_no_miss_where_a_publisher_has_asked_for_the_name() -> None:
    names = watched_names(1)
    tell(names, (1, pull(7)))
    assert tell(names, (2, claim(8))) == [(1, Challenge(1, CAM, may_replace=False, claimant="c1"))]
    assert tell(names, (1, NotThere(CAM, 1))) == [(2, PublishAnswer(8, Verdict.ADMIT, 2, None))]


def test_there_are_only_so_many_pulls_until_one_of_them_ends() -> None:
    names = Names()
    tell(names, (1, Watch(1, b"live/a", 9)), (1, Watch(1, b"live/b", 9)), (1, Watch(1, b"live/c", 9)))
    tell(names, (1, pull(1, name=b"live/a", most=2)), (2, pull(2, name=b"live/b", most=2)))
    assert tell(names, (1, pull(3, name=b"live/c", most=2))) == refused(1, 3, Verdict.FULL)
    tell(names, (1, Ended(b"live/a", 1)))
    assert tell(names, (1, pull(4, name=b"live/c", most=2))) == [(1, PublishAnswer(4, Verdict.ADMIT, 3, None))]


def test_a_pull_that_is_replaced_by_a_publisher_makes_room_for_another_one() -> None:
    names = pulled_by(1, 1)
    assert tell(names, (2, claim(8)), (1, Yielded(1, Verdict.REPLACE, WHERE))) == [
        (2, PublishAnswer(8, Verdict.REPLACE, 2, WHERE))
    ]
    tell(names, (1, Watch(1, b"live/b", 9)))
    assert tell(names, (1, pull(9, name=b"live/b", most=1))) == [(1, PublishAnswer(9, Verdict.ADMIT, 3, None))]


def test_another_worker_goes_on_with_a_pull_whose_worker_was_lost() -> None:
    names = pulled_by(1, 1, 2, 3)
    assert names.worker_lost(1, 50.0) == [(2, Orphaned(CAM))]
    assert tell(names, (2, pull(7)), now=50.0) == []  # who followed it says first how far it had come
    assert names.tick(50.6) == [(2, PublishAnswer(7, Verdict.ADMIT, 2, None))]


def test_a_lost_pull_that_nobody_watches_elsewhere_is_not_gone_on_with() -> None:
    assert pulled_by(1, 1).worker_lost(1, 50.0) == []


def test_a_server_pulls_for_somebody_while_a_name_that_it_pulls_is_watched() -> None:
    names = watched_names(1)
    assert not names.pulls_for_somebody
    tell(names, (1, pull()))
    assert names.pulls_for_somebody
    tell(names, (1, Begun(CAM, 1)), (1, Unwatch(CAM)))
    assert not names.pulls_for_somebody
