"""Whose files are a worker's to finish."""

import pytest

from penstock.serve.boot import Boot


@pytest.mark.parametrize(
    ("left_by", "is_its_own"),
    [("aaaaaaaa0001", False), ("aaaaaaaa0002", False), ("bbbbbbbb0001", True), ("bbbbbbbb", True), (None, True)],
)
def test_the_first_of_a_life_finishes_what_all_lives_before_it_left(left_by: str | None, is_its_own: bool) -> None:
    boot = Boot("aaaaaaaa0001", "aaaaaaaa", worker=1, workers=2, recovers=("*",))
    assert boot.may_finish(left_by) is is_its_own


@pytest.mark.parametrize("left_by", ["aaaaaaaa0001", "aaaaaaaa0003", "bbbbbbbb0001", None])
def test_the_others_of_a_life_finish_nothing(left_by: str | None) -> None:
    boot = Boot("aaaaaaaa0002", "aaaaaaaa", worker=2, workers=2, recovers=())
    assert boot.may_finish(left_by) is False


@pytest.mark.parametrize(
    ("left_by", "is_its_own"),
    [("aaaaaaaa0002", True), ("aaaaaaaa0001", False), ("aaaaaaaa0003", False), ("bbbbbbbb0001", False), (None, False)],
)
def test_who_replaces_a_lost_worker_finishes_what_that_one_left(left_by: str | None, is_its_own: bool) -> None:
    boot = Boot("aaaaaaaa0003", "aaaaaaaa", worker=2, workers=2, recovers=("aaaaaaaa0002",))
    assert boot.may_finish(left_by) is is_its_own


def test_two_servers_that_are_alone_are_two_lives() -> None:
    one, other = Boot.alone(), Boot.alone()
    assert one.boot_id.startswith(one.life_id)
    assert (len(one.life_id), len(one.boot_id)) == (8, 12)
    assert other.may_finish(one.boot_id)
    assert one.is_housekeeper
